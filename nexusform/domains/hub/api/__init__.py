"""Clients of a hub's API server."""
