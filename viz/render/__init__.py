"""The one door from figures to a browser: language, groups of tokens, pin, alternative text, table, bytes."""
