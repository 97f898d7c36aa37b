"""Sentence about the evaluation of a plan: sandbox, files, servers and programs."""

from __future__ import annotations

from nexusform.diagnostics.phrases import format_count, format_list, select_word_form
from nexusform.plans.plan import Plan

_MAX_NAMES = 5


def describe_plan_evaluation(plan: Plan) -> str:
    """Describe how a plan was evaluated, or return "" if it is not recorded."""
    evaluation = plan.basis.evaluation
    if evaluation is None:
        return ""
    outside = sum(not file.in_root for file in evaluation.files)
    facts = ["sandboxed" if evaluation.confined else "not sandboxed", format_count(len(evaluation.files), "file")]
    facts += [f"{outside} outside of the work tree"] if outside else []
    for noun, names in (("server", evaluation.origins), ("program", evaluation.programs)):
        if names:
            facts.append(f"{select_word_form(len(names), noun)} {format_list(names, _MAX_NAMES)}")
    return ", ".join(facts)
