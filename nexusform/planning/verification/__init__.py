"""Whether a plan that was read means what it shows."""
