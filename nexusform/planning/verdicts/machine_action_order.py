"""Order of the machine actions of a plan.

Actions of a site run one after another. Before each one, its VMs have left if workloads are not
allowed, quorums and budgets hold without the stopped VMs, and Microsoft's preconditions for
management servers hold.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import (
    enclose,
    format_count,
    format_first_items,
    format_list,
    group_by,
    select_word_form,
)
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import get_mapping, get_part, get_text
from nexusform.planning.instances.instance import Instance
from nexusform.planning.vm_planning.site_plans import SitePlan
from nexusform.planning.vm_planning.vm_object import VmKey, VmObject
from nexusform.plans.maintenance import (
    ACTION_WITH_WORKLOADS,
    DrainObstacles,
    EvacuatedVm,
    PlannedMachineAction,
    compute_quorum,
)
from nexusform.plans.plan import Action
from nexusform.resources.address import Address, parse_address
from nexusform.scheduling.machine_actions import ACTION_KINDS, POWER_OFF, MachineActionKind
from nexusform.scheduling.racks.vms import CONTROL_PLANE, Machine

_MAXIMUM_NAMED = 4
_MANAGEMENT_ROLES = frozenset({"control-plane", "management-plane"})
_RUNS = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
FindDisruptions = Callable[[str, Collection[str]], DrainObstacles]


class MachineActionRequest(Struct, frozen=True):
    """Action with its machine.

    `leaving_vms` leave the machine by this plan (each with the address of its object);
    `staying_vms` do not, by cluster id. `unmanaged_vms` have no resource.
    """

    instance: Instance
    kind: MachineActionKind
    site: SitePlan
    machine: Machine
    leaving_vms: tuple[tuple[Address, EvacuatedVm], ...] = ()
    staying_vms: Mapping[str, tuple[str, ...]] = {}
    unmanaged_vms: tuple[str, ...] = ()

    @property
    def stopped_vms(self) -> tuple[str, ...]:
        """Names of the VMs stopped by the action; none if it does not disrupt VMs (a cordon)."""
        vms_on_machine = (*chain.from_iterable(self.staying_vms.values()), *self.unmanaged_vms)
        return vms_on_machine if self.kind.is_disruptive else ()


class MachineActionOrder(Struct, frozen=True):
    """Actions in order, the addresses to complete before each, and the problems."""

    actions: tuple[PlannedMachineAction, ...] = ()
    step_order: Mapping[Address, Sequence[Address]] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()


def _list_earlier_objects(
    request: MachineActionRequest, instances: Mapping[Address, Instance]
) -> list[Address]:
    """Return the objects to complete before an action.

    They are the rack or machine resource, and the objects of leaving VMs. Objects with a reference
    to the action are left out, because they follow it.
    """
    related = [parse_address(request.site.offering_addresses[request.machine.name])]
    related += [address for address, _ in request.leaving_vms]
    block = str(request.instance.address.config_address)
    return [
        address
        for address in related
        if address in instances and block not in instances[address].dependencies
    ]


def order_machine_actions(
    instances: Mapping[Address, Instance],
    objects: Mapping[Address, VmObject],
    sites: Mapping[str, SitePlan],
    disruptions: Sequence[FindDisruptions],
) -> MachineActionOrder:
    """Order the actions on the machines of each site, one per maintenance window.

    Machines switched off by their argument power_state come last. Errors name unknown machines, VMs
    still on a machine, and actions without a safe order. `disruptions` return the obstacles to
    draining nodes of a cluster.
    """
    pending = [
        instance
        for instance in instances.values()
        if instance.type.kind is PlanningKind.MACHINE_ACTION
        and instance.action in _RUNS
        and not instance.is_invalid
    ]
    requests, diagnostics = _build_requests(pending, objects, sites)
    diagnostics += [
        problem for request in requests for problem in _check_vms_on_machine_of_action(request)
    ]
    actions: list[PlannedMachineAction] = []
    # By action: the objects to complete before it.
    step_order: dict[Address, Sequence[Address]] = {}
    for _, on_site in sorted(group_by(requests, lambda request: request.site.id).items()):
        ordered, problems = _SiteActionOrder(on_site, objects, disruptions).build_order()
        diagnostics += problems
        # The action before it on the site, if any.
        previous: list[Address] = []
        for window, request in enumerate(ordered, 1):
            actions.append(_build_action(request, window))
            earlier = _list_earlier_objects(request, instances)
            step_order[request.instance.address] = tuple(dict.fromkeys([*previous, *earlier]))
            previous = [request.instance.address]
    windows = Counter(action.site_id for action in actions)
    for request in _build_power_off_requests(instances.values(), objects.values(), sites):
        windows[request.site.id] += 1
        actions.append(_build_action(request, windows[request.site.id]))
    return MachineActionOrder(tuple(actions), step_order, tuple(diagnostics))


def _build_power_off_requests(
    instances: Iterable[Instance], objects: Iterable[VmObject], sites: Mapping[str, SitePlan]
) -> Iterator[MachineActionRequest]:
    """Yield a request for each machine with VMs that the plan switches off.

    Its argument power_state becomes Off.
    """
    for instance in instances:
        before = get_part(instance.before, ("power_state",))
        after = get_part(instance.planned, ("power_state",))
        if instance.type.kind is PlanningKind.MACHINE and after == "Off" != before:
            location = _find_machine(get_text(instance.planned, "id"), sites)
            if location is not None:
                request = _build_request(instance, ACTION_KINDS[POWER_OFF], *location, objects)
                if request.stopped_vms:
                    yield request


def _find_machine(
    machine_id: str, sites: Mapping[str, SitePlan]
) -> tuple[SitePlan, Machine] | None:
    """Return a machine and its site by the id SITE/RACK/MACHINE; None if it is unknown."""
    site_id, _, path = machine_id.partition("/")
    rack, _, name = path.partition("/")
    site = sites.get(site_id)
    if site is None or name not in site.machines or site.machines[name].rack != rack:
        return None
    return site, site.machines[name]


def _build_requests(
    pending: Iterable[Instance], objects: Mapping[Address, VmObject], sites: Mapping[str, SitePlan]
) -> tuple[list[MachineActionRequest], list[Diagnostic]]:
    """Return a request per action on a known machine.

    An action on another machine gives an error.
    """
    requests = []
    problems = []
    for instance in pending:
        values = instance.planned
        assert values is not None, "the action runs"
        location = _find_machine(str(values["machine_id"]), sites)
        if location is None:
            detail = (
                f'There is no machine "{values["machine_id"]}". Write the id as '
                '"SITE/RACK/MACHINE".'
            )
            problems.append(instance.build_error("unknown-machine", detail, ("machine_id",)))
            continue
        kind = ACTION_KINDS[str(values["action"])]
        requests.append(_build_request(instance, kind, *location, objects.values()))
    return requests, problems


def _build_request(
    instance: Instance,
    kind: MachineActionKind,
    site: SitePlan,
    machine: Machine,
    objects: Iterable[VmObject],
) -> MachineActionRequest:
    """Build the request of an action.

    It has the VMs this plan moves or removes from the machine, and the others.
    """
    # With the address of the VM's object.
    leaving: list[tuple[Address, EvacuatedVm]] = []
    # Names by cluster id.
    staying: dict[str, tuple[str, ...]] = {}
    for vm_object in objects:
        keys_after = _list_keys_on_machine(vm_object, site.id, machine.name)
        for key, vm in vm_object.prior.existing.items():
            was_there = vm_object.prior.site_id == site.id and vm.placement.machine == machine.name
            # The VM is moved or removed.
            if was_there and key not in keys_after:
                placed = vm_object.placements.vms.get(key)
                target = placed.placement.machine if placed is not None else ""  # "": removed
                leaving.append((vm_object.instance.address, EvacuatedVm(vm.name, target)))
        if keys_after:
            names = tuple(vm_object.placements.vms[key].name for key in keys_after)
            cluster_id = vm_object.request.demand.cluster_id
            staying[cluster_id] = (*staying.get(cluster_id, ()), *names)
    managed_names = set(chain.from_iterable(vm_object.list_prior_names() for vm_object in objects))
    # Of VMs without a resource, each once.
    unmanaged_names = dict.fromkeys(
        vm.name
        for vm in (*site.configured_unmanaged, *site.observed_unmanaged)
        if vm.machine == machine.name and vm.name not in managed_names
    )
    return MachineActionRequest(
        instance, kind, site, machine, tuple(leaving), staying, unmanaged_vms=tuple(unmanaged_names)
    )


def _list_keys_on_machine(vm_object: VmObject, site_id: str, machine: str) -> list[VmKey]:
    """Return the VMs of an object on a machine after the plan."""
    if vm_object.request.demand.site_id != site_id:
        return []
    return [key for key, vm in vm_object.placements.vms.items() if vm.placement.machine == machine]


def _check_vms_on_machine_of_action(request: MachineActionRequest) -> Iterator[Diagnostic]:
    """Yield an error if VMs remain on the machine of a disruptive action.

    There is no error if `allow_workloads` is set.
    """
    if not request.stopped_vms or get_part(request.instance.planned, ("allow_workloads",)) is True:
        return
    name = request.machine.name
    count = len(request.stopped_vms)
    # The machine resource, or the rack of the machine.
    resource = request.site.offering_addresses.get(name, "")
    place = (
        "this machine" if resource.startswith("nexus_bare_metal") else f'machine_override "{name}"'
    )
    unmanaged = ""
    if request.unmanaged_vms:
        names = format_first_items(request.unmanaged_vms, _MAXIMUM_NAMED)
        pronoun = select_word_form(len(request.unmanaged_vms), "it", "them")
        unmanaged = f" {names}: no resource manages {pronoun}, so nexusform cannot move {pronoun}."
    end = "They stay down." if request.kind.leaves_off else "They start again on the machine."
    yield request.instance.build_error(
        ACTION_WITH_WORKLOADS,
        f"{format_count(count, 'VM')} {select_word_form(count, 'runs', 'run')} on {name}: "
        f"{format_first_items(request.stopped_vms, _MAXIMUM_NAMED)}. {request.kind.name} stops "
        f"{select_word_form(count, 'it', 'them')}.{unmanaged} To move VMs first, set evacuate = "
        f"true for {place} "
        f"({resource}). To stop VMs, set allow_workloads = true here. {end}",
        ("machine_id",),
        headline=f"{request.kind.name} of {name} would stop {format_count(count, 'VM')}",
    )


def _build_action(request: MachineActionRequest, window: int) -> PlannedMachineAction:
    """Build the record of an action in the plan, with VMs only if it stops any.

    `window` counts from 1 on each site.
    """
    return PlannedMachineAction(
        address=request.instance.address,
        site_id=request.site.id,
        site=request.site.name,
        rack=request.machine.rack,
        machine=request.machine.name,
        action=request.kind.name,
        window=window,
        minutes=request.kind.minutes,
        leaves_off=request.kind.leaves_off,
        is_disruptive=request.kind.is_disruptive,
        leaving_vms=tuple(vm for _, vm in request.leaving_vms)
        if request.kind.is_disruptive
        else (),
        stopped_vms=request.stopped_vms,
        options=_read_options(request),
    )


# Options of an action with a sentence in the plan.
_OPTION_NAMES = ("storagePolicy", "safeguardMode")


def _read_options(request: MachineActionRequest) -> dict[str, str]:
    """Return the texts at the top of the request body in the block of the platform."""
    body = get_mapping(request.instance.planned, "azure", "body")
    return {name: body[name] for name in _OPTION_NAMES if isinstance(body.get(name), str)}


class _SiteActionOrder:
    """Order of the actions of one site.

    `_down` are the machines unhealthy or switched off by earlier actions.
    """

    def __init__(
        self,
        requests: Sequence[MachineActionRequest],
        objects: Mapping[Address, VmObject],
        disruptions: Sequence[FindDisruptions],
    ) -> None:
        """Keep the requests of one site (at least one) and its VMs.

        Unhealthy machines count as down at first.
        """
        self._requests = list(requests)
        # Site of all requests.
        self._site = requests[0].site
        self._objects = [
            item for item in objects.values() if item.request.demand.site_id == self._site.id
        ]
        # Functions of the domains for the obstacles to a drain.
        self._disruptions = disruptions
        self._down = {
            name for name, machine in self._site.machines.items() if not machine.is_healthy
        }  # now

    def build_order(self) -> tuple[list[MachineActionRequest], list[Diagnostic]]:
        """Return the actions in a safe order, and the errors.

        An action follows its dependencies. The safe action of the lowest rank is next. If none
        is safe, each action that could be next gets an error, and all remaining actions follow
        the ordered ones.
        """
        ordered: list[MachineActionRequest] = []
        remaining = list(self._requests)
        while remaining:
            remaining_blocks = {
                str(request.instance.address.config_address) for request in remaining
            }
            independent_actions = [
                request
                for request in remaining
                if remaining_blocks.isdisjoint(request.instance.dependencies)
            ]
            ready = sorted(independent_actions, key=self._compute_action_rank)
            safe = next(
                (request for request in ready if not self._find_action_obstacle(request)), None
            )
            if safe is None:
                return [*ordered, *remaining], [
                    self._build_error(request, ordered) for request in ready
                ]  # rejected
            ordered.append(safe)
            remaining.remove(safe)
            if safe.kind.leaves_off:
                self._down.add(safe.machine.name)
            elif safe.kind.is_disruptive:
                # A restart or repair leaves the machine healthy.
                self._down.discard(safe.machine.name)
        return ordered, []

    def _compute_action_rank(self, request: MachineActionRequest) -> tuple[bool, bool, bool, str]:
        """Return a sort key: cordons, repairs, temporary actions, then PowerOff.

        Within each of these groups, actions are ordered by address.
        """
        is_repair = request.machine.name in self._down and not request.kind.leaves_off
        return (
            request.kind.is_disruptive,
            not is_repair,
            request.kind.leaves_off,
            str(request.instance.address),
        )

    def _find_action_obstacle(self, request: MachineActionRequest) -> str:
        """Return the reason against an action now, "" for none."""
        # A cordon stops no VM.
        if not request.kind.is_disruptive:
            return ""
        down = self._down | {request.machine.name}
        return (
            self._check_management_servers(request.machine)
            or self._check_control_plane_quorums(request, down)
            or self._check_pod_disruption_budgets(request, down)
        )

    def _check_management_servers(self, machine: Machine) -> str:
        """Return the problem of an action on a machine that is a management server.

        Return "" for no problem, and for another role. Microsoft requires that enough of the other
        management servers are healthy: all, half or three quarters.
        """
        if _MANAGEMENT_ROLES.isdisjoint(machine.roles):
            return ""
        others = [
            other
            for other in self._site.machines.values()
            if other.name != machine.name and not _MANAGEMENT_ROLES.isdisjoint(other.roles)
        ]
        control_planes = [other for other in others if "control-plane" in other.roles]
        in_rack = [other for other in others if other.rack == machine.rack]
        # The servers, and the maximum number of them that may be down.
        requirements = (
            ("All other control plane machines", control_planes, 0),
            (
                f"More than 50 % of the other management servers of {machine.rack}",
                in_rack,
                # More than half stay up: 1 of 4 may be down, 2 of 5.
                max((len(in_rack) - 1) // 2, 0),
            ),
            ("At least 75 % of the other management servers", others, len(others) // 4),
        )
        for subject, servers, maximum_down in requirements:
            names = [server.name for server in servers if server.name in self._down]
            if len(names) > maximum_down:
                return f"{subject} must be healthy; {format_list(names, 4)} is not."
        return ""

    def _check_control_plane_quorums(
        self, request: MachineActionRequest, down: AbstractSet[str]
    ) -> str:
        """Return the problem of the first control plane left without its etcd quorum.

        The control plane has a VM on the machine. Return "" if there is no problem. A quorum must
        hold with and without the new VMs of a scale-out. They may not exist yet, unless the action
        depends on their cluster.
        """
        for vm_object in self._objects:
            planned_members = {
                key: vm.placement.machine
                for key, vm in vm_object.placements.vms.items()
                if key[0] == CONTROL_PLANE
            }
            possible_members = [planned_members]
            block = str(vm_object.instance.address.config_address)
            if block not in request.instance.dependencies:
                existing = vm_object.prior.existing
                possible_members.append(
                    {key: name for key, name in planned_members.items() if key in existing}
                )
            for members in possible_members:
                # None of its nodes runs there.
                if request.machine.name not in members.values():
                    continue
                up = sum(name not in down for name in members.values())
                quorum = compute_quorum(len(members))
                if up < quorum:
                    return (
                        f"The control plane of {vm_object.request.demand.cluster} would have {up} "
                        f"of {len(members)} nodes, "
                        f"and its quorum is {quorum}. Evacuate the machine first."
                    )
        return ""

    def _check_pod_disruption_budgets(
        self, request: MachineActionRequest, down: AbstractSet[str]
    ) -> str:
        """Return the problem of the first cluster whose budgets block a drain of its nodes.

        The budgets are PodDisruptionBudgets. Return "" if there is no problem. The nodes are those
        on this machine and on machines already down.
        """
        for cluster_id, names in request.staying_vms.items():
            nodes = set(names)
            for vm_object in self._objects:
                if vm_object.request.demand.cluster_id == cluster_id:
                    nodes |= {
                        vm.name
                        for vm in vm_object.placements.vms.values()
                        if vm.placement.machine in down
                    }
            obstacles = [find_obstacles(cluster_id, nodes) for find_obstacles in self._disruptions]
            budgets = list(chain.from_iterable(obstacle.budgets for obstacle in obstacles))
            if budgets:
                noun = select_word_form(len(budgets), "PodDisruptionBudget", "PodDisruptionBudgets")
                return (
                    f"{noun} {format_first_items(budgets, _MAXIMUM_NAMED)} of "
                    f"{cluster_id.rpartition('/')[2]} "
                    f"{select_word_form(len(budgets), 'allows', 'allow')} no eviction. Allow one, "
                    "or run one more replica."
                )
        return ""

    def _build_error(
        self, request: MachineActionRequest, ordered: Sequence[MachineActionRequest]
    ) -> Diagnostic:
        """Build the error of an action blocked even after the `ordered` ones."""
        after = enclose(" after ", format_list((done.machine.name for done in ordered), 4))
        return request.instance.build_error(
            "machine-action-order",
            f"No order of the machine actions on {self._site.name} is safe. {request.kind.name} of "
            f"{request.machine.name} cannot run{after}: {self._find_action_obstacle(request)}",
            headline=f"{request.kind.name} of {request.machine.name} cannot run",
        )
