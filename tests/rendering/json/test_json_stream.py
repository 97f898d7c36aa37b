from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from nexusform.applying.events import StepEvent, StepOutcome
from nexusform.diagnostics.diagnostic import build_warning
from nexusform.diagnostics.levels import Level
from nexusform.plans.plan import StepKind
from nexusform.rendering.json import json_stream
from nexusform.rendering.report.finding_entries import Finding
from nexusform.rendering.report.placement_rows import ShownPlacements
from nexusform.schemas.value_types import STRING
from nexusform.state.objects import OutputState

NOW = "2026-03-01T00:00:00Z"


def test_every_event_has_the_common_keys(plans: SimpleNamespace) -> None:
    events = [
        json_stream.create_version_event("0.1.0", NOW),
        json_stream.create_log_event("hello", NOW),
        json_stream.create_diagnostic_event(
            build_warning("old-inventory", headline="careful"), {}, NOW
        ),
        *json_stream.create_plan_events(plans.rich_document(), NOW),
        json_stream.create_refresh_start_event(plans.d, "x", NOW),
    ]
    for event in events:
        assert {"@level", "@message", "@module", "@timestamp", "type"} <= set(event)
        assert event["@module"] == "nexusform.ui"
        assert event["@timestamp"] == NOW
        json.dumps(event)
    kinds = [e["type"] for e in events]
    assert kinds[0] == "version"
    assert "resource_drift" in kinds
    assert kinds.index("planned_change") < kinds.index("change_summary") < kinds.index("outputs")


@pytest.mark.parametrize(
    ("level", "kind", "message"),
    [
        (Level.WARNING, "warn", "Warning: careful"),
        (Level.ADVICE, "info", "Advice: careful"),
        (Level.NOTE, "info", "Note: careful"),
    ],
)
def test_advice_and_notes_have_the_level_info(level: Level, kind: str, message: str) -> None:
    finding = Finding(build_warning("old-inventory", headline="careful"), level)
    event = json_stream.create_finding_event(finding, {}, NOW)
    assert (event["@level"], event["@message"]) == (kind, message)


def test_planned_changes_have_their_reasons(plans: SimpleNamespace) -> None:
    events = list(json_stream.create_plan_events(plans.every_action(), NOW))
    planned = {
        e["change"]["resource"]["addr"]: e["change"]
        for e in events
        if e["type"] == "planned_change"
    }
    assert "nexus_rack.t" not in planned
    assert planned["nexus_rack.j"]["action"] == "replace"
    assert planned["nexus_rack.j"]["reason"] == "cannot_update"
    assert planned["nexus_rack.k"]["reason"] == "tainted"
    assert planned["nexus_rack.l"]["reason"] == "requested"
    assert planned["nexus_rack.m"]["reason"] == "replace_triggered_by"
    assert planned["nexus_rack.n"]["action"] == "remove"
    assert planned["nexus_rack.p"]["action"] == "import"
    assert planned["nexus_rack.s"]["action"] == "move"
    assert planned["nexus_rack.s"]["previous_resource"]["addr"] == "nexus_rack.s0"
    assert planned["nexus_rack.c"]["reason"] == "delete_because_no_resource_config"


def test_change_summary_has_the_counts_of_the_plan_line(plans: SimpleNamespace) -> None:
    event = json_stream.create_plan_summary_event(plans.every_action(), NOW)
    assert event["changes"] == {
        "add": 5,
        "change": 2,
        "import": 2,
        "remove": 13,
        "forget": 1,
        "operation": "plan",
    }


def test_module_instance_has_resource_keys(plans: SimpleNamespace) -> None:
    where = plans.address("nexus_rack", "r", "k", module=(("edge", "a"),))
    event = json_stream.create_refresh_start_event(where, "lab/r", NOW)
    assert event["hook"]["resource"] == {
        "addr": 'module.edge["a"].nexus_rack.r["k"]',
        "module": 'module.edge["a"]',
        "resource": 'nexus_rack.r["k"]',
        "implied_provider": "nexus",
        "resource_type": "nexus_rack",
        "resource_name": "r",
        "resource_key": "k",
    }


