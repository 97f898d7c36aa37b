"""Preparation of what-if questions."""
