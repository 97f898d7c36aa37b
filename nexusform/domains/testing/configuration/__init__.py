"""Blocks of test files."""
