"""fleet_member_cluster: a member of the fleet, with configured figures or those of its nodes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Problem
from nexusform.diagnostics.phrases import enclose, format_list
from nexusform.domains.fleet.importers.fleet_records import FleetMember
from nexusform.domains.fleet.scheduling.bindings import Health, Member
from nexusform.domains.fleet.scheduling.fleet_api_validation import (
    build_error,
    check_member,
    parse_resource_usage,
)
from nexusform.domains.fleet.types.fleet_arguments import (
    build_problems,
    convert_text_map,
    get_or_default,
    read_policy,
    read_taints,
    read_text,
    remove_unknown_part_problems,
)
from nexusform.domains.fleet.types.fleet_kinds import (
    CONFLICT,
    FleetKind,
    Values,
    remove_unknown_values,
)
from nexusform.domains.fleet.types.fleet_schemas import (
    CLUSTER,
    FORCE_CONFLICTS,
    PLACEMENT_ARGUMENTS,
    PLACEMENT_BLOCKS,
    make_block,
    make_block_list,
    make_choice,
    make_placement_argument,
    make_text,
    make_text_list_attribute,
)
from nexusform.domains.pods.types.fleet_object_type import FleetObjectType
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import get_list, get_mapping
from nexusform.kubernetes.matching import select_weaker_taints
from nexusform.placements.consequences import ConsequenceTable, ObjectChange
from nexusform.resource_types.shared_arguments import (
    GUID_HINT,
    GUID_PATTERN,
    build_id_attribute,
    build_name_attribute,
    join_id_parts,
)
from nexusform.schemas.block_schema import BlockSchema
from nexusform.schemas.value_types import BOOL, STRING, ListType, MapType, SetType, TupleType

MEMBER_LABEL: Final = "kubernetes-fleet.io/member-name"
CPU_COST: Final = "kubernetes.azure.com/per-cpu-core-cost"
MEMORY_COST: Final = "kubernetes.azure.com/per-gb-memory-cost"
_AZURE: Final = {
    "location": "fleet.azure.com/location",
    "resource_group": "fleet.azure.com/resource-group",
    "subscription_id": "fleet.azure.com/subscription-id",
    "cluster_name": "fleet.azure.com/cluster-name",
}
_PLACEMENT_SPEC: Final = BlockSchema(PLACEMENT_ARGUMENTS, PLACEMENT_BLOCKS)
# Types of placements, with the readers of their arguments.
_PLACEMENTS: Final = {
    "fleet_cluster_resource_placement": FleetKind("ClusterResourcePlacement", _PLACEMENT_SPEC),
    "fleet_resource_placement": FleetKind("ResourcePlacement", _PLACEMENT_SPEC, is_namespaced=True),
}
_SUBSCRIPTION_LABEL: Final = _AZURE["subscription_id"]
_AZURE_MEMBER_LABEL: Final = "fleet.azure.com/member-name"
_QUANTITIES: Final = MapType(STRING)

_SCHEMA: Final = BlockSchema(
    {
        "id": build_id_attribute("<name>"),
        "name": build_name_attribute("member cluster"),
        "labels": make_placement_argument(_QUANTITIES, "Labels of the member cluster."),
        "kubernetes_cluster_id": make_text(
            "Id of the member's nexus_kubernetes_cluster or tacker_vnf. Its nodes give properties "
            "and "
            "resources; otherwise set them here.",
            refers_to=CLUSTER,
        ),
        "properties": make_placement_argument(
            _QUANTITIES, "Properties by name, such as kubernetes-fleet.io/node-count."
        ),
        "health": make_choice("Health of the member on the hub.", *map(str, Health)),
        "apply_fails": make_placement_argument(
            BOOL, "Assume that applying objects fails there, for rollouts and evictions."
        ),
        "force_conflicts": FORCE_CONFLICTS,
        "namespaces": make_placement_argument(
            SetType(STRING), "Existing namespaces, if collected."
        ),
        "location": make_text("Azure region; sets the label fleet.azure.com/location."),
        "resource_group": make_text(
            "Azure resource group; sets the label fleet.azure.com/resource-group."
        ),
        "subscription_id": make_text(
            "Id of the Azure subscription; sets the label fleet.azure.com/subscription-id.",
            pattern=GUID_PATTERN,
            pattern_hint=GUID_HINT,
        ),
        "cluster_name": make_text(
            "Name of the cluster in Azure; sets the label fleet.azure.com/cluster-name. Like the "
            "other arguments of Azure, it adds fleet.azure.com/member-name."
        ),
    },
    {
        "taint": make_block_list(
            "Excludes placements without a toleration.",
            BlockSchema(
                {
                    "key": make_text("Key of the taint.", required=True),
                    "value": make_text("Value.", default=""),
                    "effect": make_text("Always NoSchedule.", default="NoSchedule"),
                }
            ),
        ),
        "resources": make_block(
            "Resource usage.",
            BlockSchema(
                {
                    "total": make_placement_argument(
                        _QUANTITIES, "Capacity of all nodes: cpu, memory."
                    ),
                    "allocatable": make_placement_argument(_QUANTITIES, "Allocatable for pods."),
                    "available": make_placement_argument(_QUANTITIES, "Not yet requested."),
                }
            ),
        ),
        "cost": make_block(
            "Hourly cost.",
            BlockSchema(
                {
                    "per_cpu_core": make_text("Cost of one CPU core."),
                    "per_gb_memory": make_text("Cost of one GiB of memory."),
                }
            ),
        ),
    },
    "A member cluster of the fleet. It joins no cluster: join it first, with KubeFleet's "
    "joinMC.sh or "
    "`az fleet member create`.",
    # The member as placements processed it last (`fleet_snapshot.build_member_record`).
    private={
        "health": make_text("Health.", choices=tuple(Health)),
        "labels": make_placement_argument(_QUANTITIES, "Labels."),
        "properties": make_placement_argument(_QUANTITIES, "Properties."),
        "resources": make_placement_argument(MapType(_QUANTITIES), "Amounts by kind."),
        "taints": make_placement_argument(
            ListType(TupleType((STRING,) * 3)), "Key, value and effect."
        ),
        "namespaces": make_text_list_attribute("Namespaces on the cluster."),
        "uncleared_placements": make_text_list_attribute(
            "Destroyed placements whose objects may still be on the unreachable member."
        ),
    },
)


def build_id(attributes: Mapping[str, Any]) -> str:
    """Return the id: the member's name."""
    return join_id_parts(attributes.get("name"))


