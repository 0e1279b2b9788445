"""What is shown: figures, browser components, pages, and the state of a session."""
