"""Sites as their platform lists them, against the configuration."""

# Public names of the package, by module.
PUBLIC = {
    "site_listing": (
        "ListedDifference ListedMachine ListedSite ListedVm LISTED_TITLE LISTING_KEY LISTING_TYPE "
        "MachineSize DifferenceKind SiteListing SiteMaintenance build_listed_machines "
        "build_listing_note build_unconfigured_machines close_machine_as_listed "
        "collect_recorded_roles compare_listing describe_listed_sites list_site_sentences "
        "read_listing"
    )
}
