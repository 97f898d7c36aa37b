"""Root modules of sites: `init` installs their modules in the directory of nexusform.sites.hcl."""

from pathlib import Path

from msgspec.structs import replace

from nexusform.configuration.remote_modules.module_packages import PackageFinder
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, has_errors
from nexusform.domains.sites.types.fleet_plan import FILE_NAME
from nexusform.domains.sites.workflow.fleet_tasks import open_fleet
from nexusform.workflow.initialization import install_modules
from nexusform.workflow.module_packages.module_installation import ModuleInstaller
from nexusform.workflow.opening.command_context import CommandContext


def install_site_modules(
    context: CommandContext,
    test_directory: str,
    packages: PackageFinder,
    sources: dict[str, SourceFile],
) -> list[Diagnostic]:
    """Install the modules of each root module of the sites, once.

    Each has a lock file of its own. Return the problems; texts of files are added to `sources`.
    """
    directory = Path(context.directory)
    if not (directory / FILE_NAME).is_file() or not isinstance(packages, ModuleInstaller):
        return []
    opened = open_fleet(context, has_lock=False)
    sources.update(opened.sources)
    if opened.fleet is None or has_errors(opened.diagnostics):
        return list(opened.diagnostics)
    problems: list[Diagnostic] = []
    options = replace(packages.options, test_directory=test_directory)
    for source in sorted({site.source for site in opened.fleet.definition.sites}):
        root = directory / source
        # The caller has loaded it.
        if root.resolve() == directory.resolve():
            continue
        packages.report(f"Root module {source}:")
        configuration, new_problems = install_modules(
            replace(
                context,
                directory=str(root),
                modules_directory=str(root / context.packages_directory),
            ),
            options,
            packages.report,
        )
        sources.update(configuration.files)
        problems += new_problems
    return problems
