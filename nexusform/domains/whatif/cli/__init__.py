"""Commands of whatif."""

# What other rooms may use of this one.
DOOR = {
    "simulate": "FailureArguments",
}
