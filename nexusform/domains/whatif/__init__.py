"""What-if questions: simulations on a state or a plan."""
