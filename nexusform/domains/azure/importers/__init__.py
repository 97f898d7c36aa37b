"""What Azure says of a site, and what its tools plan there: `az` exports, what-ifs, Terraform plans."""
