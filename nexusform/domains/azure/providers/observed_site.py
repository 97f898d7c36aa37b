"""What providers have in common that show a site as it is: reading it, and finding done what was asked for.

They send nothing. What a plan asks for is done by people, or by another tool; once it is done, an apply finds
it there and takes it over. Until then the step fails and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity
from nexusform.domains.azure.importers.az_versions import not_offered, upgrade_refusal
from nexusform.plain_data import Path
from nexusform.plans.room.other_room import note_of_supplies
from nexusform.ports import (
    FORGOTTEN,
    UNMANAGED,
    ChangeRequest,
    NotDoneYet,
    ObjectKey,
    ProviderAnswer,
    ProviderProblem,
    ReadAnswer,
    ReadRequest,
)
from nexusform.resource_types.machine_facts import EXPORTED_FACTS
from nexusform.words import first_of, form

if TYPE_CHECKING:  # the importers are loaded where a site is read
    from nexusform.domains.azure.importers.az_adoption import AdoptedObject
    from nexusform.domains.azure.importers.az_model import AzCluster, AzShape, AzSite

# Gives the sites as they are, and what is wrong with what was read.
ReadSites: TypeAlias = "Callable[[], tuple[tuple[AzSite, ...], list[Problem]]]"

_MOST_NAMED: Final = 4
# One VM on a machine, as in the note UNMANAGED.
_Row: TypeAlias = tuple[str, str, int, int, int, int]

# What Azure knows nothing of: these stand in state alone.
_SITE: Final = "nexus_site"
_STRATEGY: Final = "update_strategy"
_OF_OURS: Final = frozenset({_SITE, "nexus_vm_sku", "nexus_separation_rule"})
_CLUSTER: Final = "nexus_kubernetes_cluster"
_POOL: Final = "nexus_agent_pool"
_RACK: Final = "nexus_rack"
_MACHINE: Final = "nexus_bare_metal_machine"
# The kind of document that lists the objects of a type: what such a list lacks is not there.
_LISTED_IN: Final[Mapping[str, str]] = {
    _RACK: "racks",
    _MACHINE: "bare_metal_machines",
    _CLUSTER: "kubernetes_clusters",
    _POOL: "kubernetes_clusters",
    "nexus_virtual_machine": "virtual_machines",
}


class ObservedSites:
    """Sites that are looked at once, when first asked about. See the module's text."""

    sends = False
    observes = True

    def __init__(
        self, name: str, source: str, advice: str, read_sites: ReadSites, *, captured: bool = False
    ) -> None:
        """`source` is what is looked at ("the export in DIR"), `advice` what to do about a step that is not
        done yet; `captured`: the sites are as they were when somebody captured them.
        """
        self.name = name
        self.source = source
        self._advice = advice
        self._read = read_sites
        self._captured = captured
        self._lock = Lock()
        self._sites: tuple[AzSite, ...] | None = None
        self._known: tuple[Mapping[str, Any], ...] = ()
        # A site shows every pool in its cluster; these are resources of their own.
        self._pools_apart: set[str] = set()
        self._managed: set[tuple[str, str]] = set()
        self._unseen: dict[tuple[str, str], set[str]] = {}  # site and type -> ids that were asked about

    def remember(self, objects: Iterable[Mapping[str, Any]], managed: Iterable[tuple[str, str]]) -> None:
        """Take the attributes of all objects that state has of this provider: the sites keep their names, and
        pools of their own are no parts of their clusters. `managed` are type and id of all objects in state:
        what stands for VMs leaves them out of those that are nobody's.
        """
        self._known = tuple(objects)
        self._managed.update(managed)
        pools = [str(known["id"]) for known in self._known if "kubernetes_cluster_id" in known]
        self._set_apart(ObjectKey(_POOL, pool, 0) for pool in pools)

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadAnswer]:
        """What stands; nodes keep the numbers that state gave them. Raises ProviderProblem."""
        self._set_apart(request.key for request in requests)
        objects = self._objects([request.known for request in requests])
        shown = _machines_by_rack(objects.values())
        held = self._held(objects.values())
        return [self._read_one(request, objects, shown, held) for request in requests]

    def create(self, request: ChangeRequest) -> ProviderAnswer:
        """Find what was to be made. Raises ProviderProblem while it is not there."""
        return self._done(request, "made")

    def update(self, request: ChangeRequest) -> ProviderAnswer:
        """Find the change done. Raises ProviderProblem while it does not show."""
        return self._done(request, "changed")

    def delete(self, request: ChangeRequest) -> None:
        """Find the object gone. Raises ProviderProblem while it is still there."""
        key = request.key
        self._set_apart([key])
        if key.type in _OF_OURS:
            return
        stands = (key.type, key.id) in self._objects([request.prior or {}])
        if stands or not self._would_show(key):
            raise NotDoneYet(self._not_yet(request, "removed"))

    def find(self, resource_type: str, object_id: str) -> tuple[ObjectKey, Mapping[str, Any]] | None:
        """The object of that type and id; it is managed from now on."""
        self._set_apart([ObjectKey(resource_type, object_id, 0)])
        self._managed.add((resource_type, object_id))
        one = self._objects([]).get((resource_type, object_id))
        return None if one is None else (ObjectKey(resource_type, object_id, 0), one.attributes)

    def _objects(
        self, standing: Sequence[Mapping[str, Any]], pools: Sequence[Mapping[str, Any]] | None = None
    ) -> dict[tuple[str, str], AdoptedObject]:
        """The objects of all sites by type and id. `standing` says the numbers of nodes and, where `pools`
        does not, the arguments of pools that the site does not tell.
        """
        from nexusform.domains.azure.importers.az_adoption import adopt_sites
        from nexusform.domains.azure.importers.az_known_nodes import known_nodes, with_arguments
        from nexusform.domains.azure.importers.az_ownership import with_pools_apart

        known = known_nodes(standing)
        if pools is not None:
            known = with_arguments(known, pools)
        adopted = adopt_sites(self._read_sites(), known)
        shown = chain.from_iterable(site.objects for site in adopted)
        return {(one.type, one.id): one for one in with_pools_apart(shown, self._apart())}

    def _set_apart(self, keys: Iterable[ObjectKey]) -> None:
        with self._lock:
            self._pools_apart.update(key.id for key in keys if key.type == _POOL)

    def _apart(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._pools_apart)

    # --- what a site does not tell ---

    def _read_one(
        self,
        request: ReadRequest,
        objects: Mapping[tuple[str, str], AdoptedObject],
        shown: Mapping[str, set[str]],
        held: Mapping[tuple[str, str], Mapping[str, _Row]],
    ) -> ReadAnswer:
        """One object as the site shows it; as state has it where the site says nothing of it."""
        key = request.key
        if key.type in _OF_OURS:
            note = self._supplies(key.id) if key.type == _SITE and request.attributes else {}
            return ReadAnswer(self._with_strategy(key, request.attributes) or None, note=note)
        one = objects.get((key.type, key.id))
        if one is None and self._would_show(key):
            return ReadAnswer(None, observed=True)
        if one is None and self._hides_nodes(key):  # nothing tells the sizes of its VM SKUs
            return ReadAnswer(request.attributes or None)
        if one is None:
            self._unseen.setdefault((key.id.partition("/")[0], key.type), set()).add(key.id)
            return ReadAnswer(request.attributes or None)
        attributes = _with_own_machines(_with_observed(request.known, one), one, shown)
        if self._hides_nodes(key):
            return ReadAnswer(_with_known_nodes(attributes, request.known))
        attributes = _without_deleted(attributes, request.known)
        return ReadAnswer(attributes, observed=True, note=_note(key, attributes, held))

    def _strategy(self, key: ObjectKey) -> Mapping[str, Any] | None:
        """How a site says that its machines are upgraded; None where nothing tells."""
        site = self._site(key.id) if key.type == _SITE else None
        return site.inventory.update_strategy if site is not None else None

    def _with_strategy(self, key: ObjectKey, known: Mapping[str, Any]) -> Mapping[str, Any]:
        """A site as it is known, with the strategy that it shows where one is known: without a block nothing
        is asked of it.
        """
        shown = self._strategy(key) if known.get(_STRATEGY) else None
        return known if shown is None else {**known, _STRATEGY: shown}

    def _supplies(self, site_id: str) -> Mapping[str, Any]:
        """The note of what a site has beside machines; of one that is not shown what was noted stays."""
        from nexusform.domains.azure.importers.az_supplies import supplies_of

        site = self._site(site_id)
        return note_of_supplies(supplies_of(site.inventory.supplies)) if site is not None else {}

    def _hides_nodes(self, key: ObjectKey) -> bool:
        """Whether an object is a cluster or pool of which the site does not say which nodes there are."""
        site = self._site(key.id) if key.type in {_CLUSTER, _POOL} else None
        cluster = _cluster_in(site, key.id) if site is not None else None
        return cluster is not None and not cluster.nodes_listed

    def _would_show(self, key: ObjectKey) -> bool:
        """Whether an object that is not shown is not there: its site is shown, and the kind was listed."""
        site = self._site(key.id)
        if site is None or _LISTED_IN[key.type] not in site.inventory.listed:
            return False
        return key.type != _CLUSTER or _cluster_in(site, key.id) is None  # one that could not be adopted

    def _site(self, object_id: str) -> AzSite | None:
        name = object_id.partition("/")[0]
        return next((site for site in self._read_sites() if site.name == name), None)

    def _held(self, objects: Iterable[AdoptedObject]) -> dict[tuple[str, str], dict[str, _Row]]:
        """The room on machines (by site and name) that no managed object stands for, by the VM's name."""
        from nexusform.domains.azure.importers.az_ownership import unmanaged_vms

        held: dict[tuple[str, str], dict[str, _Row]] = {}
        for site in self._read_sites():
            for vm in unmanaged_vms(site, self._managed):
                rows = held.setdefault((site.name, vm.machine), {})
                rows[vm.name] = (vm.machine, vm.name, *_figures(vm.shape))
        for one in objects:
            if one.type != _MACHINE:
                continue
            machine = str(one.attributes["name"])
            for block in one.attributes["occupied"]:
                figures = (block["cpu_cores"], block["memory_gib"], block["disk_gib"], block["numa_cells"])
                rows = held.setdefault((one.id.partition("/")[0], machine), {})
                rows.setdefault(block["name"], (machine, block["name"], *figures))
        return held

    def remarks(self) -> list[Problem]:
        """What was asked for and is not shown, and who stands there without being managed."""
        if self._sites is None:
            return []
        from nexusform.domains.azure.providers.site_remarks import SiteView

        return SiteView(self.source, self._sites, self._unseen, self._managed).remarks()

    def captures(self) -> list[tuple[str, str]]:
        """The sites that were read of a capture, and when each was made (RFC 3339, "" when nothing tells)."""
        if self._sites is None or not self._captured:
            return []
        return [(site.name, site.inventory.exported_at or "") for site in self._sites]

    def _read_sites(self) -> tuple[AzSite, ...]:
        """The sites, read once, under the names that state has for them. Raises ProviderProblem."""
        from nexusform.domains.azure.importers.az_sites import named_as_known

        with self._lock:
            if self._sites is None:
                sites, problems = self._read()
                wrong = [problem for problem in problems if problem.severity is Severity.ERROR]
                if wrong:
                    raise ProviderProblem(f"{wrong[0]}" if wrong[0].file else wrong[0].detail)
                self._sites = named_as_known(sites, self._known)
            return self._sites

    def _done(self, request: ChangeRequest, word: str) -> ProviderAnswer:
        """The object as the site shows it. Raises NotDoneYet while that is not what was planned."""
        planned = request.planned or {}
        key = request.key
        if key.type in _OF_OURS:
            asked, strategy = planned.get(_STRATEGY), self._strategy(key)
            if asked and strategy is not None and asked != strategy:
                raise NotDoneYet(self._not_yet(request, word, (_STRATEGY,)))
            return ProviderAnswer(planned)
        self._set_apart([key])
        shown = shown_of(request, self._objects([planned], [request.prior or {}]))
        if shown is None:
            raise NotDoneYet(self._not_yet(request, word))
        if shown.differing:
            raise NotDoneYet(self._not_yet(request, word, shown.differing))
        seen = _without_unplanned(dict(shown.answer.attributes), planned)
        lacking = _lacking(seen, planned)
        if lacking:
            nodes = f"{form(len(lacking), 'node')} {first_of(lacking, _MOST_NAMED)}"
            raise NotDoneYet(self._not_yet(request, word, (nodes,)))
        return replace(shown.answer, attributes=seen)

    def judge(self, requests: Sequence[ChangeRequest]) -> list[tuple[int, Problem]]:
        """What no cluster of a site can be upgraded to: errors where this provider is to send it. Raises
        ProviderProblem when the site cannot be read.
        """
        said: list[tuple[int, Problem]] = []
        severity = Severity.ERROR if self.sends else Severity.WARNING
        for number, request in enumerate(requests):
            prior, planned = request.prior or {}, request.planned or {}
            before, after = prior.get("kubernetes_version"), planned.get("kubernetes_version")
            if request.key.type != _CLUSTER or not before or not isinstance(after, str) or before == after:
                continue
            path = ("kubernetes_version",)
            if request.unfinished is not None:
                continue  # an upgrade that failed may be given up
            if refusal := upgrade_refusal(before, after):
                said.append((number, Problem(path, "no-such-upgrade", refusal, severity)))
            elif words := not_offered(before, after, self._offered(request.key.id)):
                said.append((number, Problem(path, "no-such-upgrade", words, Severity.WARNING)))
        return said

    def _offered(self, cluster_id: str) -> tuple[str, ...]:
        """The versions that the platform offers a cluster."""
        site = self._site(cluster_id)
        cluster = _cluster_in(site, cluster_id) if site is not None else None
        return cluster.upgrades if cluster is not None else ()

    def _hidden_parts(self, key: ObjectKey) -> str:
        """What to say where the nodes of a cluster, or its agent pools, were not captured."""
        site = self._site(key.id) if key.type in {_CLUSTER, _POOL} else None
        cluster = _cluster_in(site, key.id) if site is not None else None
        if cluster is None or (cluster.pools_listed and cluster.nodes_listed):
            return ""
        if not cluster.nodes_listed:
            return f" The nodes of {cluster.name} were not captured."
        return f" The agent pools of {cluster.name} were not captured: of them only nodes show."

    def _not_yet(self, request: ChangeRequest, word: str, differing: Sequence[str] = ()) -> str:
        """Why a change counts as not done yet."""
        where = f" ({', '.join(differing)} differ)" if differing else ""
        if "machine_count" in differing:
            where += (
                ". The machines of that rack have names of their own: set machine_count = 0 and write a "
                "nexus_bare_metal_machine for each, as `nexusform import -from` does"
            )
        return (
            f"{request.key.type} {request.key.id} is not {word} yet: {self.source} does not show it{where}."
            f"{self._hidden_parts(request.key)} "
            f"This provider sends nothing: make the change on the site, {self._advice}, and apply."
        )


