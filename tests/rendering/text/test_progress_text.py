from __future__ import annotations

import pytest

from nexusform.applying.events import StepEvent, StepOutcome
from nexusform.plans.plan import StepKind
from nexusform.rendering.notation.colours import wrap_hanging
from nexusform.rendering.text.progress_text import (
    format_apply_complete,
    format_destroy_complete,
    format_elapsed,
    format_end_line,
    format_nothing_sent,
    format_progress_line,
    format_start_line,
    render_step_outcomes,
)


def build_step(kind: StepKind, **more: object) -> StepEvent:
    return StepEvent("nexus_rack.a", kind, "lab/a", **more)  # type: ignore[arg-type]


def test_step_lines_are_rendered() -> None:
    assert format_start_line(build_step(StepKind.CREATE)) == "nexus_rack.a: Creating..."
    assert format_start_line(build_step(StepKind.UPDATE)) == "nexus_rack.a: Modifying... [id=lab/a]"
    assert (
        format_start_line(build_step(StepKind.DELETE)) == "nexus_rack.a: Destroying... [id=lab/a]"
    )
    assert (
        format_start_line(build_step(StepKind.RELEASE)) == "nexus_rack.a: Releasing... [id=lab/a]"
    )
    assert (
        format_progress_line(build_step(StepKind.CREATE, elapsed=10.2))
        == "nexus_rack.a: Still creating... [10s elapsed]"
    )
    assert (
        format_progress_line(build_step(StepKind.DELETE, elapsed=70))
        == "nexus_rack.a: Still destroying... [id=lab/a, 1m10s elapsed]"
    )
    done = {"elapsed": 3.2, "outcome": StepOutcome.DONE}
    assert (
        format_end_line(build_step(StepKind.CREATE, **done))
        == "nexus_rack.a: Creation complete after 3s [id=lab/a]"
    )
    assert (
        format_end_line(build_step(StepKind.UPDATE, **done))
        == "nexus_rack.a: Modifications complete after 3s [id=lab/a]"
    )
    assert (
        format_end_line(build_step(StepKind.DELETE, **done))
        == "nexus_rack.a: Destruction complete after 3s"
    )
    deposed = build_step(StepKind.DELETE, deposed="0a1b2c3d", **done)
    assert (
        format_end_line(deposed)
        == "nexus_rack.a (deposed object 0a1b2c3d): Destruction complete after 3s"
    )
    failed = build_step(StepKind.CREATE, elapsed=1, outcome=StepOutcome.FAILED, error="no \x1broom")
    assert format_end_line(failed) == "nexus_rack.a: Creation errored after 1s: no \\u001broom"
    waiting = {"outcome": StepOutcome.WAITING, "error": "not ready"}
    assert (
        format_end_line(build_step(StepKind.CREATE, **waiting))
        == "nexus_rack.a: Creation waits: not ready"
    )
    assert (
        format_end_line(build_step(StepKind.UPDATE, **waiting))
        == "nexus_rack.a: Modifications wait: not ready"
    )
    assert (
        format_end_line(build_step(StepKind.DELETE, **waiting))
        == "nexus_rack.a: Destruction waits: not ready"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0s"), (59.9, "59s"), (60, "1m0s"), (3723, "1h2m3s"), (3600, "1h0m0s")],
)
def test_elapsed_time_is_formatted(seconds: float, text: str) -> None:
    assert format_elapsed(seconds) == text


def test_closing_lines_are_rendered() -> None:
    assert (
        format_apply_complete(1, 0, 2)
        == "Apply complete! Resources: 1 added, 0 changed, 2 destroyed."
    )
    assert format_apply_complete(0, 0, 0, imported=2, forgotten=1) == (
        "Apply complete! Resources: 2 imported, 0 added, 0 changed, 0 destroyed, 1 forgotten."
    )
    assert format_destroy_complete(5) == "Destroy complete! Resources: 5 destroyed."
    assert (
        format_destroy_complete(5, forgotten=1)
        == "Destroy complete! Resources: 5 destroyed, 1 forgotten."
    )
    assert format_nothing_sent() == (
        'No site was changed: provider "simulated" only recorded this.'
    )


def test_outcome_table_names_failures_and_reasons() -> None:
    events = [
        build_step(StepKind.CREATE, outcome=StepOutcome.DONE),
        StepEvent(
            "nexus_rack.long_name", StepKind.CREATE, "", outcome=StepOutcome.FAILED, error="no room"
        ),
        build_step(
            StepKind.DELETE, outcome=StepOutcome.SKIPPED, error="waits for nexus_rack.long_name"
        ),
    ]
    assert render_step_outcomes(events) == (
        "Steps: 1 done, 1 failed, 1 skipped.\n"
        "  done     nexus_rack.a          create\n"
        "  failed   nexus_rack.long_name  create: no room\n"
        "  skipped  nexus_rack.a          delete: waits for nexus_rack.long_name"
    )


def test_commands_are_not_wrapped() -> None:
    command = (
        "  kubectl --context=lab drain lab-0019db81-control-plane-h298k --ignore-daemonsets  # "
        "where possible"
    )
    wrapped = wrap_hanging(
        f"nexus_kubernetes_cluster.lab: Release waits: the export does not show it.\n{command}", 60
    )
    assert wrapped.split("\n")[-1] == command
    assert max(map(len, wrapped.split("\n")[:-1])) <= 60
