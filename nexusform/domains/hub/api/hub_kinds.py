"""API paths of the fleet kinds."""

from typing import Final

from msgspec import Struct

from nexusform.diagnostics.phrases import enclose

PLACEMENT_GROUP: Final = "placement.kubernetes-fleet.io"
CLUSTER_GROUP: Final = "cluster.kubernetes-fleet.io"
# Version that is served for every kind.
VERSION: Final = "v1beta1"


class HubKind(Struct, frozen=True):
    """Kind with its scope."""

    kind: str
    is_namespaced: bool
    group: str = PLACEMENT_GROUP

    @property
    def plural(self) -> str:
        """Plural as in paths."""
        word = self.kind.lower()
        return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"

    @property
    def collection(self) -> str:
        """Path of the collection."""
        return f"/apis/{self.group}/{VERSION}/{self.plural}"

    def build_collection(self, namespace: str) -> str:
        """Return the path of the collection in a namespace; of the whole collection without one."""
        return build_collection_path(f"{self.group}/{VERSION}", self.plural, namespace)

    def build_path(self, name: str, namespace: str = "", version: str = VERSION) -> str:
        """Return the path of one object; the namespace of a cluster-scoped kind is ignored."""
        prefix = f"namespaces/{namespace}/" if self.is_namespaced else ""
        return f"/apis/{self.group}/{version}/{prefix}{self.plural}/{name}"


def get_scoped_kind(kind: str, namespace: str) -> str:
    """Return a namespaced kind, or its cluster-scoped counterpart without a namespace."""
    return kind if namespace else f"Cluster{kind}"


def build_version_path(version: str) -> str:
    """Return the path of an API version: `/apis/apps/v1`, or `/api/v1`."""
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def build_collection_path(version: str, plural: str, namespace: str = "") -> str:
    """Return the path of all objects of a kind, in one namespace or (without one) everywhere."""
    return f"{build_version_path(version)}{enclose('/namespaces/', namespace)}/{plural}"


def split_path(path: str) -> tuple[str, str, str]:
    """Split the path of an object into that of its kind everywhere, its namespace and its name.

    The namespace is "" for a cluster-scoped kind.
    """
    collection, _, name = path.rpartition("/")
    head, _, namespaced_part = collection.partition("/namespaces/")
    namespace, _, plural = namespaced_part.partition("/")
    # The kind is cluster-scoped, or a namespace.
    if not plural:
        return collection, "", name
    return f"{head}/{plural}", namespace, name


def join_path(collection: str, namespace: str, name: str) -> str:
    """Return the path of an object of a collection: of its kind everywhere, or in its namespace."""
    if not namespace or "/namespaces/" in collection:
        return f"{collection}/{name}"
    head, _, plural = collection.rpartition("/")
    return f"{head}/namespaces/{namespace}/{plural}/{name}"


def _make_scoped_kinds(kind: str) -> tuple[HubKind, HubKind]:
    """Return a cluster-scoped kind and its namespaced counterpart."""
    return HubKind(f"Cluster{kind}", is_namespaced=False), HubKind(kind, is_namespaced=True)


WORK: Final = HubKind("Work", is_namespaced=True)
MEMBER: Final = HubKind("MemberCluster", is_namespaced=False, group=CLUSTER_GROUP)

READ_KINDS: Final = (
    *_make_scoped_kinds("ResourcePlacement"),
    *_make_scoped_kinds("ResourceBinding"),
    *_make_scoped_kinds("SchedulingPolicySnapshot"),
    *_make_scoped_kinds("ResourceSnapshot"),
    *_make_scoped_kinds("ResourceOverride"),
    *_make_scoped_kinds("ResourceOverrideSnapshot"),
    HubKind("ClusterResourcePlacementDisruptionBudget", is_namespaced=False),
    HubKind("ClusterResourcePlacementEviction", is_namespaced=False),
    *_make_scoped_kinds("StagedUpdateStrategy"),
    *_make_scoped_kinds("StagedUpdateRun"),
    *_make_scoped_kinds("ApprovalRequest"),
    MEMBER,
)
KINDS: Final = {each.kind: each for each in (*READ_KINDS, WORK)}
KINDS_BY_PLURAL: Final = {each.plural: each.kind for each in KINDS.values()}