def test_apply_events_are_written() -> None:
    step = StepEvent("nexus_rack.a", StepKind.CREATE, "lab/a", elapsed=12.7)
    assert json_stream.create_apply_start_event(step, NOW)["hook"]["action"] == "create"
    progress = json_stream.create_apply_progress_event(step, NOW)
    assert progress["hook"]["elapsed_seconds"] == 12
    done = StepEvent("nexus_rack.a", StepKind.DELETE, "lab/a", 3.7, StepOutcome.DONE)
    ended = json_stream.create_apply_end_event(done, NOW)
    assert (ended["hook"]["elapsed_seconds"], "error" in ended["hook"]) == (3, False)
    assert ended["@message"] == "nexus_rack.a: Destruction complete after 3s"
    assert (ended["type"], ended["@level"], ended["hook"]["action"]) == (
        "apply_complete",
        "info",
        "delete",
    )
    failed = StepEvent("nexus_rack.a", StepKind.CREATE, "lab/a", 3.0, StepOutcome.FAILED, "no room")
    assert json_stream.create_apply_end_event(failed, NOW)["type"] == "apply_errored"
    assert json_stream.create_apply_end_event(failed, NOW)["hook"]["error"] == "no room"
    outcomes = (StepOutcome.FAILED, StepOutcome.WAITING, StepOutcome.SKIPPED)
    ends = [
        StepEvent("nexus_rack.a", StepKind.CREATE, "lab/a", 3.0, outcome) for outcome in outcomes
    ]
    assert [json_stream.create_apply_end_event(end, NOW)["@level"] for end in ends] == [
        "error",
        "warn",
        "error",
    ]


def test_outputs_hide_sensitive_values() -> None:
    outputs = {"a": OutputState("x", STRING), "b": OutputState("hunter2", STRING, sensitive=True)}
    event = json_stream.create_outputs_event(outputs, NOW)
    assert event["outputs"] == {
        "a": {"sensitive": False, "type": "string", "value": "x"},
        "b": {"sensitive": True, "type": "string"},
    }


def test_apply_and_destroy_have_summaries() -> None:
    done = json_stream.create_apply_summary_event(1, 2, 3, NOW)
    assert done["@message"] == "Apply complete! Resources: 1 added, 2 changed, 3 destroyed."
    assert done["changes"]["operation"] == "apply"
    gone = json_stream.create_apply_summary_event(0, 0, 3, NOW, destroy=True)
    assert gone["@message"] == "Destroy complete! Resources: 3 destroyed."
    left = json_stream.create_apply_summary_event(0, 0, 3, NOW, destroy=True, forgotten=2)
    assert left["@message"] == "Destroy complete! Resources: 3 destroyed, 2 forgotten."


def test_placements_equal_those_of_documents(plans: SimpleNamespace) -> None:
    plan = plans.added_cluster()
    changed = [row for row in plan.placements if row.trigger]
    events = [
        e for e in json_stream.create_plan_events(plan, NOW) if e["type"] == "planned_placement"
    ]
    assert [e["placement"]["object"] for e in events] == [row.object for row in changed]
    assert events[0]["@message"] == f"{changed[0].object}: Plan to place (new)"
    assert not [
        e
        for e in json_stream.create_plan_events(plan, NOW, ShownPlacements.NONE)
        if e["type"] == "planned_placement"
    ]
    listed = [
        e
        for e in json_stream.create_plan_events(plan, NOW, ShownPlacements.ALL)
        if e["type"] == "planned_placement"
    ]
    assert len(listed) == len(plan.placements)


def test_forgotten_objects_of_an_apply_are_counted() -> None:
    done = json_stream.create_apply_summary_event(0, 0, 0, NOW, forgotten=3)
    assert done["changes"]["forget"] == 3
    assert (
        done["@message"]
        == "Apply complete! Resources: 0 added, 0 changed, 0 destroyed, 3 forgotten."
    )
