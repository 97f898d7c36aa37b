"""Fleet as seen by a plan: members, their records in state, and observed hubs.

Members have configured or derived figures.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct, convert, field, json
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, build_error
from nexusform.diagnostics.phrases import format_first_items
from nexusform.documents.scalars import parse_integer
from nexusform.domains.fleet.importers.fleet_export import build_manifests
from nexusform.domains.fleet.importers.fleet_records import (
    FleetDisruptionBudget,
    FleetMember,
    FleetOverride,
    RunRecord,
)
from nexusform.domains.fleet.scheduling.bindings import Health, Member, ResourceUsage
from nexusform.domains.fleet.scheduling.eviction import PlacementDisruptionBudget
from nexusform.domains.fleet.scheduling.rules.cluster_eligibility import explain_ineligibility
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.domains.pods.planning.external_clusters import list_data_blocks, list_read_blocks
from nexusform.domains.pods.planning.node_clusters import NodeCluster
from nexusform.domains.pods.types.fleet_object_type import FleetObjectType
from nexusform.interfaces.plugins import PlanningKind, ResourceType
from nexusform.json_data.plain_data import get_list, get_mapping, get_value_at_path
from nexusform.kubernetes.matching import Taint
from nexusform.kubernetes.quantity import (
    Quantity,
    QuantityFormat,
    build_cpu_quantity,
    build_quantity,
    read_quantity,
)
from nexusform.planning.instances.instance import Instance
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.preparation.planning_order import iterate_modules
from nexusform.resources.address import Address
from nexusform.state.objects import InstanceState

T = TypeVar("T")
NODE_COUNT: Final = "kubernetes-fleet.io/node-count"
# record of a member not processed by any placement yet.
UNPROCESSED: Final[Mapping[str, Any]] = {"is_processed": False}
# In such a record: placements that did not process its leaving either.
UNNOTIFIED_PLACEMENTS: Final = "unnotified_placements"
# Key of the same note: destroyed placements whose objects the unreachable member may still have.
UNCLEARED_PLACEMENTS: Final = "uncleared_placements"


class FleetPodPredictor(Protocol):
    """Pod prediction during a fleet's plan.

    A `cluster` is its id, or a member's name.
    """

    def place_pods(
        self,
        placement_address: str,
        cluster: str,
        manifests: tuple[Manifest, ...],
        prior_workloads: Mapping[str, Any],
        /,
        *,
        previous: tuple[Manifest, ...] = (),
        overrides_changed: bool = False,
    ) -> Mapping[str, Any]:
        """Place the pods of a placement's objects on a cluster (its id, or a member's name).

        Return their records by workload and pod; later calls may still change these.
        `prior_workloads` are the records in state, `previous` the objects on the cluster before the
        plan. With `overrides_changed`, only overrides changed these objects.
        """

    def remove_pods(
        self, placement_address: str, cluster: str, /, *, keeps_running: bool = False
    ) -> None:
        """Remove the pods of a placement from a cluster, or only from state (`keeps_running`).

        The cluster is given by its id or by the name of a member.
        """

    def recreate_workloads(self, placement_address: str, workloads: Collection[str], /) -> None:
        """Remove the pods of these workloads, since the workloads are re-created on the hub."""

    def sum_requests(self, cluster: str, /) -> tuple[int, int]:
        """Return the requests of the scheduled pods on a cluster (id or member).

        They are in thousandths of a CPU, and in bytes.
        """

    def list_objects(self, cluster: str, /) -> Sequence[Manifest]:
        """Return the known objects on a cluster (id or member), observed ones included."""


def build_member(
    configuration: FleetMember, cluster: NodeCluster | None, requests: tuple[int, int]
) -> Member:
    """Build a member as reported by the hub.

    If its `cluster` is known, properties and resources are computed from the nodes and the
    `requests` of the pods (thousandths of a CPU, bytes). Configured properties win over computed
    ones. Configured resources win only if no cluster id is configured.
    """
    properties = configuration.properties
    resources = configuration.resources
    if cluster is not None:
        sku_counts = Counter(sku.name for sku in cluster.skus)
        derived = {
            f"kubernetes.azure.com/vm-sizes/{name}/count": str(n)
            for name, n in sorted(sku_counts.items())
        }
        derived[NODE_COUNT] = str(len(cluster.nodes))
        properties = {**derived, **configuration.properties}
        if configuration.cluster_id or resources == ResourceUsage():
            requested_cpu, requested_memory = requests
            cpu = sum(node.cpu for node in cluster.nodes)
            memory = sum(node.memory for node in cluster.nodes)
            resources = ResourceUsage(
                total=_build_quantities(cluster.total_size.cpu, cluster.total_size.memory),
                allocatable=_build_quantities(cpu, memory),
                available=_build_quantities(
                    max(0, cpu - requested_cpu), max(0, memory - requested_memory)
                ),
            )
    return Member(
        name=configuration.name,
        labels=configuration.labels,
        taints=configuration.taints,
        properties=properties,
        resources=resources,
        health=configuration.health,
        namespaces=configuration.namespaces,
    )


def _build_quantities(cpu: int, memory: int) -> dict[str, Quantity]:
    """Return thousandths of a CPU, and bytes of memory, as quantities by resource name."""
    return {"cpu": build_cpu_quantity(cpu), "memory": build_quantity(memory, QuantityFormat.BINARY)}


_USAGE_KINDS: Final = ResourceUsage.__struct_fields__


def build_member_record(member: Member) -> dict[str, Any]:
    """Return the fields of a member watched by a hub's scheduler, as plain data for state."""
    usage = member.resources
    return {
        "labels": dict(member.labels),
        "taints": [[taint.key, taint.value, taint.effect] for taint in member.taints],
        "properties": dict(member.properties),
        "resources": {
            kind: {name: str(amount) for name, amount in sorted(getattr(usage, kind).items())}
            for kind in _USAGE_KINDS
        },
        "health": str(member.health),
        "namespaces": None if member.namespaces is None else sorted(member.namespaces),
    }


