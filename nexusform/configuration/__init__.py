"""Files to a checked Configuration. Only loader.py reads files."""
