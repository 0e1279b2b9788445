"""What the page of masks is made of."""
