"""Trials of placements, each a plan of its own.

One trial finds the fewest evictions to let the pods of all placements run, with a proof; another
one adds one more placement. Every set of evictions is tried in the order of its size: no smaller
set is left. Source of the rules: an eviction ends one binding, and the scheduler picks again; only
a taint keeps a picked cluster away. The configuration of a trial is generated: evictions in their
order, taints as an override file, or a placement.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from itertools import combinations, permutations
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import Configuration, ResourceBlock
from nexusform.diagnostics.diagnostic import SourceFile, Span
from nexusform.diagnostics.phrases import enclose
from nexusform.domains.pods.importers.manifest_parser import (
    Manifest,
    is_fleet_group,
    is_reserved_namespace,
)
from nexusform.language.syntax.syntax_nodes import Body
from nexusform.plans.plan import Feasibility, FeasibilityResult, PlacementAction, Plan
from nexusform.rendering.notation.hcl_text import quote_string
from nexusform.rendering.notation.json_values import omit_empty
from nexusform.resources.address import Address

MAX_EVICTIONS: Final = 4
# Limit of plans, not of time: the answer is the same on every computer.
MAX_TRIALS: Final = 400
# Parts of kube-scheduler's reasons for a pod waiting for other pods; further pods on its cluster
# may help it.
_POD_RULES: Final = ("pod affinity", "topology spread")
_REJECTED_IDS: Final = frozenset({"eviction-not-executed", "invalid-eviction"})
BINDING: Final = "binding"
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
TAINT_KEY: Final = "nexusform-rebalance"
OVERRIDE_SUFFIX: Final = "_override.nf.hcl"
_TYPE: Final = "fleet_placement_eviction"
_MEMBER_TYPE: Final = "fleet_member_cluster"
NAME: Final = "simulated-placement"
# Of the generated configuration, never written.
FILE: Final = "simulated-placement.nf.json"
_NAMESPACE: Final = "Namespace"
_LITERAL: Final = re.compile(r'"([^"$%\\]*)"')


class PlacementPolicy(StrEnum):
    """Policy of a placement, by its consequence for an eviction."""

    PICK_ALL = "PickAll"
    PICK_FIXED = "PickFixed"
    PICK_N = "PickN"


class EvictionCandidate(Struct, frozen=True):
    """A binding to evict.

    `provider` is the provider of the placement, `purpose` begins the name of the eviction.
    """

    placement: str
    cluster: str
    policy: PlacementPolicy
    address: Address
    provider: str = ""
    purpose: str = "rebalance"

    @property
    def name(self) -> str:
        """Name of the eviction's block and of its object on the hub: `rebalance-web-member-1`."""
        # - for invalid characters.
        return _NO_NAME.sub("-", f"{self.purpose}-{self.placement}-{self.cluster}").lower()


class EvictionProposal(Struct, frozen=True):
    """Evictions in their order, and the clusters tainted before them."""

    evictions: tuple[EvictionCandidate, ...] = ()
    tainted_clusters: tuple[str, ...] = ()


class TrialOutcome(Struct, frozen=True):
    """Plan of a trial: bindings by state of their pods, picked clusters by placement.

    Bindings without known pods are not in it. `rejections` are rejected evictions. A failed trial
    has only `error`.
    """

    running: tuple[Feasibility, ...] = ()
    waiting: tuple[Feasibility, ...] = ()
    unknown: tuple[Feasibility, ...] = ()
    clusters: Mapping[str, AbstractSet[str]] = {}
    rejections: tuple[str, ...] = ()
    error: str = ""

    def list_repicked_evictions(self, trial: EvictionProposal) -> tuple[EvictionCandidate, ...]:
        """Return the evictions with a binding on the same cluster again."""
        return tuple(
            item
            for item in trial.evictions
            if item.cluster in self.clusters.get(str(item.address), ())
        )


