"""Encryption at rest: what becomes of state, journal and plan files before they are written."""
