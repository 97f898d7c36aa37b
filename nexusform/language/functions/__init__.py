"""The functions of the expression language: one file per family, one entry each in registry.py."""

# What other rooms may use of this one.
DOOR = {
    "function": "anything declared_type FixedProblem Function Parameter",
    "registry": "described_families standard_functions",
}
