"""The slips of printed manifests that a lenient reading corrects: a closed table.

What is not in it stays an error, leniently read or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.documents.yaml_documents import TextPosition, build_problem

SLIP: Final = "corrected-manifest"


class Correction(Struct, frozen=True):
    """One slip. `widens`: what is read may select more than what was meant."""

    id: str
    description: str
    widens: bool = False


CORRECTIONS: Final[Mapping[str, Correction]] = {
    each.id: each
    for each in (
        Correction(
            "left-out-condition",
            '"..." in a policy or a selector counts as absent, so one condition is ignored.',
            widens=True,
        ),
        Correction(
            "no-number-of-clusters", "PickN without numberOfClusters selects every eligible cluster.", widens=True
        ),
        Correction(
            "old-property-name",
            "kubernetes.azure.com/node-count is read as kubernetes-fleet.io/node-count if no cluster has the old name.",
            widens=True,
        ),
        Correction("left-out", '"..." elsewhere counts as absent.'),
        Correction("mapping-for-a-list", "A mapping in place of a list is read as its only item."),
        Correction("list-for-a-mapping", "A list with one item in place of a mapping is read as that mapping."),
        Correction("unquoted-text", "A number or a boolean in place of a string is read as written."),
        Correction("metric-sorter", "metricSorter is read as propertySorter."),
    )
}


class ManifestCorrections:
    """What a lenient reading corrected in one text; those that widen a selection come first."""

    def __init__(self, file: str, *, allowed: bool) -> None:
        self.file = file
        self.allowed = allowed
        self._problems: dict[bool, list[Problem]] = {True: [], False: []}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """A warning for each correction."""
        return (*self._problems[True], *self._problems[False])

    def made(self, correction: str, place: TextPosition, detail: str) -> None:
        """One was made. `detail` says what is read, as a sentence."""
        entry = CORRECTIONS[correction]
        wider = "; this widens the selection" if entry.widens else ""
        text = f"{detail.removesuffix('.')}{wider} [{correction}]."
        problem = build_problem(self.file, place, SLIP, text, Severity.WARNING)
        self._problems[entry.widens].append(problem)
