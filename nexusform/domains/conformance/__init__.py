"""Command `nexusform conformance`: answer recorded decisions of real systems again.

The answers are scored.
"""
