"""Experiments on what tutorials say: each computes its verdict here and now."""
