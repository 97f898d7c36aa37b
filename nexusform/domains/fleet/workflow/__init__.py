"""Wiring of fleet."""
