from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest

from nexusform.planning.plan import Plan
from nexusform.rendering.markdown import render_markdown

CASES = ["added_cluster", "changed_placements", "every_action", "drifted", "outputs_only"]


@pytest.mark.parametrize("name", CASES)
def test_reads_as_reviewed(name: str, plans: SimpleNamespace, golden: Callable[[str, str], None]) -> None:
    plan = getattr(plans, name)()
    golden(f"markdown/{name}.md", render_markdown(plan, plans.files, plans.registries))


def test_the_verdict_comes_first(plans: SimpleNamespace) -> None:
    added = render_markdown(plans.added_cluster(), {})
    assert added.startswith(
        "### nexusform: 1 to add, nothing moves\n\nPlan: 1 to add, 0 to change, 0 to destroy."
    )
    moved = render_markdown(plans.changed_placements(), {})
    assert moved.startswith("### nexusform: 1 to change, **1 placement moves**")
    assert render_markdown(Plan(), {}).startswith("### nexusform: no changes")
    failed = render_markdown(replace(plans.added_cluster(), errored=True), {})
    assert failed.startswith("### nexusform: planning failed\n\n**Warning**: zones-pinned")
    assert "to add" not in failed


def test_values_cannot_break_out_of_their_fence(plans: SimpleNamespace) -> None:
    plan = plans.every_shape()
    nasty = plan.changes[1].after | {"text": "```\n<script>\n````\n# not a heading"}
    text = render_markdown(replace(plan, changes=(replace(plan.changes[1], after=nasty),)), {})
    assert "\n`````diff\n" in text


def test_secrets_stay_hidden(plans: SimpleNamespace) -> None:
    plan = plans.every_shape()
    text = render_markdown(replace(plan, changes=plan.changes[:1]), {})
    for secret in ('"old"', '"new"', '"s1"', '"s2"'):
        assert secret not in text