class RebalanceRequest(Struct, frozen=True):
    """Scope of the question.

    Evictions are from `source_cluster` only, and must help `placement` only; "" means all.
    `addresses` are those of the placements with that name on their hub.
    """

    source_cluster: str = ""
    placement: str = ""
    addresses: frozenset[Address] = frozenset()

    def is_in_scope(self, placement: Address, cluster: str) -> bool:
        """Return True if the pods of this placement on this cluster must run afterwards."""
        is_source = self.source_cluster in ("", cluster)
        return is_source and (not self.placement or placement in self.addresses)

    def select_in_scope(self, rows: Iterable[Feasibility]) -> tuple[Feasibility, ...]:
        """Return the rows of bindings in the scope of the question."""
        return tuple(row for row in rows if self.is_in_scope(row.placement, row.cluster))


class RebalanceResult(Struct, frozen=True):
    """Answer: the evictions, None without any.

    `trial_counts` is the number of plans per number of evictions; `is_proven` is False if the
    search ended at its limit. `best` is the outcome of the evictions, `interruptions` are pods
    without a node between two evictions of other orders.
    """

    request: RebalanceRequest
    before: TrialOutcome
    candidates: tuple[EvictionCandidate, ...]
    fixed: tuple[EvictionCandidate, ...]
    trial: EvictionProposal | None = None
    best: TrialOutcome = TrialOutcome()
    trial_counts: tuple[int, ...] = ()
    is_proven: bool = True
    rejections: tuple[str, ...] = ()
    untaintable: tuple[str, ...] = ()
    interruptions: tuple[str, ...] = ()

    @property
    def waiting_bindings(self) -> tuple[Feasibility, ...]:
        """Waiting bindings in the scope of the question."""
        return self.request.select_in_scope(self.before.waiting)

    @property
    def running_bindings(self) -> tuple[Feasibility, ...]:
        """Bindings in the scope of the question whose pods run without any eviction."""
        return self.request.select_in_scope(self.before.running)

    @property
    def others_waiting(self) -> tuple[Feasibility, ...]:
        """Bindings outside of the question that wait after the evictions, if there are any."""
        if self.trial is not None:
            return self.best.waiting
        return tuple(
            row
            for row in self.before.waiting
            if not self.request.is_in_scope(row.placement, row.cluster)
        )

    @property
    def bindings_without_known_pods(self) -> tuple[EvictionCandidate, ...]:
        """Bindings in the scope of the question of whose pods the plan knows nothing."""
        rows = (*self.before.running, *self.before.waiting, *self.before.unknown)
        known = _list_bindings(rows).keys()
        return tuple(
            item
            for item in (*self.candidates, *self.fixed)
            if (item.address, item.cluster) not in known
            and self.request.is_in_scope(item.address, item.cluster)
        )


Evaluate = Callable[[EvictionProposal], TrialOutcome]


def build_trial_outcome(plan: Plan, error: str = "") -> TrialOutcome:
    """Return the outcome of a trial from its plan.

    `error` is the first error of the plan, "" for none.
    """
    running: list[Feasibility] = []
    waiting: list[Feasibility] = []
    unknown: list[Feasibility] = []
    for row in plan.workloads.feasibility:
        if row.is_waiting:
            waiting.append(row)
        elif row.is_selected:
            (unknown if row.result is FeasibilityResult.UNKNOWN else running).append(row)
    clusters: dict[str, set[str]] = {}
    for change in plan.placements:
        is_removed = change.target is None or change.action is PlacementAction.REMOVE
        if change.kind == BINDING and not is_removed:
            clusters.setdefault(str(change.address), set()).add(change.object)  # by placement
    return TrialOutcome(
        running=tuple(running),
        waiting=tuple(waiting),
        unknown=tuple(unknown),
        clusters=clusters,
        rejections=tuple(
            problem.detail for problem in plan.diagnostics if problem.id in _REJECTED_IDS
        ),
        error=error,
    )


