"""Pods on nodes that are known. Start at phase.py."""
