"""Resources as objects of a hub: what stands is read, what is planned is written, and waited for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity
from nexusform.domains.hub.api.hub import Asked
from nexusform.domains.hub.api.hub_mirror import Mirrors
from nexusform.domains.hub.providers.hub_approvals import Beside
from nexusform.domains.hub.providers.hub_judging import STANDS, Judging
from nexusform.domains.hub.providers.hub_others import remark_on_fields
from nexusform.domains.hub.providers.hub_reading import Seen, find, read_all
from nexusform.domains.hub.providers.hub_refusals import in_words, while_unanswered
from nexusform.domains.hub.providers.hub_settling import Figures, figures_at_planning
from nexusform.domains.hub.providers.hub_terms import Terms
from nexusform.domains.hub.providers.hub_writing import Writing
from nexusform.ports import ChangeRequest, ObjectKey, ProviderAnswer, ReadAnswer, ReadRequest


class FleetHub:
    """The provider. See the module's text."""

    observes = True

    def __init__(self, name: str, asked: Asked, terms: Terms) -> None:
        self.name = name
        self.sends = not terms.read_only
        self._asked = asked
        self._terms = terms
        self._verdict = ""
        self._seen = Seen()
        self._standing: frozenset[str] = frozenset()  # addresses that were refused because an object stands
        self._at_planning: Mapping[str, Figures] = {}
        self._mirrors: Mirrors | None = None
        self._making = Lock()
        self._beside = Beside()

    def mind(self, allows: Callable[[str], bool], *, take_ownership: bool) -> None:
        """What the operator lets the run do."""
        self._terms = replace(self._terms, may_judge=allows, take_ownership=take_ownership)

    def remarks(self) -> list[Problem]:
        """Objects that others made anew, rollouts that stop, placements that the hub is not done with
        although no apply waits for them, and fields that others set.
        """
        anew = self._seen.made_anew.items()
        said = [one for address, each in anew if address not in self._standing for one in each.values()]
        said += self._seen.stopped.values()
        said += [
            Problem(
                (),
                "placement-is-not-through",
                f"The hub is not done with {address}: {words}. Nothing to send changes that; look there.",
                Severity.WARNING,
                brief=f"{address}: {words}",
                about=address,
            )
            for address, words in self._seen.under_way.items()
        ]
        return said + [remark_on_fields(*each) for each in self._seen.of_others.items()]

    @property
    def not_through(self) -> dict[str, str]:
        """What the hub has still to do of the placements that were read, or where their rollouts stop, by
        address, in words.
        """
        return {**self._seen.under_way, **{at: stop.brief for at, stop in self._seen.stopped.items()}}

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadAnswer]:
        """What stands of many objects. Raises ProviderProblem."""
        if not requests:
            return []
        with in_words():
            answers, seen = read_all(self._asked.hub(), self._terms, requests)
            self._seen = self._seen.followed_by(seen, {request.address for request in requests})
            return answers

    def find(self, resource_type: str, object_id: str) -> tuple[ObjectKey, Mapping[str, Any]] | None:
        """For import. Raises ProviderProblem."""
        with in_words():
            return find(self._asked.hub(), self._terms, resource_type, object_id)

    def judge(self, requests: Sequence[ChangeRequest]) -> list[tuple[int, Problem]]:
        """What the hub makes of a plan. Raises ProviderProblem."""
        judging = Judging(self._asked, self._terms, self._seen.made_anew)
        found = judging.judge(requests)
        self._standing = frozenset(requests[n].address for n, problem in found if problem.id == STANDS)
        self._verdict = judging.verdict
        return found

    def follow(self, answers: Mapping[str, str]) -> None:
        """What hubs told when the plan was made that is carried out from now on."""
        self._at_planning = figures_at_planning(answers)

    def verdict(self) -> str:
        """What the hub made of the plan that was judged last."""
        return self._verdict

    def unasked(self, requests: Sequence[ChangeRequest], why: str) -> list[tuple[int, Problem]]:
        """What is to be said of a plan for which nobody asks the hub."""
        return Judging(self._asked, self._terms, self._seen.made_anew).unasked(requests, why)

    def create(self, request: ChangeRequest) -> ProviderAnswer:
        """Make it, or go on making it. Raises ProviderProblem."""
        with in_words(), while_unanswered(request.address):
            return self._writing(request).write()

    def update(self, request: ChangeRequest) -> ProviderAnswer:
        """Change it. Raises ProviderProblem."""
        with in_words(), while_unanswered(request.address):
            return self._writing(request).write()

    def delete(self, request: ChangeRequest) -> None:
        """Delete it, and wait until what it brought is gone. Raises ProviderProblem."""
        with in_words(), while_unanswered(request.address):
            self._writing(request).delete()

    def _writing(self, request: ChangeRequest) -> Writing:
        hub = self._asked.hub()
        with self._making:
            self._mirrors = self._mirrors or Mirrors(hub, self._asked.pace)
        figures = self._at_planning.get(hub.server)
        pace = self._asked.pace
        return Writing(hub, self._mirrors, self._terms, request, pace, self._beside, figures)
