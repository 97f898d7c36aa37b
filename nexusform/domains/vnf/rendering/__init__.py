"""Rows, page parts and exports of VNFs."""
