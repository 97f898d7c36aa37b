"""Programs behind `plan -check-with`: they decide again what a plan predicts."""
