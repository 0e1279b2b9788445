"""Experiments of a group of rows each: short ones, that need no file of their own."""
