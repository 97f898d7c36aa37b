"""The event stream of `-json`: one JSON object per line, OpenTofu's machine-readable form 1.2.

Functions give dicts; whoever prints them passes the time (RFC 3339) and adds the newline. Beyond
OpenTofu's events, planned changes of placements are told by `placement_summary`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from nexusform.address import Address, AddressProblem, parse_address
from nexusform.applying.events import Outcome, StepEvent
from nexusform.diagnostics import Diagnostic, Severity
from nexusform.json_forms import Form
from nexusform.plans.plan import Action, Change, Drift, Mode, Plan, StepKind
from nexusform.rendering.json.json_parts import (
    TERRAFORM_VERSION,
    diagnostic_document,
    finding_document,
    resource_keys,
)
from nexusform.rendering.json.json_placements import placement_changes
from nexusform.rendering.notation.json_values import shown, shown_type
from nexusform.rendering.report import wording
from nexusform.rendering.report.entries import Finding
from nexusform.rendering.report.placement_rows import (
    Detail,
    PlacementSummary,
    count_clauses,
    summaries,
)
from nexusform.rendering.text.progress_text import ended_line, progress_line, started_line
from nexusform.source import SourceFile
from nexusform.state.objects import OutputState
from nexusform.weights import Level

MODULE: Final = "nexusform.ui"
UI_VERSION: Final = "1.2"

Event = dict[str, Any]


def event(kind: str, message: str, time: str, *, level: str = "info", **keys: Any) -> Event:
    """An event with the keys that every event has."""
    head = {"@level": level, "@message": message, "@module": MODULE, "@timestamp": time, "type": kind}
    return head | keys


def version_event(version: str, time: str) -> Event:
    """The first line of every stream."""
    return event(
        "version",
        f"nexusform {version}",
        time,
        nexusform=version,
        terraform=TERRAFORM_VERSION,
        ui=UI_VERSION,
    )


def log_event(message: str, time: str) -> Event:
    """Anything worth saying that has no event of its own."""
    return event("log", message, time, level="info")


def diagnostic_event(diagnostic: Diagnostic, files: Mapping[str, SourceFile], time: str) -> Event:
    """An error or a warning."""
    is_error = diagnostic.severity is Severity.ERROR
    word = "Error" if is_error else "Warning"
    return event(
        "diagnostic",
        f"{word}: {diagnostic.summary}",
        time,
        level="error" if is_error else "warn",
        diagnostic=diagnostic_document(diagnostic, files),
    )


def finding_event(finding: Finding, files: Mapping[str, SourceFile], time: str) -> Event:
    """A diagnostic of a plan; a note is told as information."""
    stream_event = diagnostic_event(finding.diagnostic, files, time)
    stream_event["diagnostic"] = finding_document(finding, files)
    if finding.level in (Level.ADVICE, Level.NOTE):
        word = finding.level.value.capitalize()
        stream_event |= {"@level": "info", "@message": f"{word}: {finding.diagnostic.summary}"}
    return stream_event


# --- plan --------------------------------------------------------------------------------------

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

# The stream's words for the reasons of a plan document.
_STREAM_REASONS: Final = {
    "replace_because_tainted": "tainted",
    "replace_because_cannot_update": "cannot_update",
    "replace_by_request": "requested",
    "replace_by_triggers": "replace_triggered_by",
    "replace_with_its_place": "replace_triggered_by",
}


def plan_events(plan: Plan, time: str, detail: Detail = Detail.CHANGED) -> Iterator[Event]:
    """Drift, planned changes, planned placements, the summary, the placements' summary, the outputs."""
    yield from drift_events(plan, time)
    for change in () if plan.mode is Mode.REFRESH_ONLY else plan.changes:
        if change.action is not Action.NO_OP or change.previous_address or change.importing:
            yield planned_change_event(change, time)
    if detail is not Detail.NONE:
        for document in placement_changes(plan, detail):
            yield planned_placement_event(document, time)
    yield plan_summary_event(plan, time)
    if summaries(plan)[0].anything:
        yield placement_summary_event(plan, time)
    if plan.outputs:
        yield planned_outputs_event(plan, time)


def drift_events(plan: Plan, time: str) -> Iterator[Event]:
    """What was found otherwise, in a plan that only refreshes also what merely moved."""
    moved = dict(plan.moved)
    for drift in plan.drift:
        yield drift_event(drift, moved.get(drift.address, drift.address), time)
    if plan.mode is Mode.REFRESH_ONLY:
        drifted = {drift.address for drift in plan.drift}
        for change in plan.changes:
            if change.previous_address not in drifted:
                yield move_event(change, time)


def drift_event(drift: Drift, address: Address, time: str) -> Event:
    """An object that changed outside nexusform; `address` is where it stands now."""
    action = "delete" if drift.after is None else "update"
    message = f"{address}: Drift detected ({action})"
    change: Event = {"resource": resource_keys(address), "action": action}
    if address != drift.address:
        change["previous_resource"] = resource_keys(drift.address)
    return event("resource_drift", message, time, change=change)


def move_event(change: Change, time: str) -> Event:
    """An object that a plan which only refreshes takes over under its new address."""
    document: Event = {"resource": resource_keys(change.address), "action": "move"}
    if change.previous_address is not None:
        document["previous_resource"] = resource_keys(change.previous_address)
    return event("resource_drift", f"{change.address}: Drift detected (move)", time, change=document)