def build_member(attributes: Mapping[str, Any]) -> FleetMember:
    """Return the configured member."""
    name = read_text(attributes, "name")
    azure_labels = _remove_nulls(
        {label: attributes.get(argument) for argument, label in _AZURE.items()}
    )
    if azure_labels:
        azure_labels[_AZURE_MEMBER_LABEL] = name
    labels = (
        convert_text_map(get_mapping(attributes, "labels")) | azure_labels | {MEMBER_LABEL: name}
    )
    cost = get_mapping(attributes, "cost")
    costs = {CPU_COST: cost.get("per_cpu_core"), MEMORY_COST: cost.get("per_gb_memory")}
    properties = convert_text_map(get_mapping(attributes, "properties")) | _remove_nulls(costs)
    namespaces = attributes.get("namespaces")
    # `check` reports them.
    usage, _problems = parse_resource_usage(*_read_usage_texts(attributes))
    return FleetMember(
        name=name,
        labels=labels,
        taints=read_taints(get_list(attributes, "taint")),
        health=Health(get_or_default(attributes, "health", Health.HEALTHY)),
        # None: not collected.
        namespaces=None if namespaces is None else frozenset(namespaces),
        cluster_id=read_text(attributes, "kubernetes_cluster_id"),
        properties=properties,
        resources=usage,
        apply_fails=attributes.get("apply_fails") is True,
    )


def _remove_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _read_usage_texts(attributes: Values) -> Iterator[dict[str, str]]:
    """Yield the total, allocatable and available amounts of the resources block, by name.

    The names are those of resources.
    """
    for name in ("total", "allocatable", "available"):
        yield convert_text_map(_remove_nulls(get_mapping(attributes, "resources", name)))


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Return the problems beyond the schema.

    They are about names, labels, taints, quantities, and conflicting arguments.
    """
    arguments = remove_unknown_values(attributes)
    configured = build_member(arguments)
    own_labels = {
        key: value for key, value in configured.labels.items() if key != MEMBER_LABEL
    }  # as configured
    member = Member(configured.name, own_labels, configured.taints)
    problems = build_problems(check_member(member) if configured.name else [])
    problems += build_problems(_check_subscription_label(get_mapping(arguments, "labels")))
    _, usage_problems = parse_resource_usage(*_read_usage_texts(arguments))
    problems += [p.prepend_path("resources") for p in build_problems(usage_problems)]
    if configured.cluster_id:
        problems += [
            Problem(
                (name,),
                CONFLICT,
                f'With kubernetes_cluster_id, the nodes define the figures. Remove "{name}".',
            )
            for name in ("properties", "resources")
            if arguments.get(name)
        ]
    return remove_unknown_part_problems(attributes, problems)


def _check_subscription_label(labels: Mapping[str, Any]) -> list[Problem]:
    """Return an error for a subscription label that is not the id of a subscription."""
    value = labels.get(_SUBSCRIPTION_LABEL)
    if not isinstance(value, str) or re.fullmatch(GUID_PATTERN, value):
        return []
    detail = f'the label {_SUBSCRIPTION_LABEL} must be {GUID_HINT}, not "{value}"'
    return [build_error(("labels", _SUBSCRIPTION_LABEL), detail)]


def _find_lost_taints(change: ObjectChange) -> str:
    """Return `loses taint KEY`, or "" if no taint ends that reserves the member.

    A placement that tolerates its key makes a taint a reservation. The end of any other taint lets
    placements return after maintenance, as uncordon does for a node.
    """
    configured = get_list(change.after, "taint")
    if remove_unknown_values({"taint": configured}) != {"taint": configured}:
        return ""
    before = read_taints(get_list(change.before, "taint"))
    lost = select_weaker_taints(before, read_taints(configured))
    if not lost:
        return ""
    tolerated = set(_list_tolerated_keys(change.remaining))
    return enclose("loses taint ", format_list(t.key for t in lost if t.key in tolerated))


def _list_tolerated_keys(remaining: Mapping[str, Sequence[Values]]) -> Iterator[str]:
    """Yield the keys of the tolerations of all placements."""
    for resource_type, placement in _PLACEMENTS.items():
        for values in remaining.get(resource_type, ()):
            arguments = placement.read_arguments(remove_unknown_values(values))
            policy = read_policy(get_mapping(arguments, "policy"))
            if policy is not None:
                yield from (toleration.key for toleration in policy.tolerations)


FLEET_MEMBER_CLUSTER: Final = FleetObjectType(
    name="fleet_member_cluster",
    phase=5,
    schema=_SCHEMA,
    build_id=build_id,
    check=check,
    build_fleet_object=build_member,
    kind=PlanningKind.MEMBER,
    consequences=ConsequenceTable(
        noun="member", departure="leaves the fleet", find_weakening=_find_lost_taints
    ),
)
