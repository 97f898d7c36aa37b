"""Blocks of testing."""
