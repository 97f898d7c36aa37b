"""Phases 5 and 6: members, what is selected, placements in rounds. Start at phase.py."""
