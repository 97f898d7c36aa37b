"""What Azure says of a site, and what its tools plan there: `az` exports, ARM templates, Terraform plans."""
