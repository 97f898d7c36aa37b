"""nexusform: placement planning for Azure Operator Nexus, in Terraform style."""

__version__ = "0.1.0"
# The repository, as https://HOST/OWNER/NAME; empty until one is public.
PROJECT_URL = ""
