"""Named sources of `reconcile -from=` besides directories, supplied by domains."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct, field

from nexusform.cli.report_output import Answer
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile
from nexusform.domain_table import LazyTable, collect_object_references


class StateComparison(Struct, frozen=True):
    """The result of a comparison of state and reality: the answer (None: failed), and separation violated or not."""

    answer: Answer | None = None
    is_rule_violated: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)


# (context, lock options, notices) -> result
Comparer: TypeAlias = Callable[[Any, Any, Any], StateComparison]
COMPARISON_SOURCES: Final[Mapping[str, Comparer]] = LazyTable(collect_object_references("reconcilers"))
