"""The domains of nexusform beside its engine, one entry each: what a domain brings, and whom it may import.

The engine imports no domain. It reads this table, and imports what an entry names when a configuration, a
state or a command line asks for it: a plan pays for the domains that it names. An entry whose folder is not
there counts as absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Final, TypeVar, cast

from msgspec import Struct, field

PACKAGE: Final = "nexusform.domains"
T = TypeVar("T")


class Remark(Struct, frozen=True):
    """What the engine must know of a diagnostic of a domain that is no error, beside its words.

    `level`: how much it weighs (weights.py). `cause`: the one way in which a plan brings it about, a word of
    planning/conclusion/held_before.py; "" where it counts as caused by every plan that tells it. `of_places`:
    advice on places, which is nobody's where the plan is in error.
    """

    level: str = "warning"
    cause: str = ""
    of_places: bool = False


class Domain(Struct, frozen=True, kw_only=True):
    """What one domain brings. Modules are named below its folder, objects as `module:NAME`.

    `uses`: the other domains that it may import. `rim`: its rooms and modules that may reach files, clocks
    and sockets. `resource_types` and `data_sources`: names of types; `nexus_inventory` is what
    types/nexus_inventory.py calls NEXUS_INVENTORY. `phases`: its `Phases` (planning/phases.py), "" for none.
    `placement_kinds`: what it places, by the `kind` of rows, to a `PlacementKind`; `placement_maps`: the
    computed attributes that hold such, and their kind.
    `page_parts`: its `PageParts` (rendering/page/domain_parts.py). `providers` and `backends`: names, as
    configuration has them, to their `ProviderKind` or `BackendKind`. `exports`: forms of `export` to what
    writes them (workflow/exporting.py). `checks`: what `validate` asks beside the configuration.
    `explains`: what `explain` asks about objects of its types (`Explainer`). `shows`: types to what `show`
    prints of them instead of attributes (cli/show.py). `adopts`: what `import -from=` may name, DIR for any
    directory, to what takes that over (workflow/runs/importing.py). `reconciles`: what `reconcile -from=`
    may name to what compares state with it (cli/reconciling.py). `simulates`: questions of `simulate` to what
    asks all sites (domains/whatif/cli/simulate.py). `remarks`: its diagnostics by their ids,
    where the engine must know more of one than that it is an error or a warning.
    """

    name: str
    what: str
    uses: tuple[str, ...] = ()
    rim: tuple[str, ...] = ()
    resource_types: tuple[str, ...] = ()
    data_sources: tuple[str, ...] = ()
    phases: str = ""
    placement_kinds: Mapping[str, str] = field(default_factory=dict)
    placement_maps: Mapping[str, str] = field(default_factory=dict)
    page_parts: str = ""
    providers: Mapping[str, str] = field(default_factory=dict)
    backends: Mapping[str, str] = field(default_factory=dict)
    exports: Mapping[str, str] = field(default_factory=dict)
    checks: str = ""
    explains: str = ""
    shows: Mapping[str, str] = field(default_factory=dict)
    adopts: Mapping[str, str] = field(default_factory=dict)
    reconciles: Mapping[str, str] = field(default_factory=dict)
    simulates: Mapping[str, str] = field(default_factory=dict)
    remarks: Mapping[str, Remark] = field(default_factory=dict)

    def target(self, name: str) -> str:
        """What a field names, from the top: `nexusform.domains.azure.providers.azure:PROVIDER`."""
        return f"{PACKAGE}.{self.name}.{name}"


def type_target(room: str, type_name: str) -> str:
    """Where a type stands that is called like its module."""
    return f"{room}.{type_name}:{type_name.upper()}"


class Loaded(Mapping[str, T]):
    """A table of which each value is imported when it is asked for; targets are `package.module:NAME`."""

    def __init__(self, targets: Mapping[str, str]) -> None:
        self._targets = targets
        self._values: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._values:
            module, _, attribute = self._targets[name].partition(":")
            self._values[name] = cast("T", getattr(import_module(module), attribute))
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._targets

    def __iter__(self) -> Iterator[str]:
        return iter(self._targets)

    def __len__(self) -> int:
        return len(self._targets)


_ADVICE: Final = Remark("advice")
_NOTE: Final = Remark("note")
_ALL: Final = (
    Domain(
        name="azure",
        what="A site as Azure shows it, and acting on it",
        rim=("providers", "workflow", "cli"),
        data_sources=("nexus_inventory",),
        providers={
            "azure": "providers.azure:PROVIDER",
            "azure_export": "providers.azure_export:PROVIDER",
        },
        adopts={
            "DIR": "workflow.adopting:import_site",
            "azure": "workflow.adopting:import_site",
        },
        exports={
            "azapi": "rendering.exports:azapi",
            "az": "rendering.exports:az",
        },
        remarks={
            "age-of-the-inventory-unknown": _NOTE,
            "creation-times-not-captured": _NOTE,
            "nothing-to-foretell": _NOTE,
            "derived-at-reading": _NOTE,
            "incomplete-list": _NOTE,
            "more-findings": _NOTE,
            "node-differs-from-its-vm-sku": _ADVICE,
            "old-inventory": _ADVICE,
            "resources-not-read": _NOTE,
            "resources-twice": _ADVICE,
            "unmanaged-vms": _NOTE,
        },
    ),
    Domain(
        name="vnf",
        what="VNFs: what TOSCA and HOT files ask of machines and of one another",
        resource_types=("tacker_vnf",),
        exports={"sol003": "rendering.exports:sol003"},
        remarks={
            "document-read-with-a-correction": Remark("note", "document"),
            "not-read-for-placement": _NOTE,
        },
    ),
    Domain(
        name="fleet",
        what="Placements on the member clusters of a fleet, as KubeFleet decides them",
        uses=("pods",),
        rim=("workflow",),
        resource_types=(
            "fleet_member_cluster",
            "fleet_hub_manifest",
            "fleet_cluster_resource_override",
            "fleet_resource_override",
            "fleet_placement_disruption_budget",
            "fleet_placement_eviction",
            "fleet_cluster_staged_update_strategy",
            "fleet_cluster_staged_update_run",
            "fleet_staged_update_strategy",
            "fleet_staged_update_run",
            "fleet_cluster_approval_request",
            "fleet_approval_request",
            "fleet_cluster_resource_placement",
            "fleet_resource_placement",
        ),
        phases="planning.fleet_phases:PHASES",
        placement_kinds={"binding": "binding_kind:KIND"},
        placement_maps={"bindings": "binding"},
        page_parts="rendering.fleet_page_parts:PARTS",
        explains="workflow.explain_workloads:explain_fleet",
        shows={
            "fleet_cluster_resource_placement": "rendering.shown_placements:placements_text",
            "fleet_resource_placement": "rendering.shown_placements:placements_text",
        },
        exports={
            "manifests": "rendering.exports:manifests",
            "node-labels": "rendering.exports:node_labels",
        },
        data_sources=("fleet_hub_export", "kubernetes_manifests"),
        remarks={
            "a-fresh-schedule-would-choose-otherwise": Remark("advice", of_places=True),
            "a-real-hub-treats-this-differently": Remark("advice", "document"),
            "health-of-a-member-is-unknown": _NOTE,
            "invalid-resource-selectors": Remark(cause="block"),
            "managed-from-elsewhere": _NOTE,
            "members-of-a-placement-share-machines": Remark("advice", "members", of_places=True),
            "object-has-another-owner": Remark(cause="block"),
            "older-property-name": Remark("advice", "block"),
            "read-with-a-correction": Remark("note", "document"),
            "selector-selects-nothing": Remark(cause="block"),
            "staged-run-waits-for-an-approval": Remark("note", "block"),
        },
    ),
    Domain(
        name="pods",
        what="Pods on nodes, as kube-scheduler and the controllers around it place them",
        data_sources=("kubernetes_nodes",),
        placement_kinds={"pod": "pod_kind:KIND"},
        placement_maps={"workloads": "pod"},
        remarks={
            "anti-affinity-of-pods-cannot-be-met": Remark(cause="waiting"),
            "deprecated-envelope": Remark("advice", "document"),
            "limits-of-volumes-are-not-known": _NOTE,
            "pods-are-not-made": Remark(cause="rollout"),
            "pods-are-not-predicted": _NOTE,
            "pods-are-refused-by-kubelet": Remark(cause="waiting"),
            "pods-share-a-machine": Remark("advice", "company", of_places=True),
            "pods-share-a-rack": Remark("advice", "company", of_places=True),
            "pods-stay-pending": Remark(cause="waiting"),
            "pods-wait-for-scheduling-gates": Remark(cause="waiting"),
            "replicas-are-changed-by-an-autoscaler": Remark("advice", "document"),
            "rollout-hangs": Remark(cause="rollout"),
            "rollout-will-hang": Remark(cause="rollout"),
            "unknown-topology-key": Remark(cause="rollout"),
            "volumes-are-not-known": Remark("note", "document"),
            "workers-without-the-topology-label": Remark(cause="rollout"),
        },
    ),
    Domain(
        name="hub",
        what="A fleet hub that is there: read it, be judged by it, act on it",
        uses=("fleet", "pods"),
        rim=("api", "providers", "workflow", "cli"),
        data_sources=("fleet_hub",),
        providers={"fleet": "providers.fleet:PROVIDER"},
        adopts={"hub": "workflow.adopting:import_hub"},
        reconciles={"hub": "cli.reconciled_hub:compare_with_hub"},
        remarks={"fields-of-others": _NOTE},
    ),
    Domain(
        name="whatif",
        what="Questions: what would happen if",
        uses=("fleet", "pods"),
        rim=("workflow", "cli"),
    ),
    Domain(
        name="testing",
        what="`nexusform test`: assertions over plans",
        uses=("pods",),
        checks="workflow.testing_files:test_file_problems",
        rim=("workflow", "cli"),
    ),
    Domain(name="editor", what="The language server", rim=("cli",)),
    Domain(name="explorer", what="A plan to play with in a browser", rim=("server", "cli")),
    Domain(
        name="sites",
        what="Many sites as data: one folded plan, waves, workers",
        uses=("azure", "whatif"),
        rim=("workflow", "engines", "cli"),
        simulates={"failure": "cli.ask:simulate_failure"},
    ),
    Domain(
        name="remote_state",
        what="State where a team reaches it",
        rim=("backends",),
        backends={
            "azurerm": "backends.kinds:AZURERM",
            "http": "backends.kinds:HTTP",
            "s3": "backends.kinds:S3",
            "postgres": "backends.kinds:POSTGRES",
        },
    ),
)


@cache
def domains() -> Mapping[str, Domain]:
    """The domains whose folders are there, by name."""
    return {each.name: each for each in _ALL if find_spec(f"{PACKAGE}.{each.name}") is not None}


def types_of_domains(kind: str) -> dict[str, str]:
    """The targets of all `resource_types` or `data_sources`."""
    return {
        name: type_target(domain.target("types"), name)
        for domain in domains().values()
        for name in getattr(domain, kind)
    }


def targets_of_domains(kind: str) -> dict[str, str]:
    """The targets of all `providers`, `backends`, `exports` or `placement_kinds`."""
    return {
        name: domain.target(target)
        for domain in domains().values()
        for name, target in getattr(domain, kind).items()
    }


def placement_maps_of_domains() -> dict[str, str]:
    """The `placement_maps` of all."""
    return {name: kind for domain in domains().values() for name, kind in domain.placement_maps.items()}


def checks_of_domains() -> dict[str, str]:
    """The targets of `checks`, by domain."""
    return {domain.name: domain.target(domain.checks) for domain in domains().values() if domain.checks}


def remarks_of_domains() -> dict[str, Remark]:
    """The `remarks` of all."""
    return {kind: remark for domain in domains().values() for kind, remark in domain.remarks.items()}


def is_there(target: str) -> bool:
    """Whether what a target names belongs to no domain, or to one whose folder is there."""
    inner = target.removeprefix(f"{PACKAGE}.")
    return inner == target or inner.partition(".")[0] in domains()


def explainers_of_domains() -> dict[str, str]:
    """The targets of `explains`, by resource type."""
    return {
        name: domain.target(domain.explains)
        for domain in domains().values()
        for name in domain.resource_types
        if domain.explains
    }