def planned_change_event(change: Change, time: str) -> Event:
    """What is to happen to one object."""
    moved_from = change.previous_address if change.previous_address != change.address else None
    action = _STREAM_ACTIONS[change.action]
    if change.action is Action.NO_OP and change.importing:
        action = "import"
    elif change.action is Action.NO_OP and moved_from:
        action = "move"
    document: Event = {"resource": resource_keys(change.address), "action": action}
    if moved_from is not None:
        document["previous_resource"] = resource_keys(moved_from)
    if change.reason:
        document["reason"] = _STREAM_REASONS.get(change.reason, change.reason)
    if change.importing:
        document["importing"] = {"id": change.importing}
    return event("planned_change", f"{change.address}: Plan to {action}", time, change=document)


def planned_placement_event(placement: Mapping[str, Any], time: str) -> Event:
    """Where one VM, binding or pod is to be; `placement` as plan documents show it."""
    trigger = f" ({placement['trigger']})" if placement["trigger"] else ""
    is_refused = placement["action"] == "keep" and placement["from"] is None and placement["to"] is None
    does = "Not made" if is_refused else f"Plan to {placement['action']}"
    message = f"{placement['object']}: {does}{trigger}"
    return event("planned_placement", message, time, placement=dict(placement))


def _summary(message: str, time: str, changes: Mapping[str, Any]) -> Event:
    return event("change_summary", message, time, changes=dict(changes))


def plan_summary_event(plan: Plan, time: str) -> Event:
    """The `Plan:` line as data."""
    imports, add, change, destroy, forget = wording.plan_counts(plan)
    counts = {"add": add, "change": change, "import": imports, "remove": destroy, "forget": forget}
    return _summary(wording.plan_line(plan), time, {**counts, "operation": "plan"})


def placement_summary_event(plan: Plan, time: str) -> Event:
    """The `Placements:` line as data, in all and by kind."""
    by_kind = summaries(plan)
    message = f"Placements: {', '.join(count_clauses(by_kind[0]))}."
    counts = {summary.kind or "all": _COUNTS(summary) for summary in by_kind}
    return event("placement_summary", message, time, placements=counts)


_COUNTS: Final = Form(PlacementSummary, "place move remove keep update lose_machine=lose forget")


def planned_outputs_event(plan: Plan, time: str) -> Event:
    """The outputs' actions; values come after apply."""
    documents: Event = {}
    for output in plan.outputs:
        action = _STREAM_ACTIONS[output.action]
        documents[output.name] = {"sensitive": output.sensitive, "action": action}
    return event("outputs", f"Outputs: {len(documents)}", time, outputs=documents)


# --- apply -------------------------------------------------------------------------------------


def apply_summary_event(
    added: int,
    changed: int,
    destroyed: int,
    time: str,
    *,
    destroy: bool = False,
    imported: int = 0,
    forgotten: int = 0,
) -> Event:
    """What was done; `destroy` for `destroy` and `apply -destroy`."""
    counts = {"add": added, "change": changed, "import": imported, "remove": destroyed, "forget": forgotten}
    if destroy:
        message = f"Destroy complete! Resources: {destroyed} destroyed."
    else:
        front = f"{imported} imported, " if imported else ""
        message = (
            f"Apply complete! Resources: {front}{added} added, {changed} changed, {destroyed} destroyed."
        )
    return _summary(message, time, {**counts, "operation": "destroy" if destroy else "apply"})


def outputs_event(outputs: Mapping[str, OutputState], time: str) -> Event:
    """The outputs after apply; a sensitive one without its value."""
    documents: Event = {}
    for name, output in sorted(outputs.items()):
        hidden = output.sensitive
        document: Event = {"sensitive": hidden, "type": shown_type(output.type, hidden=hidden)}
        if not hidden:
            document["value"] = shown(output.value, (), show_sensitive=True)
        documents[name] = document
    return event("outputs", f"Outputs: {len(documents)}", time, outputs=documents)


_STEP_ACTIONS: Final = {
    StepKind.CREATE: "create",
    StepKind.UPDATE: "update",
    StepKind.DELETE: "delete",
    StepKind.RELEASE: "update",
    StepKind.FORGET: "remove",
}


def apply_start_event(step: StepEvent, time: str) -> Event:
    """A step begins."""
    return event("apply_start", started_line(step), time, hook=_hook(step))


def apply_progress_event(step: StepEvent, time: str) -> Event:
    """A step goes on."""
    hook = _hook(step) | {"elapsed_seconds": int(step.elapsed)}
    return event("apply_progress", progress_line(step), time, hook=hook)


def apply_end_event(step: StepEvent, time: str) -> Event:
    """A step ended: apply_complete, or apply_errored with the error as message."""
    done = step.outcome is Outcome.DONE
    kind = "apply_complete" if done else "apply_errored"
    hook = _hook(step) | {"elapsed_seconds": int(step.elapsed)}
    if not done:
        hook["error"] = step.error
    return event(kind, ended_line(step), time, level="info" if done else "error", hook=hook)


def _hook(step: StepEvent) -> Event:
    """What every event of a step says: the resource, the action, the id once it is known."""
    hook: Event = {"resource": _resource(step.address), "action": _STEP_ACTIONS[step.kind]}
    if step.id:
        hook |= {"id_key": "id", "id_value": step.id}
    return hook


def _resource(address: str) -> Event:
    """An address as the stream names it; as it is written where it cannot be read."""
    try:
        return resource_keys(parse_address(address))
    except AddressProblem:
        return {"addr": address}


def refresh_start_event(address: Address, object_id: str, time: str) -> Event:
    """An object is about to be read."""
    message = f"{address}: Refreshing state... [id={object_id}]"
    hook = {"resource": resource_keys(address), "id_key": "id", "id_value": object_id}
    return event("refresh_start", message, time, hook=hook)
