"""Rows, page parts and answers of testing."""
