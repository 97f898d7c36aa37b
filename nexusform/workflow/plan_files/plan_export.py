"""Export of a saved plan for other tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic, has_errors
from nexusform.domain_table import LazyTable, collect_domain_targets
from nexusform.plans.plan import Plan
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.plan_files.failed_plans import check_failed_plan
from nexusform.workflow.plan_files.saved_plans import read_plan

# Writer of a plan in another tool's format: the text ("" without matching content), and diagnostics about
# omitted parts.
Writer: TypeAlias = Callable[[Plan], tuple[str, list[Diagnostic]]]

_WRITERS: Final[Mapping[str, Writer]] = LazyTable(collect_domain_targets("exports"))
FORMATS: Final = tuple(_WRITERS)


class ExportResult(Struct, frozen=True):
    """The text, "" without content, and diagnostics."""

    text: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()


def export_plan(context: CommandContext, path: str, format_name: str) -> ExportResult:
    """Write a saved plan in another tool's format."""
    saved, problems = read_plan(path, context)
    problems += check_failed_plan(saved, path) if saved is not None else []
    if saved is None or has_errors(problems):
        return ExportResult(diagnostics=tuple(problems))
    text, export_diagnostics = _WRITERS[format_name](saved.plan)
    return ExportResult(text, (*problems, *export_diagnostics))
