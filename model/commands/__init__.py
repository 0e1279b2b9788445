"""The commands of `python -m model`, one a file."""
