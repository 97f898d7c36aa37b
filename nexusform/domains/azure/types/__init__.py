"""Resource types and data sources of azure."""