def find_minimum_evictions(
    request: RebalanceRequest,
    candidates: Sequence[EvictionCandidate],
    taintable: Iterable[str],
    evaluate: Evaluate,
) -> RebalanceResult:
    """Find the fewest evictions to let all pods in scope run; `evaluate` simulates a choice.

    `taintable` are clusters with a block in the configuration: a taint in it keeps an
    evicted placement away.
    """
    addresses = (item.address for item in candidates if item.placement == request.placement)
    request = replace(request, addresses=frozenset(addresses))
    # Without any eviction.
    before = evaluate(EvictionProposal())
    # They name their clusters.
    fixed = tuple(item for item in candidates if item.policy is PlacementPolicy.PICK_FIXED)
    in_scope = [item for item in candidates if request.source_cluster in ("", item.cluster)]
    movable = tuple(item for item in in_scope if item.policy is not PlacementPolicy.PICK_FIXED)
    result = RebalanceResult(request, before, movable, fixed)
    # Everything runs, so no eviction is needed.
    if not result.waiting_bindings:
        return result
    search = _EvictionSearch(request, before, frozenset(taintable), evaluate)
    trial, outcome = search.run(movable)
    return replace(
        result,
        trial=trial,
        best=outcome,
        trial_counts=tuple(search.trial_counts),
        is_proven=search.is_complete,
        rejections=tuple(search.rejections),
        untaintable=tuple(search.untaintable),
        interruptions=tuple(search.interruptions),
    )


def _list_bindings(rows: Iterable[Feasibility]) -> dict[tuple[Address, str], None]:
    """Return (placement, cluster) of each row as the keys of a dict, to keep their order."""
    return {(row.placement, row.cluster): None for row in rows}


class _EvictionSearch(Struct):
    """Search by growing number of evictions."""

    request: RebalanceRequest
    before: TrialOutcome
    taintable: frozenset[str]
    evaluate: Evaluate
    trial_counts: list[int] = field(default_factory=lambda: [1])
    rejections: dict[str, None] = {}
    untaintable: dict[str, None] = {}
    interruptions: dict[str, None] = {}
    is_complete: bool = True

    def run(
        self, candidates: Sequence[EvictionCandidate]
    ) -> tuple[EvictionProposal | None, TrialOutcome]:
        """Return the smallest set of evictions to let all pods in scope run, and its outcome.

        The set is None if there is none.
        """
        # Their pods must run.
        goals = self.request.select_in_scope(self.before.waiting)
        # Clusters with pods waiting for capacity, not for other pods.
        crowded = {
            row.cluster for row in goals if not any(rule in row.reason for rule in _POD_RULES)
        }
        # PickAll last: such a placement gets no other cluster for an evicted one.
        ordered = sorted(candidates, key=lambda item: item.policy is PlacementPolicy.PICK_ALL)
        for size in range(1, min(len(candidates), MAX_EVICTIONS) + 1):
            self.trial_counts.append(0)
            for group in combinations(ordered, size):
                if not crowded <= {item.cluster for item in group}:
                    # Pods on a cluster short of capacity need an eviction there.
                    continue
                if sum(self.trial_counts) >= MAX_TRIALS:
                    self.is_complete = False
                    return None, TrialOutcome()
                trial, outcome = self._find_working_trial(group)
                if trial is not None:
                    return trial, outcome
        # Larger sets are not tried.
        self.is_complete = len(candidates) <= MAX_EVICTIONS
        return None, TrialOutcome()

    def _find_working_trial(
        self, group: tuple[EvictionCandidate, ...]
    ) -> tuple[EvictionProposal | None, TrialOutcome]:
        """Return the first order of these evictions without interruption, and its outcome.

        The outcome is that of its successful plan. Clusters otherwise picked again are tainted.
        Without such an order, return None; the outcome is not used.
        """
        for order in permutations(group):
            trial = EvictionProposal(order)
            outcome = self._evaluate_trial(trial)
            # By evicted placements.
            repicked = {item.cluster for item in outcome.list_repicked_evictions(trial)}
            if repicked - self.taintable:
                self.untaintable |= dict.fromkeys(sorted(repicked - self.taintable))
                # No order helps: only a taint keeps these clusters away.
                break
            if repicked:
                trial = EvictionProposal(order, tuple(sorted(repicked)))
                outcome = self._evaluate_trial(trial)
            self.rejections |= dict.fromkeys(outcome.rejections)
            # Another order may be accepted.
            if outcome.rejections:
                continue
            if not self._is_trial_successful(trial, outcome):
                # Every order has this result.
                return None, outcome
            interruption = self._describe_interruption(trial)
            if not interruption:
                return trial, outcome
            self.interruptions[interruption] = None
        return None, TrialOutcome()

    def _describe_interruption(self, trial: EvictionProposal) -> str:
        """Describe the first problem between two evictions.

        The problem is an error, or a pod newly waiting for a node. To find it, plan only the first
        eviction, the first two, and so on. Return "" if there is none.
        """
        waiting_before = _list_bindings(self.before.waiting)
        for count in range(1, len(trial.evictions)):
            outcome = self._evaluate_trial(
                EvictionProposal(trial.evictions[:count], trial.tainted_clusters)
            )
            problem = outcome.error
            newly_waiting = [
                pair for pair in _list_bindings(outcome.waiting) if pair not in waiting_before
            ]
            if newly_waiting:
                address, cluster = newly_waiting[0]
                problem = f"{address.name} waits on {cluster}"
            if problem:
                names = ", then ".join(
                    f"{item.placement} from {item.cluster}" for item in trial.evictions[:count]
                )
                return f"{names}: {problem}"
        return ""

    def _evaluate_trial(self, trial: EvictionProposal) -> TrialOutcome:
        """Plan a trial, and count it for the present number of evictions."""
        self.trial_counts[-1] += 1
        return self.evaluate(trial)

    def _is_trial_successful(self, trial: EvictionProposal, outcome: TrialOutcome) -> bool:
        """Return True if the evictions of a trial help: no binding in scope waits afterwards.

        No other one may newly wait or be unknown. No evicted binding may return, and no placement
        may lose clusters.
        """
        if outcome.error or self.request.select_in_scope(outcome.waiting):
            return False
        new_waiting = _list_bindings(outcome.waiting).keys() - _list_bindings(self.before.waiting)
        new_unknown = _list_bindings(outcome.unknown).keys() - _list_bindings(self.before.unknown)
        if new_waiting or new_unknown or outcome.list_repicked_evictions(trial):
            return False
        # Placements keep their numbers of clusters; only a PickAll does not replace
        # an evicted cluster.
        removals = Counter(
            str(item.address) for item in trial.evictions if item.policy is PlacementPolicy.PICK_ALL
        )
        return all(
            len(outcome.clusters.get(address, ())) >= len(clusters) - removals[address]
            for address, clusters in self.before.clusters.items()
        )


