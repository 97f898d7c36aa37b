"""One file per rule: a pure function that gives a reason or a figure. profile.py orders them."""
