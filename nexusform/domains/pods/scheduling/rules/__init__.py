"""One module per rule: pure functions that return a reason or a figure.

profile.py orders them.
"""
