"""Resource types and data sources of VNFs."""

# Public names of the package, by module.
PUBLIC = {"vnf_documents": "PARAMETERS REQUEST read_documents"}
