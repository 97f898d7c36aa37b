"""The functions of the expression language: one file per family, one entry each in registry.py."""

# What other rooms may use of this one.
DOOR = {
    "function": "anything FixedProblem Function",
    "registry": "standard_functions",
}
