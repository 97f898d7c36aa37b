"""Commands of whatif: simulate."""

# Public names of the package, by module.
PUBLIC = {"simulate": "FailureArguments"}
