"""The data source of a hub that is there."""
