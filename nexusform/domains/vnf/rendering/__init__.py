"""Rows, page parts and answers of vnf."""
