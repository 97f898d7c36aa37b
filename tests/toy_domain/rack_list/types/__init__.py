"""Types of the domain."""
