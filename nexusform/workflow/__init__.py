"""The wiring, one file per operation. Prints nothing."""
