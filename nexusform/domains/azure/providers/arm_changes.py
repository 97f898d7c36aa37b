"""Changes of resources in Azure Resource Manager, as a step sends them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeAlias

from msgspec import Struct

from nexusform.json_data.plain_data import get_mapping

TAGS: Final = "tags"
# Pools of a cluster by name in lower case, read for its deletion and its upgrade.
POOLS: Final = "agentPools"
# Of a member in the body of a resource: ("properties", "count"), ("tags", "owner").
MemberPath: TypeAlias = tuple[str, ...]
_TYPES: Final = {
    "kubernetes_clusters": ("kubernetesClusters",),
    "agent_pools": ("kubernetesClusters", "agentPools"),
    "virtual_machines": ("virtualMachines",),
    "bare_metal_machines": ("bareMetalMachines",),
    "racks": ("racks",),
}
# Maximum seconds of one operation, or of a wait for other operations.
MAX_SECONDS: Final = 12 * 3600.0


class ArmTarget(Struct, frozen=True):
    """Resource: operation group of the SDK, resource group and names."""

    kind: str
    group: str
    names: tuple[str, ...]

    def build_path(self, subscription_id: str) -> str:
        """Return the ARM id."""
        parts = "/".join(
            f"{kind}/{name}" for kind, name in zip(_TYPES[self.kind], self.names, strict=True)
        )
        group_id = f"/subscriptions/{subscription_id}/resourceGroups/{self.group}"
        return f"{group_id}/providers/Microsoft.NetworkCloud/{parts}"

    @property
    def title(self) -> str:
        """Names joined for messages."""
        return "/".join(self.names)


class ArmOperation(StrEnum):
    """Operation on a resource, as named by the SDK."""

    CREATE = "create_or_update"
    UPDATE = "update"
    DELETE = "delete"
    CORDON = "cordon"
    UNCORDON = "uncordon"
    POWER_OFF = "power_off"
    RESTART = "restart"
    REIMAGE = "reimage"
    REPLACE = "replace"


# These actions do not change the version of the resource.
ACTION_VERBS: Final = frozenset(ArmOperation) - {
    ArmOperation.CREATE,
    ArmOperation.UPDATE,
    ArmOperation.DELETE,
}


class StartValues(Struct, frozen=True):
    """Values that a change starts from.

    `accepted` are the accepted values of each member, () if the plan did not read it. `own_actions`
    are actions of the same plan on the machine, such as "power_off": their runs do not count as
    actions of others. `own_pools` are pools of the cluster that other steps of the plan compare.
    `vm_counts` are the numbers of nodes and VMs on the machine by owner; None if they do not count.
    """

    accepted: Mapping[MemberPath, tuple[Any, ...]] = {}
    own_actions: frozenset[str] = frozenset()
    own_pools: frozenset[str] = frozenset()
    vm_counts: Mapping[str, int] | None = None

    @property
    def has_pools(self) -> bool:
        """Whether the pools of a cluster are compared, too."""
        return bool(self.own_pools) or any(path[0] == POOLS for path in self.accepted)


NO_START: Final = StartValues()


class ArmChange(Struct, frozen=True):
    """One change.

    `body` is sent; `expected` is the part of its properties visible once done. A deletion is
    skipped if the resource already has the properties `skip_if`. `reduction` is the part of its
    properties that reduces the number of VMs. `removed_tags` are names of tags no longer
    configured; the tags of an update are the changed ones. With `is_retry` it failed before, so it
    is sent even if visible. `marker` is the newest earlier run of an action. `time_limit` is in
    seconds. `start` are the values that the plan started from; with another value in Azure,
    nothing is sent.
    """

    verb: ArmOperation
    target: ArmTarget
    body: Mapping[str, Any] | None = None
    expected: Mapping[str, Any] | None = None
    skip_if: Mapping[str, Any] | None = None
    reduction: Mapping[str, Any] | None = None
    removed_tags: frozenset[str] = frozenset()
    is_retry: bool = False
    marker: str = ""
    time_limit: float = MAX_SECONDS
    start: StartValues = NO_START

    @property
    def operation_name(self) -> str:
        """Verb and marker, as recorded for a resumed step.

        Start of the newest earlier run of an action.
        """
        return f"{self.verb}@{self.marker}" if self.marker else self.verb.value

    def build_body(self, observed: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return the body to send.

        A PATCH replaces all tags: send the observed ones that this change keeps, too.
        """
        body = get_mapping(self.body)
        changed_tags = get_mapping(body, TAGS)
        if self.verb is not ArmOperation.UPDATE or not (changed_tags or self.removed_tags):
            return self.body
        own_names = {name.casefold() for name in (*changed_tags, *self.removed_tags)}
        observed_tags = get_mapping(observed, TAGS).items()
        kept_tags = {
            name: value for name, value in observed_tags if name.casefold() not in own_names
        }
        return {**body, TAGS: {**kept_tags, **changed_tags}}
