"""Server of the NFVO interfaces of ETSI SOL003: grants from a plan, and VNF packages."""

# Public names of the package, by module.
PUBLIC = {"recorded_case_prediction": "decide_operation"}
