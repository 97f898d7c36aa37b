"""Azure Operator Nexus sites: read, exported, imported and changed."""
