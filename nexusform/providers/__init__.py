"""What carries out steps. registry.py lists them."""
