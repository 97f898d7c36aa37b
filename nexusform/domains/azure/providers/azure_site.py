"""Sites as Azure shows them, and what is done there: clusters, agent pools and VMs are made, changed and
deleted; whatever else a plan asks for (racks, machines) is found done.

After a change the resource is read back: where its VMs landed is what Azure says, not what was foretold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity
from nexusform.domains.azure.providers.azure_changes import (
    CLUSTER,
    POOL,
    VM,
    Surroundings,
    changes_of,
)
from nexusform.domains.azure.providers.azure_machines import (
    MACHINE,
    RACK,
    Asked,
    Wish,
    as_cordoned,
    as_evacuated,
    asked_of_machines,
    cordon_change,
    is_of_cordons_alone,
)
from nexusform.domains.azure.providers.azure_nodes import (
    doomed_nodes,
    make_anew,
    nodes_to_make_anew,
    way_of_deleting,
)
from nexusform.domains.azure.providers.azure_requests import (
    LOOKS,
    NODES_MISSING,
    SHOWN_WITHIN,
    Arm,
    ArmChange,
    Failed,
    Target,
    Verb,
    note_of,
    words_of,
)
from nexusform.domains.azure.providers.azure_subscription import (
    CLUSTERS,
    MACHINES,
    POOLS,
    VMS,
    Body,
    Documents,
    Subscription,
    asking,
    group_of,
)
from nexusform.domains.azure.providers.azure_under_way import Standing, standing_of
from nexusform.domains.azure.providers.observed_site import ObservedSites, Shown, shown_of
from nexusform.ports import (
    ChangeRequest,
    ObjectKey,
    ProviderAnswer,
    ProviderProblem,
    ReadAnswer,
    ReadRequest,
    StepNews,
    StepWaits,
)
from nexusform.scheduling.racks.vms import CONTROL_PLANE
from nexusform.words import counted, first_of

if TYPE_CHECKING:  # the importers are loaded where a site is read
    from nexusform.domains.azure.importers.az_adoption import AdoptedObject
    from nexusform.domains.azure.importers.az_model import AzSite

_MOST_NAMED: Final = 4
_ACTIONS: Final = {
    Wish.CORDON: "apply cordons none, and waits until Azure shows it cordoned.",
    Wish.UNCORDON: "apply uncordons none, and waits until Azure shows it uncordoned.",
    Wish.EMPTY: "to be emptied, and not cordoned: Azure may put VMs there again. Write cordon_status = "
    '"Cordoned" beside evacuate, and cordon it before the apply; or let apply do it, by act_on_machines = '
    "true in the provider block.",
}
_DOING: Final = {
    Wish.CORDON: "cordons these machines",
    Wish.UNCORDON: "uncordons these machines",
    Wish.EMPTY: "cordons these machines before their VMs leave; they stay so until evacuate is taken away",
}
_ACTED_ON: Final = frozenset({CLUSTER, POOL, VM})
_OF_MACHINES: Final = frozenset({MACHINE, RACK})
# What the bodies of all objects of a site have alike.
_TOP: Final = ("location", "extendedLocation")
Values: TypeAlias = Mapping[str, Any]


class AzureSites(ObservedSites):
    """The sites of a subscription. See the module's text."""

    sends = True

    def __init__(
        self, name: str, source: str, subscription: Subscription, *, acts_on_machines: bool = False
    ) -> None:
        super().__init__(name, source, "wait until it is done", subscription.read)
        self._acts_on_machines = acts_on_machines
        self._subscription = subscription
        self._made: dict[str, str] = {}  # resource groups of what this run made, by id
        self._looking_up = Lock()
        self._ids: _Directory | None = None

    def create(self, request: ChangeRequest) -> ProviderAnswer:
        """Make it, or go on making it. Raises ProviderProblem."""
        if request.key.type in _ACTED_ON:
            return self._act(request)
        return self._act_on_machines(request, super().create)

    def update(self, request: ChangeRequest) -> ProviderAnswer:
        """Change it, or go on changing it. Raises ProviderProblem."""
        if request.key.type in _ACTED_ON:
            return self._act(request)
        return self._act_on_machines(request, super().update)

    def delete(self, request: ChangeRequest) -> None:
        """Delete it, or wait until it is gone. Raises ProviderProblem."""
        if request.key.type not in _ACTED_ON:
            super().delete(request)
            return
        group = self._group(request, missing_ok=True)
        if group:
            around = Surroundings(group, {}, str)
            self._subscription.arm().carry_out(changes_of(request, around), request)

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadAnswer]:
        """What stands, and whether a change of it still goes on."""
        answers = super().read(requests)
        if self._acts_on_machines:
            answers = [
                replace(answer, attributes=as_evacuated(answer.attributes, request.known))
                if request.key.type == MACHINE and answer.attributes is not None
                else answer
                for request, answer in zip(requests, answers, strict=True)
            ]
        standings = map(self._standing, requests, answers)
        return [
            replace(answer, settled=standing.settled, note={**answer.note, **standing.note})
            for answer, standing in zip(answers, standings, strict=True)
        ]

    def _standing(self, request: ReadRequest, answer: ReadAnswer) -> Standing:
        """How far Azure is with what an apply began of an object, where one did."""
        began = request.planned is not None or request.going or request.unfinished is not None
        if not began or request.key.type not in _ACTED_ON or answer.attributes is None:
            return Standing()
        return standing_of(request, answer.attributes, self._bodies(request.key), self._subscription.id)

    def _bodies(self, key: ObjectKey) -> list[Body]:
        """The bodies of an object and of the agent pools that are parts of it."""
        from nexusform.domains.azure.importers.arm import id_key

        apart, prefix = self._apart(), f"{key.id}/"
        ids: set[str] = set()
        for (kind, our_id), arm_id in self._directory().acted_on.items():
            is_part = kind == POOL and our_id.startswith(prefix) and our_id not in apart
            if (kind, our_id) == (key.type, key.id) or (is_part and key.type == CLUSTER):
                ids.add(id_key(arm_id))
        shown = chain.from_iterable(self._subscription.shown.get(kind, ()) for kind in (CLUSTERS, VMS, POOLS))
        return [body for body in shown if id_key(str(body.get("id"))) in ids]

    def judge(self, requests: Sequence[ChangeRequest]) -> list[tuple[int, Problem]]:
        """What Azure cannot do of a plan, and what is left to people. Raises ProviderProblem when Azure
        cannot be asked.
        """
        made = {request.key.id for request in requests if request.key.type == VM}
        said: list[tuple[int, Problem]] = []
        anew: dict[int, list[str]] = {}
        for number, request in enumerate(requests):
            if request.key.type not in _ACTED_ON:
                continue
            try:
                changes = self._foreseen(request, made)
            except ProviderProblem as problem:
                said.append((number, Problem((), "provider-cannot-do-this", str(problem))))
                continue
            if nodes := nodes_to_make_anew(request, changes):
                anew[number] = nodes
        upgrades = super().judge(requests)
        return [*said, *upgrades, *_left_to_kubectl(anew), *self._left_to_people(requests)]

    def _foreseen(self, request: ChangeRequest, made: AbstractSet[str]) -> list[ArmChange]:
        """The changes of a planned step. `made` are the VMs of the plan. Raises ProviderProblem."""

        def arm_id_of(our_id: str) -> str:
            return our_id if our_id in made else self._arm_id_of(our_id)

        self._directory()
        # A pool comes to the group of its cluster, which may be made by the same plan.
        group = self._group(request, missing_ok=request.key.type == POOL)
        return changes_of(request, Surroundings(group, {}, arm_id_of))

    def _left_to_people(self, requests: Sequence[ChangeRequest]) -> Iterator[tuple[int, Problem]]:
        """Machines are cordoned by people: once for each thing that is to be done."""
        wishes: dict[Wish, list[tuple[int, Asked]]] = {}
        for number, request in enumerate(requests):
            for asked in asked_of_machines(request) if request.key.type in _OF_MACHINES else ():
                wishes.setdefault(asked.wish, []).append((number, asked))
        for wish, numbered in sorted(wishes.items()):
            number, first = numbered[0]
            names = first_of([asked.name for _, asked in numbered], _MOST_NAMED)
            machines = f"{counted(len(numbered), 'machine')} ({names})"
            if self._acts_on_machines:
                doing = f"apply {_DOING[wish]}: {names}."
                yield number, Problem((), "machines-are-cordoned", doing, Severity.WARNING)
                yield from self._unknown_machines(numbered)
                continue
            detail = f"{machines}: {_ACTIONS[wish]} {self._command(first)}"
            yield number, Problem((), "cordoning-left-to-people", detail, Severity.WARNING)

    def _unknown_machines(self, numbered: Iterable[tuple[int, Asked]]) -> Iterator[tuple[int, Problem]]:
        """Machines that are to be cordoned or uncordoned, and that Azure does not show."""
        for number, asked in numbered:
            try:
                self._machine_id(asked)
            except ProviderProblem as problem:
                yield number, Problem((), "provider-cannot-do-this", str(problem))

    def _command(self, asked: Asked) -> str:
        """What cordons or uncordons a machine."""
        verb = Wish.UNCORDON if asked.wish is Wish.UNCORDON else Wish.CORDON
        group = group_of(self._directory().hinted.get(asked.id, "")) or "MANAGED_RESOURCE_GROUP"
        command = f"az networkcloud baremetalmachine {verb} --name {asked.name} --resource-group {group}"
        return f"For example: {command}"

    # --- doing ---------------------------------------------------------------------------------

    def _act_on_machines(
        self, request: ChangeRequest, find_done: Callable[[ChangeRequest], ProviderAnswer]
    ) -> ProviderAnswer:
        """Cordon machines, or let them take VMs again, where the provider is to do that; whatever else is
        asked is found done. Raises ProviderProblem.
        """
        if not self._acts_on_machines or request.key.type not in _OF_MACHINES:
            return find_done(request)
        changes = [cordon_change(asked, self._machine_id(asked)) for asked in asked_of_machines(request)]
        if changes:
            self._subscription.arm().carry_out(changes, request)
        planned = request.planned or {}
        if changes and is_of_cordons_alone(request):
            return ProviderAnswer(planned)
        if changes:
            self._look_anew()
        if request.key.type != MACHINE:
            return find_done(request)
        answer = find_done(replace(request, planned=as_cordoned(planned)))
        cordon_status = planned.get("cordon_status")
        return replace(answer, attributes={**answer.attributes, "cordon_status": cordon_status})

    def _machine_id(self, asked: Asked) -> str:
        """The id in Azure of a machine that is to be cordoned or uncordoned. Raises ProviderProblem."""
        arm_id = self._directory().hinted.get(asked.id)
        if arm_id is None:
            rack = asked.id.split("/")[1]
            raise ProviderProblem(
                f"Azure shows no machine {asked.name} in rack {rack}: it cannot be cordoned or uncordoned. "
                "Write the machine as Azure calls it (`nexusform import -from=azure` does)."
            )
        return arm_id

    def _look_anew(self) -> None:
        """Forget what the sites showed."""
        with self._lock:
            self._sites = None
        with self._looking_up:
            self._ids = None

    def _act(self, request: ChangeRequest) -> ProviderAnswer:
        """Carry a change out in Azure; what it made is read back."""
        group = self._group(request)
        self._made[request.key.id] = group
        top = self._directory().tops.get(_site_of(request), {})
        around = Surroundings(group, top, self._arm_id_of)
        arm, changes = self._subscription.arm(), changes_of(request, around)
        try:
            arm.carry_out(changes, request)
        except Failed as failed:  # what was foretold of its VMs did not come about
            raise ProviderProblem(
                str(failed), exists=failed.exists, attributes=_without_places(request.planned)
            ) from None
        if request.key.type != VM and request.prior is not None:
            cluster = _cluster_target(request, group)
            with asking():
                make_anew(arm, cluster, doomed_nodes(request, changes), request)
        if request.releases:
            return ProviderAnswer(request.planned or {})
        return self._read_back(request, arm, group)

    def _group(self, request: ChangeRequest, *, missing_ok: bool = False) -> str:
        """The resource group that an object stands in, or is to be made in. Raises ProviderProblem."""
        values = request.planned or request.prior or {}
        owner = str(values["kubernetes_cluster_id"]) if request.key.type == POOL else request.key.id
        kind = VM if request.key.type == VM else CLUSTER
        stands_in = group_of(self._directory().acted_on.get((kind, owner), "")) or self._made.get(owner, "")
        asked = str((values.get("azure") or {}).get("resource_group") or "")
        if stands_in and asked and stands_in.lower() != asked.lower():
            raise ProviderProblem(
                f"{owner} stands in resource group {stands_in}, and its azure block says {asked}. Azure does "
                "not move it: write the one that it stands in, or leave it out."
            )
        group = stands_in or asked or self._subscription.default_group
        if not group and not missing_ok:
            raise ProviderProblem(
                f"Nothing says in which resource group {owner} is made. Write it in its block "
                '`azure { resource_group = "..." }`, or in the provider block.'
            )
        return group

    def _directory(self) -> _Directory:
        sites = self._read_sites()
        with self._looking_up:
            if self._ids is None:
                self._ids = _directory_of(sites, self._subscription.shown)
            return self._ids

    def _arm_id_of(self, our_id: str) -> str:
        """The id in Azure of what a placement hint names. Raises ProviderProblem."""
        known = self._directory().hinted.get(our_id)
        if known is not None:
            return known
        if our_id in self._made:
            target = Target(VMS, self._made[our_id], (our_id.rpartition("/")[2],))
            return target.path(self._subscription.id)
        raise ProviderProblem(
            f'A placement hint names "{our_id}", and Azure shows no VM, machine or rack of that name. It '
            "takes hints on these alone."
        )

    # --- reading back --------------------------------------------------------------------------

    def _read_back(self, request: ChangeRequest, arm: Arm, group: str) -> ProviderAnswer:
        """What stands once Azure shows what was asked for, with the machines of all VMs; after a while
        without those that Azure does not tell. What goes on to differ is answered as it is: the apply says
        which argument, and what Azure has. Raises StepWaits.
        """
        is_late = arm.deadline(SHOWN_WITHIN)
        differing: list[tuple[str, ...]] = []
        while True:
            try:
                with asking():
                    shown = self._shown(request, arm, group)
            except ProviderProblem as problem:  # what was done is done, whatever this look comes to
                raise StepWaits(f"{problem} `nexusform apply -resume` looks again.") from None
            complete = shown is not None and not shown.differing and _has_machines(shown, request)
            if shown is not None and (complete or (is_late() and not shown.differing)):
                return self._with_lacking(shown.answer, request, arm, group)
            if shown is not None and shown.differing:
                if not differing:
                    words = (
                        f"Azure is done, and shows another {' and '.join(shown.differing)} than was planned"
                    )
                    request.tell(StepNews(words=words))
                differing.append(shown.differing)
                if differing[-LOOKS:] == [shown.differing] * LOOKS:
                    return shown.answer
            if is_late():
                raise StepWaits(
                    f"Azure has done what was asked of {request.key.id}, and does not show it. "
                    "`nexusform apply -resume` looks again."
                )
            arm.wait(None, request, f"{request.key.id} is done, and where its VMs landed does not show yet")

    def _with_lacking(
        self, answer: ProviderAnswer, request: ChangeRequest, arm: Arm, group: str
    ) -> ProviderAnswer:
        """An answer that says which nodes were asked for and never came; these are due."""
        lacking = _lacking(answer.attributes, None if request.unfinished else request.planned)
        if not lacking:
            return answer
        nodes = answer.attributes["nodes"]
        pool = str(nodes[lacking[0]]["pool"])
        cluster = _cluster_target(request, group)
        target = cluster if pool == CONTROL_PLANE else Target(POOLS, group, (*cluster.names, pool))
        part = "controlPlaneNodeConfiguration" if target is cluster else "count"
        reason = words_of(arm.get(target))
        there = f"{len(nodes) - len(lacking)} of {counted(len(nodes), 'node')} of {request.key.id}"
        names = first_of(lacking, _MOST_NAMED)
        words = f"Azure shows {there} and not {names}{f' ({reason})' if reason else ''}."
        change = ArmChange(Verb.UPDATE, target, {"properties": {part: None}}, {part: None})
        noted = note_of(target.path(self._subscription.id), NODES_MISSING, words, change, request)
        return replace(answer, unfinished=noted)

    def _shown(self, request: ChangeRequest, arm: Arm, group: str) -> Shown | None:
        """What Azure shows now of one object alone: reading everything would take time with every step."""
        from nexusform.domains.azure.importers.az_adoption import adopt_sites
        from nexusform.domains.azure.importers.az_known_nodes import known_nodes
        from nexusform.domains.azure.importers.az_ownership import with_pools_apart

        documents = self._documents_of(request, arm, group)
        if documents is None:
            return None
        if request.key.type == POOL:
            self._set_apart([request.key])
        sites, _ = self._subscription.sites_in(documents)
        named = [replace(site, name=_site_of(request)) for site in sites]
        adopted = adopt_sites(named, known_nodes([request.planned or {}]))
        apart = self._apart()
        objects: dict[tuple[str, str], AdoptedObject] = {}
        for site in adopted:
            objects |= {(one.type, one.id): one for one in with_pools_apart(site.objects, apart)}
        return shown_of(request, objects)

    def _documents_of(
        self, request: ChangeRequest, arm: Arm, group: str
    ) -> dict[str, list[dict[str, Any]]] | None:
        """The bodies that tell of one object: its own, and those of the machines and racks it is on."""
        is_vm = request.key.type == VM
        target = Target(VMS, group, (request.key.id.rpartition("/")[2],))
        target = target if is_vm else _cluster_target(request, group)
        body = arm.get(target)
        if body is None:
            return None
        documents = {target.kind: [body], **self._hardware_of(_machine_ids(body))}
        if not is_vm:
            documents[POOLS] = self._subscription.pools(group, target.names[0])
        return documents

    def _hardware_of(self, ids: set[str]) -> dict[str, list[dict[str, Any]]]:
        """The bodies of these machines, and of all racks."""
        from nexusform.domains.azure.importers.arm import id_key

        known = self._directory().machines
        if not ids <= known.keys():  # one that came since
            known |= {id_key(str(body.get("id"))): body for body in self._subscription.machines()}
        machines = [known[each] for each in sorted(ids) if each in known]
        return {MACHINES: machines, "racks": list(self._subscription.shown.get("racks", ()))}