class Shown(Struct, frozen=True):
    """What a site shows of an object that is to be as a plan has it, and the arguments that differ."""

    answer: ProviderAnswer
    differing: tuple[str, ...]


def shown_of(request: ChangeRequest, objects: Mapping[tuple[str, str], AdoptedObject]) -> Shown | None:
    """What the objects of a site say of what a request asks for, None when it is not among them."""
    key, planned = request.key, request.planned or {}
    one = objects.get((key.type, key.id))
    if one is None:
        return None
    if key.type == _CLUSTER:
        one = _of_this_resource(one, planned, request.prior or {})
    seen = _with_own_machines(_with_observed(planned, one), one, _machines_by_rack(objects.values()))
    asked = (*_ASKED.get(key.type, ()), *(("machine_count",) if key.type == _RACK else ()))
    differing = tuple(name for name in asked if seen[name] != planned.get(name))
    return Shown(ProviderAnswer(seen, tuple(_observed(key.type, seen))), differing)


def _observed(kind: str, seen: Mapping[str, Any]) -> Iterator[Path]:
    """The paths of what a site tells by itself: every node is one."""
    for name in _SEEN.get(kind, ()):
        if name == "nodes":
            yield from (("nodes", node) for node in seen["nodes"])
        else:
            yield (name,)


