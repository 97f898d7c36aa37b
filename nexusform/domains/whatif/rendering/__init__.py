"""Reports and pages of what-if questions."""

# Public names of the package, by module.
PUBLIC = {"failure_report": "build_failure_summary"}
