"""Measurements and trainings that several claims share."""
