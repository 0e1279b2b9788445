"""What the page of attention draws, packed for the browser: numbers in, mounts out; no widget, no session."""
