"""Modules from outside: addresses, versions, the lock file and downloaded packages."""

# Public names of the package, by module.
PUBLIC = {
    "module_lock": (
        "LOCK_FILE LockedModule format_call is_tree_hash join_directories render_lock_file"
    ),
    "module_packages": (
        "InstalledPackage LockedPackages PackageFinder PlannedPackages build_installed_package "
        "build_package_error describe_wrong_commit is_locked_call read_lock_file"
    ),
    "module_sources": (
        "InvalidModuleSource ModuleSource find_package_name get_contacted_address get_registry_url "
        "hide_server_parameters is_local_path parse_module_source"
    ),
}
