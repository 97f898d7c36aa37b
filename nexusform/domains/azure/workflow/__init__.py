"""Operations on Azure sites: import, prediction, reconciliation."""

# Public names of the package, by module.
PUBLIC = {"state_reconciliation": "run_site_replays"}
