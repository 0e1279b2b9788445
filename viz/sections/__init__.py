"""Parts of pages that one file cannot hold: each a generator in three parts, as a page is."""
