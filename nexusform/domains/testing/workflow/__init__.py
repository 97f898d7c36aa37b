"""Wiring of testing."""