def _of_this_resource(
    one: AdoptedObject, planned: Mapping[str, Any], prior: Mapping[str, Any]
) -> AdoptedObject:
    """A cluster without the pools that its resource neither has nor had: others are made for them."""
    from nexusform.domains.azure.importers.az_ownership import without_pools

    own = {*(planned.get("agent_pool") or {}), *(prior.get("agent_pool") or {})}
    return without_pools(one, [name for name in one.attributes["agent_pool"] if name not in own])


# What of a type is asked for and shows on a site, and what the platform decides and shows there.
_ASKED: Final[Mapping[str, tuple[str, ...]]] = {
    _RACK: ("availability_zone",),
    "nexus_bare_metal_machine": tuple(fact.name for fact in EXPORTED_FACTS),
    _CLUSTER: ("kubernetes_version", "control_plane", "agent_pool"),
    _POOL: (
        "node_count",
        "vm_sku_name",
        "availability_zones",
        "mode",
        "labels",
        "taint",
        "upgrade_settings",
    ),
    "nexus_virtual_machine": ("cpu_cores", "memory_gib", "disk_gib"),
}
_BY_LABEL: Final = ("agent_pool", "nodes")  # maps of which every entry is told
_SEEN: Final[Mapping[str, tuple[str, ...]]] = {
    _CLUSTER: ("nodes", "node_count"),
    _POOL: ("nodes",),
    "nexus_virtual_machine": ("machine", "rack", "availability_zone", "cells", "provenance"),
}


