"""Resource types and data sources of VNFs."""
