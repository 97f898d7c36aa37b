"""nexusform: plan and apply where things land on Azure Operator Nexus."""

__version__ = "0.1.0"
