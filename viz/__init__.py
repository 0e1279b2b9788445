"""The screen: figures, browser components, pages, and the state of a session."""
