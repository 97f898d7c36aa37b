"""From nexusform.sites.hcl to plans of all sites and waves of applies."""