def parse_member_record(name: str, record: Mapping[str, Any]) -> Member:
    """Return the member of a record in state.

    Invalid amounts of resources are left out.
    """
    # amounts by kind ("total", ...) and resource name.
    usage: dict[str, dict[str, Quantity]] = {}
    for kind in _USAGE_KINDS:
        texts = get_mapping(record, "resources", kind)
        amounts = {name: read_quantity(text) for name, text in texts.items()}
        usage[kind] = {name: amount for name, amount in amounts.items() if amount is not None}
    namespaces = record.get("namespaces")
    return Member(
        name=name,
        labels=dict(get_mapping(record, "labels")),
        taints=tuple(Taint(*taint) for taint in get_list(record, "taints")),
        properties=dict(get_mapping(record, "properties")),
        resources=ResourceUsage(**usage),
        health=Health(record.get("health") or Health.HEALTHY),
        # None: not collected.
        namespaces=None if namespaces is None else frozenset(namespaces),
    )


class FleetMemberState(Struct):
    """One member during a plan.

    `previous` is its record in state (None: new or unknown), `planned` its planned form (None:
    removed). A removed member has only its name in `configuration`. `address` is None for observed
    members only. `is_rejoining` means that the plan re-creates it. `unnotified_placements`
    (addresses) have not processed an earlier one.
    """

    address: Address | None
    configuration: FleetMember
    cluster: NodeCluster | None = None
    previous: Member | None = None
    planned: Member | None = None
    is_rejoining: bool = False
    unnotified_placements: frozenset[str] = frozenset()


def select_instances(instances: Iterable[Instance], kind: PlanningKind) -> list[Instance]:
    """Return the instances of the resource types of a kind, such as members or placements."""
    return [instance for instance in instances if instance.type.kind is kind]


def list_planned_members(members: Mapping[str, FleetMemberState]) -> list[Member]:
    """Return the members after the plan."""
    return [member.planned for member in members.values() if member.planned is not None]


