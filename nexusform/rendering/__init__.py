"""Renderers of plans, states and answers.

All output formats draw the same report.
"""