class MemberBlock(Struct, frozen=True):
    """Block of one member cluster: its name in the configuration and the text of its taints."""

    label: str
    taints: tuple[str, ...] = ()


def find_member_blocks(configuration: Configuration) -> dict[str, MemberBlock]:
    """Return the blocks of single members by cluster name.

    Only blocks of the root module count, in HCL and with a literal name: a taint can be added to
    them by an override file.
    """
    blocks: dict[str, MemberBlock] = {}
    for block in configuration.root.resources.values():
        is_single = not (block.count or block.for_each)
        if block.type != _MEMBER_TYPE or not is_single or not isinstance(block.body, Body):
            # Another object, several members, or not HCL syntax.
            continue
        name = _find_literal_name(block, configuration)
        if name:
            taints = filter(_is_taint_block, block.body.blocks)
            texts = tuple(_get_source_text(configuration, taint.span) for taint in taints)
            blocks[name] = MemberBlock(block.name, texts)
    return blocks


def render_evictions(trial: EvictionProposal, members: Mapping[str, MemberBlock]) -> str:
    """Render the eviction blocks.

    Each depends on the one before it, the first on the tainted members.
    """
    blocks = []
    dependencies = [
        f"{_MEMBER_TYPE}.{members[cluster].label}" for cluster in trial.tainted_clusters
    ]
    for eviction in trial.evictions:
        arguments = {
            "provider": eviction.provider,
            "name": quote_string(eviction.name),
            "placement_name": quote_string(eviction.placement),
            "cluster_name": quote_string(eviction.cluster),
            "depends_on": enclose("[", ", ".join(dependencies), "]"),
        }
        lines = "".join(f"  {name} = {value}\n" for name, value in omit_empty(arguments).items())
        blocks.append(f'resource "{_TYPE}" {quote_string(eviction.name)} {{\n{lines}}}\n')
        dependencies = [f"{_TYPE}.{eviction.name}"]
    return "\n".join(blocks)