def _machines_by_rack(objects: Iterable[AdoptedObject]) -> dict[str, set[str]]:
    """The names of the machines that a site shows, by the id of their rack."""
    names: dict[str, set[str]] = {}
    for one in objects:
        if one.type == "nexus_bare_metal_machine":
            names.setdefault(one.attributes["rack_id"], set()).add(one.attributes["name"])
    return names


def _with_own_machines(
    attributes: dict[str, Any], one: AdoptedObject, shown: Mapping[str, set[str]]
) -> dict[str, Any]:
    """A rack without the machines that machine_count makes, where the site's have other names: these are
    not there, and VMs would be foretold on them.
    """
    made = attributes.get("machines") if one.type == _RACK else None
    real = shown.get(one.id)
    if not made or not real or not real.isdisjoint(made):
        return attributes
    return {**attributes, "machine_count": 0, "machines": {}}


def _cluster_in(site: AzSite, object_id: str) -> AzCluster | None:
    """The cluster that an id names, or the id of a pool of it, as the site shows it."""
    name = object_id.split("/")[1]
    return next((cluster for cluster in site.inventory.clusters if cluster.name == name), None)


def _without_unplanned(seen: dict[str, Any], planned: Mapping[str, Any]) -> dict[str, Any]:
    """What is seen without nodes that nobody made yet, and that are to be made by a later step."""
    nodes, asked = seen.get("nodes"), planned.get("nodes")
    if not isinstance(nodes, Mapping) or not isinstance(asked, Mapping):
        return seen
    return _with_nodes(seen, {k: node for k, node in nodes.items() if node["platform_name"] or k in asked})


