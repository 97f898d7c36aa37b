"""Tests of example plans as text and Markdown against reviewed files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

import pytest

from nexusform.rendering.json.json_document import build_plan_document, encode_document
from nexusform.rendering.pull_request.plan_comment import render_markdown
from nexusform.rendering.text.plan_text import PlanTextOptions, render_plan
from tests.rendering.real_plans import REGISTRIES, RealPlan, of_examples

EXAMPLES = ("quickstart", "inventory", "nexus-document", "fleet", "end-to-end", "hardware-aware")
# Location attributes in JSON, by kind.
PLACES = {
    "vm": {"machine", "rack", "availability_zone", "numa_cells"},
    "binding": {"cluster", "state"},
    "pod": {"cluster", "node", "machine", "availability_zone", "state"},
}


# Each plan has one reviewed file: the terminal text. test_facts.py compares the other screens with
# its sections. A few plans have a second file for the layout of -details and of the comment.
@pytest.mark.parametrize("name", of_examples("nexus-document", "end-to-end"))
def test_text(
    name: str, examples: Mapping[str, RealPlan], golden: Callable[[str, str], None]
) -> None:
    real = examples[name]
    options = PlanTextOptions(details=True, width=100, hints=False, registries=REGISTRIES)
    golden(f"examples/{name}.txt", render_plan(real.saved.plan, real.sources, options))


@pytest.mark.parametrize(
    "name", of_examples(*EXAMPLES, "separation", "nexus-document-from-nothing", "repaired")
)
def test_short_text_matches_reviewed_file(
    name: str, examples: Mapping[str, RealPlan], golden: Callable[[str, str], None]
) -> None:
    real = examples[name]
    options = PlanTextOptions(saved_path="p.plan", registries=REGISTRIES)
    text = render_plan(real.saved.plan, real.sources, options)
    golden(f"short/{name}.txt", text)
    assert max(map(len, text.split("\n"))) <= 80
    assert len(text.split("\n")) <= 64


@pytest.mark.parametrize(
    "name",
    of_examples("end-to-end", "nexus-document-from-nothing", "separation", "repaired", "evacuated"),
)
def test_markdown_matches_reviewed_file(
    name: str, examples: Mapping[str, RealPlan], golden: Callable[[str, str], None]
) -> None:
    real = examples[name]
    golden(f"examples/{name}.md", render_markdown(real.saved.plan, real.sources, REGISTRIES))


@pytest.mark.parametrize("name", of_examples("quickstart", "end-to-end"))
def test_json_matches_reviewed_file(
    name: str, examples: Mapping[str, RealPlan], golden: Callable[[str, str], None]
) -> None:
    real = examples[name]
    document = build_plan_document(real.saved.plan, None, registries=REGISTRIES)
    golden(f"examples/{name}.json", encode_document(document, pretty=True).decode())


@pytest.mark.parametrize("name", of_examples(*EXAMPLES))
def test_tools_can_read_the_counts(name: str, examples: Mapping[str, RealPlan]) -> None:
    # Text searched by Atlantis and tfcmt in a plan. It must be in both forms.
    plan = examples[name].saved.plan
    text = render_plan(plan, examples[name].sources, PlanTextOptions(registries=REGISTRIES))
    comment = render_markdown(plan, examples[name].sources, REGISTRIES)
    for form in (text, comment):
        found = re.search(r"Plan: (\d+) to add, (\d+) to change, (\d+) to destroy\.", form)
        assert found is not None
        assert [int(n) for n in found.groups()] == [plan.to_add, plan.to_change, plan.to_destroy]


@pytest.mark.parametrize("name", of_examples(*EXAMPLES))
def test_json_has_fields_used_by_consumers_of_plans(
    name: str, examples: Mapping[str, RealPlan]
) -> None:
    real = examples[name]
    document = json.loads(
        encode_document(build_plan_document(real.saved.plan, None, registries=REGISTRIES))
    )
    assert document["format_version"] == "1.2"
    assert document["terraform_version"].startswith("1.")
    for change in document["resource_changes"]:
        assert set(change) >= {"address", "mode", "type", "name", "provider_name", "change"}
        assert set(change["change"]) >= {"actions", "before", "after", "after_unknown"}
        assert change["source"]["line"] >= 1
    placed = [row for row in document["placement_changes"] if row["action"] == "place"]
    assert all(set(row["to"]) == PLACES[row["kind"]] for row in placed)
    rows = [row for row in document["placement_tables"] if row["actual_vms_per_rack"]]
    assert all(sum(row["actual_vms_per_rack"].values()) == row["total_count"] for row in rows)