def render_taints(trial: EvictionProposal, members: Mapping[str, MemberBlock]) -> str:
    """Render the override of the tainted members; "" without taints."""
    parts = []
    for cluster in trial.tainted_clusters:
        member = members[cluster]
        # An override file replaces all taint blocks, so the existing ones are repeated.
        taints = (*member.taints, f"taint {{\n    key = {quote_string(TAINT_KEY)}\n  }}")
        body = "".join(f"  {text}\n" for text in taints)
        parts.append(f'resource "{_MEMBER_TYPE}" {quote_string(member.label)} {{\n{body}}}\n')
    return "\n".join(parts)


def _is_taint_block(block: object) -> bool:
    """Return True for a block `taint` or `dynamic "taint"`."""
    labels = getattr(block, "labels", ())
    return getattr(block, "type", "") == "taint" or any(label.value == "taint" for label in labels)


def _find_literal_name(block: ResourceBlock, configuration: Configuration) -> str:
    """Return the name stated by a member's block as quoted text.

    Return "" for an expression or a template.
    """
    assert isinstance(block.body, Body)
    for attribute in block.body.attributes:
        if attribute.name == "name":
            _, _, expression = _get_source_text(configuration, attribute.span).partition("=")
            # A quoted text without templates or escapes.
            literal = _LITERAL.fullmatch(expression.strip())
            return literal[1] if literal is not None else ""
    return ""


def _get_source_text(configuration: Configuration, span: Span) -> str:
    """Return the text of a part of the configuration; positions in files count bytes."""
    text = configuration.files[span.filename].text
    return text.encode()[span.start.byte : span.end.byte].decode()


class SimulatedPlacement(Struct, frozen=True):
    """Requested placement and its manifests.

    `clusters` is for PickFixed, `count` for PickN, neither for PickAll.
    """

    text: str
    manifests: Sequence[Manifest]
    count: int | None = None
    clusters: tuple[str, ...] = ()

    @property
    def policy(self) -> dict[str, Any]:
        """The policy block."""
        if self.clusters:
            return {"placement_type": "PickFixed", "cluster_names": list(self.clusters)}
        if self.count is not None:
            return {"placement_type": "PickN", "number_of_clusters": self.count}
        return {"placement_type": "PickAll"}


def list_unusable_manifests(manifests: Iterable[Manifest]) -> list[str]:
    """Return an error message per manifest unfit for a placement."""
    messages = []
    for manifest in manifests:
        if is_fleet_group(manifest.group):
            messages.append(
                f"{manifest.title} is an object of the hub. Leave it out, and use -pick or "
                "-clusters."
            )
        elif is_reserved_namespace(manifest.namespace):
            messages.append(
                f"{manifest.title} is in a reserved namespace. Set metadata.namespace to another "
                "one."
            )
    return messages


def build_trial_configuration(trial: SimulatedPlacement) -> SourceFile:
    """Build a hub manifest with all objects and the missing Namespaces.

    A placement selects them.
    """
    declared = {
        manifest.name
        for manifest in trial.manifests
        if manifest.kind == _NAMESPACE and not manifest.group
    }
    namespaces = sorted(
        declared | {manifest.namespace for manifest in trial.manifests if manifest.namespace}
    )
    namespace_manifests = [
        json.dumps({"apiVersion": "v1", "kind": _NAMESPACE, "metadata": {"name": name}})
        for name in namespaces
        if name not in declared
    ]
    text = "\n---\n".join([trial.text, *namespace_manifests])
    selectors = [{"version": "v1", "kind": _NAMESPACE, "name": name} for name in namespaces]
    for manifest in trial.manifests:
        # A namespace selects its objects, too.
        if not manifest.namespace and manifest.kind != _NAMESPACE:
            # "" is the core group: its selector has no group.
            group = omit_empty({"group": manifest.group})
            selectors.append(
                {**group, "version": manifest.version, "kind": manifest.kind, "name": manifest.name}
            )
    placement = {"name": NAME, "resource_selector": selectors, "policy": trial.policy}
    # Manifests are not templates, so their signs are escaped.
    yaml_body = text.replace("${", "$${").replace("%{", "%%{")
    document = {
        "resource": {
            "fleet_hub_manifest": {NAME: {"yaml_body": yaml_body}},
            "fleet_cluster_resource_placement": {NAME: placement},
        }
    }
    return SourceFile(FILE, json.dumps(document))
