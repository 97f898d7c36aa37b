"""Rows, page parts and answers of pods."""
