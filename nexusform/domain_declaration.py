"""Declaration of a domain: what it adds to the engine, and what it may import."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from msgspec import Struct, field

from nexusform.command_entry import CommandDescription

PACKAGE: Final = "nexusform.domains"
# Version of this declaration and of `nexusform.interfaces`. It rises when an object of a domain
# that was valid before is not any more.
INTERFACE_VERSION: Final = 1


class DiagnosticTraits(Struct, frozen=True):
    """Traits of a domain's diagnostic that is not simply an error or a warning.

    The engine needs these traits. `level` is the level of the diagnostic (diagnostics/levels.py).
    `cause` is the only way a plan can cause it, a word of planning/conclusion/existing_findings.py;
    it is "" if every plan that reports it counts as the cause. `is_placement_advice` marks advice
    on placements, which is dropped if the plan has errors. `may_change` is what the diagnostic may
    change about its subject (doubts/doubt.py); built-in domains have theirs in a table
    (doubts/findings.py).
    """

    level: str = "warning"
    cause: str = ""
    is_placement_advice: bool = False
    may_change: tuple[str, ...] = ()


class DomainCommand(CommandDescription, frozen=True, kw_only=True):
    """Command of a domain: its description, and its target relative to the folder."""

    target: str


class DomainDeclaration(Struct, frozen=True, kw_only=True):
    """Entry of one domain.

    Modules are named relative to its package, objects as `module:NAME`.

    `package`: the full name of its package; "" for `nexusform.domains.NAME`. `interface_version`:
    the INTERFACE_VERSION for which a domain of another distribution is written. `dependencies`:
    other domains that it may import. `io_layer`: its packages and modules that may access files,
    clocks and sockets. `resource_types` and `data_sources`: names of types, to their modules in
    types/, with the type as NAME. `commands`: its commands by name. `removed_commands` and
    `removed_flags`: words after `nexusform`, to the words that replace them. `export_scripts`:
    values of `inventory script -for=`, to functions that build the script from the name of its
    directory. `phases`: its `Phases` (planning/phases.py), "" for none. `placement_kinds`: the
    `kind` of rows, to a `PlacementKind`; `placement_maps`: the computed attributes with such
    placements, and their kind. `plan_sections`: builders of its sections in the report of a plan,
    by their place (rendering/report/domain_sections.py). `providers` and `backends`: configured
    names, to their `ProviderDefinition` or `BackendDefinition`. `exports`: forms of `export` to
    their writers (workflow/plan_files/saved_plans.py). `checks`: additional checks of `validate`.
    `installed_modules`: a function that loads further modules for `init`
    (workflow/initialization.py). `explainer`: the `Explainer` of objects of its types.
    `show_renderers`: types to the functions that render them for `show` instead of attributes
    (cli/show.py). `imports`: sources of `import -from=`, DIR for any directory, to their importers
    (workflow/runs/object_import.py). `reconcilers`: sources of `reconcile -from=` to their
    comparison with state (cli/report_output.py). `simulates`: questions of `simulate` about many
    sites. `checkers`: programs of `plan -check-with=` to their checks
    (workflow/program_checks.py). `losses`: kinds of `plan -assume=lost:KIND/NAME`, to a `LossKind`
    (planning/hypothesis/losses.py). `server_readers`: readers of a `ServerQuery` to their
    functions (workflow/opening/remote_inputs.py). `diagnostic_traits`: traits of its diagnostics
    by id.
    """

    name: str
    description: str
    package: str = ""
    interface_version: int = 0
    dependencies: tuple[str, ...] = ()
    io_layer: tuple[str, ...] = ()
    resource_types: Mapping[str, str] = field(default_factory=dict)
    data_sources: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, DomainCommand] = field(default_factory=dict)
    removed_commands: Mapping[str, str] = field(default_factory=dict)
    removed_flags: Mapping[str, str] = field(default_factory=dict)
    export_scripts: Mapping[str, str] = field(default_factory=dict)
    phases: str = ""
    placement_kinds: Mapping[str, str] = field(default_factory=dict)
    placement_maps: Mapping[str, str] = field(default_factory=dict)
    plan_sections: Mapping[str, str] = field(default_factory=dict)
    providers: Mapping[str, str] = field(default_factory=dict)
    backends: Mapping[str, str] = field(default_factory=dict)
    exports: Mapping[str, str] = field(default_factory=dict)
    checks: str = ""
    installed_modules: str = ""
    explainer: str = ""
    show_renderers: Mapping[str, str] = field(default_factory=dict)
    imports: Mapping[str, str] = field(default_factory=dict)
    reconcilers: Mapping[str, str] = field(default_factory=dict)
    simulates: Mapping[str, str] = field(default_factory=dict)
    checkers: Mapping[str, str] = field(default_factory=dict)
    losses: Mapping[str, str] = field(default_factory=dict)
    server_readers: Mapping[str, str] = field(default_factory=dict)
    diagnostic_traits: Mapping[str, DiagnosticTraits] = field(default_factory=dict)

    @property
    def package_name(self) -> str:
        """Full name of its package."""
        return self.package or f"{PACKAGE}.{self.name}"

    def load_object(self, target: str) -> Any:
        """Import and return the object of a target, such as `providers.azure:PROVIDER`."""
        module, _, name = target.partition(":")
        return getattr(import_module(f"{self.package_name}.{module}"), name)
