"""Search for the fewest re-creations to free capacity.

An integer program (repack_program.py) gives a lower bound and a choice of VMs (repack_choice.py).
The placement rule checks it window by window (repack_windows.py); a rejected choice refines the
program. On small sites every order is searched (repack_orders.py) before a gap is reported. The
pods of the windows found are simulated: a node is drained before its VM is re-created, pods with
hugepages or devices need another node meanwhile, and separation rules over workloads must hold.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import group_by
from nexusform.domains.pods.scheduling.cluster_records import Node, PodSpec
from nexusform.domains.whatif.questions.pod_outage import (
    ClusterPods,
    simulate_nodes_down,
    simulate_nodes_up,
)
from nexusform.domains.whatif.questions.repack_choice import RepackChoice, choose_vms_to_recreate
from nexusform.domains.whatif.questions.repack_context import (
    NO_TIME_LIMIT,
    NOTHING_LIFTED,
    Constraint,
    RepackContext,
    RepackRequest,
    TimeBudget,
    build_repack_context,
    find_pods_without_resources,
)
from nexusform.domains.whatif.questions.repack_orders import (
    MAX_RECREATIONS,
    is_searchable,
    search_orders,
)
from nexusform.domains.whatif.questions.repack_program import NoRepackSolution, RepackProgram
from nexusform.domains.whatif.questions.repack_separation import SeparationRule, VmLocation
from nexusform.domains.whatif.questions.repack_windows import (
    MovedPod,
    RepackStep,
    RepackWindow,
    RepackWindowSequence,
    count_recreations,
    find_window_sequence,
    verify_sequence,
)
from nexusform.scheduling.racks.vms import Placement
from nexusform.snapshots.snapshot import SiteSnapshot

# Sites of at most this many VMs are modelled cell by cell and pool by pool, so that few pods and
# pools move, too.
_MAX_FINE_VMS: Final = 250
_MAX_ROUNDS: Final = 12
# Maximum number of searches that keep VMs with pods that would break something.
_MAX_KEEP_ROUNDS: Final = 5
_DAEMONS: Final = "DaemonSet"
_MACHINE_LABELS: Final = ("baremetalmachine", "CIS-node", "kubernetes.io/zone")
_ZONE_LABEL: Final = "topology.kubernetes.io/zone"
_OF_PODS: Final = frozenset({Constraint.HUGEPAGES, Constraint.DEVICES})
# Maximum number of extra VMs to free capacity for, if no order of steps suffices for
# the wanted number.
_MORE: Final = (1, 2, 4, 8)
# Share of the remaining time for one solution.
_SOLVE_SHARE: Final = 0.6
# The rest is for the verification.
_SEARCH_SHARE: Final = 0.85


class RepackAttempt(Struct, frozen=True):
    """Result of one search.

    With `found`, its windows free the capacity. `bound` None means proved to be impossible.
    `undecided` means neither a solution nor a proof. No order with up to `searched_orders`
    re-creations exists (None: orders were not searched). `orders_cut_at` is the number of
    re-creations at the end of an incomplete search.
    """

    context: RepackContext
    bound: int | None
    windows: tuple[RepackWindow, ...] = ()
    undecided: bool = False
    found: bool = False
    searched_orders: int | None = None
    orders_cut_at: int | None = None

    @property
    def recreations(self) -> int:
        """Number of re-created VMs."""
        return count_recreations(self.windows)


class RepackSearch(Struct, frozen=True):
    """Search of one repacking; VMs with violated pods are kept in further rounds."""

    pods: Mapping[str, ClusterPods]
    time_budget: TimeBudget = NO_TIME_LIMIT

    def run(
        self,
        site: SiteSnapshot,
        request: RepackRequest,
        lifted: frozenset[Constraint] = NOTHING_LIFTED,
        *,
        is_verified: bool = True,
        share: float = 1.0,
    ) -> RepackAttempt:
        """Search with this `share` of the remaining time, without the `lifted` constraints.

        If pods of re-created VMs would lack resources or violate a separation rule, search
        again with these VMs in place. Without `is_verified`, no exact orders are tried and no
        samples are counted.
        """
        budget = self.time_budget.split(share)
        context = build_repack_context(site, request, self.pods, lifted)
        refinement = _ProgramRefinement(context, request, budget.split(_SEARCH_SHARE))
        attempt, sequence = refinement.search(searches_orders=is_verified)
        for _ in range(_MAX_KEEP_ROUNDS):
            if sequence is None:
                return attempt
            checked_windows, violating = simulate_window_pods(
                context, sequence.windows, request.separation_rules
            )
            # No VM violates constraints of pods, or they are ignored.
            if not violating or lifted & _OF_PODS:
                windows = (
                    verify_sequence(context, sequence, budget) if is_verified else sequence.windows
                )
                # The moved pods are known in `checked_windows` only.
                pairs = zip(windows, checked_windows, strict=True)
                windows = tuple(replace(window, pods=checked.pods) for window, checked in pairs)
                return replace(attempt, windows=windows, found=True, undecided=False)
            # The bound stays that of all VMs: a failure proves nothing, as a kept VM might move
            # in another order.
            attempt = replace(attempt, undecided=True)
            kept_vms = [source for source in context.all_movable_vms if source.handle in violating]
            kept_names = {
                f"{context.pools[source.pool].address}:{source.vm.name}" for source in kept_vms
            }
            request = replace(request, excluded=request.excluded | kept_names)
            context_without_kept = build_repack_context(site, request, self.pods, lifted)
            refinement = _ProgramRefinement(
                context_without_kept, request, budget.split(_SEARCH_SHARE)
            )
            _, sequence = refinement.search(searches_orders=is_verified)
        # Every sequence found violates them.
        return attempt


class _ProgramRefinement:
    """Program with growing detail.

    `tracked_pools` have rows for their spread, `single_machines` are modelled each.
    """

    def __init__(
        self, context: RepackContext, request: RepackRequest, time_budget: TimeBudget
    ) -> None:
        """Start with few details.

        The spread of pools on small sites only, and no single machines.
        """
        self._context = context
        self._request = request
        self._time_budget = time_budget
        # There are few enough VMs to model the spread of every pool.
        self._is_fine = len(context.all_movable_vms) <= _MAX_FINE_VMS
        pools = frozenset(source.pool for source in context.all_movable_vms)
        self._tracked_pools = pools if self._is_fine else frozenset()
        self._single_machines: frozenset[str] = frozenset()
        # Lower bound of re-creations: the request does not fit without any.
        self._bound = 1

    def search(self, *, searches_orders: bool) -> tuple[RepackAttempt, RepackWindowSequence | None]:
        """Return the attempt, and windows or None.

        With `searches_orders`, also try all orders on a small site.
        """
        # This sets `_bound`, the lower bound of re-creations.
        sequence, is_impossible = self._search_program()
        if is_impossible:
            return RepackAttempt(self._context, bound=None), None
        is_proved = sequence is not None and count_recreations(sequence.windows) <= self._bound
        if sequence is None:
            sequence = self._find_with_extra_capacity()
        attempt = RepackAttempt(self._context, self._bound, undecided=not is_proved)
        if is_proved or not searches_orders or not is_searchable(self._context):
            return attempt, sequence
        # The maximum is below the number found.
        maximum = MAX_RECREATIONS if sequence is None else count_recreations(sequence.windows) - 1
        if self._request.moves is not None:
            maximum = min(maximum, self._request.moves)
        orders = search_orders(
            self._context, self._request, self._bound, maximum, self._time_budget
        )
        attempt = replace(attempt, searched_orders=orders.searched, orders_cut_at=orders.cut_at)
        return attempt, orders.sequence or sequence

    def _search_program(self) -> tuple[RepackWindowSequence | None, bool]:
        """Solve and refine the program until the chosen VMs have an order.

        Return its windows, or None if none is found. Also return True with a proof: no choice of
        VMs makes the demand fit.
        """
        for _ in range(_MAX_ROUNDS):
            solution = self._solve_program(self._request)
            if isinstance(solution, NoRepackSolution):
                self._bound = max(self._bound, solution.bound)
                return None, solution.is_proved
            choice, bound = solution
            self._bound = max(self._bound, bound)
            sequence = find_window_sequence(self._context, self._request, choice, self._time_budget)
            count = len(choice.sources)
            if sequence is None and count <= MAX_RECREATIONS and is_searchable(self._context):
                # Search every order of the chosen VMs, on any machines.
                orders = search_orders(
                    self._context, self._request, count, count, self._time_budget, choice.sources
                )
                sequence = orders.sequence
            if sequence is not None:
                return sequence, False
            # Add detail to the program: the spread of crowding pools, else the disk of machines.
            if choice.crowding_pools - self._tracked_pools:
                self._tracked_pools |= choice.crowding_pools
            elif choice.affected_machines <= self._single_machines:
                # All details are modelled already.
                break
            else:
                self._single_machines |= choice.affected_machines
            if self._time_budget.is_exhausted:
                break
        return None, False

    def _solve_program(self, request: RepackRequest) -> tuple[RepackChoice, int] | NoRepackSolution:
        """Solve the program in its present detail.

        Return a choice of VMs and the lower bound of re-creations.
        """
        program = RepackProgram(
            self._context,
            request,
            tracked_pools=self._tracked_pools,
            single_machines=self._single_machines,
            is_fine=self._is_fine,
        )
        # By building the program.
        if self._time_budget.is_exhausted:
            return NoRepackSolution(is_proved=False)
        solution = program.solve(self._time_budget.compute_share(_SOLVE_SHARE))
        if isinstance(solution, NoRepackSolution):
            return solution
        return choose_vms_to_recreate(
            self._context, program, solution, self._tracked_pools
        ), solution.bound

    def _find_with_extra_capacity(self) -> RepackWindowSequence | None:
        """Find windows without a proof.

        The program is solved for more VMs than requested.
        """
        for more in _MORE:  # additional VMs
            if self._time_budget.is_exhausted:
                break
            solution = self._solve_program(replace(self._request, want=self._request.want + more))
            # For even more VMs, there is none either.
            if isinstance(solution, NoRepackSolution):
                break
            # The bound is that of the larger request.
            choice, _ = solution
            sequence = find_window_sequence(self._context, self._request, choice, self._time_budget)
            if sequence is not None:
                return sequence
        return None


def simulate_window_pods(
    context: RepackContext,
    windows: Sequence[RepackWindow],
    separation_rules: Sequence[SeparationRule] = (),
) -> tuple[list[RepackWindow], frozenset[int]]:
    """Drain the nodes of every window.

    Return the windows with pods, and the VMs with violated pod constraints.
    """
    # Rules over pools alone were obeyed when windows were built. Rules with selectors
    # depend on pods.
    workload_rules = [
        rule
        for rule in separation_rules
        if any(group.selector is not None for group in rule.groups)
    ]
    simulation = _PodSimulation(context, workload_rules)
    checked_windows = [simulation.drain_window(window) for window in windows]
    return checked_windows, frozenset(simulation.violating)


class _PodSimulation:
    """Location of every VM and pod, window by window."""

    def __init__(self, context: RepackContext, separation_rules: Sequence[SeparationRule]) -> None:
        """Start with the current locations of all VMs and pods."""
        self._context = context
        self._separation_rules = separation_rules
        # By cluster id, with nodes on their current machines.
        self._pods = dict(context.pods)
        # On their current nodes.
        self._existing = {cluster: pods.existing for cluster, pods in context.pods.items()}
        self._locations: dict[tuple[str, str], Placement] = {
            (cluster.id, vm.name): vm.placement
            for cluster, pool in zip(context.clusters, context.pools, strict=True)
            for vm in pool.vms
        }
        self._shared_before = self._find_shared_locations()
        # Handles of VMs.
        self.violating: set[int] = set()

    def drain_window(self, window: RepackWindow) -> RepackWindow:
        """Run one window: its nodes go down, then up on their targets.

        Return it with the moved pods; add its VMs to `violating` if a constraint on
        pods is violated.
        """
        steps_by_cluster = group_by(
            window.steps, lambda step: self._context.clusters[step.source.pool].id
        )
        moved_pods: list[MovedPod] = []
        for cluster, steps in steps_by_cluster.items():
            # Its pods are known.
            if cluster in self._pods:
                moved_pods += self._drain_nodes(cluster, steps)
            self._locations |= {(cluster, step.source.vm.name): step.target for step in steps}
        shared = self._find_shared_locations()
        # A violation before the repacking does not count.
        if shared - self._shared_before:
            self.violating |= {step.source.handle for step in window.steps}
        return replace(window, pods=tuple(moved_pods))

    def _drain_nodes(self, cluster: str, steps: Sequence[RepackStep]) -> list[MovedPod]:
        """Drain the nodes of one cluster, then bring them up on their targets.

        Return the moved pods, without those of DaemonSets. Add VMs to `violating` if a pod finds no
        other node with its hugepages or devices meanwhile.
        """
        # Drained nodes by name.
        nodes = {step.source.vm.name: step for step in steps}
        pods = self._pods[cluster]
        existing = self._existing[cluster]
        impacts, meanwhile = simulate_nodes_down(pods, existing, nodes.keys(), is_drained=True)
        for pod, _ in find_pods_without_resources(pods, existing, nodes.keys()):
            self.violating.add(nodes[pod.node].source.handle)
        moved_nodes = tuple(
            _move_node(node, nodes[node.name].target) if node.name in nodes else node
            for node in pods.cluster.nodes
        )
        self._pods[cluster] = moved_cluster = replace(
            pods, cluster=replace(pods.cluster, nodes=moved_nodes)
        )
        self._existing[cluster] = simulate_nodes_up(moved_cluster, meanwhile)
        final_nodes = {(pod.workload, pod.name): pod.node for pod in self._existing[cluster]}
        moved: list[MovedPod] = []
        for impact in impacts:
            if impact.workload.split("/")[1] == _DAEMONS:  # of <namespace>/<kind>/<name>
                continue
            for move in impact.moves:
                nodes_of_pod = (
                    move.old_node,
                    move.node,
                    final_nodes.get((impact.workload, move.pod), ""),
                )
                moved.append(
                    MovedPod(cluster, impact.workload, move.pod, *nodes_of_pod, move.is_certain)
                )
        return moved

    def _find_shared_locations(self) -> frozenset[tuple[int, str]]:
        """Find machines and racks shared by groups to be separated.

        Each is a pair: the number of their rule, and the location.
        """
        if not self._separation_rules:
            return frozenset()
        vm_locations: list[VmLocation] = []
        for cluster, pool in zip(self._context.clusters, self._context.pools, strict=True):
            # Specs of pods by node.
            specs: dict[str, list[PodSpec]] = {}
            for pod in self._existing.get(cluster.id, ()):
                specs.setdefault(pod.node, []).append(pod.spec)
            for vm in pool.vms:
                # As in the keys of rules: single VMs of one block are one pool.
                pool_key = pool.owner.owner, pool.demand.rule_pool or pool.name
                location = self._locations[cluster.id, vm.name]
                vm_locations.append(VmLocation(pool_key, location, tuple(specs.get(vm.name, ()))))
        return frozenset(
            (number, location)
            for number, rule in enumerate(self._separation_rules)
            for location in rule.find_shared_locations(vm_locations)
        )


def _move_node(node: Node, location: Placement) -> Node:
    """Return a node on another machine, with updated machine and zone labels."""
    labels = dict(node.labels)
    for key, value in node.labels.items():
        if key == _ZONE_LABEL and value == node.zone:
            labels[key] = location.availability_zone
        elif value == node.machine and key.endswith(_MACHINE_LABELS):
            labels[key] = location.machine
    return replace(
        node,
        labels=labels,
        machine=location.machine,
        rack=location.rack,
        zone=location.availability_zone,
    )
