"""From nexusform.sites.hcl to plans of all sites and to waves that apply them."""
