"""Tests of texts of others in each field of a plan: they have no effect in any report."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

import pytest
from msgspec.structs import replace

from nexusform.applying.events import StepEvent, StepOutcome
from nexusform.cli.arguments import build_arguments_record
from nexusform.cli.planning_flags import PlanDisplayFlags
from nexusform.cli.report_flag import FORMATS, PlanReportInput
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    LiteralTextLine,
    Severity,
    SourceFile,
    ValueNote,
)
from nexusform.plans.plan import CheckResult, Plan, StepKind
from nexusform.rendering.json.json_document import encode_document
from nexusform.rendering.json.json_stream import create_plan_events
from nexusform.rendering.text.plan_text import PlanTextOptions, render_plan
from nexusform.rendering.text.progress_text import (
    format_end_line,
    format_progress_line,
    format_start_line,
    render_step_outcomes,
)
from nexusform.rendering.text.state_text import render_state
from nexusform.state.objects import State
from tests.kill_points import select_cases
from tests.planning.harness import add_consequences
from tests.rendering.change_plans import (
    blocks,
    drifted,
    every_action,
    outputs_only,
    refresh_only,
    some_state,
)
from tests.rendering.hostile_texts import HARMLESS, HOSTILE, find_effects, replace_each_text
from tests.rendering.pieces import MAIN, REGISTRIES, span_of
from tests.rendering.placement_plans import changed_placements
from tests.rendering.real_plans import RealPlan

FLAGS: Final = build_arguments_record(PlanDisplayFlags, {"placements": "all", "details": True})
# Fields of which the plan file has a closed list of values, or that are names by their grammar.
CLOSED: Final = re.compile(
    r"(?:Address\.(?:mode|type|name)|PlacementChange\.kind|Plan\.mode|Diagnostic\.id|CheckResult\.(?:status|address))$"
)
DIAGNOSTIC: Final = Diagnostic(
    Severity.ERROR,
    "summary",
    "detail\n\n 1. remedy\n 2. another",
    span_of("24"),
    address="nexus_rack.r",
    block='resource "nexus_rack" "r"',
    id="check-assertion-failed",
    values=(ValueNote("var.a", "is null"),),
    function="file(path)",
    brief="brief",
    line=LiteralTextLine(1, "line"),
)


def with_findings(plan: Plan, *, errored: bool) -> Plan:
    warning = replace(DIAGNOSTIC, severity=Severity.WARNING, is_preexisting=True)
    check = CheckResult("check", "check.c", "fail", ("message",), (span_of("24"),))
    return replace(
        plan,
        errored=errored,
        diagnostics=(DIAGNOSTIC, warning) if errored else (warning,),
        verdicts=replace(plan.verdicts, checks=(check,), dry_run_messages=("dry run",)),
        observed=replace(
            plan.observed, provider_titles=("provider title",), missing_data=("missing",)
        ),
    )


PLANS: Final = {
    **{
        make.__name__: make
        for make in (every_action, drifted, refresh_only, outputs_only, blocks, changed_placements)
    },
    "failed": lambda: with_findings(changed_placements(), errored=True),
    "findings": lambda: with_findings(changed_placements(), errored=False),
}


def render_all(plan: Plan, sources: Mapping[str, SourceFile]) -> dict[str, str]:
    """Return a plan in each format, and as the screen shows it in full."""
    subject = PlanReportInput(plan, sources, REGISTRIES, FLAGS, None, State())
    formats = {name: FORMATS[name] for name in FORMATS if name != "github-review"}
    texts = {name: render(subject).decode() for name, render in formats.items()}
    options = PlanTextOptions(registries=REGISTRIES)
    events = list(create_plan_events(plan, "2026-01-01T00:00:00Z"))
    return {
        **texts,
        "screen": render_plan(plan, sources, options),
        "events": encode_document(events).decode(),
    }


def get_kind(path: str) -> str:
    """Return the last records of the path of a text, without positions and keys."""
    return " ".join(re.sub(r"\[[^ ]*\]", "", path).split(" ")[-2:])


def list_kinds(plan: Plan) -> set[str]:
    return {get_kind(path) for path, _ in replace_each_text(plan, HOSTILE)}


def list_hostile_plans(plan: Plan, tested: AbstractSet[str]) -> Iterator[tuple[str, Plan, Plan]]:
    """Yield each kind of field with the plan that has a hostile text there, and a harmless one."""
    seen = set(tested)
    pairs = zip(replace_each_text(plan, HOSTILE), replace_each_text(plan, HARMLESS), strict=True)
    for (path, hostile), (_, harmless) in pairs:
        kind = get_kind(path)
        if kind not in seen and not CLOSED.search(kind):
            seen.add(kind)
            yield kind, hostile, harmless


def find_all_effects(
    plan: Plan, sources: Mapping[str, SourceFile], tested: AbstractSet[str] = frozenset()
) -> dict[str, Any]:
    effects = {}
    for kind, hostile, harmless in select_cases(list(list_hostile_plans(plan, tested))):
        expected = render_all(harmless, sources)
        for name, text in render_all(hostile, sources).items():
            if found := find_effects(name, text, expected[name]):
                effects[f"{name} of {kind}"] = found
    return effects


@pytest.mark.of_domains("fleet")
@pytest.mark.parametrize("name", PLANS)
def test_text_of_a_plan_has_no_effect(name: str) -> None:
    plan = add_consequences(PLANS[name]())
    assert find_all_effects(plan, {MAIN.name: MAIN}) == {}


@pytest.mark.of_domains("azure", "fleet")
@pytest.mark.parametrize("name", ["repaired", "inventory", "separation"])
def test_text_of_a_real_plan_has_no_effect(name: str, examples: Mapping[str, RealPlan]) -> None:
    """Test the fields that the plans above, and the one of a site with moves, do not have."""
    real = examples[name]
    plans = [add_consequences(make()) for make in PLANS.values()]
    if name != "repaired":
        plans.append(examples["repaired"].saved.plan)
    tested = set[str]().union(*map(list_kinds, plans))
    assert find_all_effects(real.saved.plan, real.sources, tested) == {}


EVENTS: Final = tuple(
    StepEvent(
        "nexus_rack.r",
        StepKind.CREATE,
        "id",
        elapsed=20.0,
        outcome=outcome,
        error="error",
        deposed="0a1b2c3d",
        message="message",
        not_verified="not verified",
    )
    for outcome in StepOutcome
)


def find_text_effects(name: str, record: Any, render: Callable[[Any], str]) -> dict[str, list[str]]:
    """Return the effects of hostile texts in a record, by their path."""
    pairs = zip(
        replace_each_text(record, HOSTILE), replace_each_text(record, HARMLESS), strict=True
    )
    effects = {
        path: find_effects(name, render(hostile), render(harmless))
        for (path, hostile), (_, harmless) in pairs
        if not CLOSED.search(get_kind(path))
    }
    return {path: found for path, found in effects.items() if found}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.outcome)
def test_text_of_an_apply_has_no_effect(event: StepEvent) -> None:
    """A provider's messages and errors, and ids of objects, are of others."""

    def render(event: StepEvent) -> str:
        lines = [format_start_line(event), format_progress_line(event), format_end_line(event)]
        return "\n".join([*lines, render_step_outcomes([event])])

    assert find_text_effects("progress", event, render) == {}


@pytest.mark.parametrize("show_sensitive", [False, True])
def test_text_of_a_state_has_no_effect(show_sensitive: bool) -> None:
    def render(state: State) -> str:
        return render_state(state, REGISTRIES, show_sensitive=show_sensitive)

    assert find_text_effects("text", some_state(), render) == {}
