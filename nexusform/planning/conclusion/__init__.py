"""What was worked out to the plan: changes, rows, tables, steps. Start at conclusion.py."""
