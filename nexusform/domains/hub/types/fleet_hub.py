"""data fleet_hub: a hub as currently reported by its API server.

Plans start from its objects.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.domains.fleet.importers.fleet_records import FleetPlacement
from nexusform.domains.fleet.types.fleet_hub_export import (
    FLEET_HUB_EXPORT,
    build_hub_attributes,
    is_complete,
)
from nexusform.domains.fleet.types.fleet_schemas import make_computed
from nexusform.domains.fleet.types.kubernetes_manifests import ManifestReader
from nexusform.domains.pods.types.fleet_object_type import FleetObjectType
from nexusform.interfaces.plugins import (
    DataResult,
    ExternalQueryProblem,
    ReadContext,
    ResourceType,
    ServerQuery,
)
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import STRING

_MAX_SKEW: Final = 30  # seconds
# Limit in seconds, as that of KubeFleet.
_MAX_HEARTBEAT_AGE: Final = 5 * 60
_PLACEMENT_TYPES: Final = ("fleet_cluster_resource_placement", "fleet_resource_placement")
# Kinds read for configured objects of a type only.
_OPTIONAL_KINDS: Final = {
    "fleet_resource_placement": (
        "ResourcePlacement",
        "ResourceBinding",
        "SchedulingPolicySnapshot",
        "ResourceSnapshot",
        "StagedUpdateStrategy",
        "StagedUpdateRun",
        "ApprovalRequest",
    ),
    "fleet_placement_eviction": (
        "ClusterResourcePlacementDisruptionBudget",
        "ClusterResourcePlacementEviction",
    ),
}
_FILE_ARGUMENTS: Final = frozenset({"id", "directory", "files", "lenient", "observed_at"})

KUBECONFIG: Final = AttributeSchema(
    STRING,
    (
        "kubeconfig of the hub. NF_FLEET_KUBECONFIG overrides it. Default: as kubectl. Rejected "
        "in a sandboxed run."
    ),
    optional=True,
)
CONTEXT: Final = AttributeSchema(
    STRING,
    "Context in the kubeconfig. NF_FLEET_CONTEXT overrides it. Default: the current context. "
    "Rejected in a sandboxed run.",
    optional=True,
)
_SCHEMA: Final = BlockSchema(
    {
        "id": make_computed(STRING, "The URL of the hub."),
        "kubeconfig": KUBECONFIG,
        "context": CONTEXT,
        "read_at": make_computed(STRING, "When the hub was read (RFC 3339)."),
        **{
            name: each
            for name, each in FLEET_HUB_EXPORT.schema.attributes.items()
            if name not in _FILE_ARGUMENTS
        },
    },
    description="A live fleet hub. A plan starts from its current placements.",
)


def build_id(attributes: Mapping[str, Any]) -> str:
    """Return the context of the kubeconfig as id, "hub" if it is not set."""
    return str(attributes.get("context") or "hub")


def read_hub(attributes: Mapping[str, Any], context: ReadContext) -> DataResult:
    """Read the hub; its response is parsed like an export.

    Return problems without attributes if it is unreadable.
    """
    import json

    arguments = {name: attributes.get(name) for name in ("kubeconfig", "context")} | _build_query(
        context
    )
    try:
        dump = json.loads(context.query_server(ServerQuery("fleet_hub", arguments)))
    except ExternalQueryProblem as problem:
        return DataResult(attributes={}, problems=[problem.problem])
    reader = ManifestReader(lenient=False, is_observed=True)
    items = {"apiVersion": "v1", "kind": "List", "items": dump["items"]}
    reader.add_file(dump["server"], json.dumps(items).encode(), ())
    times = {"observed_at": dump["read_at"]}
    # A tenant has namespaces, and may have no permission for members.
    answer = build_hub_attributes(
        reader, argument=(), attributes=times, expects_members="namespaces" not in arguments
    )
    if not answer.attributes:
        return answer  # problems only
    answer = replace(answer, problems=(*answer.problems, *_build_warnings(dump)))
    attributes_read = {**answer.attributes, "id": dump["server"], "read_at": dump["read_at"]}
    if "namespaces" in arguments and not attributes_read["member_clusters"]:
        # Unknown, not without members.
        attributes_read["member_clusters"] = None
        answer = replace(answer, problems=(*answer.problems, _UNKNOWN_MEMBERS))
    attributes_read["is_complete"] = is_complete(answer.unread_of_pods, answer.problems)
    return replace(answer, attributes=attributes_read)


def _build_query(context: ReadContext) -> dict[str, Any]:
    """Build the arguments of a query from the configured placements.

    These are their selectors, and the namespaces of a tenant. Without a tenant, add the kinds a hub
    may refuse to list (`optional`).
    """
    # From blocks or manifests.
    placements: list[FleetPlacement] = []
    for type_name in _PLACEMENT_TYPES:
        resource_type = context.types[type_name]
        assert isinstance(resource_type, FleetObjectType)
        placements += [
            resource_type.build_fleet_object(arguments)
            for arguments in context.list_configured(type_name)
        ]
    query: dict[str, Any] = {}
    if selectors := _list_selectors(placements):
        query["selectors"] = selectors
    namespaces = sorted({placement.namespace for placement in placements})
    # No cluster-scoped placement: a tenant, without access to members.
    if namespaces and "" not in namespaces:
        query["namespaces"] = namespaces
    elif placements:
        # Reading kinds without use for configured objects may be forbidden.
        unused = [
            kinds for name, kinds in _OPTIONAL_KINDS.items() if not context.list_configured(name)
        ]
        if unused:
            query["optional"] = list(chain.from_iterable(unused))
    return query


def _build_warnings(dump: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield warnings about the clock of the hub and about unread kinds."""
    skew = int(dump.get("clock_skew", 0))
    server = dump["server"]
    if abs(skew) > _MAX_SKEW:
        detail = (
            f"The clock of this machine is {abs(skew)} s {'ahead of' if skew > 0 else 'behind'} "
            f"that of {server}. "
            "Heartbeats are compared with the hub's clock. Synchronize the clocks (NTP)."
        )
        yield Problem((), "clock-skew", detail, Severity.WARNING)
    if is_heartbeat_age_unknown(dump):
        seconds = int(dump["heartbeat_age"])
        detail = (
            f"{server} sends no Date header, and the newest heartbeat of its members "
            f"({dump['read_at']}) is {abs(seconds)} s {'old' if seconds > 0 else 'ahead'} by the "
            "clock of this machine. Whether members are alive is unknown. This plan assumes that "
            "those with the newest heartbeats are; no cluster of it is certain. Compare "
            "MEMBER-AGENT-LAST-SEEN in `kubectl get memberclusters`."
        )
        yield Problem((), "unknown-heartbeat-age", detail, Severity.WARNING)
    if dump.get("unlisted"):
        detail = (
            f"{server} does not list {', '.join(dump['unlisted'])} in selected namespaces. "
            "Placements may select "
            "more objects than this plan shows. Allow get and list of these kinds."
        )
        yield Problem((), "not-captured", detail, Severity.WARNING)
    if dump.get("skipped"):
        detail = (
            f"{server} does not list {', '.join(dump['skipped'])}. No configured object needs "
            "them, but conflicts "
            "with other placements are unknown. Allow get and list of these kinds to see them."
        )
        yield Problem((), "unread-conflicts", detail, Severity.WARNING)