def _lacking(seen: Mapping[str, Any], planned: Mapping[str, Any]) -> list[str]:
    """The nodes for which a plan has a machine, and of which the site shows none."""
    asked = planned.get("nodes") or {}
    nodes = seen.get("nodes") or {}
    return [
        k for k, node in nodes.items() if not node["platform_name"] and (asked.get(k) or {}).get("machine")
    ]


def _with_nodes(attributes: dict[str, Any], nodes: Mapping[str, Any]) -> dict[str, Any]:
    """A cluster or pool with other nodes."""
    count = {"node_count": len(nodes)} if "agent_pool" in attributes else {}
    return {**attributes, "nodes": nodes, **count}


def _without_deleted(attributes: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """A cluster or pool without the nodes that were there and are not any more, though its count stands: they
    were deleted, and the platform makes others. A node that never had a machine is waited for.
    """
    nodes, before = attributes.get("nodes"), known.get("nodes")
    if not isinstance(nodes, Mapping) or not isinstance(before, Mapping):
        return attributes
    deleted = {
        name
        for name, node in nodes.items()
        if not node["platform_name"] and (before.get(name) or {"platform_name": name})["platform_name"]
    }
    if not deleted:
        return attributes
    return _with_nodes(attributes, {name: node for name, node in nodes.items() if name not in deleted})


def _with_known_nodes(attributes: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """A cluster or pool with its nodes as they are known: the site tells their count alone."""
    before = known.get("nodes")
    if before == {}:  # it failed while it was made, and nothing says that any node came since
        return _with_nodes(attributes, {})
    before = before or {}
    return _with_nodes(
        attributes, {name: before.get(name, node) for name, node in attributes["nodes"].items()}
    )


def _figures(shape: AzShape) -> tuple[int, int, int, int]:
    return shape.cpu_cores, shape.memory_gib, shape.disk_gib, max(shape.numa_cells, 1)


def _note(
    key: ObjectKey, attributes: Mapping[str, Any], held: Mapping[tuple[str, str], Mapping[str, _Row]]
) -> Mapping[str, Any]:
    """The note of a rack or machine: who else stands there, but for what its occupied blocks hold."""
    if key.type not in {_RACK, _MACHINE}:
        return {}
    site = key.id.partition("/")[0]
    machines = [attributes["name"]] if key.type == _MACHINE else attributes.get("machines") or ()
    written = {block["name"] for block in attributes.get("occupied") or ()}
    rows: list[list[Any]] = []
    for machine in machines:
        on_machine = held.get((site, machine), {})
        rows += [list(row) for name, row in sorted(on_machine.items()) if name not in written]
    return {UNMANAGED: rows or None, FORGOTTEN: None}  # whoever was forgotten is seen, or is not there


def _with_observed(attributes: Mapping[str, Any], one: AdoptedObject) -> dict[str, Any]:
    """Attributes with what the site says of the object over them; all of it where nothing is known."""
    if not attributes:
        return dict(one.attributes)
    seen: dict[str, Any] = {}
    for name in (*_ASKED.get(one.type, ()), *_SEEN.get(one.type, ())):
        known, observed = attributes.get(name), one.attributes[name]
        if name in _BY_LABEL and isinstance(known, Mapping):
            known = {label: part for label, part in known.items() if label in observed}
            observed = _without_options_of_bodies(known, observed) if name == "agent_pool" else observed
        seen[name] = _over(known, observed)
    return {**attributes, **seen}


def _without_options_of_bodies(known: Mapping[str, Any], observed: Mapping[str, Any]) -> dict[str, Any]:
    """Pools without the hugepages that the body of their azure block asks for: what shows of these is no
    argument that differs.
    """
    pools = dict(observed)
    for label, pool in known.items():
        body = (pool.get("azure") or {}).get("body") or {}
        properties = body.get("properties") if isinstance(body, Mapping) else None
        options = properties.get("agentOptions") if isinstance(properties, Mapping) else None
        if options and not pool.get("kubelet"):
            pools[label] = {name: part for name, part in pools[label].items() if name != "kubelet"}
    return pools


def _over(known: Any, observed: Any) -> Any:
    """What a site tells in place of what is known: what it is silent about stays, and absent and empty are
    one, as is the order of a set.
    """
    if not known and not observed:
        return known
    if isinstance(known, Mapping) and isinstance(observed, Mapping):
        return {**known, **{name: _over(known.get(name), part) for name, part in observed.items()}}
    if isinstance(known, list) and isinstance(observed, list) and all(isinstance(one, str) for one in known):
        return known if sorted(known) == sorted(map(str, observed)) else observed
    return observed
