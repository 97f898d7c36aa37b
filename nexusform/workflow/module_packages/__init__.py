"""Download of modules: git, archives, registries and mirrors."""

# Public names of the package, by module.
PUBLIC = {
    "module_installation": "ModuleInstaller ModuleOptions",
    "module_listing": "ListedModule list_project_modules mirror_modules",
}
