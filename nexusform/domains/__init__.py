"""Domains next to the engine, one package each."""
