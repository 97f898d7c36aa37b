"""The fleet as a plan sees it: member clusters with given or derived figures, what state remembers of them,
and what data blocks have read of real hubs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct, convert, field, json
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.domains.fleet.importers.fleet_model import (
    BegunRun,
    FleetBudget,
    FleetMember,
    FleetObject,
    FleetOverride,
)
from nexusform.domains.fleet.scheduling.bindings import Health, Member, ResourceUsage
from nexusform.domains.fleet.scheduling.eviction import DisruptionBudget
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest, manifest_of
from nexusform.domains.pods.planning.elsewhere import data_blocks, read_by
from nexusform.domains.pods.planning.nodes import NodeCluster
from nexusform.kubernetes.matching import Taint
from nexusform.kubernetes.quantity import (
    Form,
    Malformed,
    Quantity,
    cpu_quantity,
    make_quantity,
    parse_quantity,
)
from nexusform.planning.instances.instance import Instance
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.request import PlanRequest
from nexusform.ports import Kind, ResourceType

NODE_COUNT: Final = "kubernetes-fleet.io/node-count"
# What state notes of a member that no placement has been planned with yet.
UNSEEN: Final[Mapping[str, Any]] = {"seen": False}
LEFT_WITHOUT: Final = "left_without"  # in such a note: the placements that have not seen it leave, either


class Pods(Protocol):
    """Predicts pods while a fleet is planned. A cluster's name is its id, or the name of a member."""

    def place(
        self,
        placement_address: str,
        cluster_name: str,
        manifests: tuple[Manifest, ...],
        prior_workloads: Mapping[str, Any],
        /,
        *,
        before: tuple[Manifest, ...] = (),
        overridden: bool = False,
    ) -> Mapping[str, Any]:
        """Place the pods of what a placement brings to a cluster: workload -> pod -> where it stands.
        What is returned may still change while others are placed. `before` are the objects that it had there
        before the plan; `overridden`: overrides alone make the difference.
        """
        ...

    def leave(self, placement_address: str, cluster_name: str, /) -> None:
        """The pods that a placement brought to a cluster go."""
        ...

    def remake(self, placement_address: str, workloads: Collection[str], /) -> None:
        """The pods of these workloads go that a placement brought: they are made anew on the hub."""
        ...

    def requests(self, cluster_name: str, /) -> tuple[int, int]:
        """What the pods with a node on a cluster ask for: thousandths of a CPU, and bytes."""
        ...


def member_of(written: FleetMember, cluster: NodeCluster | None, requests: tuple[int, int]) -> Member:
    """A member as the hub sees it; with a cluster its figures follow from the nodes and their pods."""
    if cluster is None:
        return Member(
            name=written.name,
            labels=written.labels,
            taints=written.taints,
            properties=written.properties,
            resources=written.resources,
            health=written.health,
            namespaces=written.namespaces,
        )
    counted = Counter(sku.name for sku in cluster.skus)
    properties = {
        f"kubernetes.azure.com/vm-sizes/{name}/count": str(n) for name, n in sorted(counted.items())
    }
    properties[NODE_COUNT] = str(len(cluster.nodes))
    return Member(
        name=written.name,
        labels=written.labels,
        taints=written.taints,
        properties={**properties, **written.properties},
        resources=_usage(cluster, requests),
        health=written.health,
        namespaces=written.namespaces,
    )


def _usage(cluster: NodeCluster, requests: tuple[int, int]) -> ResourceUsage:
    """The sums over the nodes of a cluster; `requests` are those of its pods."""
    cpu, memory = sum(node.cpu for node in cluster.nodes), sum(node.memory for node in cluster.nodes)
    return ResourceUsage(
        _figures(cluster.total.cpu, cluster.total.memory),
        _figures(cpu, memory),
        _figures(max(0, cpu - requests[0]), max(0, memory - requests[1])),
    )


def _figures(cpu: int, memory: int) -> dict[str, Quantity]:
    return {"cpu": cpu_quantity(cpu), "memory": make_quantity(memory, Form.BINARY)}


# --- what state remembers ----------------------------------------------------------------------


def remember(member: Member) -> dict[str, Any]:
    """What the watcher compares, as plain data for state."""
    usage = member.resources
    return {
        "labels": dict(member.labels),
        "taints": [[taint.key, taint.value, taint.effect] for taint in member.taints],
        "properties": dict(member.properties),
        "resources": {
            "total": _texts(usage.total),
            "allocatable": _texts(usage.allocatable),
            "available": _texts(usage.available),
        },
        "health": str(member.health),
        "namespaces": None if member.namespaces is None else sorted(member.namespaces),
    }


