"""Events of the `-json` stream: one JSON object per line, OpenTofu's machine-readable form 1.2.

Functions return dicts; the caller passes the time (RFC 3339) and adds the newline.
`placement_summary` is an addition to OpenTofu's events.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from nexusform.applying.events import StepEvent, StepOutcome
from nexusform.diagnostics.diagnostic import Diagnostic, Severity, SourceFile
from nexusform.diagnostics.levels import Level
from nexusform.diagnostics.phrases import enclose
from nexusform.plans.plan import Action, Change, Mode, Plan, StepKind
from nexusform.rendering.json.json_diagnostics import (
    TERRAFORM_VERSION,
    build_diagnostic_document,
    build_finding_document,
    build_resource_keys,
)
from nexusform.rendering.json.json_placements import (
    build_decision_document,
    build_placement_changes,
)
from nexusform.rendering.notation.json_values import (
    build_visible_type,
    build_visible_value,
    omit_empty,
)
from nexusform.rendering.report import plan_sentences
from nexusform.rendering.report.decision_lines import build_decision_lines
from nexusform.rendering.report.finding_entries import Finding
from nexusform.rendering.report.placement_rows import (
    PlacementSummary,
    ShownPlacements,
    build_count_clauses,
    build_placement_summaries,
)
from nexusform.rendering.text.progress_text import (
    format_apply_complete,
    format_destroy_complete,
    format_end_line,
    format_progress_line,
    format_start_line,
)
from nexusform.resources.address import Address, parse_address
from nexusform.state.objects import OutputState

MODULE: Final = "nexusform.ui"
UI_VERSION: Final = "1.2"

Event = dict[str, Any]


def create_event(kind: str, message: str, time: str, *, level: str = "info", **keys: Any) -> Event:
    """Create an event with the common keys."""
    common_keys = {
        "@level": level,
        "@message": message,
        "@module": MODULE,
        "@timestamp": time,
        "type": kind,
    }
    return common_keys | keys


def create_version_event(version: str, time: str) -> Event:
    """Create the first event of a stream."""
    return create_event(
        "version",
        f"nexusform {version}",
        time,
        nexusform=version,
        terraform=TERRAFORM_VERSION,
        ui=UI_VERSION,
    )


def create_hypothesis_event(plan: Plan, time: str) -> Event:
    """Create the first event of a hypothetical plan."""
    return create_event(
        "hypothetical_plan",
        plan_sentences.describe_assumptions(plan),
        time,
        hypothetical=True,
        assumptions=list(plan.assumptions),
    )


def create_log_event(message: str, time: str) -> Event:
    """Create an event for a message without a type of its own."""
    return create_event("log", message, time, level="info")


def create_diagnostic_event(
    diagnostic: Diagnostic, files: Mapping[str, SourceFile], time: str
) -> Event:
    """Create the event of an error or a warning."""
    is_error = diagnostic.severity is Severity.ERROR
    title = "Error" if is_error else "Warning"
    return create_event(
        "diagnostic",
        f"{title}: {diagnostic.summary}",
        time,
        level="error" if is_error else "warn",
        diagnostic=build_diagnostic_document(diagnostic, files),
    )


def create_finding_event(finding: Finding, files: Mapping[str, SourceFile], time: str) -> Event:
    """Create the event of a diagnostic of a plan; notes and advice have the level info."""
    stream_event = create_diagnostic_event(finding.diagnostic, files, time)
    stream_event["diagnostic"] = build_finding_document(finding, files)
    if finding.level in (Level.ADVICE, Level.NOTE):
        title = finding.level.value.capitalize()
        stream_event |= {"@level": "info", "@message": f"{title}: {finding.diagnostic.summary}"}
    return stream_event


_STREAM_ACTIONS: Final = {
    Action.NO_OP: "noop",
    Action.CREATE: "create",
    Action.READ: "read",
    Action.UPDATE: "update",
    Action.DELETE: "delete",
    Action.REPLACE: "replace",
    Action.REPLACE_CREATE_FIRST: "replace",
    Action.FORGET: "remove",
}

# Stream values for the reasons of a plan document.
_STREAM_REASONS: Final = {
    "replace_because_tainted": "tainted",
    "replace_because_cannot_update": "cannot_update",
    "replace_by_request": "requested",
    "replace_by_triggers": "replace_triggered_by",
    "replace_with_its_place": "replace_triggered_by",
}


def create_plan_events(
    plan: Plan, time: str, detail: ShownPlacements = ShownPlacements.CHANGED
) -> Iterator[Event]:
    """Yield the events of a plan for `-json`, each with its type, message and `time`.

    The order is: drift (changes made outside of nexusform), planned changes, placements, the
    summaries of both, the decision and outputs.
    """
    yield from create_drift_events(plan, time)
    # -refresh-only changes no object.
    if plan.options.mode is not Mode.REFRESH_ONLY:
        for change in plan.reported_changes:
            yield create_planned_change_event(change, time)
    if detail is not ShownPlacements.NONE:
        for document in build_placement_changes(plan, detail):
            trigger = enclose(" (", document["trigger"], ")")
            # An object without any location does not exist: the plan does not create it.
            is_not_created = (
                document["action"] == "keep" and document["from"] is None and document["to"] is None
            )
            action = "Not made" if is_not_created else f"Plan to {document['action']}"
            message = f"{document['object']}: {action}{trigger}"
            yield create_event("planned_placement", message, time, placement=dict(document))
    yield create_plan_summary_event(plan, time)
    if build_placement_summaries(plan):
        yield create_placement_summary_event(plan, time)
    lines = [f"{line.label}: {'; '.join(line.texts)}" for line in build_decision_lines(plan)]
    yield create_event(
        "decision", lines[0], time, decision=build_decision_document(plan), lines=lines
    )
    if plan.root_values.outputs:
        documents: Event = {}
        for output in plan.root_values.outputs:
            documents[output.name] = {
                "sensitive": output.sensitive,
                "action": _STREAM_ACTIONS[output.action],
            }
        yield create_event("outputs", f"Outputs: {len(documents)}", time, outputs=documents)


def create_drift_events(plan: Plan, time: str) -> Iterator[Event]:
    """Yield an event per object changed outside of nexusform.

    A refresh-only plan also gives one per moved address.
    """
    current_addresses = dict(plan.address_moves)
    for drift in plan.observed.drift:
        address = current_addresses.get(drift.address, drift.address)
        action = "delete" if drift.after is None else "update"
        message = f"{address}: Drift detected ({action})"
        document: Event = {"resource": build_resource_keys(address), "action": action}
        if address != drift.address:
            document["previous_resource"] = build_resource_keys(drift.address)
        yield create_event("resource_drift", message, time, change=document)
    if plan.options.mode is Mode.REFRESH_ONLY:
        drift_addresses = {drift.address for drift in plan.observed.drift}
        for change in plan.changes:  # only moves
            # Otherwise its drift has both addresses.
            if change.previous_address not in drift_addresses:
                document = {"resource": build_resource_keys(change.address), "action": "move"}
                if change.previous_address is not None:
                    document["previous_resource"] = build_resource_keys(change.previous_address)
                yield create_event(
                    "resource_drift",
                    f"{change.address}: Drift detected (move)",
                    time,
                    change=document,
                )


def create_planned_change_event(change: Change, time: str) -> Event:
    """Create the event of the planned change of one object."""
    moved_from = change.previous_address
    action = _STREAM_ACTIONS[change.action]
    # An import without another change.
    if change.action is Action.NO_OP and change.importing:
        action = "import"
    elif change.action is Action.NO_OP and moved_from:
        action = "move"
    document: Event = {"resource": build_resource_keys(change.address), "action": action}
    if moved_from is not None:
        document["previous_resource"] = build_resource_keys(moved_from)
    reason = _STREAM_REASONS.get(change.reason, change.reason)
    importing = omit_empty({"id": change.importing})
    document |= omit_empty({"reason": reason, "importing": importing})
    return create_event(
        "planned_change", f"{change.address}: Plan to {action}", time, change=document
    )


def create_plan_summary_event(plan: Plan, time: str) -> Event:
    """Create the event of the `Plan:` line."""
    imports, add, change, destroy, forget = plan_sentences.count_resource_changes(plan)
    counts = {"add": add, "change": change, "import": imports, "remove": destroy, "forget": forget}
    message = plan_sentences.format_plan_line(plan)
    return create_event("change_summary", message, time, changes={**counts, "operation": "plan"})


def create_placement_summary_event(plan: Plan, time: str) -> Event:
    """Create the event of the `Placements:` line, in total and by kind."""
    by_kind = build_placement_summaries(plan)
    # The first one is for all kinds.
    message = f"Placements: {', '.join(build_count_clauses(by_kind[0]))}."
    counts = {summary.kind or "all": _build_counts(summary) for summary in by_kind}
    return create_event("placement_summary", message, time, placements=counts)


def _build_counts(summary: PlacementSummary) -> dict[str, Any]:
    """Build the JSON object of the numbers of placements."""
    return {
        "place": summary.place,
        "move": summary.move,
        "remove": summary.remove,
        "keep": summary.keep,
        "update": summary.update,
        "host_lost": summary.lose,
        "forget": summary.forget,
    }


def create_apply_summary_event(
    added: int,
    changed: int,
    destroyed: int,
    time: str,
    *,
    destroy: bool = False,
    imported: int = 0,
    forgotten: int = 0,
) -> Event:
    """Create the event of the results; `destroy` for `destroy` and `apply -destroy`."""
    counts = {
        "add": added,
        "change": changed,
        "import": imported,
        "remove": destroyed,
        "forget": forgotten,
    }
    operation = "apply"
    message = format_apply_complete(
        added, changed, destroyed, imported=imported, forgotten=forgotten
    )
    if destroy:
        operation = "destroy"
        message = format_destroy_complete(destroyed, forgotten=forgotten)
    return create_event("change_summary", message, time, changes={**counts, "operation": operation})


def create_outputs_event(outputs: Mapping[str, OutputState], time: str) -> Event:
    """Create the event of the outputs after apply, without sensitive values."""
    documents: Event = {}
    for name, output in sorted(outputs.items()):
        is_hidden = output.sensitive
        document: Event = {
            "sensitive": is_hidden,
            "type": build_visible_type(output.type, is_hidden=is_hidden),
        }
        if not is_hidden:
            # Nothing to hide.
            document["value"] = build_visible_value(output.value, sensitive=(), show_sensitive=True)
        documents[name] = document
    return create_event("outputs", f"Outputs: {len(documents)}", time, outputs=documents)


_STEP_ACTIONS: Final = {
    StepKind.CREATE: "create",
    StepKind.UPDATE: "update",
    StepKind.DELETE: "delete",
    StepKind.RELEASE: "update",
    StepKind.FORGET: "remove",
}


def create_apply_start_event(step: StepEvent, time: str) -> Event:
    """Create the event of the start of a step."""
    return create_event("apply_start", format_start_line(step), time, hook=_build_step_hook(step))


def create_apply_progress_event(step: StepEvent, time: str) -> Event:
    """Create the event of the progress of a step."""
    hook = _build_step_hook(step) | {"elapsed_seconds": int(step.elapsed)}
    return create_event("apply_progress", format_progress_line(step), time, hook=hook)


def create_apply_end_event(step: StepEvent, time: str) -> Event:
    """Create the event of the end of a step.

    apply_complete, or apply_errored with the error as message.
    """
    # OpenTofu has no kind for waiting and skipped steps.
    is_done = step.outcome is StepOutcome.DONE
    kind = "apply_complete" if is_done else "apply_errored"
    hook = _build_step_hook(step) | {"elapsed_seconds": int(step.elapsed)}
    if not is_done:
        hook["error"] = step.error
    level = _END_LEVELS.get(step.outcome, "error")
    return create_event(kind, format_end_line(step), time, level=level, hook=hook)


_END_LEVELS: Final[Mapping[StepOutcome | None, str]] = {
    StepOutcome.DONE: "info",
    StepOutcome.WAITING: "warn",
}


def _build_step_hook(step: StepEvent) -> Event:
    """Build the common part of step events: resource, action and, if known, id."""
    hook: Event = {
        "resource": build_resource_keys(parse_address(step.address)),
        "action": _STEP_ACTIONS[step.kind],
    }
    if step.id:
        hook |= {"id_key": "id", "id_value": step.id}
    return hook


def create_refresh_start_event(address: Address, object_id: str, time: str) -> Event:
    """Create the event before reading an object."""
    message = f"{address}: Refreshing state... [id={object_id}]"
    hook = {"resource": build_resource_keys(address), "id_key": "id", "id_value": object_id}
    return create_event("refresh_start", message, time, hook=hook)
