"""Operations on Azure sites: import, prediction, reconciliation."""

# Public names of the package, by module.
PUBLIC = {"reconciler": "run_site_replays"}
