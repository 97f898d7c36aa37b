"""Blocks to instances: their arguments, what changes, and what becomes of each. Start at blocks.py."""
