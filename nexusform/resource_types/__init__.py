"""One file per resource type, named as in HCL; registry.py lists them."""
