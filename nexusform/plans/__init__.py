"""What a plan is and what it says: records, effects, sums, room, limits, file. Nothing here decides."""
