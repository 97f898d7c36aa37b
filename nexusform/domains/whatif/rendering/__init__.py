"""Rows, page parts and answers of whatif."""
