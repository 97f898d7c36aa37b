"""Wiring of remote state."""
