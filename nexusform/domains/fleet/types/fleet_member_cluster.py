"""fleet_member_cluster: a cluster that belongs to the fleet, with given figures or with its nodes'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nexusform.diagnostics import Problem
from nexusform.domains.fleet.importers.fleet_model import FleetMember
from nexusform.domains.fleet.scheduling.bindings import Health, Member
from nexusform.domains.fleet.scheduling.validation import check_member, read_usage
from nexusform.domains.fleet.types.fleet_kinds import CONFLICT, Values, known
from nexusform.domains.fleet.types.fleet_reading import finding_problems, known_only, read_taints
from nexusform.domains.fleet.types.fleet_schemas import CLUSTER, FORCE_CONFLICTS, argument, many, one, text
from nexusform.ports import Kind, ResourceType
from nexusform.resource_types.shared_arguments import id_attribute, joined_id, name_attribute
from nexusform.schema import BlockSchema
from nexusform.value_types import BOOL, STRING, MapType, SetType

MEMBER_LABEL: Final = "kubernetes-fleet.io/member-name"
CPU_COST: Final = "kubernetes.azure.com/per-cpu-core-cost"
MEMORY_COST: Final = "kubernetes.azure.com/per-gb-memory-cost"
_AZURE: Final = {
    "location": "fleet.azure.com/location",
    "resource_group": "fleet.azure.com/resource-group",
    "subscription_id": "fleet.azure.com/subscription-id",
}
_QUANTITIES: Final = MapType(STRING)

_SCHEMA: Final = BlockSchema(
    {
        "id": id_attribute("<name>"),
        "name": name_attribute("member cluster"),
        "labels": argument(_QUANTITIES, "Labels of the member cluster."),
        "kubernetes_cluster_id": text(
            "Id of the member's nexus_kubernetes_cluster or tacker_vnf. Its nodes give properties and "
            "resources; otherwise set them here.",
            refers_to=CLUSTER,
        ),
        "properties": argument(_QUANTITIES, "Properties by name, such as kubernetes-fleet.io/node-count."),
        "health": text(
            "Health of the member on the hub.", default="Healthy", choices=tuple(str(h) for h in Health)
        ),
        "apply_fails": argument(
            BOOL,
            "Assume that applying objects fails there, for rollouts and evictions.",
        ),
        "force_conflicts": FORCE_CONFLICTS,
        "namespaces": argument(SetType(STRING), "Existing namespaces, if collected."),
        "location": text("Azure region; sets the label fleet.azure.com/location."),
        "resource_group": text("Azure resource group; sets the label fleet.azure.com/resource-group."),
        "subscription_id": text("Azure subscription; sets the label fleet.azure.com/subscription-id."),
    },
    {
        "taint": many(
            "Excludes placements without a toleration.",
            BlockSchema(
                {
                    "key": text("Key of the taint.", required=True),
                    "value": text("Value.", default=""),
                    "effect": text("Always NoSchedule.", default="NoSchedule"),
                }
            ),
        ),
        "resources": one(
            "Resource usage.",
            BlockSchema(
                {
                    "total": argument(_QUANTITIES, "Capacity of all nodes: cpu, memory."),
                    "allocatable": argument(_QUANTITIES, "Allocatable for pods."),
                    "available": argument(_QUANTITIES, "Not yet requested."),
                }
            ),
        ),
        "cost": one(
            "Hourly cost.",
            BlockSchema(
                {
                    "per_cpu_core": text("Cost of one CPU core."),
                    "per_gb_memory": text("Cost of one GiB of memory."),
                }
            ),
        ),
    },
    "A member cluster of the fleet.",
)


def identify(attributes: Mapping[str, Any]) -> str:
    """The id: the member's name."""
    return joined_id(attributes.get("name"))


def fleet(attributes: Mapping[str, Any]) -> FleetMember:
    """The member as written."""
    name = str(attributes.get("name") or "")
    azure = {label: attributes.get(argument) for argument, label in _AZURE.items()}
    labels = _texts(attributes.get("labels")) | _without_null(azure) | {MEMBER_LABEL: name}
    cost = attributes.get("cost") or {}
    costs = {CPU_COST: cost.get("per_cpu_core"), MEMORY_COST: cost.get("per_gb_memory")}
    properties = _texts(attributes.get("properties")) | _without_null(costs)
    namespaces = attributes.get("namespaces")
    usage, _ = read_usage(*_usage(attributes))
    return FleetMember(
        name,
        labels,
        read_taints(attributes.get("taint")),
        Health(attributes.get("health") or Health.HEALTHY),
        None if namespaces is None else frozenset(namespaces),
        attributes.get("kubernetes_cluster_id") or "",
        properties,
        usage,
        attributes.get("apply_fails") is True,
    )


def _texts(values: Mapping[str, Any] | None) -> dict[str, str]:
    """A map of texts; null counts as empty."""
    return {key: "" if value is None else str(value) for key, value in (values or {}).items()}


def _without_null(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _usage(attributes: Values) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    usage = attributes.get("resources") or {}

    def texts(name: str) -> dict[str, str]:
        return {k: str(v) for k, v in (usage.get(name) or {}).items() if v is not None}

    return texts("total"), texts("allocatable"), texts("available")


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """What the schema cannot say: names, labels, taints, quantities, and what does not go together."""
    arguments = known(attributes)
    written = fleet(arguments)
    member = Member(
        written.name, {k: v for k, v in written.labels.items() if k != MEMBER_LABEL}, written.taints
    )
    findings = check_member(member) if written.name else []
    problems = finding_problems(findings)
    _, wrong = read_usage(*_usage(arguments))
    problems += [p.below("resources") for p in finding_problems(wrong)]
    if written.cluster_id:
        problems += [
            Problem(
                (name,),
                CONFLICT,
                f'With kubernetes_cluster_id the figures follow from the nodes; take "{name}" out.',
            )
            for name in ("properties", "resources")
            if arguments.get(name)
        ]
    return known_only(attributes, problems)


FLEET_MEMBER_CLUSTER: Final = ResourceType(
    "fleet_member_cluster", 5, _SCHEMA, identify, check=check, fleet=fleet, kind=Kind.MEMBER
)
