"""Commands of VNFs."""
