"""Workflow of testing."""
