"""A provider with sensitive settings: it is asked all that it can be asked, and what it says of problems is
not passed on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from msgspec.structs import replace

from nexusform.diagnostics import Problem
from nexusform.ports import (
    ChangeRequest,
    FollowsPlans,
    JudgesPlans,
    ObjectKey,
    Provider,
    ProviderAnswer,
    ProviderProblem,
    ReadAnswer,
    ReadRequest,
    ReadsCaptures,
    StepWaits,
    TellsVerdict,
)

HIDDEN: Final = (
    "What the provider says is not shown: a setting of it is sensitive, and the words may hold it. "
    "nonsensitive() shows them while you look."
)


def discreet(provider: Provider) -> Provider:
    """The provider, of which problems and verdicts are told without its words."""
    parts = [part for protocol, part in _PARTS.items() if isinstance(provider, protocol)]
    return cast("Provider", type("Discreet", (*parts, _Discreet), {})(provider))


@contextmanager
def _without_words() -> Iterator[None]:
    """Problems go on as they are, but for their words."""
    try:
        yield
    except StepWaits:
        raise StepWaits(HIDDEN) from None
    except ProviderProblem as problem:
        raise ProviderProblem(HIDDEN, exists=problem.exists, attributes=problem.attributes) from None


class _Discreet:
    """What every provider does."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self.name = provider.name
        self.sends = provider.sends
        self.observes = provider.observes

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadAnswer]:
        with _without_words():
            return cast("list[ReadAnswer]", self._provider.read(requests))

    def create(self, request: ChangeRequest) -> ProviderAnswer:
        with _without_words():
            return cast("ProviderAnswer", self._provider.create(request))

    def update(self, request: ChangeRequest) -> ProviderAnswer:
        with _without_words():
            return cast("ProviderAnswer", self._provider.update(request))

    def delete(self, request: ChangeRequest) -> None:
        with _without_words():
            self._provider.delete(request)

    def find(self, resource_type: str, object_id: str) -> tuple[ObjectKey, Mapping[str, Any]] | None:
        with _without_words():
            return cast(
                "tuple[ObjectKey, Mapping[str, Any]] | None", self._provider.find(resource_type, object_id)
            )

    def remarks(self) -> list[Problem]:
        return cast("list[Problem]", self._provider.remarks())


class _Judges(_Discreet):
    def judge(self, requests: Sequence[ChangeRequest]) -> list[tuple[int, Problem]]:
        with _without_words():
            said = self._provider.judge(requests)
        return [(number, replace(problem, detail=HIDDEN, brief="")) for number, problem in said]


class _TellsVerdict(_Discreet):
    def verdict(self) -> str:
        return HIDDEN if self._provider.verdict() else ""

    def unasked(self, requests: Sequence[ChangeRequest], why: str) -> list[tuple[int, Problem]]:
        return cast("list[tuple[int, Problem]]", self._provider.unasked(requests, why))


class _FollowsPlans(_Discreet):
    def follow(self, answers: Mapping[str, str]) -> None:
        self._provider.follow(answers)


class _ReadsCaptures(_Discreet):
    def captures(self) -> list[tuple[str, str]]:
        return cast("list[tuple[str, str]]", self._provider.captures())


# What only some providers do: a provider that does none of it must not seem to.
_PARTS: Final[Mapping[Any, type[_Discreet]]] = {
    JudgesPlans: _Judges,
    TellsVerdict: _TellsVerdict,
    FollowsPlans: _FollowsPlans,
    ReadsCaptures: _ReadsCaptures,
}
