"""What the page of predictions packs: its subject, then a module for each of its views. No widgets here."""
