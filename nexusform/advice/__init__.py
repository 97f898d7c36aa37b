"""Lint: one file per rule, registry.py lists them."""
