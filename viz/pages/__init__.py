"""A folder a page, with all of it: page.py, its figures, its texts, its scripts and styles."""
