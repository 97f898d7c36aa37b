"""Rows, page parts and answers of fleet."""
