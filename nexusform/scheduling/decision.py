"""Why here, why not there: what every scheduler answers with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """One candidate that a rule refused.

    Who (`candidate`, a machine, cluster or node name), which rule (its file's name, e.g. "fits"), and
    the reason as a sentence for people.
    """

    candidate: str
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class Certainty:
    """In which share of the repeated tie-breaks the object has this rack and this machine, 0..1."""

    rack: float
    machine: float
