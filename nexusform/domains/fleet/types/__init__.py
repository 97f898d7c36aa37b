"""Resource types and data sources of fleet."""
