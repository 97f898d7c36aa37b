"""Wiring of azure."""
