"""What the page of the map is made of."""