def is_heartbeat_age_unknown(dump: Mapping[str, Any]) -> bool:
    """Return True if the newest heartbeat is far from the local time.

    Then the members are dead, or the clocks differ.
    """
    return abs(float(dump.get("heartbeat_age", 0))) > _MAX_HEARTBEAT_AGE


def _list_selectors(placements: Iterable[FleetPlacement]) -> list[dict[str, str]]:
    """Return the selectors of the placements, each once."""
    selectors = [
        {
            "group": selector.group,
            "version": selector.version,
            "kind": selector.kind,
            "name": selector.name,
            "namespace": placement.namespace,
            "scope": selector.scope,
        }
        for placement in placements
        for selector in placement.selectors
    ]
    # All have the same keys, so their values identify and order them.
    selectors_by_values = {tuple(item.values()): item for item in selectors}
    return sorted(selectors_by_values.values(), key=lambda item: tuple(item.values()))


_UNKNOWN_MEMBERS: Final = Problem(
    (),
    "not-captured",
    "No members of the hub may be listed. Only clusters with bindings are known, so new clusters "
    "are not predicted. "
    "Allow get and list of memberclusters.",
    Severity.WARNING,
)


FLEET_HUB: Final = ResourceType(
    "fleet_hub", 0, _SCHEMA, build_id, mode="data", read=read_hub, kind=FLEET_HUB_EXPORT.kind
)
