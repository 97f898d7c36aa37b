"""Wiring of whatif."""
