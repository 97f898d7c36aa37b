"""Domains of nexusform besides its engine, one entry each.

Their contents, and their allowed imports.

The engine imports no domain. It reads this table, and imports the objects of an entry on demand,
for a configuration, a state or a command line: a plan loads only the domains it uses. An entry
without a folder counts as absent, and so does an entry with an absent dependency.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, Final, TypeVar

from nexusform.command_entry import CommandEntry, CommandSection
from nexusform.domain_declaration import DiagnosticTraits, DomainCommand, DomainDeclaration
from nexusform.external_domains import ExternalDomain, load_external_domains

T = TypeVar("T")


class LazyTable(Mapping[str, T]):
    """Table with values that are imported on first access, by one function per name."""

    def __init__(self, loaders: Mapping[str, Callable[[], T]]) -> None:
        self._loaders = loaders
        self._values: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._values:
            self._values[name] = self._loaders[name]()
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._loaders

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)


_ADVICE: Final = DiagnosticTraits("advice")
_NOTE: Final = DiagnosticTraits("note")
_ARM_WHAT_IF: Final = (
    "nexusform predict -arm-what-if=FILE with the output of az deployment group what-if "
    "--no-pretty-print"
)
_ALL: Final = (
    DomainDeclaration(
        name="azure",
        description="A site in Azure: import, read, change",
        io_layer=("providers", "workflow", "cli"),
        data_sources={"nexus_inventory": "nexus_inventory"},
        commands={
            "predict": DomainCommand(
                "Predict placement for a Terraform, ARM or Bicep plan",
                CommandSection.ANALYSIS,
                is_common=True,
                is_read_only=True,
                target="cli.predict:predict",
            ),
            "inventory": DomainCommand(
                "Export a site, check the export",
                CommandSection.SITES,
                target="cli.inventory:inventory",
            ),
            "reconcile": DomainCommand(
                "Detect drift between site and state",
                CommandSection.SITES,
                is_common=True,
                target="cli.reconcile:reconcile_",
            ),
        },
        removed_flags={
            "export -format=arm": "nexusform export -format=azapi",
            "predict -arm-template": _ARM_WHAT_IF,
            "predict -parameters": _ARM_WHAT_IF,
        },
        providers={
            "azure": "providers.azure:PROVIDER",
            "azure_export": "providers.azure_export:PROVIDER",
        },
        imports={
            "DIR": "workflow.site_import:import_site",
            "azure": "workflow.site_import:import_site",
        },
        exports={"azapi": "rendering.exports:export_azapi", "az": "rendering.exports:export_az"},
        diagnostic_traits={
            "unknown-inventory-age": _NOTE,
            "creation-times-not-captured": _NOTE,
            "nothing-to-predict": _NOTE,
            "fleet-not-predicted": _NOTE,
            "derived-value": _NOTE,
            "incomplete-list": _NOTE,
            "more-findings": _NOTE,
            "node-sku-difference": _ADVICE,
            "not-read-for-placement": _NOTE,
            "old-inventory": _ADVICE,
            "resources-not-read": _NOTE,
            "duplicate-inventory-resources": _ADVICE,
            "unmanaged-vms": _NOTE,
        },
    ),
    DomainDeclaration(
        name="vnf",
        description="VNFs from TOSCA and HOT files",
        dependencies=("openstack",),
        io_layer=("providers", "serving", "cli"),
        resource_types={"tacker_vnf": "tacker_vnf"},
        commands={
            "serve": DomainCommand(
                "Answer requests of a VNFM from a plan",
                CommandSection.OTHER_TOOLS,
                target="cli.serve:serve",
            )
        },
        providers={"tacker": "providers.tacker:PROVIDER"},
        diagnostic_traits={
            "corrected-document": DiagnosticTraits("note", "document"),
            "rejected-by-heat": DiagnosticTraits("note", "document"),
            "not-read-for-placement": _NOTE,
        },
    ),
    DomainDeclaration(
        name="openstack",
        description="Compute hosts of OpenStack, with placement as Nova decides it",
        resource_types={"openstack_site": "openstack_site"},
        data_sources={"openstack_inventory": "openstack_inventory"},
        export_scripts={"openstack": "importers.capture_script:build_openstack_script"},
    ),
    DomainDeclaration(
        name="fleet",
        description="Placements on member clusters, as KubeFleet decides them",
        dependencies=("pods",),
        io_layer=("workflow",),
        resource_types={
            "fleet_member_cluster": "fleet_member_cluster",
            "fleet_hub_manifest": "fleet_hub_manifest",
            "fleet_cluster_resource_override": "fleet_overrides",
            "fleet_resource_override": "fleet_overrides",
            "fleet_placement_disruption_budget": "fleet_evictions",
            "fleet_placement_eviction": "fleet_evictions",
            "fleet_cluster_staged_update_strategy": "fleet_staged",
            "fleet_cluster_staged_update_run": "fleet_staged",
            "fleet_staged_update_strategy": "fleet_staged",
            "fleet_staged_update_run": "fleet_staged",
            "fleet_cluster_approval_request": "fleet_staged",
            "fleet_approval_request": "fleet_staged",
            "fleet_cluster_resource_placement": "fleet_placements",
            "fleet_resource_placement": "fleet_placements",
        },
        phases="planning.fleet_phases:PHASES",
        placement_kinds={"binding": "binding_kind:KIND"},
        placement_maps={"bindings": "binding"},
        plan_sections={"map": "rendering.fleet_section:build_fleet_section"},
        explainer="workflow.explain_workloads:explain_fleet",
        losses={"member": "planning.member_loss:MEMBER"},
        show_renderers={
            "fleet_cluster_resource_placement": "rendering.placement_status_text:render_placements",
            "fleet_resource_placement": "rendering.placement_status_text:render_placements",
        },
        exports={
            "manifests": "rendering.manifest_export:export_manifests",
            "node-labels": "rendering.manifest_export:export_node_labels",
        },
        data_sources={
            "fleet_hub_export": "fleet_hub_export",
            "kubernetes_manifests": "kubernetes_manifests",
        },
        export_scripts={"fleet": "importers.fleet_export:build_export_script"},
        diagnostic_traits={
            "schedule-drift": DiagnosticTraits("advice", is_placement_advice=True),
            "member-leaves-objects": DiagnosticTraits("advice"),
            "hub-behaviour-differs": DiagnosticTraits("advice", "block"),
            "unknown-member-health": _NOTE,
            "invalid-resource-selectors": DiagnosticTraits(cause="block"),
            "managed-elsewhere": _NOTE,
            "placement-members-share-machines": DiagnosticTraits(
                "advice", is_placement_advice=True
            ),
            "object-owned-by-another": DiagnosticTraits(cause="block"),
            "older-property-name": DiagnosticTraits("advice", "block"),
            "corrected-manifest": DiagnosticTraits("note", "document"),
            "empty-resource-selection": DiagnosticTraits(cause="block"),
            "object-without-namespace": DiagnosticTraits(cause="document"),
            "unknown-resource-kind": DiagnosticTraits("advice", "block"),
            "record-without-effect": DiagnosticTraits(cause="block"),
            "unmanaged-hub-object": DiagnosticTraits(cause="document"),
            "property-without-member": DiagnosticTraits(cause="block"),
            "staged-run-awaiting-approval": _NOTE,
        },
    ),
    DomainDeclaration(
        name="pods",
        description="Pods on nodes, as kube-scheduler and controllers place them",
        data_sources={"kubernetes_nodes": "kubernetes_nodes"},
        export_scripts={"kubernetes": "importers.kubectl_kind_files:build_export_script"},
        placement_kinds={"pod": "pod_kind:KIND"},
        placement_maps={"workloads": "pod"},
        plan_sections={"vms": "rendering.pod_section:build_pod_section"},
        diagnostic_traits={
            "unsatisfiable-pod-anti-affinity": DiagnosticTraits(cause="waiting"),
            "ignored-envelope": DiagnosticTraits(cause="document"),
            "unknown-volume-limits": _NOTE,
            "pods-not-created": DiagnosticTraits(cause="rollout"),
            "pods-not-predicted": _NOTE,
            "device-claims": _NOTE,
            "gang-scheduling": _NOTE,
            "kind-not-listed": _NOTE,
            "pods-rejected-by-kubelet": DiagnosticTraits(cause="waiting"),
            "pods-share-machine": DiagnosticTraits("advice", "company", is_placement_advice=True),
            "pods-share-rack": DiagnosticTraits("advice", "company", is_placement_advice=True),
            "pods-without-anti-affinity": DiagnosticTraits(
                "advice", "company", is_placement_advice=True
            ),
            "pending-pods": DiagnosticTraits(cause="waiting"),
            "scheduling-gated-pods": DiagnosticTraits(cause="waiting"),
            "autoscaled-replicas": DiagnosticTraits("advice", "document"),
            "replicas-of-cluster": DiagnosticTraits("note", "document"),
            "stuck-pods": DiagnosticTraits(cause="waiting"),
            "stuck-rollout": DiagnosticTraits(cause="rollout"),
            "rollout-deadlock": DiagnosticTraits(cause="rollout"),
            "unknown-topology-key": DiagnosticTraits(cause="rollout"),
            "unknown-volumes": DiagnosticTraits("note", "document"),
            "workers-without-topology-label": DiagnosticTraits(cause="rollout"),
        },
    ),
    DomainDeclaration(
        name="hub",
        description="A live fleet hub: read, dry run, apply",
        dependencies=("fleet", "pods"),
        io_layer=("api", "providers", "workflow", "cli"),
        data_sources={"fleet_hub": "fleet_hub"},
        providers={"fleet": "providers.fleet:PROVIDER"},
        imports={"hub": "workflow.hub_import:import_hub"},
        reconcilers={"hub": "cli.hub_comparison:reconcile_with_hub"},
        server_readers={"fleet_hub": "api.hub_snapshot:read_hub_snapshot"},
        diagnostic_traits={"fields-owned-by-others": _NOTE},
    ),
    DomainDeclaration(
        name="whatif",
        description="What-if simulations",
        dependencies=("fleet", "pods"),
        io_layer=("workflow", "cli"),
        commands={
            "simulate": DomainCommand(
                "Simulate capacity, failures, upgrades and repacking",
                CommandSection.ANALYSIS,
                is_common=True,
                is_read_only=True,
                target="cli.command_table:simulate",
            )
        },
        removed_commands={
            "report": "nexusform simulate capacity",
            "report capacity": "nexusform simulate capacity",
        },
    ),
    DomainDeclaration(
        name="testing",
        description="`nexusform test`: assertions over plans",
        dependencies=("pods",),
        checks="workflow.test_files:list_test_file_problems",
        installed_modules="workflow.run_modules:install_test_modules",
        io_layer=("workflow", "cli"),
        commands={
            "test": DomainCommand(
                "Run test files", CommandSection.OTHER_TOOLS, target="cli.test:test"
            )
        },
    ),
    DomainDeclaration(
        name="program_checks",
        description="Programs behind `plan -check-with`",
        dependencies=("fleet", "pods", "openstack", "vnf"),
        io_layer=("workflow",),
        removed_commands={"conformance": "nexusform plan -check-with=PROGRAM=LOCATION"},
        checkers={
            "kube-scheduler": "workflow.scheduler_check:check_with_scheduler",
            "kubefleet": "workflow.kubefleet_check:check_with_kubefleet",
            "nova": "workflow.nova_check:check_with_nova",
            "heat": "workflow.heat_check:check_with_heat",
            "tacker": "workflow.heat_check:check_with_tacker",
        },
    ),
    DomainDeclaration(
        name="editor",
        description="The language server",
        io_layer=("cli",),
        commands={
            "lsp": DomainCommand(
                "Start the language server", CommandSection.OTHER_TOOLS, target="cli.lsp:lsp"
            )
        },
    ),
    DomainDeclaration(
        name="explorer",
        description="An interactive plan in a browser",
        io_layer=("server", "cli"),
        commands={
            "explore": DomainCommand(
                "Explore the plan in a browser",
                CommandSection.ANALYSIS,
                is_read_only=True,
                target="cli.explore:explore",
            )
        },
    ),
    DomainDeclaration(
        name="sites",
        description="Many sites as data: one aggregated plan, waves, workers",
        dependencies=("azure", "whatif"),
        installed_modules="workflow.root_modules:install_site_modules",
        io_layer=("workflow", "engines", "cli"),
        commands={
            "sites": DomainCommand(
                "Plan and apply many sites", CommandSection.SITES, target="cli.sites:sites"
            )
        },
        removed_commands={
            "sites certainty": "nexusform sites status -samples=1000",
            "sites failure": "nexusform simulate failure -site=*",
        },
        simulates={"failure": "cli.site_questions:simulate_failure"},
    ),
    DomainDeclaration(
        name="remote_state",
        description="Remote state backends",
        io_layer=("backends",),
        backends={
            "azurerm": "backends.backend_definitions:AZURERM",
            "http": "backends.backend_definitions:HTTP",
            "s3": "backends.backend_definitions:S3",
            "postgres": "backends.backend_definitions:POSTGRES",
        },
    ),
)


@cache
def find_domains() -> Mapping[str, DomainDeclaration]:
    """Return the existing domains by name, those of other distributions last."""
    entries = _list_entries()
    return {
        name: domain for name, domain in entries.items() if not _list_missing_folders(name, entries)
    }


@cache
def find_external_domains() -> tuple[ExternalDomain, ...]:
    """Return the domains of other installed distributions; rejected ones have a problem."""
    return load_external_domains(_ALL)


def _list_entries() -> dict[str, DomainDeclaration]:
    """Return all accepted entries by name, with or without a folder."""
    external = [each.declaration for each in find_external_domains() if each.declaration]
    return {domain.name: domain for domain in (*_ALL, *external)}


def _list_missing_folders(name: str, entries: Mapping[str, DomainDeclaration]) -> list[str]:
    """Return the names without a folder of a domain and all its dependencies, sorted."""
    required: set[str] = set()
    unvisited = [name]
    while unvisited:
        domain = entries[unvisited.pop()]
        required.add(domain.name)
        unvisited += [used for used in domain.dependencies if used not in required]
    return sorted(used for used in required if not _has_folder(entries[used].package_name))


@cache
def _has_folder(package: str) -> bool:
    return find_spec(package) is not None


def explain_absent_domain(name: str, *field_names: str) -> str:
    """Return a sentence about the missing domains that a name in these fields of an entry needs.

    It starts with a space. It is "" if no absent domain has this name, and no domain is rejected.
    """
    entries = _list_entries()
    for domain in entries.values():
        if domain.name in find_domains():
            continue
        if any(name in getattr(domain, field_name) for field_name in field_names):
            missing = _list_missing_folders(domain.name, entries)
            noun = "domain" if len(missing) == 1 else "domains"
            names = " and ".join(f'"{each}"' for each in missing)
            return (
                f' "{name}" needs the {noun} {names}, which this installation lacks: reinstall '
                "nexusform."
            )
    return "".join(f" {each.problem}" for each in find_external_domains() if each.problem)


def collect_type_loaders(field_name: str) -> dict[str, Callable[[], Any]]:
    """Return the functions that import the types of all domains, by type name.

    The types are those in all `resource_types` or `data_sources`.
    """
    return {
        name: partial(domain.load_object, f"types.{module}:{name.upper()}")
        for domain in find_domains().values()
        for name, module in getattr(domain, field_name).items()
    }


def collect_loaders(field_name: str) -> dict[str, Callable[[], Any]]:
    """Return the functions that import all objects of a field, such as `providers`, by name."""
    return {
        name: partial(domain.load_object, target)
        for domain in find_domains().values()
        for name, target in getattr(domain, field_name).items()
    }


def collect_commands() -> dict[str, CommandEntry]:
    """Return the commands of all domains by name."""
    return {
        name: CommandEntry(
            command.summary,
            command.section,
            is_common=command.is_common,
            is_read_only=command.is_read_only,
            load=partial(domain.load_object, command.target),
        )
        for domain in find_domains().values()
        for name, command in domain.commands.items()
    }


def collect_removed_words(field_name: str) -> dict[str, str]:
    """Return all `removed_commands` or `removed_flags`."""
    return {
        words: replacement
        for domain in find_domains().values()
        for words, replacement in getattr(domain, field_name).items()
    }


def collect_placement_maps() -> dict[str, str]:
    """Collect all `placement_maps`."""
    return {
        name: kind
        for domain in find_domains().values()
        for name, kind in domain.placement_maps.items()
    }


def collect_validate_checks() -> dict[str, Callable[[], Any]]:
    """Return the functions that import the checks of `validate`, by domain."""
    return {
        domain.name: partial(domain.load_object, domain.checks)
        for domain in find_domains().values()
        if domain.checks
    }


def collect_installed_modules() -> dict[str, Callable[[], Any]]:
    """Return the functions that import those that load further modules, by domain."""
    return {
        domain.name: partial(domain.load_object, domain.installed_modules)
        for domain in find_domains().values()
        if domain.installed_modules
    }


def collect_diagnostic_traits() -> dict[str, DiagnosticTraits]:
    """Collect all `diagnostic_traits`."""
    return {
        diagnostic_id: traits
        for domain in find_domains().values()
        for diagnostic_id, traits in domain.diagnostic_traits.items()
    }


def collect_explainers_by_resource_type() -> dict[str, Callable[[], Any]]:
    """Return the functions that import each `explainer`, by resource type."""
    return {
        name: partial(domain.load_object, domain.explainer)
        for domain in find_domains().values()
        for name in domain.resource_types
        if domain.explainer
    }
