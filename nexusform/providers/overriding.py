"""A provider whose answers for some objects are given beforehand: the mocks of test files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from nexusform.applying.outcomes import known_parts
from nexusform.diagnostics import Problem
from nexusform.plain_data import Path
from nexusform.ports import ChangeRequest, ObjectKey, Provider, ProviderAnswer, ReadAnswer, ReadRequest
from nexusform.providers.simulated import with_answer

# The values for an object by its address, None when its provider is to be asked.
Answers = Callable[[str], Mapping[str, Any] | None]


class OverridingProvider:
    """Asks another provider, except about objects whose values are given: those exist only in state."""

    def __init__(self, inner: Provider, answers: Answers) -> None:
        self._inner = inner
        self._answers = answers
        self.name = inner.name
        self.sends = inner.sends
        self.observes = inner.observes

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadAnswer]:
        """What stands; overridden objects as state remembers them. Raises ProviderProblem."""
        asked = [r for r in requests if self._answers(r.address) is None]
        answers = iter(self._inner.read(asked) if asked else [])
        return [
            next(answers) if self._answers(r.address) is None else ReadAnswer(r.attributes or None)
            for r in requests
        ]

    def create(self, request: ChangeRequest) -> ProviderAnswer:
        """Make the object. Raises ProviderProblem."""
        values = self._answers(request.address)
        return self._inner.create(request) if values is None else _answered(request, values)

    def update(self, request: ChangeRequest) -> ProviderAnswer:
        """Change it. Raises ProviderProblem."""
        values = self._answers(request.address)
        return self._inner.update(request) if values is None else _answered(request, values)

    def delete(self, request: ChangeRequest) -> None:
        """Remove it. Raises ProviderProblem."""
        if self._answers(request.address) is None:
            self._inner.delete(request)

    def find(self, resource_type: str, object_id: str) -> tuple[ObjectKey, Mapping[str, Any]] | None:
        """For import: as the other provider finds it."""
        return self._inner.find(resource_type, object_id)

    def remarks(self) -> list[Problem]:
        """What the other provider says of what it read."""
        return self._inner.remarks()


def _answered(request: ChangeRequest, answers: Mapping[str, Any]) -> ProviderAnswer:
    """What is planned, with the given values in their places."""
    values = tuple(_leaves(answers, ()))
    planned = known_parts(request.planned or {})
    return ProviderAnswer(with_answer(planned, values), tuple(path for path, _ in values))


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping) and (value or not path):
        for name, part in value.items():
            yield from _leaves(part, (*path, name))
    else:
        yield path, value
