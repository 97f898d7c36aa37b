"""A saved plan as what other tools carry out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.domain_table import Loaded, targets_of_domains
from nexusform.plans.plan import Plan
from nexusform.workflow.opening.place import Place
from nexusform.workflow.plan_files.saved_plans import read_plan

# What writes a plan in another tool's form: the text ("" where the plan holds nothing of the kind), and what
# of the plan it does not say.
Writer: TypeAlias = Callable[[Plan], tuple[str, list[Diagnostic]]]

_WRITERS: Final[Mapping[str, Writer]] = Loaded(targets_of_domains("exports"))
FORMATS: Final = tuple(_WRITERS)


class Exported(Struct, frozen=True):
    """The text, "" where the plan holds nothing of the kind, and what was met."""

    text: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()


def export_plan(place: Place, path: str, form: str) -> Exported:
    """Write a saved plan in another tool's form."""
    saved, problems = read_plan(path, place)
    if saved is None or has_errors(problems):
        return Exported(diagnostics=tuple(problems))
    plan = saved.plan
    if plan.errored:
        detail = f"The plan in {path} has errors, so it says of no VM where it goes. Plan again."
        return Exported(diagnostics=(*problems, error("plan-not-exported", detail)))
    text, more = _WRITERS[form](plan)
    return Exported(text, (*problems, *more))
