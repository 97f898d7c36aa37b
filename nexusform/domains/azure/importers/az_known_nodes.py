"""What state knows of the nodes of pools, and which number each node of a site gets by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.documents.shapes import mapping_at
from nexusform.domains.azure.importers.az_model import AzNode, AzPlacement

# What agent pools say of themselves in Azure beside name and count, in their cluster or on their own.
POOL_ARGUMENTS: Final = (
    "vm_sku_name",
    "availability_zones",
    "mode",
    "labels",
    "taint",
    "upgrade_settings",
)


class Whereabouts(NamedTuple):
    """Where a node is foretold."""

    machine: str
    rack: str


class KnownPool(Struct, frozen=True):
    """What is known of a pool's nodes: their numbers by the platform's names, and, of those that the platform
    did not name yet, where they are foretold, by number. `arguments` are those of the
    cluster's agent_pool block for it, for sites that do not tell them; None where nothing says them.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    foretold: dict[int, Whereabouts] = field(default_factory=dict)
    arguments: Mapping[str, Any] | None = None


class KnownNodes(Struct, frozen=True):
    """The pools that state knows, by the id of the cluster and the name of the pool."""

    pools: Mapping[tuple[str, str], KnownPool] = field(default_factory=dict)

    def arguments_of(self, cluster_id: str) -> dict[str, Mapping[str, Any]]:
        """The arguments of a cluster's pools by name."""
        return {
            name: pool.arguments
            for (owner, name), pool in self.pools.items()
            if owner == cluster_id and pool.arguments is not None
        }


NO_NODES: Final = KnownNodes()


def known_nodes(objects: Iterable[Mapping[str, Any]]) -> KnownNodes:
    """What the attributes of objects say of their nodes and pools."""
    pools: dict[tuple[str, str], KnownPool] = {}
    for attributes in objects:
        cluster_id = str(attributes.get("kubernetes_cluster_id") or attributes.get("id"))
        for name, arguments in _arguments(attributes).items():
            pools[cluster_id, name] = KnownPool(arguments=arguments)
        for node in mapping_at(attributes, "nodes").values():
            pool = pools.setdefault((cluster_id, str(node.get("pool"))), KnownPool())
            if node.get("platform_name"):
                pool.numbers[str(node["platform_name"])] = int(node["number"])
            elif node.get("machine"):
                pool.foretold[int(node["number"])] = Whereabouts(str(node["machine"]), str(node.get("rack")))
    return KnownNodes(pools)


def with_arguments(known: KnownNodes, objects: Iterable[Mapping[str, Any]]) -> KnownNodes:
    """The nodes that are known, with the arguments that these objects have for the pools, as far as Azure has
    them too, and but for the counts: nodes can be counted.
    """
    arguments = known_nodes(objects).pools
    pools: dict[tuple[str, str], KnownPool] = {}
    for key in dict.fromkeys([*known.pools, *arguments]):
        written = arguments[key].arguments if key in arguments else None
        in_azure = written and {name: written[name] for name in POOL_ARGUMENTS if name in written}
        pools[key] = replace(known.pools.get(key, KnownPool()), arguments=in_azure)
    return KnownNodes(pools)


def _arguments(attributes: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The arguments of the pools of a cluster, or of a pool that is an object of its own, by name."""
    if attributes.get("kubernetes_cluster_id"):
        arguments = {name: attributes.get(name) for name in POOL_ARGUMENTS}
        return {str(attributes.get("name")): {"count": attributes.get("node_count") or 0, **arguments}}
    return mapping_at(attributes, "agent_pool")


def numbered(nodes: Sequence[AzNode], count: int, known: KnownPool) -> dict[int, AzNode]:
    """The nodes by number. Those that have one keep it. Of the others one that stands where a number is
    foretold takes that number, on the machine first, then in the rack; the rest take the free numbers by the
    time of their creation where it is known, then by name, those with a machine first.
    """
    numbers = known.numbers
    taken = {numbers[node.name]: node for node in nodes if numbers.get(node.name, count) < count}
    names = {node.name for node in taken.values()}
    rest = [node for node in nodes if node.name not in names]
    rest.sort(key=lambda node: (node.placement is None, node.created_at or "", node.name))
    for level in (attrgetter("machine"), attrgetter("rack")):
        rest = _as_foretold(rest, taken, known.foretold, count, level)
    free = (number for number in range(count) if number not in taken)
    taken.update(zip(free, rest, strict=False))
    return taken


def _as_foretold(
    nodes: Sequence[AzNode],
    taken: dict[int, AzNode],
    foretold: Mapping[int, Whereabouts],
    count: int,
    level: Callable[[Whereabouts | AzPlacement], str],
) -> list[AzNode]:
    """Give numbers to nodes that stand where they are foretold; the others. `level` says whether the machine
    or the rack counts.
    """
    waiting: dict[str, list[int]] = {}
    for number, whereabouts in sorted(foretold.items()):
        if number < count and number not in taken:
            waiting.setdefault(level(whereabouts), []).append(number)
    rest: list[AzNode] = []
    for node in nodes:
        numbers = waiting.get(level(node.placement)) if node.placement is not None else None
        if numbers:
            taken[numbers.pop(0)] = node
        else:
            rest.append(node)
    return rest
