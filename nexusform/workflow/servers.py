"""Servers that data sources ask: each question once in a run, or answered as a saved plan has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeAlias, cast

from msgspec import Struct, field

from nexusform.planning.names.setting import key_of_question
from nexusform.ports import Question
from nexusform.workflow.place import Place

# (arguments, whether the run is confined) -> the answer. Raises OutsideProblem.
Reader: TypeAlias = Callable[[Mapping[str, Any], bool], str]


class Servers(Struct, frozen=True):
    """What servers answered: whatever a run plans again is planned from the same. `answers` may begin with
    those that a saved plan was made of.
    """

    place: Place
    answers: dict[str, str] = field(default_factory=dict)

    def ask(self, question: Question) -> str:
        """The answer to a question. Raises OutsideProblem."""
        key = key_of_question(question)
        if key not in self.answers:
            module, _, name = question.reader.partition(":")
            reader = cast("Reader", getattr(import_module(module), name))
            self.answers[key] = reader(question.arguments, bool(self.place.confinement.root))
        return self.answers[key]
