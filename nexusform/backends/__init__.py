"""Where state lives. registry.py lists them."""
