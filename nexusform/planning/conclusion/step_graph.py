"""The graph that steps are drafted in: each change's steps, and what each waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from nexusform.address import Address
from nexusform.planning.plan import Action, Change, Step, StepKind

# More steps than these are waited for through a gate: many that wait for many would make n x m edges.
GATE_ABOVE = 4


class Draft(Struct):
    """A step whose waits are not complete yet."""

    id: int
    kind: StepKind
    change: int
    prior: Mapping[str, Any] | None
    planned: Mapping[str, Any] | None
    main: bool = True
    waits: set[int] = field(default_factory=set)


class StepGraph:
    """Steps by id, and which step makes, deletes or releases what.

    `made_by` and `destroyed_by` list the steps of a block (its address as text): its creates and updates,
    and its deletes.
    """

    def __init__(self, changes: Sequence[Change]) -> None:
        self.changes = changes
        self.drafts: list[Draft] = []
        self.making: dict[Address, int] = {}
        self.deleting: dict[tuple[Address, str], int] = {}  # by address and deposed key
        self.releasing: dict[Address, int] = {}
        self.made_by: dict[str, list[int]] = {}
        self.destroyed_by: dict[str, list[int]] = {}
        self._gates: dict[tuple[str, str], list[int]] = {}

    def add(
        self,
        kind: StepKind,
        change: int,
        prior: Mapping[str, Any] | None,
        planned: Mapping[str, Any] | None,
        *,
        main: bool = True,
    ) -> int:
        """A new step, its id."""
        draft = Draft(len(self.drafts), kind, change, prior, planned, main)
        self.drafts.append(draft)
        return draft.id

    def wait(self, step: int, others: Iterable[int]) -> None:
        """Let a step wait for others; never for itself."""
        self.drafts[step].waits.update(other for other in others if other != step)

    def gate(self, name: tuple[str, str], steps: list[int]) -> list[int]:
        """All of these steps as few things to wait for; `name` tells the gate from others."""
        known = self._gates.get(name)
        if known is None:
            known = steps
            if len(steps) > GATE_ABOVE:
                first = self.drafts[steps[0]]
                known = [self.add(StepKind.GATE, first.change, None, None, main=False)]
                self.wait(known[0], steps)
            self._gates[name] = known
        return known

    def replaces(self, step: int) -> bool:
        """Whether a delete is the first half of a replacement: its create waits for it, so it must not
        wait for those that wait for the create.
        """
        return self.changes[self.drafts[step].change].action is Action.REPLACE

    def steps(self) -> list[Step]:
        """What apply follows."""
        return [
            Step(d.id, d.kind, d.change, tuple(sorted(d.waits)), d.prior, d.planned, d.main)
            for d in self.drafts
        ]
