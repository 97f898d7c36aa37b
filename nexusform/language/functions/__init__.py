"""Functions of the expression language: one file per family, one entry each in registry.py."""

# Public names of the package, by module.
PUBLIC = {"function": "build_any_parameter FixedProblem Function", "registry": "build_functions"}
