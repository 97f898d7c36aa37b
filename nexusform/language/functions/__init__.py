"""The functions of the expression language: one file per family, one entry each in registry.py."""
