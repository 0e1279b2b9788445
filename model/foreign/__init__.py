"""Trained Transformers of others, taken apart and put together as ours."""
