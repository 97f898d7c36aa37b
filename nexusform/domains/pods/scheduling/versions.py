"""Where kube-scheduler does otherwise than its documentation says, by version: a table.

What a version does is foretold as it does it. Where nobody says which version runs and it matters to a pod,
the documented rule is used, and the answer is not certain.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.workloads import PodSpec, PodTerm
from nexusform.kubernetes.matching import LabelSelector, matches

Version = tuple[int, ...]
# The newest version whose source was read for this table.
NEWEST_KNOWN: Final = (1, 37)


_VERSION: Final = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})")


def version_of(text: str) -> tuple[int, ...]:
    """Major and minor version of a text such as `v1.34.4`; () for any other."""
    parts = _VERSION.match(text)
    return (int(parts[1]), int(parts[2])) if parts is not None else ()


class Quirk(Struct, frozen=True):
    """A deviation of the versions from `since` on, before `until` (None: of all that are known). `matters`:
    to which pods that come; `applied`: such a pod as these versions read it. `of_scores`: it decides among
    several nodes only.
    """

    name: str
    since: Version
    until: Version | None
    matters: Callable[[PodSpec], bool]
    applied: Callable[[PodSpec], PodSpec]
    of_scores: bool = False

    def is_in(self, version: Version) -> bool | None:
        """Whether a version has it; None where that is not known."""
        if not version:
            return None
        if version < self.since:
            return False
        if self.until is None:
            return True if version <= NEWEST_KNOWN else None
        return version < self.until


def read_by(spec: PodSpec, version: Version) -> PodSpec:
    """A pod that comes as the scheduler of this version reads it."""
    for quirk in QUIRKS:
        if quirk.matters(spec) and quirk.is_in(version):
            spec = quirk.applied(spec)
    return spec


def is_doubtful(spec: PodSpec, version: Version, feasible: int) -> bool:
    """Whether it is not known how the scheduler reads a pod that comes, and that so many nodes may take."""
    if spec.unforeseen:
        return True
    for quirk in QUIRKS:
        bears = feasible > 1 or not quirk.of_scores
        if bears and quirk.matters(spec) and quirk.is_in(version) is None:
            return True
    return False


def _asks_as_a_whole(spec: PodSpec) -> bool:
    return spec.scored_apart is not None and spec.scored_apart != spec.scored


def _scored_apart(spec: PodSpec) -> PodSpec:
    return spec if spec.scored_apart is None else replace(spec, scored=spec.scored_apart)


def _selects_by_absence(term: PodTerm) -> bool:
    """Whether a term selects namespaces by what they lack, so that it would select one without any label."""
    selector = term.namespace_selector
    return selector is not None and selector != LabelSelector() and matches(selector, {})


def _looks_by_absence(spec: PodSpec) -> bool:
    terms = chain(spec.affinity, spec.anti_affinity, spec.preferred_affinity, spec.preferred_anti_affinity)
    return any(map(_selects_by_absence, terms))


def _everywhere(terms: tuple[PodTerm, ...]) -> tuple[PodTerm, ...]:
    return tuple(
        replace(term, namespace_selector=LabelSelector()) if _selects_by_absence(term) else term
        for term in terms
    )


def _looking_everywhere(spec: PodSpec) -> PodSpec:
    return replace(
        spec,
        affinity=_everywhere(spec.affinity),
        anti_affinity=_everywhere(spec.anti_affinity),
        preferred_affinity=_everywhere(spec.preferred_affinity),
        preferred_anti_affinity=_everywhere(spec.preferred_anti_affinity),
    )


QUIRKS: Final[tuple[Quirk, ...]] = (
    # LeastAllocated counts for a pod that comes what its containers ask for, not what is asked for it as a
    # whole.
    Quirk("pod_level_requests", (1, 34), None, _asks_as_a_whole, _scored_apart, of_scores=True),
    # A namespaceSelector of its own that selects by absence selects every namespace (kubernetes#141526).
    Quirk("negative_namespace_selectors", (1, 34), (1, 37), _looks_by_absence, _looking_everywhere),
)
