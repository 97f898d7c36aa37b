"""Resource types and data sources of vnf."""
