"""Section of pods in the report of a plan."""