def _texts(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in sorted(amounts.items())}


def remembered(name: str, noted: Mapping[str, Any]) -> Member:
    """The member that state remembers."""
    resources = noted.get("resources") or {}
    namespaces = noted.get("namespaces")
    return Member(
        name=name,
        labels=dict(noted.get("labels") or {}),
        taints=tuple(Taint(*taint) for taint in noted.get("taints") or ()),
        properties=dict(noted.get("properties") or {}),
        resources=ResourceUsage(
            *(_amounts(resources.get(name)) for name in ("total", "allocatable", "available"))
        ),
        health=Health(noted.get("health") or Health.HEALTHY),
        namespaces=None if namespaces is None else frozenset(namespaces),
    )


def _amounts(texts: Mapping[str, str] | None) -> dict[str, Quantity]:
    amounts = {}
    for name, text in (texts or {}).items():
        amount = parse_quantity(text)
        if not isinstance(amount, Malformed):
            amounts[name] = amount
    return amounts


class FleetMemberState(Struct):
    """One member during a plan. `before` is what state remembers (None: it is new, or unknown);
    `now` as it stands in this plan (None: it goes). `address` None: only a hub shows it. It `rejoins` where
    it is made anew: it leaves the fleet and joins it; it did so before the plan for those placements
    (addresses) that have `not_seen_leaving`.
    """

    address: Address | None
    written: FleetMember | None
    cluster: NodeCluster | None = None
    before: Member | None = None
    now: Member | None = None
    rejoins: bool = False
    not_seen_leaving: frozenset[str] = frozenset()


class Clusters(Struct, frozen=True):
    """What placements ask of the members, by name: their labels, those that are leaving, and those on which
    nothing is applied.
    """

    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    leaving: frozenset[str] = frozenset()
    failing: frozenset[str] = frozenset()


def clusters_of(members: Mapping[str, FleetMemberState]) -> Clusters:
    """The members as placements see them."""
    present = {name: member for name, member in members.items() if member.now is not None}
    return Clusters(
        {name: member.now.labels for name, member in present.items() if member.now is not None},
        frozenset(name for name, member in present.items() if member.now is not None and member.now.leaving),
        frozenset(name for name, member in present.items() if member.written and member.written.apply_fails),
    )


class ShownHub(Struct, frozen=True):
    """What hubs show: the attributes of placements by their type and id, the members by name, the names of
    evictions that are over, and staged runs by their key: what they began with, their approvals, and why some
    ended without success. `objects` are those that a hub which is there holds beside the configuration's.
    `asked` are the evictions, by name, and the runs, by key, that the hub has not taken up yet. `overrides`
    are the snapshots of overrides by their names, `taken_along` those names by run and cluster, `overriding`
    the overrides as they stand on a hub that is there, `budgets` the disruption budgets by their placement.
    `unread`: a hub that is named could not be read, so nobody knows its members.
    """

    placements: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    members: Mapping[str, FleetMember] = field(default_factory=dict)
    evictions: frozenset[str] = frozenset()
    runs: Mapping[str, BegunRun] = field(default_factory=dict)
    approvals: Mapping[str, frozenset[str]] = field(default_factory=dict)
    failed_runs: Mapping[str, str] = field(default_factory=dict)
    objects: tuple[Manifest, ...] = ()
    asked: frozenset[str] = frozenset()
    overrides: Mapping[str, FleetOverride] = field(default_factory=dict)
    taken_along: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    overriding: tuple[FleetOverride, ...] = ()
    budgets: Mapping[str, DisruptionBudget] = field(default_factory=dict)
    unread: bool = False

    def of(self, instance: Instance) -> Mapping[str, Any]:
        """What a hub shows of a placement; nothing of one that is made anew."""
        if instance.replaced or instance.config is None:
            return {}
        return self.placements.get((instance.type.name, instance.type.identify(instance.config)), {})


