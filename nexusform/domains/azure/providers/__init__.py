"""Providers of azure."""
