"""Resource types and data sources of pods."""