def _left_to_kubectl(anew: Mapping[int, Sequence[str]]) -> Iterator[tuple[int, Problem]]:
    """Nodes that a plan makes anew, told once."""
    names = list(chain.from_iterable(anew.values()))
    if names:
        nodes = f"{counted(len(names), 'node')} ({first_of(names, _MOST_NAMED)})"
        detail = f"Azure deletes no single node: to make {nodes} anew, {way_of_deleting()}."
        yield next(iter(anew)), Problem((), "nodes-deleted-by-kubectl", detail, Severity.WARNING)


class _Directory(Struct, frozen=True):
    """Where things are in Azure. `acted_on`: ids of clusters, pools and VMs by type and our id; `hinted`: of
    what placement hints may name by our id; `tops`: location and extended location of each site, as its
    machines have them; `machines`: bodies by the key of their id.
    """

    acted_on: dict[tuple[str, str], str] = field(default_factory=dict)
    hinted: dict[str, str] = field(default_factory=dict)
    tops: dict[str, dict[str, Any]] = field(default_factory=dict)
    machines: dict[str, dict[str, Any]] = field(default_factory=dict)


def _directory_of(sites: Iterable[AzSite], documents: Documents) -> _Directory:
    """What stands for our ids in Azure: what is acted on, what hints may name, and the top of bodies of each
    site.
    """
    from nexusform.domains.azure.importers.arm import id_key

    directory = _Directory(machines={id_key(str(b.get("id"))): b for b in documents.get(MACHINES, ())})
    for site in sites:
        inventory = site.inventory
        for cluster in inventory.clusters:
            our_id = f"{site.name}/{cluster.name}"
            directory.acted_on[CLUSTER, our_id] = cluster.id
            directory.acted_on.update({(POOL, f"{our_id}/{pool.name}"): pool.id for pool in cluster.pools})
        for vm in inventory.virtual_machines:
            directory.acted_on[VM, f"{site.name}/{vm.name}"] = vm.id
            directory.hinted[f"{site.name}/{vm.name}"] = vm.id
        directory.hinted.update({f"{site.name}/{rack.name}": rack.id for rack in inventory.racks})
        for machine in inventory.machines:
            directory.hinted[f"{site.name}/{machine.rack}/{machine.name}"] = machine.id
        bodies = [directory.machines.get(id_key(machine.id), {}) for machine in inventory.machines]
        located = next((body for body in bodies if body.get("extendedLocation")), None)
        if located is not None:
            directory.tops[site.name] = {name: located[name] for name in _TOP if located.get(name)}
    return directory


