"""Rendering of test results."""
