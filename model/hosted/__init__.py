"""Trained Transformers of others that run as they are, looked into from outside."""
