"""Differences of kube-scheduler from its documentation, by version: a table.

A version is predicted as it behaves. If the version is unknown and matters to a pod, the documented
rule is used, and the result is not certain.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.cluster_records import REGION, ZONE, PodSpec, PodTerm
from nexusform.domains.pods.scheduling.feature_gates import Version, is_feature_enabled
from nexusform.kubernetes.matching import LabelSelector, is_selected

# The newest version in this table; its source was read.
NEWEST_KNOWN: Final = (1, 37)
# From this version on, BalancedAllocation compares the balance of a node before and after
# the new pod.
BALANCE_CHANGE: Final = (1, 36)
# From this version on, kubelets declare features, and pods need nodes with theirs.
DECLARED_FEATURES: Final = (1, 36)
# From this version on, ImageLocality counts image volumes.
IMAGE_VOLUMES: Final = (1, 36)
# From this version on, the storage left on a node counts for its score.
STORAGE_SCORES: Final = (1, 37)
# From this version on, MaxUnavailableStatefulSet is on, and unready pods of the old template
# do not count.
UNAVAILABLE_CHANGE: Final = (1, 37)
_VERSION: Final = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})")


def parse_version(text: str) -> tuple[int, ...]:
    """Return major and minor version of a text such as `v1.34.4`; () for any other."""
    parts = _VERSION.match(text)
    return (int(parts[1]), int(parts[2])) if parts is not None else ()


class SchedulerVersionDifference(Struct, frozen=True):
    """Difference of the versions from `since` on, before `until` (None: all known ones).

    `is_affected` selects new pods affected by it. `apply` returns such a pod as read by these
    versions. `affects_scores_only` means that it only affects the choice among several nodes.
    `is_repeated` means that an unknown version repeats the prediction with and without it.
    """

    name: str
    since: Version
    until: Version | None
    is_affected: Callable[[PodSpec], bool]
    apply: Callable[[PodSpec], PodSpec]
    affects_scores_only: bool = False
    is_repeated: bool = False

    def is_in(self, version: Version) -> bool | None:
        """Return whether a version has the difference; None if this is unknown."""
        if not version:
            # The version itself is unknown.
            return None
        if version < self.since:
            return False
        if self.until is None:
            # A newer one may have dropped it.
            return True if version <= NEWEST_KNOWN else None
        return version < self.until


def apply_version_differences(spec: PodSpec, version: Version) -> PodSpec:
    """Return a new pod as read by the scheduler of this version.

    Uncertain differences (`is_in`: None) are left out.
    """
    for difference in VERSION_DIFFERENCES:
        if difference.is_affected(spec) and difference.is_in(version):
            spec = difference.apply(spec)
    return spec


def is_version_uncertain(spec: PodSpec, version: Version, feasible_nodes: int) -> bool:
    """Return whether an unknown version may change the decision on a pod.

    `feasible_nodes` is the number of the pod's feasible nodes.
    """
    if version > NEWEST_KNOWN:
        # Nobody has looked at what it changes.
        return True
    for difference in VERSION_DIFFERENCES:
        if difference.is_repeated and not version:
            # The prediction is repeated with the difference: a changed decision is found there.
            continue
        if difference.affects_scores_only and feasible_nodes < 2:
            # Scores choose among several nodes.
            continue
        is_unknown = difference.is_in(version) is None
        if is_unknown and difference.is_affected(spec):
            return True
    return any(
        is_feature_enabled(gate, version) is not False and is_affected(spec)
        for gate, is_affected in _UNPREDICTED_GATES.items()
    )


def _has_negative_selector(term: PodTerm) -> bool:
    """Return whether a term selects a namespace without any label, but not by the empty selector.

    The empty selector selects all namespaces.
    """
    return term.namespace_selector != LabelSelector() and is_selected(term.namespace_selector, {})


def _extend_term_namespaces(terms: tuple[PodTerm, ...]) -> tuple[PodTerm, ...]:
    """Return the terms as some versions read them.

    With a negative namespace selector, they select all namespaces.
    """
    return tuple(
        replace(term, namespace_selector=LabelSelector()) if _has_negative_selector(term) else term
        for term in terms
    )


def _apply_all_namespaces(spec: PodSpec) -> PodSpec:
    """Return a spec with terms as read by versions with the bug kubernetes#141526.

    See `_extend_term_namespaces`.
    """
    return replace(
        spec,
        affinity=_extend_term_namespaces(spec.affinity),
        anti_affinity=_extend_term_namespaces(spec.anti_affinity),
        preferred_affinity=_extend_term_namespaces(spec.preferred_affinity),
        preferred_anti_affinity=_extend_term_namespaces(spec.preferred_anti_affinity),
    )


def _selects_topology_labels(spec: PodSpec) -> bool:
    """Return whether a pod selects others by labels that they get with their node."""
    selectors = [term.selector for term in spec.affinity_terms]
    selectors += [constraint.selector for constraint in spec.spread]
    keys: set[str] = set()
    for selector in selectors:
        if selector is not None:
            keys.update(key for key, _ in selector.match_labels)
            keys.update(item.key for item in selector.match_expressions)
    return not keys.isdisjoint((ZONE, REGION))


# Feature gates with an effect that is not predicted, and the pods that they may move.
_UNPREDICTED_GATES: Final[Mapping[str, Callable[[PodSpec], bool]]] = {
    "PodTopologyLabelsAdmission": _selects_topology_labels,
    "DRADeviceTaintRules": lambda spec: bool(spec.device_claims),
}
VERSION_DIFFERENCES: Final[tuple[SchedulerVersionDifference, ...]] = (
    # LeastAllocated uses the requests of a new pod's containers, not its pod-level requests.
    SchedulerVersionDifference(
        "pod_level_requests",
        (1, 34),
        until=None,
        is_affected=lambda spec: spec.container_scored_requests not in (None, spec.scored_requests),
        apply=lambda spec: replace(spec, scored_requests=spec.container_scored_requests),
        affects_scores_only=True,
    ),
    # A negative namespaceSelector of the new pod selects every namespace (kubernetes#141526).
    SchedulerVersionDifference(
        "negative_namespace_selectors",
        (1, 34),
        until=(1, 37),
        is_affected=lambda spec: any(map(_has_negative_selector, spec.affinity_terms)),
        apply=_apply_all_namespaces,
    ),
    # BalancedAllocation compares the balance of a node before and after the new pod.
    SchedulerVersionDifference(
        "balance_change",
        BALANCE_CHANGE,
        until=None,
        is_affected=lambda spec: bool(spec.requests.cpu or spec.requests.memory),
        apply=lambda spec: replace(spec, compares_balance=True),
        affects_scores_only=True,
        is_repeated=True,
    ),
    # Image volumes count as images.
    SchedulerVersionDifference(
        "image_volumes",
        IMAGE_VOLUMES,
        until=None,
        is_affected=lambda spec: bool(spec.image_volumes),
        apply=lambda spec: replace(spec, images=(*spec.images, *spec.image_volumes)),
        affects_scores_only=True,
        is_repeated=True,
    ),
    # Features required by a pod are no requirement of its node.
    SchedulerVersionDifference(
        "undeclared_features",
        since=(1, 0),
        until=DECLARED_FEATURES,
        is_affected=lambda spec: bool(spec.required_features),
        apply=lambda spec: replace(spec, required_features=()),
    ),
    # VolumeBinding scores a node by the storage left on it for the claims of a pod.
    SchedulerVersionDifference(
        "storage_scores",
        STORAGE_SCORES,
        until=None,
        is_affected=lambda spec: bool(spec.claims),
        apply=lambda spec: replace(spec, scores_storage=True),
        affects_scores_only=True,
        is_repeated=True,
    ),
)
