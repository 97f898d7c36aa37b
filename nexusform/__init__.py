"""nexusform: placement planning for Azure Operator Nexus, in Terraform style."""

__version__ = "0.1.0"
