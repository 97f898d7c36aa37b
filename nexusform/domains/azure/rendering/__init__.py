"""Rows, page parts and answers of azure."""