def shown_hub(request: PlanRequest, evaluation: Evaluation) -> ShownHub:
    """Read what the data blocks of the configuration name."""
    placements: dict[tuple[str, str], Mapping[str, Any]] = {}
    members: dict[str, FleetMember] = {}
    evictions: set[str] = set()
    runs: dict[str, BegunRun] = {}
    approvals: dict[str, frozenset[str]] = {}
    failed_runs: dict[str, str] = {}
    objects: list[Manifest] = []
    asked: set[str] = set()
    overrides: dict[str, FleetOverride] = {}
    overriding: list[FleetOverride] = []
    budgets: dict[str, DisruptionBudget] = {}
    taken_along: dict[str, Mapping[str, Sequence[str]]] = {}
    types = request.registries.resource_types
    for _, attributes in read_by(Kind.HUB_EXPORT, request, evaluation):
        overrides |= _overrides(attributes, types)
        budgets |= _budgets(attributes, types)
        for key, shown_placement in (attributes.get("placements") or {}).items():
            namespace, _, name = key.rpartition("/")
            placement = {"name": name, "namespace": namespace or None, **shown_placement}
            resource_type = placement.pop("type")
            placement["override_snapshots"] = _overrides(shown_placement, types)
            placements[resource_type, key] = placement
        for name, shown_member in (attributes.get("member_clusters") or {}).items():
            member = _read(types, "fleet_member_cluster", _member_attributes(name, shown_member))
            if isinstance(member, FleetMember):
                members[name] = member
        if attributes.get("read_at"):  # of a dump nobody knows what stands by the time of the apply
            read_objects = (manifest_of(json.decode(text)) for text in attributes["hub_objects"].values())
            objects += (manifest for manifest in read_objects if manifest is not None)
            overriding += _standing_overrides(attributes, types)
        evictions.update(attributes.get("evictions") or ())
        for name in _ASKED:
            asked.update(attributes.get(name) or ())
        for key, run in (attributes.get("runs") or {}).items():
            runs[key] = convert(json.decode(run["begun"]), BegunRun)
            approvals[key] = frozenset(run["approvals"])
            taken_along[key] = run.get("overrides") or {}
            if run["ended"] and not run["succeeded"]:
                failed_runs[key] = run["reason"]
    shown = ShownHub(placements, members, frozenset(evictions), runs, approvals, failed_runs)
    asked -= evictions | runs.keys()
    return replace(
        shown,
        objects=tuple(objects),
        asked=frozenset(asked),
        overrides=overrides,
        taken_along=taken_along,
        overriding=tuple(overriding),
        budgets=budgets,
        unread=any(read is None for _, read in data_blocks(Kind.HUB_EXPORT, request, evaluation)),
    )


_ASKED: Final = ("placement_evictions", "cluster_staged_update_runs", "staged_update_runs")


def _read(types: Mapping[str, ResourceType], name: str, attributes: Mapping[str, Any]) -> FleetObject | None:
    """An object of the fleet from its attributes."""
    resource_type = types.get(name)
    return resource_type.fleet(attributes) if resource_type is not None and resource_type.fleet else None


def _member_attributes(name: str, shown: Mapping[str, Any]) -> dict[str, Any]:
    """A member that a hub shows as the attributes of its resource type."""
    return {"name": name, **shown, "taint": shown.get("taints")}


def _overrides(shown: Mapping[str, Any], types: Mapping[str, ResourceType]) -> dict[str, FleetOverride]:
    """The overrides that a hub has or had, by the name of their snapshot."""
    overrides = {}
    for name, manifest in (shown.get("override_snapshots") or {}).items():
        namespace, number = name.rpartition("/")[0], name.rpartition("-")[2]
        resource_type = "fleet_resource_override" if namespace else "fleet_cluster_resource_override"
        metadata = json.decode(manifest)["metadata"]
        override = _read(types, resource_type, {**metadata, "manifest": manifest})
        if isinstance(override, FleetOverride):
            overrides[name] = replace(override, snapshot=int(number) if number.isdecimal() else 0)
    return overrides


def _standing_overrides(
    shown: Mapping[str, Any], types: Mapping[str, ResourceType]
) -> Iterator[FleetOverride]:
    """The overrides that stand on a hub."""
    for maps, resource_type in _OVERRIDE_MAPS:
        for override in _standing(shown, maps, types, resource_type):
            if isinstance(override, FleetOverride):
                yield override


def _budgets(shown: Mapping[str, Any], types: Mapping[str, ResourceType]) -> dict[str, DisruptionBudget]:
    """The disruption budgets that stand on a hub, by their placement."""
    standing = _standing(shown, "placement_disruption_budgets", types, "fleet_placement_disruption_budget")
    return {each.placement: each.budget for each in standing if isinstance(each, FleetBudget)}


def _standing(
    shown: Mapping[str, Any], maps: str, types: Mapping[str, ResourceType], resource_type: str
) -> Iterator[FleetObject | None]:
    """What a hub shows of a kind, read as the blocks of its resource type are."""
    for manifest in (shown.get(maps) or {}).values():
        metadata = json.decode(manifest)["metadata"]
        yield _read(types, resource_type, {**metadata, "manifest": manifest})


_OVERRIDE_MAPS: Final = (
    ("cluster_resource_overrides", "fleet_cluster_resource_override"),
    ("resource_overrides", "fleet_resource_override"),
)
