"""Placement of pods one by one on a cluster, with the certainty of each decision.

kube-scheduler chooses randomly among equals. A choice is certain only without such a choice, and if
no earlier random choice could have affected it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.pods.scheduling import profile
from nexusform.domains.pods.scheduling.claimed_devices import ClaimedDevices
from nexusform.domains.pods.scheduling.cluster_records import (
    Cluster,
    ExistingPod,
    PodIdentity,
    PodSpec,
    PodState,
    VolumeNeed,
    is_recreated,
)
from nexusform.domains.pods.scheduling.feature_gates import is_feature_enabled
from nexusform.domains.pods.scheduling.kubelet_admission import (
    NodeNumaCells,
    list_kubelet_rejections,
)
from nexusform.domains.pods.scheduling.pending_reasons import (
    describe_missing,
    format_pending_message,
)
from nexusform.domains.pods.scheduling.pod_spec_scheduler import (
    BestNodes,
    FeasibleNodesCache,
    PodSpecScheduler,
)
from nexusform.domains.pods.scheduling.preemption import (
    PreemptionVictim,
    compute_eviction_allowances,
    select_victims,
)
from nexusform.domains.pods.scheduling.random_choices import (
    RandomChoices,
    draw_extra_age,
    has_slow_victims,
    select_by_digest,
    terminates_slowly,
)
from nexusform.domains.pods.scheduling.rules import node_affinity
from nexusform.domains.pods.scheduling.rules.image_locality import MAX_POINTS
from nexusform.domains.pods.scheduling.scheduler_cache import PodSpecGroup, SchedulerCache
from nexusform.domains.pods.scheduling.scheduler_versions import is_version_uncertain
from nexusform.domains.pods.scheduling.volume_binder import AttachedVolumes, VolumeBinder
from nexusform.scheduling.placement_decision import Rejection

_MAX_PRIORITY = 1 << 31
# The choice for a pod that may run on one node only, or on none.
_NO_CHOICE = BestNodes(tied_nodes=(), feasible_nodes=0)


class PodVerdict(Struct, frozen=True):
    """Node of a pod ("" = none), its certainty, reasons against other nodes, and its victims.

    An uncertain verdict has a `doubt`.
    """

    node: str
    is_certain: bool
    feasible_nodes: int
    reason: str = ""
    rejections: tuple[Rejection, ...] = ()
    unscheduled_state: PodState = PodState.PENDING
    victims: tuple[ExistingPod, ...] = ()
    doubt: str = ""


# No cache has this version.
_NO_FAILURE = (-1, PodVerdict("", is_certain=False, feasible_nodes=0))
# Called with a pod (workload key, number) and its scheduler just before the decision.
Observer = Callable[[str, int, PodSpecScheduler], None]


class SchedulingSession:
    """Placement of pod after pod on one scheduler cache."""

    def __init__(
        self,
        cluster: Cluster,
        existing_pods: Iterable[ExistingPod],
        choices: RandomChoices | None = None,
        observer: Observer | None = None,
        expected_counts: Sequence[int] = (),
        lost_pods: Iterable[ExistingPod] = (),
    ) -> None:
        """Start with `existing_pods` on their nodes.

        `lost_pods` have lost their nodes, but keep their volumes. `choices` decide what is random.
        """
        running_pods = tuple(existing_pods)
        self.cluster = cluster
        self.choices = choices or RandomChoices()
        self.volume_binder = VolumeBinder(cluster, (*running_pods, *lost_pods))
        self._attached_volumes = AttachedVolumes(cluster, self.volume_binder)
        self.claimed_devices = ClaimedDevices(cluster, running_pods, self.choices)
        # The observer is called with the scheduler of each pod before its decision.
        self._observer = observer
        self.cache = SchedulerCache(cluster)
        self.facts_cache = FeasibleNodesCache(cluster.nodes, cluster.version)
        # Not handled yet; the caller takes them from here.
        self.evictions: list[PreemptionVictim] = []
        # Of every pod that is made here: newer than every existing pod.
        self.age = 1
        # Number of pods under each budget of the cluster.
        self._expected_counts = expected_counts
        self._names = list(cluster.node_by_name)
        # With more feasible nodes, kube-scheduler stops its search before it has scored
        # all of them.
        self._scored_node_limit = profile.compute_scored_node_limit(len(self._names))
        self._encoded_names = [name.encode() for name in self._names]
        # Nominated pods by node: their requests are reserved against pods of lower priority.
        self._nominated_groups: dict[int, list[PodSpecGroup]] = {}
        # Until then, evicted pods may hold their capacity, and their preemptors wait for it.
        self._has_removed_victims = False
        # Whether pods have different priorities: otherwise none is evicted, and no age counts.
        self.has_priorities = False
        # Removed pods that hold their capacity until a new pod fits nowhere else.
        self._lingering_pods: list[ExistingPod] = []
        # Each with its node.
        self._slow_evictions: list[tuple[PreemptionVictim, int]] = []
        # By pod: node and group.
        self._nominations: dict[tuple[str, int], tuple[int, PodSpecGroup]] = {}
        self._scheduler: PodSpecScheduler | None = None
        # Nodes with a usage that depends on a tie-break, as bits.
        self._uncertain_nodes = 0
        # By spec group (id): the cache version of the last pod without a feasible node,
        # and its verdict.
        self._failures: dict[int, tuple[int, PodVerdict]] = {}
        self._cells: dict[int, NodeNumaCells] = {}  # by node
        self._pods_by_node: list[dict[PodIdentity, ExistingPod]] = [{} for _ in cluster.nodes]
        # No pod here that may be evicted has a lower priority.
        self._lowest_priority = _MAX_PRIORITY
        # Spec groups (id) with a pod placed here.
        self._placed_groups: set[int] = set()
        for pod in running_pods:
            node_index = self.cache.index.get(pod.node)
            if node_index is None:
                # Not on a node of the cluster.
                continue
            self.age = max(self.age, pod.age + 1)
            self.cache.place(self.cache.get_group(pod.spec), node_index)
            self._register_pod(pod, node_index)
        for pod in cluster.nominated_pods:
            node_index = self.cache.index.get(pod.node)
            if node_index is not None:
                self._nominated_groups.setdefault(node_index, []).append(
                    self.cache.get_group(pod.spec)
                )
        self.assign_numa_cells()

    def assign_numa_cells(self) -> None:
        """Assign NUMA cells to the running pods again, by workload and number.

        Their real order is unknown.
        """
        for node_index, node in enumerate(self.cluster.nodes):
            if node.cells:
                cells = self._cells[node_index] = NodeNumaCells(node)
                for _, pod in sorted(self._pods_by_node[node_index].items()):
                    cells.reserve(pod.spec)

    def _register_pod(self, pod: ExistingPod, node_index: int) -> None:
        """Record a pod on its node, with its volumes and devices.

        It becomes a possible victim of preemption.
        """
        self._pods_by_node[node_index][pod.identity] = pod
        self._attached_volumes.update_attached_volumes(
            pod.spec, pod.number, self._names[node_index], sign=1
        )
        self.claimed_devices.allocate_claims(pod)
        if not pod.is_protected:
            self._lowest_priority = min(self._lowest_priority, pod.spec.priority)

    def get_scheduler(
        self, spec: PodSpec, volume_needs: tuple[VolumeNeed, ...] = ()
    ) -> PodSpecScheduler:
        """Return the scheduler of a spec with the node needs of its claims.

        This is the last scheduler again, if it is still valid.
        """
        group = self.cache.get_group(spec)
        scheduler = self._scheduler
        if scheduler is not None and scheduler.is_current(group, volume_needs):
            return scheduler
        # Capacity is reserved by nominated pods with at least the priority of this spec.
        reserving_groups: dict[int, list[PodSpecGroup]] = {}
        for node_index, groups in self._nominated_groups.items():
            reserving = [
                nominated for nominated in groups if nominated.spec.priority >= spec.priority
            ]
            reserving_groups[node_index] = reserving
        self._scheduler = PodSpecScheduler(
            self.cache, group, self.facts_cache, volume_needs, reserving_groups
        )
        return self._scheduler

    def create_scheduler(self, spec: PodSpec, number: int) -> PodSpecScheduler:
        """Return the scheduler for one pod, with its immediate claims bound."""
        self.volume_binder.bind_immediate_claims(spec.list_claims(number))
        volume_needs = self.volume_binder.compute_volume_needs(spec, number)
        # Nodes below the limits of their drivers.
        attach_needs = self._attached_volumes.compute_needs(spec, number)
        devices = self.claimed_devices.compute_need(spec)
        scheduler = self.get_scheduler(spec, (*volume_needs, *attach_needs, *devices.needs))
        scheduler.device_doubt = devices.doubt
        # Evictions may detach volumes of a node.
        can_detach = bool(attach_needs) and self._can_evict(spec)
        scheduler.is_storage_uncertain = (
            can_detach
            or self.volume_binder.is_storage_uncertain(spec, number)
            or (
                self._attached_volumes.needs_installed_driver(spec, number)
                and scheduler.has_unregistered_node
            )
        )
        return scheduler

    def remove_pod(self, pod: ExistingPod, *, may_linger: bool = False) -> None:
        """Remove a pod from its node, if it has one here.

        With `may_linger`, it may stay on as a terminating pod.
        """
        node_index = self.cache.index.get(pod.node)
        if node_index is None:
            return
        self.cache.place(self.cache.get_group(pod.spec), node_index, sign=-1)
        is_registered = self._pods_by_node[node_index].pop(pod.identity, None) is not None
        if may_linger and self.choices.ask(partial(terminates_slowly, pod.key)):
            terminating_pod = replace(pod, spec=replace(pod.spec, is_terminating=True))
            self.cache.place(self.cache.get_group(terminating_pod.spec), node_index)
            self._pods_by_node[node_index][terminating_pod.identity] = terminating_pod
            self._lingering_pods.append(terminating_pod)
            # It still uses its volumes, devices and CPUs.
            return
        if is_registered:
            self._attached_volumes.update_attached_volumes(pod.spec, pod.number, pod.node, sign=-1)
            self.claimed_devices.release(pod)
        if node_index in self._cells:
            self._cells[node_index].release(pod.spec)

    def remove_lingering_pods(self) -> bool:
        """Remove the slowly terminating pods, and return whether there were any."""
        pods = self._lingering_pods
        self._lingering_pods = []
        for pod in pods:
            self.remove_pod(pod)
        return bool(pods)

    def place_pod(self, spec: PodSpec, workload: str, number: int) -> PodVerdict:
        """Choose the node of the pod `number` of a workload, start it, and return its verdict.

        The pod starts on the chosen node.
        """
        group = self.cache.get_group(spec)
        failed_version, failure = self._failures.get(id(group), _NO_FAILURE)
        # Until the cluster changes, pods of an equal spec fail alike. But an observer is called
        # for every pod.
        if self._observer is None and failed_version == self.cache.version:
            return failure
        nomination = self._release_nominated_node(workload, number)
        scheduler = self.create_scheduler(spec, number)
        if self._observer is not None:
            self._observer(workload, number, scheduler)
        if spec.gates:
            return build_gated_verdict(spec)
        age = self.age
        if self.has_priorities:
            age += self.choices.ask(partial(draw_extra_age, (workload, number)))
        pod = ExistingPod(workload, number, node="", spec=spec, age=age)
        if spec.node_name:
            return self._start_bound_pod(scheduler, pod)
        # Its reserved node.
        if nomination is not None and scheduler.find_rejection(nomination) is None:
            choice: BestNodes | None = BestNodes((nomination,), feasible_nodes=1)
        else:
            choice = scheduler.choose_nodes()
        if choice is None:
            return self._decide_unschedulable_pod(scheduler, pod)
        is_certain = self._is_choice_certain(scheduler, choice)
        if not is_certain:
            self._mark_uncertain_nodes(scheduler, choice)
        return self._add_doubt(
            self._start_on_best(scheduler, pod, choice, is_certain), scheduler, choice
        )

    def _mark_uncertain_nodes(self, scheduler: PodSpecScheduler, choice: BestNodes) -> None:
        """Mark the possible nodes of an uncertain choice.

        All feasible ones, or the tied ones if ties alone decide.
        """
        # The kube-scheduler scores only some of them.
        is_cut_short = choice.feasible_nodes > self._scored_node_limit
        # Earlier uncertain choices or unknown facts may change the scores of any node.
        if self._uncertain_nodes or is_cut_short or self._find_doubt(scheduler, choice):
            self._uncertain_nodes |= scheduler.facts.mask
            return
        for node in choice.tied_nodes:
            # Set its bit.
            self._uncertain_nodes |= 1 << node

    def _add_doubt(
        self, verdict: PodVerdict, scheduler: PodSpecScheduler, choice: BestNodes = _NO_CHOICE
    ) -> PodVerdict:
        """Return an uncertain verdict with its doubt: unknown facts, else ties.

        A certain verdict is returned unchanged.
        """
        if verdict.is_certain:
            return verdict
        return replace(verdict, doubt=self._find_doubt(scheduler, choice) or "ties")

    def _find_doubt(self, scheduler: PodSpecScheduler, choice: BestNodes) -> str:
        """Return the first kind of unknown facts that may change a decision.

        The result is "" if all are known.
        """
        if scheduler.group.spec.has_unknown_rules:
            return "rules of others"
        if scheduler.is_storage_uncertain:
            return "storage of nodes"
        if scheduler.device_doubt:
            return scheduler.device_doubt
        if scheduler.group.spec.required_features and scheduler.has_unregistered_node:
            return "features of nodes"
        if self._may_use_cached_scores(scheduler, choice):
            return "the Kubernetes version"
        if is_version_uncertain(scheduler.group.spec, self.cluster.version, choice.feasible_nodes):
            return "the Kubernetes version"
        if scheduler.images_matter and choice.lead is not None and choice.lead <= MAX_POINTS:
            # Image points alone may make up for the lead.
            return "images of nodes"
        return ""

    def _may_use_cached_scores(self, scheduler: PodSpecScheduler, choice: BestNodes) -> bool:
        """Return whether kube-scheduler may choose by the scores for an earlier pod of the spec.

        It does if the node of that pod is full (OpportunisticBatching). They then differ from new
        scores if rules compare the nodes with each other.
        """
        return (
            id(scheduler.group) in self._placed_groups
            and 1 < choice.feasible_nodes < len(scheduler.facts.points)
            and scheduler.has_relative_scores
            and is_feature_enabled("OpportunisticBatching", self.cluster.version) is not False
        )

    def _start_on_best(
        self, scheduler: PodSpecScheduler, pod: ExistingPod, choice: BestNodes, is_certain: bool
    ) -> PodVerdict:
        """Start a pod on one of the equally good nodes.

        If kubelet rejects it there, its controller re-creates it on another one. The verdict is
        Failed once every such node, or the first one of a bare pod, rejected it.
        """
        tied_nodes = list(choice.tied_nodes)
        failures: list[PodVerdict] = []
        while tied_nodes:
            node = self._select_tied_node(pod, tied_nodes)
            rejection_text = self._start_pod(scheduler, node, pod)
            verdict = _build_started_verdict(
                self._names[node], rejection_text, is_certain, choice.feasible_nodes
            )
            if not rejection_text:
                return verdict
            failures.append(verdict)
            if not is_recreated(pod.workload):
                # A bare pod stays Failed.
                break
            tied_nodes.remove(node)
        # The rejection by the first of the nodes.
        return failures[0]

    def _select_tied_node(self, pod: ExistingPod, tied_nodes: Sequence[int]) -> int:
        """Return the tied node with the lowest digest of `seed|cluster|workload|number|node`.

        The workload is `<namespace>/<kind>/<name>`. It replaces the random
        choice of kube-scheduler.
        """
        if len(tied_nodes) == 1:
            return tied_nodes[0]
        prefix = f"{self.cluster.name}|{pod.workload}|{pod.number}"
        names = tuple(self._encoded_names[node] for node in tied_nodes)
        return tied_nodes[self.choices.ask(partial(select_by_digest, prefix, names))]

    def _start_bound_pod(self, scheduler: PodSpecScheduler, pod: ExistingPod) -> PodVerdict:
        """Return the verdict on a pod with `node_name` in its spec.

        Kubelet runs or rejects it without scheduling.
        """
        spec = pod.spec
        node_index = self.cache.index.get(spec.node_name)
        if node_index is None:
            is_certain = not self._uncertain_nodes
            return _build_started_verdict(
                spec.node_name, "no such node", is_certain, feasible_nodes=0
            )
        # The bit of this node is not set.
        is_certain = not self._uncertain_nodes & (1 << node_index)
        node = self.cache.nodes[node_index]
        usage = self.cache.usage[node_index]
        # The first reason against the pod; "" if it runs.
        rejection_text = next(list_kubelet_rejections(spec, node, usage), "")
        rejection_text = rejection_text or self._start_pod(scheduler, node_index, pod)
        feasible_nodes = int(not rejection_text)
        return _build_started_verdict(spec.node_name, rejection_text, is_certain, feasible_nodes)

    def _start_pod(self, scheduler: PodSpecScheduler, node: int, pod: ExistingPod) -> str:
        """Add a pod to a node unless kubelet rejects it there.

        Return the rejection, "" if the pod runs.
        """
        # It has a topology manager.
        if node in self._cells:
            rejection_text = self._cells[node].allocate(pod.spec)
            if rejection_text:
                return rejection_text
        scheduler.add_pod(node)
        self._placed_groups.add(id(scheduler.group))
        self._register_pod(replace(pod, node=self._names[node]), node)
        self.volume_binder.bind_on_node(pod.spec, pod.number, self._names[node])
        return ""

    def place_daemon(self, spec: PodSpec, workload: str, number: int, node: str) -> PodVerdict:
        """Place a DaemonSet's pod on its only possible node, by evictions if needed.

        Return its verdict.
        """
        self._release_nominated_node(workload, number)
        scheduler = self.create_scheduler(spec, number)
        if self._observer is not None:
            self._observer(workload, number, scheduler)
        if spec.gates:
            return build_gated_verdict(spec)
        node_index = self.cache.index[node]
        pod = ExistingPod(workload, number, node="", spec=spec, age=self.age)
        rejection = scheduler.find_rejection(node_index)
        if rejection is not None:
            # The pod is tried again with their capacity.
            if self.remove_lingering_pods():
                return self.place_daemon(spec, workload, number, node)
            preemption_verdict = self._try_preemption(scheduler, pod, {node_index: rejection})
            # The pod's node affinity excludes all other nodes.
            other_names = [name for name in self._names if name != node]
            other_rejections = [
                Rejection(name, "node_names", node_affinity.EXCLUDED) for name in other_names
            ]
            reason = format_pending_message([rejection, *other_rejections], len(self._names))
            is_certain = not self._uncertain_nodes & (1 << node_index)
            return preemption_verdict or PodVerdict(
                node="",
                is_certain=is_certain,
                feasible_nodes=0,
                reason=reason,
                rejections=(rejection,),
            )
        has_doubt = bool(self._find_doubt(scheduler, _NO_CHOICE))
        is_certain = self._is_unaffected_by_ties(scheduler, 1 << node_index) and not has_doubt
        rejection_text = self._start_pod(scheduler, node_index, pod)
        return self._add_doubt(
            _build_started_verdict(node, rejection_text, is_certain, feasible_nodes=1), scheduler
        )

    def _decide_unschedulable_pod(
        self, scheduler: PodSpecScheduler, pod: ExistingPod
    ) -> PodVerdict:
        """Return the verdict on a pod without a feasible node.

        It evicts others, or is Pending (cached by spec).
        """
        # The pod is tried again with their capacity.
        if self.remove_lingering_pods():
            return self.place_pod(pod.spec, pod.workload, pod.number)
        rejections = scheduler.collect_rejections()
        preemption_verdict = self._try_preemption(scheduler, pod, rejections)
        if preemption_verdict is not None:
            return self._add_doubt(preemption_verdict, scheduler)
        # `mask`: a bit per feasible node.
        is_certain = self._is_unaffected_by_ties(scheduler, scheduler.facts.mask)
        is_certain = is_certain and not self._find_doubt(scheduler, _NO_CHOICE)
        reasons = tuple(rejections.values())
        reason = format_pending_message(reasons, len(self._names)) + describe_missing(
            pod.spec, self.cluster.nodes
        )
        pending_verdict = PodVerdict(
            node="", is_certain=is_certain, feasible_nodes=0, reason=reason, rejections=reasons
        )
        verdict = self._add_doubt(pending_verdict, scheduler)
        # Else the claims of the next pod of the spec may have other nodes.
        if not pod.spec.has_own_claims:
            self._failures[id(scheduler.group)] = (self.cache.version, verdict)
        return verdict

    def find_obstacle(self, spec: PodSpec, number: int) -> str:
        """Return why one more pod of a spec fits no node now.

        The result is "" if it fits, or may fit by preemption.
        """
        scheduler = self.create_scheduler(spec, number)
        if spec.gates or spec.node_name or self._can_evict(spec):
            # It needs no feasible node yet, has its node, or may evict others.
            return ""
        # Nodes that are permitted regardless of the other pods.
        permitted_nodes = scheduler.facts.points
        if any(scheduler.find_rejection(node) is None for node in permitted_nodes):
            return ""  # it fits
        return format_pending_message(
            scheduler.collect_rejections().values(), len(self._names)
        ).rstrip(".")

    def _can_evict(self, spec: PodSpec) -> bool:
        """Return whether a pod may evict others: some pod here has a lower priority."""
        return spec.can_preempt and spec.priority > self._lowest_priority

    def _try_preemption(
        self, scheduler: PodSpecScheduler, pod: ExistingPod, rejections: Mapping[int, Rejection]
    ) -> PodVerdict | None:
        """Evict pods of lower priority for one without a feasible node; return its verdict.

        The pod starts on the node freed by the evictions. The result is None if no eviction helps.
        The pod stays Pending while its victims terminate slowly. If kubelet rejects the pod, it is
        Failed, and no pod is evicted.
        """
        if not self._can_evict(pod.spec):
            return None
        budgets = self.cluster.budgets
        allowances = compute_eviction_allowances(
            budgets, self._expected_counts or [0] * len(budgets), self.cache
        )
        tie_break = partial(self._select_tied_node, pod)
        choice = select_victims(scheduler, rejections, self._pods_by_node, allowances, tie_break)
        if choice is None:
            return None
        is_certain = choice.is_certain and self._is_unaffected_by_ties(
            scheduler, scheduler.facts.mask
        )
        is_certain = is_certain and not self._find_doubt(scheduler, _NO_CHOICE)
        # The victims may leave any of these nodes, so their usage is uncertain (a bit each).
        if not is_certain:
            for node in choice.considered_nodes:
                self._uncertain_nodes |= 1 << node
        victims = [PreemptionVictim(victim, pod.key, is_certain) for victim in choice.victims]
        if not self._has_removed_victims and self.choices.ask(has_slow_victims):
            return self._wait_for_victims(scheduler, choice.node, victims, is_certain)
        for victim in choice.victims:
            self.remove_pod(victim)
        node_name = self._names[choice.node]
        rejection_text = self._start_pod(
            self.get_scheduler(pod.spec, scheduler.volume_needs), choice.node, pod
        )
        if rejection_text:
            # Victims and preemptors would evict each other forever, so no eviction is reported.
            for victim in choice.victims:
                self.cache.place(self.cache.get_group(victim.spec), choice.node)
                self._register_pod(victim, choice.node)
            self.assign_numa_cells()
            return _build_started_verdict(node_name, rejection_text, is_certain, feasible_nodes=0)
        self.evictions += victims
        return PodVerdict(node_name, is_certain, feasible_nodes=0, victims=choice.victims)

    def _wait_for_victims(
        self,
        scheduler: PodSpecScheduler,
        node: int,
        victims: Sequence[PreemptionVictim],
        is_certain: bool,
    ) -> PodVerdict:
        """Reserve a node for the preemptor of these victims, and return its verdict (Pending).

        The node is reserved until the victims terminate.
        """
        self._nominated_groups.setdefault(node, []).append(scheduler.group)
        for victim in victims:
            self._nominations[victim.preemptor] = (node, scheduler.group)
            # A pod is evicted only once.
            del self._pods_by_node[node][victim.pod.identity]
            self._slow_evictions.append((victim, node))
        # Earlier schedulers and failures do not know the reservation.
        self.cache.version += 1
        reason = "waits for the end of the pods evicted for it."
        return PodVerdict(node="", is_certain=is_certain, feasible_nodes=0, reason=reason)

    def _release_nominated_node(self, workload: str, number: int) -> int | None:
        """Release and return the node reserved for a pod waiting for its victims.

        The result is None if it has none.
        """
        nomination = self._nominations.pop((workload, number), None)
        if nomination is None:
            return None
        node, group = nomination
        self._nominated_groups[node].remove(group)
        self.cache.version += 1
        return node

    def remove_victims(self) -> None:
        """Remove the evicted and the slowly terminating pods.

        They held their capacity until now.
        """
        self.remove_lingering_pods()
        for eviction, node in self._slow_evictions:
            # Else its volumes are not released.
            self._pods_by_node[node][eviction.pod.identity] = eviction.pod
            self.remove_pod(eviction.pod)
            self.evictions.append(eviction)
        self._slow_evictions = []
        self._has_removed_victims = True

    def _is_choice_certain(self, scheduler: PodSpecScheduler, choice: BestNodes) -> bool:
        """Return whether no other node is possible.

        There is a single best node, no fact about the pod is unknown, and no random choice for an
        earlier pod affects this one.
        """
        # The kube-scheduler chooses at random among tied nodes, and scores a random part of many
        # feasible nodes.
        is_random = len(choice.tied_nodes) > 1 or choice.feasible_nodes > self._scored_node_limit
        if is_random or self._find_doubt(scheduler, choice):
            return False
        # The spread affects scores only.
        if choice.feasible_nodes > 1 and self._has_uncertain_spread(scheduler):
            return False
        # A bit per node.
        feasible_nodes = scheduler.facts.mask
        return self._is_unaffected_by_ties(scheduler, feasible_nodes)

    def _has_uncertain_spread(self, scheduler: PodSpecScheduler) -> bool:
        """Return whether an earlier random choice may affect a pod's soft spread constraints.

        They count the pods that it placed. These are the selected pods on a node with its bit
        set in `_uncertain_nodes`.
        """
        if not self._uncertain_nodes:
            return False
        namespace = scheduler.group.spec.namespace
        for counter in scheduler.counts.soft_spread:
            if not counter.counts_new_pods:
                continue
            for group in self.cache.select_groups_of_namespace(
                counter.constraint.selector, namespace
            ):
                if any(self._uncertain_nodes >> node & 1 for node in group.nodes):
                    return True
        return False

    def _is_unaffected_by_ties(self, scheduler: PodSpecScheduler, nodes: int) -> bool:
        """Return whether no earlier random choice affects the evaluation of these nodes.

        The nodes are bits.
        """
        if not self._uncertain_nodes:
            # No choice was random so far.
            return True
        spec = scheduler.group.spec
        # Volumes and devices may be used by other pods.
        if self._uncertain_nodes & nodes or spec.has_own_claims:
            return False
        # Pods on other nodes can affect the pod.
        counts = scheduler.counts
        affinity = (
            counts.affinity,
            counts.anti_affinity,
            counts.existing_anti_affinity,
            counts.preferred_affinity,
        )
        return not any((*affinity, counts.hard_spread))


def build_gated_verdict(spec: PodSpec) -> PodVerdict:
    """Return the verdict on a pod with scheduling gates: no node, with the gates as the reason."""
    reason = f"scheduling is blocked by {', '.join(spec.gates)}."
    return PodVerdict(
        node="", is_certain=True, feasible_nodes=0, reason=reason, unscheduled_state=PodState.GATED
    )


def _build_started_verdict(
    node: str, reason: str, is_certain: bool, feasible_nodes: int
) -> PodVerdict:
    """Return the verdict on a pod started on its node.

    Kubelet runs it, or rejects it with a reason.
    """
    if not reason:
        return PodVerdict(node, is_certain, feasible_nodes)
    text = f"on {node}: {reason}."
    return PodVerdict(
        node="",
        is_certain=is_certain,
        feasible_nodes=feasible_nodes,
        reason=text,
        unscheduled_state=PodState.FAILED,
    )
