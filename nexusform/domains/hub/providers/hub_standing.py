"""How far a hub is with what was asked of it: pure judgements of what it shows.

Conditions of a placement are not enough: when content changes they stay True for what stood before. So each
binding has to name the snapshot that is meant, and to hold conditions of its own generation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct, field

from nexusform.domains.fleet.importers.fleet_export import conditions_of, is_going, read_placements
from nexusform.domains.fleet.importers.fleet_model import FleetPlacement
from nexusform.domains.fleet.planning.contents import read_bindings
from nexusform.domains.fleet.scheduling.rollout import Readiness, Stop, roll_out, target_of
from nexusform.domains.hub.providers.hub_bodies import KIND_OF, adopted_arguments
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest, manifest_of
from nexusform.resource_types.registry import RESOURCE_TYPES
from nexusform.words import counted, first_of

LATEST: Final = "kubernetes-fleet.io/is-latest-snapshot"
PARENT_NAMESPACE: Final = "kubernetes-fleet.io/parent-placement-namespace"
_MOST_NAMED: Final = 4
_PICKED: Final = ("Scheduled", "Bound")
_FIELDS: Final = (
    "state",
    "previous_state",
    "affinity_score",
    "topology_spread_score",
    "policy_snapshot",
    "resource_snapshot",
)
Body = Mapping[str, Any]


class Standing(Struct, frozen=True):
    """Whether a thing is as it was asked to be, what it waits for in words, and the bindings as observed.
    `decided`: the hub has observed the change, and picked its clusters.
    """

    done: bool
    words: str = ""
    bindings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    decided: bool = False
    latest: int | None = None


class Shown(Struct, frozen=True):
    """What a hub shows of one placement. Without its snapshots (`is_glance`) its own status has to tell what
    these would.
    """

    placement: Body
    bindings: Sequence[Body]
    policies: Sequence[Body] = ()
    snapshots: Sequence[Body] = ()
    is_glance: bool = False


def generation_of(body: Body) -> int:
    """The generation of an object."""
    return int((body.get("metadata") or {}).get("generation") or 0)


def name_of(body: Body) -> str:
    """The name of an object."""
    return str((body.get("metadata") or {}).get("name"))


def condition(body: Body, kind: str) -> Mapping[str, Any] | None:
    """A condition of an object, of its own generation alone."""
    for each in conditions_of(body):
        if each.get("type") == kind and int(each.get("observedGeneration") or 0) >= generation_of(body):
            return each
    return None


def manifests_of(shown: Shown) -> list[Manifest]:
    """What a hub shows of a placement, as it is read of an export."""
    bodies = (shown.placement, *shown.bindings, *shown.policies, *shown.snapshots)
    return [each for each in map(manifest_of, map(dict, bodies)) if each is not None]


def observed_bindings(shown: Shown) -> dict[str, dict[str, Any]]:
    """The bindings as attributes of a placement have them."""
    placement = next(iter(read_placements(manifests_of(shown)).values()), None)
    if placement is None:
        return {}
    return {
        cluster: {**{name: getattr(one, name) for name in _FIELDS}, "provenance": "observed"}
        for cluster, one in sorted(placement.bindings.items())
        if not one.deleting
    }


def failures_foretold(planned: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """What a plan of a placement foretells to fail: cluster and condition."""
    return frozenset(
        (str(status.get("cluster_name")), str(each.get("type")))
        for status in planned.get("placement_statuses") or ()
        for each in status.get("conditions") or ()
        if each.get("status") == "False"
    )


def placement_standing(
    shown: Shown,
    planned: Mapping[str, Any],
    *,
    external: bool,
    failing: AbstractSet[tuple[str, str]] = frozenset(),
) -> Standing:
    """How far a placement is. `planned` are the bindings that were foretold, `failing` what was foretold to
    fail where.
    """
    body = shown.placement
    kind = str(body.get("kind"))
    scheduled = condition(body, f"{kind}Scheduled")
    bindings = observed_bindings(shown)
    if scheduled is None or scheduled.get("status") == "Unknown":
        return Standing(done=False, words="the hub has not picked clusters yet", bindings=bindings)
    if scheduled.get("reason") == "InvalidResourceSelectors":
        words = str(scheduled.get("message") or "its selectors are invalid")
        return Standing(done=True, words=words, bindings=bindings, decided=True)
    if not (shown.is_glance or _policy_is_observed(shown)):
        words = "the hub has not observed the policy yet"
        return Standing(done=False, words=words, bindings=bindings)
    latest = index_told(body) if shown.is_glance else _number(_latest(shown.snapshots))
    if external:
        return Standing(done=True, bindings=bindings, decided=True, latest=latest)
    holds, expected = _not_there(shown, planned, latest, failing)
    words = first_of(holds, _MOST_NAMED)
    if expected and not holds:
        words = f"as foretold, {first_of(expected, _MOST_NAMED)}"
    return Standing(done=not holds, words=words, bindings=bindings, decided=True, latest=latest)


def held_up(shown: Shown, outdated: AbstractSet[str] = frozenset()) -> Stop | None:
    """Where a rolling update stops of which nothing is under way and that may begin nothing either; None
    where it goes on, or has come to its end. `outdated`: bound clusters that are to get other content of the
    snapshot that they have. The hub has decided on the placement as it is written.
    """
    placement = shown.placement
    latest = index_told(placement) if shown.is_glance else _number(_latest(shown.snapshots))
    if latest is None or any(_is_under_way(placement, each) for each in shown.bindings):
        return None
    type_name = next(name for name, kind in KIND_OF.items() if kind == placement.get("kind"))
    reading = RESOURCE_TYPES[type_name].fleet
    assert reading is not None
    written = reading({"name": name_of(placement), **adopted_arguments(type_name, placement)})
    assert isinstance(written, FleetPlacement)
    held = read_bindings({"bindings": observed_bindings(shown)})
    target = target_of(written.policy, written.number, held)
    outcome = roll_out(held, written.rolling, target, latest, Readiness(outdated=frozenset(outdated)))
    if outcome.waves or not outcome.stalled:
        return None
    return Stop(written.key, written.rolling, outcome.stalled)


def _is_under_way(placement: Body, binding: Body) -> bool:
    """Whether something becomes of a binding by itself, or of the whole once it is mended."""
    spec = binding.get("spec") or {}
    if is_going(binding):
        return True
    is_bound = spec.get("state") == "Bound"
    return is_bound and (_applies_otherwise(placement, spec) or bool(why_not_ready(binding)[1]))


def _policy_is_observed(shown: Shown) -> bool:
    policy = _latest(shown.policies)
    observed = int(((policy or {}).get("status") or {}).get("observedCRPGeneration") or 0)
    return policy is not None and observed >= generation_of(shown.placement)


def index_told(placement: Body) -> int | None:
    """The number of the resource snapshot that the status of a placement speaks of."""
    told = str((placement.get("status") or {}).get("observedResourceIndex") or "")
    return int(told) if told.isdecimal() else None


def _not_there(
    shown: Shown, planned: Mapping[str, Any], latest: int | None, failing: AbstractSet[tuple[str, str]]
) -> tuple[list[str], list[str]]:
    """What a rolling update still has to do, by cluster; and what it was foretold not to get done."""
    holds: list[str] = []
    expected: list[str] = []
    for binding in shown.bindings:
        foretold = planned.get(_cluster_of(binding)) or {}
        behind = _behind(binding, latest)
        if behind is not None:
            number, words = behind
            is_foretold = number is not None and foretold.get("resource_snapshot") == number
        else:
            kind, words = _still_to_do(shown.placement, binding, foretold)
            is_foretold = (_cluster_of(binding), kind) in failing
        if words:
            (expected if is_foretold else holds).append(words)
    return holds, expected


def _cluster_of(binding: Body) -> str:
    return str((binding.get("spec") or {}).get("targetCluster"))


def _behind(binding: Body, latest: int | None) -> tuple[int | None, str] | None:
    """The number of the snapshot that a bound cluster has where there is a newer one, and words; None for
    what is not behind.
    """
    spec, cluster = binding.get("spec") or {}, _cluster_of(binding)
    name = spec.get("resourceSnapshotName")
    number = _snapshot_number(name)
    if is_going(binding) or spec.get("state") != "Bound" or latest is None or number == latest:
        return None
    return number, f"{cluster} still has {name}" if name else f"{cluster} has no snapshot yet"


def _still_to_do(placement: Body, binding: Body, foretold: Body) -> tuple[str, str]:
    """What is still to be done on a cluster that has the newest snapshot, or none: the condition that failed,
    "" for none, and words, "" for nothing.
    """
    spec, cluster = binding.get("spec") or {}, _cluster_of(binding)
    if is_going(binding):
        names = ", ".join((binding.get("metadata") or {}).get("finalizers") or ())
        return "", f"{cluster} still goes{f' (held by {names})' if names else ''}"
    state = str(spec.get("state"))
    if state != "Bound":
        resting = "Unscheduled" if state == "Unscheduled" else "Scheduled"
        words = f"{cluster} is to be left" if state == "Unscheduled" else f"{cluster} is {state}"
        return "", "" if foretold.get("state") == resting else words
    if _applies_otherwise(placement, spec):
        return "", f"{cluster} is still told to apply as before"
    kind, reason = why_not_ready(binding)
    return kind, f"{cluster}: {reason}" if reason else ""


def _applies_otherwise(placement: Body, binding_spec: Mapping[str, Any]) -> bool:
    """Whether a binding does not say yet how its placement is to be applied. The hub hands that on later than
    it observes the placement, and nothing else of the binding changes.
    """
    said = ((placement.get("spec") or {}).get("strategy") or {}).get("applyStrategy")
    told = binding_spec.get("applyStrategy")
    if not isinstance(said, Mapping) or not isinstance(told, Mapping):
        return False
    return any(name in told and told[name] != value for name, value in said.items())


def why_not_ready(binding: Body) -> tuple[str, str]:
    """Why a bound cluster is not ready: the condition that failed, "" for none, and words, "" where it is
    ready.
    """
    for kind in ("Available", "DiffReported"):
        found = condition(binding, kind)
        if found is not None and found.get("status") == "True":
            return "", ""
    for kind in ("RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "DiffReported", "Available"):
        found = condition(binding, kind)
        if found is not None and found.get("status") == "False":
            return kind, f"{kind} False, {found.get('reason')}"
    return "", "not available yet"


def is_as_foretold(planned: Mapping[str, Any], bindings: Mapping[str, Any]) -> bool:
    """Whether a hub picked the clusters that were foretold."""
    return picked_of(planned) == picked_of(bindings)


def picked_of(bindings: Mapping[str, Any]) -> set[str]:
    """The clusters that are picked."""
    return {cluster for cluster, binding in bindings.items() if binding.get("state") in _PICKED}


def snapshots_behind(planned: Mapping[str, Any], latest: int | None) -> bool:
    """Whether the newest snapshot of the hub is older than the one that was foretold."""
    foretold = [each.get("resource_snapshot") for each in planned.values() if isinstance(each, Mapping)]
    numbers = [number for number in foretold if isinstance(number, int)]
    return bool(numbers) and (latest is None or latest < max(numbers))


def _latest(snapshots: Sequence[Body]) -> Body | None:
    """The snapshot that is marked as the latest."""
    for each in snapshots:
        if ((each.get("metadata") or {}).get("labels") or {}).get(LATEST) == "true":
            return each
    return None


def _number(snapshot: Body | None) -> int | None:
    label = ((snapshot or {}).get("metadata") or {}).get("labels") or {}
    number = str(label.get("kubernetes-fleet.io/resource-index", ""))
    return int(number) if number.isdecimal() else None


def _snapshot_number(name: Any) -> int | None:
    parts = str(name or "").rsplit("-", 2)
    return int(parts[1]) if len(parts) == 3 and parts[1].isdecimal() else None


# --- runs ------------------------------------------------------------------------------------------


class RunStanding(Struct, frozen=True):
    """How far a staged run is. `approval` is the request that waits for a person, `failed` why it ended
    without success.
    """

    ended: bool
    words: str = ""
    approval: str = ""
    failed: str = ""


def run_standing(run: Body, requests: Sequence[Body]) -> RunStanding:
    """How far a run is; `requests` are the approval requests of it."""
    initialized = condition(run, "Initialized")
    if initialized is not None and initialized.get("status") == "False":
        words = str(initialized.get("message") or initialized.get("reason"))
        return RunStanding(ended=True, failed=words)
    succeeded = condition(run, "Succeeded")
    if succeeded is not None and succeeded.get("status") == "True":
        return RunStanding(ended=True)
    if succeeded is not None and succeeded.get("status") == "False":
        return RunStanding(ended=True, failed=str(succeeded.get("message") or succeeded.get("reason")))
    state = str((run.get("spec") or {}).get("state") or "Initialize")
    if state != "Run":
        wanted = {"Initialize": initialized, "Stop": condition(run, "Progressing")}.get(state)
        stopped = wanted is not None and (state == "Initialize" or wanted.get("status") == "False")
        return RunStanding(ended=stopped, words=f"it is to {state.lower()}")
    open_requests = [each for each in requests if not is_approved(each)]
    words = _stages(run)
    if open_requests:
        name = name_of(open_requests[0])
        return RunStanding(ended=False, approval=name, words=f"{words}; {name} waits for approval")
    return RunStanding(ended=False, words=words)


def is_approved(request: Body) -> bool:
    """Whether a request is granted."""
    return any(c.get("type") == "Approved" and c.get("status") == "True" for c in conditions_of(request))


def _stages(run: Body) -> str:
    """`stage canary: 1 of 2 clusters (ams1 Started)`."""
    status = run.get("status") or {}
    for stage in (*(status.get("stagesStatus") or ()), status.get("deletionStageStatus") or {}):
        if not isinstance(stage, Mapping) or not stage.get("stageName") or _is_true(stage, "Succeeded"):
            continue
        clusters = [each for each in stage.get("clusters") or () if isinstance(each, Mapping)]
        left = [str(each.get("clusterName")) for each in clusters if not _is_true(each, "Succeeded")]
        done = len(clusters) - len(left)
        named = f" ({first_of(left, _MOST_NAMED)} to come)" if left else ""
        return f"stage {stage.get('stageName')}: {done} of {counted(len(clusters), 'cluster')} done{named}"
    return "it begins"


def _is_true(status: Mapping[str, Any], kind: str) -> bool:
    listed = status.get("conditions") or ()
    return any(each.get("type") == kind and each.get("status") == "True" for each in listed)
