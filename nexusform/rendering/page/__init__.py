"""The plan as one HTML page, and its map as SVG."""