def _cluster_target(request: ChangeRequest, group: str) -> Target:
    """The cluster that a step on a cluster or pool is about."""
    values = request.planned or request.prior or {}
    owner = str(values["kubernetes_cluster_id"]) if request.key.type == POOL else request.key.id
    return Target(CLUSTERS, group, (owner.rpartition("/")[2],))


def _without_places(planned: Values | None) -> dict[str, Any]:
    """An object as it was planned, without VMs."""
    values = dict(planned or {})
    if "nodes" in values:
        values["nodes"] = {}
        values |= {"node_count": 0} if "agent_pool" in values else {}
    else:
        values |= dict.fromkeys(("machine", "rack", "availability_zone", "cells"))
    return values


def _site_of(request: ChangeRequest) -> str:
    return request.key.id.partition("/")[0]


def _machine_ids(body: Body) -> set[str]:
    """The keys of the ids of the machines that a cluster's nodes, or a VM, are on."""
    from nexusform.domains.azure.importers.arm import id_key

    properties = body.get("properties") or {}
    nodes: Iterable[Body] = properties.get("nodes") or ()
    ids = (one.get("bareMetalMachineId") for one in (properties, *nodes))
    return {id_key(each) for each in ids if each}


def _lacking(seen: Values, planned: Values | None = None) -> list[str]:
    """The nodes that a cluster or pool is to have and the platform has not, of those that were planned on a
    machine where `planned` is given.
    """
    asked = (planned.get("nodes") or {}) if planned is not None else None
    return [
        name
        for name, node in (seen.get("nodes") or {}).items()
        if not node.get("platform_name")
        if asked is None or (asked.get(name) or {}).get("machine")
    ]


def _has_machines(shown: Shown, request: ChangeRequest) -> bool:
    """Whether all VMs that were planned on a machine are shown on one."""
    seen, planned = shown.answer.attributes, request.planned or {}
    if request.key.type == VM:
        return bool(seen.get("machine")) or not planned.get("machine")
    if request.unfinished is not None and _lacking(seen):
        return False
    nodes = seen.get("nodes") or {}
    asked = [name for name, node in (planned.get("nodes") or {}).items() if node.get("machine")]
    return all((nodes.get(name) or {}).get("machine") for name in asked)
