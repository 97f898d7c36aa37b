"""What `reconcile -from=` may name beside a directory: a table that domains fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct, field

from nexusform.cli.answers import Answer
from nexusform.diagnostics import Diagnostic
from nexusform.domain_table import Loaded, targets_of_domains
from nexusform.source import SourceFile


class Comparison(Struct, frozen=True):
    """What came of comparing state with what is: the answer, None where it could not be found out, and
    whether a separation rule is broken.
    """

    answer: Answer | None = None
    rule_is_broken: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)


# (place, how to lock, notices) -> what came of it
Compare: TypeAlias = Callable[[Any, Any, Any], Comparison]
SOURCES: Final[Mapping[str, Compare]] = Loaded(targets_of_domains("reconciles"))