class MemberClusters(Struct, frozen=True):
    """Members as input of placements.

    Labels by name, leaving members, members with apply failures, and why a hub counts members as
    disconnected or unhealthy: those after the plan (`unreachable`), and `unreachable_removed` ones.
    """

    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    leaving: frozenset[str] = frozenset()
    failing: frozenset[str] = frozenset()
    unreachable: Mapping[str, str] = field(default_factory=dict)
    unreachable_removed: Mapping[str, str] = field(default_factory=dict)

    @property
    def all_unreachable(self) -> Mapping[str, str]:
        """Reasons by name of all members on which the result of a change is unknown."""
        return {**self.unreachable, **self.unreachable_removed}


def build_member_clusters(
    members: Mapping[str, FleetMemberState], unreachable_before: Mapping[str, str]
) -> MemberClusters:
    """Return the labels, departures and failures of the members after the plan.

    `unreachable_before` are the reasons of members in state, by name.
    """
    labels: dict[str, Mapping[str, str]] = {}
    # Still listed, but in deletion.
    leaving: set[str] = set()
    # applying resources fails there, as configured.
    failing: set[str] = set()
    unreachable: dict[str, str] = {}
    for member in list_planned_members(members):
        labels[member.name] = member.labels
        if member.is_leaving:
            leaving.add(member.name)
        elif reason := explain_ineligibility(member):
            unreachable[member.name] = reason
        if members[member.name].configuration.apply_fails:
            failing.add(member.name)
    removed = {name: why for name, why in unreachable_before.items() if name not in labels}
    return MemberClusters(labels, frozenset(leaving), frozenset(failing), unreachable, removed)


