"""Providers of the domain."""