class ObservedHub(Struct, frozen=True):
    """Content of observed hubs.

    Placement attributes by type and id, members by name, names of completed evictions, and staged
    runs by key: record, approvals, and reason of a failure. `objects` are those on live hubs beyond
    the configuration. `pending_requests` are evictions (by name) and runs (by key) not processed by
    the hub. `overrides` are override snapshots by name, `run_overrides` their names by run and
    cluster, `current_overrides` the overrides on the hub, `budgets` the disruption budgets by
    placement. `requests` are its other objects that act on placements, by type and id, as
    arguments of the type: evictions, runs, their strategies and approvals. `is_unread` means that
    the members of a configured hub could not be read, or were not captured. `is_incomplete` means
    that something else that decides on placements was not read.
    """

    placements: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    members: dict[str, FleetMember] = field(default_factory=dict)
    evictions: set[str] = field(default_factory=set)
    runs: dict[str, RunRecord] = field(default_factory=dict)
    approvals: dict[str, frozenset[str]] = field(default_factory=dict)
    failed_runs: dict[str, str] = field(default_factory=dict)
    objects: list[Manifest] = field(default_factory=list)
    pending_requests: set[str] = field(default_factory=set)
    overrides: dict[str, FleetOverride] = field(default_factory=dict)
    run_overrides: dict[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    current_overrides: list[FleetOverride] = field(default_factory=list)
    budgets: dict[str, PlacementDisruptionBudget] = field(default_factory=dict)
    requests: dict[tuple[str, str], tuple[ResourceType, dict[str, Any]]] = field(
        default_factory=dict
    )
    is_unread: bool = False
    is_incomplete: bool = False

    def get_placement(self, instance: Instance) -> Mapping[str, Any]:
        """Return the observed attributes of a placement.

        {} for one not found on a hub, or re-created by the plan.
        """
        if instance.is_replaced:
            return {}
        return self.placements.get(
            (instance.type.name, instance.type.build_id(get_mapping(instance.config))), {}
        )


def _add_runs(hub: ObservedHub, runs: Mapping[str, Any]) -> None:
    """Add the staged runs of a data block to the hub, by key.

    Their records, approvals, overrides and failures.
    """
    for key, run in runs.items():
        hub.runs[key] = convert(json.decode(run["start_record"]), RunRecord)
        hub.approvals[key] = frozenset(run["approvals"])
        hub.run_overrides[key] = get_mapping(run, "overrides")
        if run["ended"] and not run["succeeded"]:
            hub.failed_runs[key] = run["reason"]


def read_observed_hub(request: PlanRequest, evaluation: Evaluation) -> ObservedHub:
    """Read the hubs of the configuration's data blocks into one; later blocks win.

    Blocks not read before the plan set `is_unread`, and have no other effect.
    """
    all_reads = [
        attributes
        for _, attributes in list_data_blocks(PlanningKind.HUB_EXPORT, request, evaluation)
    ]
    read_parts = [
        get_value_at_path(read, name)
        for read in all_reads
        for name in ("placements", "member_clusters")
    ]
    # None: not read before the plan. A dump without members did not capture them.
    hub = ObservedHub(
        is_unread=None in read_parts or any(map(_lacks_members, all_reads)),
        is_incomplete=any(get_value_at_path(read, "is_complete") is not True for read in all_reads),
    )
    types = request.registries.resource_types
    for _, attributes in list_read_blocks(PlanningKind.HUB_EXPORT, request, evaluation):
        hub.overrides.update(_index_overrides_by_snapshot_name(attributes, types))
        for budget in _read_objects(attributes, types, _BUDGET_MAPS, FleetDisruptionBudget):
            hub.budgets[budget.placement] = budget.budget
        for key, placement_attributes in get_mapping(attributes, "placements").items():
            namespace, _, name = key.rpartition("/")
            placement = {"name": name, "namespace": namespace or None, **placement_attributes}
            placement["override_snapshots"] = _index_overrides_by_snapshot_name(
                placement_attributes, types
            )
            resource_type = placement.pop("type")
            hub.placements[resource_type, key] = placement
        for name, member_attributes in get_mapping(attributes, "member_clusters").items():
            values = {"name": name, **member_attributes, "taint": member_attributes.get("taints")}
            hub.members[name] = _build_object(types, "fleet_member_cluster", values, FleetMember)
        # A live hub; a dump may be outdated at the time of the apply.
        if attributes.get("read_at"):
            hub.objects.extend(
                build_manifests(map(json.decode, attributes["hub_objects"].values()))
            )
        hub.current_overrides.extend(
            _read_objects(attributes, types, _OVERRIDE_MAPS, FleetOverride)
        )
        for name, type_name in _REQUEST_MAPS.items():
            for key, manifest in get_mapping(attributes, name).items():
                arguments = {**json.decode(manifest)["metadata"], "manifest": manifest}
                hub.requests[type_name, key] = (types[type_name], arguments)
        hub.evictions.update(get_mapping(attributes, "evictions"))
        hub.pending_requests.update(
            *(get_mapping(attributes, name) for name in _REQUEST_ATTRIBUTES)
        )
        _add_runs(hub, get_mapping(attributes, "runs"))
    # Without those processed.
    hub.pending_requests.difference_update(hub.evictions, hub.runs)
    return hub


def _lacks_members(read: object) -> bool:
    """Return whether a hub was read with placements, but without any member."""
    has_placements = bool(get_mapping(read, "placements"))
    return has_placements and not get_mapping(read, "member_clusters")


_MAX_NAMES: Final = 4


def find_several_hubs(request: PlanRequest, evaluation: Evaluation) -> list[Diagnostic]:
    """Return an error if the configuration reaches several hubs, since a plan knows one fleet.

    Hubs differ by their URL, dumps by their members and placements.
    """
    # By reader, a data block or a provider: its hub.
    hubs: dict[str, str] = {}
    dumps: list[tuple[object, object]] = []
    for block, attributes in list_read_blocks(PlanningKind.HUB_EXPORT, request, evaluation):
        reader = f'data "{block.type}" "{block.name}"'
        members = get_mapping(attributes, "member_clusters")
        dump = (members, attributes.get("placements"))
        if attributes.get("read_at"):
            hubs[reader] = f"reaches {attributes['id']}"
        elif members and dump not in dumps:
            dumps.append(dump)
            # With for_each, several dumps have one block.
            names = format_first_items(sorted(members), _MAX_NAMES)
            reader += f" (dump {len(dumps)})"
            hubs[reader] = f"reads the members {names}"
    has_several_dumps = len(hubs) > 1 and bool(dumps)
    resources = chain.from_iterable(
        module.resources.values() for module in iterate_modules(request.configuration.root)
    )
    for name in sorted({block.provider for block in resources if block.mode != "data"}):
        identity = get_mapping(request.systems.get(name, {}), "identity")
        # A provider of a hub.
        if "uids" in identity:
            hubs[f'provider "{name}"'] = f"reaches {identity.get('url')}"
    # One dump may replace a read of the provider's hub.
    live_hubs = {hub for hub in hubs.values() if hub.startswith("reaches ")}
    if len(live_hubs) < 2 and not has_several_dumps:
        return []
    readers = "; ".join(f"{reader} {hub}" for reader, hub in hubs.items())
    detail = (
        f"{readers}. A plan predicts the placements of one hub. With several, members of one "
        "would be predicted for placements of another. Use one configuration, state and dump per "
        "hub. If it is the same hub, write the same kubeconfig and context in all these blocks, or "
        "set NF_FLEET_KUBECONFIG and NF_FLEET_CONTEXT."
    )
    return [build_error("several-hubs", detail)]


def add_bound_members(observed: ObservedHub, instances: Iterable[InstanceState]) -> ObservedHub:
    """Return the hub.

    If it is unread and lists no members, the clusters with a binding count as its members. They are
    found in state, and in the placements of hubs that were read.
    """
    if not observed.is_unread or observed.members:
        return observed
    in_state = [item.current.attributes for item in instances if item.current is not None]
    names: set[str] = set()
    for attributes in (*in_state, *observed.placements.values()):
        # By cluster; only placements have this attribute.
        names.update(get_mapping(attributes, "bindings"))
    # Nothing more is known about them.
    members = {name: FleetMember(name) for name in sorted(names)}
    return replace(observed, members=members)


_REQUEST_ATTRIBUTES: Final = (
    "placement_evictions",
    "cluster_staged_update_runs",
    "staged_update_runs",
)


def _build_object(
    types: Mapping[str, ResourceType], name: str, attributes: Mapping[str, Any], kind: type[T]
) -> T:
    """Build the fleet object of a resource type (its name) from attributes.

    `kind` is the expected class.
    """
    resource_type = types[name]
    assert isinstance(resource_type, FleetObjectType)
    fleet_object = resource_type.build_fleet_object(attributes)
    assert isinstance(fleet_object, kind)
    return fleet_object


def _index_overrides_by_snapshot_name(
    observed: Mapping[str, Any], types: Mapping[str, ResourceType]
) -> dict[str, FleetOverride]:
    """Return current and former overrides of a hub by the name of their snapshot."""
    overrides = {}
    for name, manifest in get_mapping(observed, "override_snapshots").items():
        namespace = name.rpartition("/")[0]
        number = name.rpartition("-")[2]  # [namespace/]override-3
        resource_type = (
            "fleet_resource_override" if namespace else "fleet_cluster_resource_override"
        )
        metadata = json.decode(manifest)["metadata"]
        override = _build_object(
            types, resource_type, {**metadata, "manifest": manifest}, FleetOverride
        )
        overrides[name] = replace(override, snapshot=parse_integer(number) or 0)
    return overrides


def _read_objects(
    observed: Mapping[str, Any],
    types: Mapping[str, ResourceType],
    type_names: Mapping[str, str],
    kind: type[T],
) -> Iterator[T]:
    """Yield the fleet objects in these attributes of a hub.

    `type_names` gives the resource type of each attribute.
    """
    for name, resource_type in type_names.items():
        for manifest in get_mapping(observed, name).values():
            metadata = json.decode(manifest)["metadata"]
            yield _build_object(types, resource_type, {**metadata, "manifest": manifest}, kind)


_OVERRIDE_MAPS: Final = {
    "cluster_resource_overrides": "fleet_cluster_resource_override",
    "resource_overrides": "fleet_resource_override",
}
_REQUEST_MAPS: Final = {
    "placement_evictions": "fleet_placement_eviction",
    "cluster_staged_update_strategies": "fleet_cluster_staged_update_strategy",
    "staged_update_strategies": "fleet_staged_update_strategy",
    "cluster_staged_update_runs": "fleet_cluster_staged_update_run",
    "staged_update_runs": "fleet_staged_update_run",
    "cluster_approval_requests": "fleet_cluster_approval_request",
    "approval_requests": "fleet_approval_request",
}
_BUDGET_MAPS: Final = {"placement_disruption_budgets": "fleet_placement_disruption_budget"}
