"""Tests of text and JSON against the expectations of Terraform tools, taken from their sources.

tfcmt (pkg/terraform/parser.go): the expressions, and the lines around the parts of a comment.
terraform-json (plan.go, state.go, action.go): the shape unmarshalled by Go; unknown fields are
ignored, but a field of another type than declared is an error. tf-summarize (terraformstate): the
kind of a change, by its actions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from nexusform.plans.plan import Plan
from nexusform.rendering.json.json_document import (
    build_plan_document,
    build_state_document,
    encode_document,
)
from nexusform.rendering.text.diagnostic_text import render_diagnostics
from nexusform.rendering.text.plan_text import PlanTextOptions, render_plan
from nexusform.rendering.text.progress_text import format_apply_complete
from tests.rendering.real_plans import REGISTRIES, RealPlan, of_examples

# --- tfcmt -------------------------------------------------------------------------------------

PASS = re.compile(r"(?m)^(Plan: \d|No changes.)")
FAIL = re.compile(r"(?m)^([│|] )?(Error: )")
WARNING = re.compile(r"(?m)^([│|] )?(Warning: )")
OUTPUTS = re.compile(r"(?m)^Changes to Outputs:")
HAS_DESTROY = re.compile(r"([1-9][0-9]* to destroy.)")
NO_CHANGES = re.compile(
    r"(?m)^(No changes\.|Plan: (\d+ to import, )?0 to add, 0 to change, 0 to destroy\.)"
)
RESOURCES = {
    "create": re.compile(r"^ *# (.*) will be created$"),
    "update": re.compile(r"^ *# (.*) will be updated in-place$"),
    "delete": re.compile(r"^ *# (.*) will be destroyed$"),
    "replace": re.compile(
        r"^ *# (.*?)(?:(?: is tainted, so)? must be replaced| will be replaced, as requested"
        r"| will be replaced due to changes in replace_triggered_by)$"
    ),
}
ACTIONS_FOLLOW = "Terraform will perform the following actions:"
DRIFT = "Note: Objects have changed outside of Terraform"
DRIFT_ENDS = "Unless you have made equivalent changes to your configuration"


def render_for_terraform(plan: Plan, sources: Any = None) -> list[str]:
    options = PlanTextOptions(terraform=True, registries=REGISTRIES)
    return render_plan(plan, sources or {}, options).split("\n")


def extract_changed_result(lines: list[str]) -> str:
    """Return the diff in tfcmt's comment: from the header to the rule, or to the end."""
    start = lines.index(ACTIONS_FOLLOW) + 1
    rules = [at for at, line in enumerate(lines) if line.startswith("─────") and at > start]
    return "\n".join(lines[start : rules[0] - 1 if rules else len(lines) - 1])


@pytest.mark.parametrize(
    "name",
    of_examples(
        "quickstart",
        "nexus-document",
        "fleet",
        "end-to-end",
        "hardware-aware",
        "evacuated",
        "repaired",
    ),
)
def test_tfcmt_finds_the_verdict_and_the_diff(name: str, examples: Mapping[str, RealPlan]) -> None:
    plan = examples[name].saved.plan
    lines = render_for_terraform(plan, examples[name].sources)
    text = "\n".join(lines)
    assert not FAIL.search(text)
    verdict = next(line for line in lines if PASS.match(line))
    assert (
        verdict
        == f"Plan: {plan.to_add} to add, {plan.to_change} to change, {plan.to_destroy} to destroy."
    )
    assert bool(HAS_DESTROY.search(verdict)) == bool(plan.to_destroy)
    assert not NO_CHANGES.match(verdict)
    result = extract_changed_result(lines)
    for change in plan.changes:
        pattern = RESOURCES.get(change.action.value)
        if pattern is not None:
            heads = [match.group(1) for match in map(pattern.match, lines) if match]
            assert str(change.address) in heads
            assert f"# {change.address} will be" in result


def test_tfcmt_reads_every_action(plans: SimpleNamespace) -> None:
    plan = plans.every_action()
    lines = render_for_terraform(plan, plans.files)
    counts = {
        kind: len([line for line in lines if pattern.match(line)])
        for kind, pattern in RESOURCES.items()
    }
    actions = [change.action.value for change in plan.changes]
    assert counts["create"] == actions.count("create")
    assert counts["update"] == actions.count("update")
    assert counts["delete"] == actions.count("delete")
    assert counts["replace"] == actions.count("delete-create") + actions.count("create-delete")


def test_tfcmt_finds_start_and_end_of_drift(plans: SimpleNamespace) -> None:
    lines = render_for_terraform(plans.drifted(), plans.files)
    start = lines.index(DRIFT)
    end = next(at for at, line in enumerate(lines) if line.startswith(DRIFT_ENDS))
    assert start < end < lines.index(ACTIONS_FOLLOW)


def test_drift_without_an_end_is_not_written(plans: SimpleNamespace) -> None:
    # tfcmt slices from the header to the end, and panics if there is no end.
    lines = render_for_terraform(plans.refresh_only(), plans.files)
    assert DRIFT not in lines


def test_tfcmt_reads_boxes_and_applies() -> None:
    from nexusform.diagnostics.diagnostic import build_error, build_warning

    assert FAIL.search(render_diagnostics([build_error("unknown-site", "No.")], {}))
    assert WARNING.search(render_diagnostics([build_warning("unknown-site", "Hm.")], {}))
    assert re.search(r"(?m)^(Apply complete!)", format_apply_complete(1, 2, 3))


def test_tfcmt_reads_a_plan_with_only_outputs(plans: SimpleNamespace) -> None:
    lines = render_for_terraform(plans.outputs_only(), plans.files)
    assert "Changes to Outputs:" in lines
    assert not FAIL.search("\n".join(lines))


# --- terraform-json and tf-summarize -----------------------------------------------------------

ACTIONS = (
    ["no-op"],
    ["create"],
    ["read"],
    ["update"],
    ["delete"],
    ["delete", "create"],
    ["create", "delete"],
    ["forget"],
)
# Field -> JSON types accepted by Go; absent and null are accepted for any.
PLAN: dict[str, type | tuple[type, ...]] = {
    "format_version": str,
    "terraform_version": str,
    "variables": dict,
    "planned_values": dict,
    "resource_drift": list,
    "resource_changes": list,
    "complete": bool,
    "output_changes": dict,
    "prior_state": dict,
    "configuration": dict,
    "relevant_attributes": list,
    "checks": list,
    "timestamp": str,
}
RESOURCE_CHANGE: dict[str, type | tuple[type, ...]] = {
    "address": str,
    "previous_address": str,
    "module_address": str,
    "mode": str,
    "type": str,
    "name": str,
    "index": (str, int),
    "provider_name": str,
    "deposed": str,
    "change": dict,
}
STATE_RESOURCE: dict[str, type | tuple[type, ...]] = {
    "address": str,
    "mode": str,
    "type": str,
    "name": str,
    "index": (str, int),
    "provider_name": str,
    "schema_version": int,
    "values": dict,
    "depends_on": list,
    "tainted": bool,
    "deposed_key": str,
}


def check_types(document: dict[str, Any], shape: dict[str, type | tuple[type, ...]]) -> None:
    for name, types in shape.items():
        value = document.get(name)
        assert value is None or isinstance(value, types), (name, value)


def list_resources(module: dict[str, Any]) -> list[dict[str, Any]]:
    listed = list(module.get("resources", []))
    for child in module.get("child_modules", []):
        assert isinstance(child["address"], str)
        listed += list_resources(child)
    return listed


def check_changes(document: dict[str, Any]) -> None:
    for change in [*document["resource_changes"], *document.get("resource_drift", [])]:
        check_types(change, RESOURCE_CHANGE)
        assert change["mode"] in ("managed", "data")
        assert change["change"]["actions"] in ACTIONS
        assert isinstance(change["change"].get("replace_paths", []), list)
        assert isinstance(change["change"].get("importing", {}), dict)
        assert isinstance(change["change"].get("generated_config", ""), str)
    for change in document.get("output_changes", {}).values():
        assert change["actions"] in ACTIONS


@pytest.mark.parametrize(
    "name",
    of_examples("quickstart", "inventory", "nexus-document", "fleet", "end-to-end", "repaired"),
)
def test_go_unmarshals_a_plan(name: str, examples: Mapping[str, RealPlan]) -> None:
    real = examples[name]
    document = json.loads(
        encode_document(build_plan_document(real.saved.plan, None, registries=REGISTRIES))
    )
    major, minor = map(int, document["format_version"].split("."))
    assert (0, 1) <= (major, minor) < (2, 0)  # PlanFormatVersionConstraints
    check_types(document, PLAN)
    check_changes(document)
    for variable in document.get("variables", {}).values():
        assert set(variable) == {"value"}
    for resource in list_resources(document["planned_values"]["root_module"]):
        check_types(resource, STATE_RESOURCE)
    for check in document.get("checks", []):
        assert isinstance(check["address"]["to_display"], str)
        assert check["status"] in ("pass", "fail", "error", "unknown")
        for instance in check.get("instances", []):
            assert isinstance(instance["address"], dict)
            assert all(
                isinstance(problem["message"], str) for problem in instance.get("problems", [])
            )


def test_go_unmarshals_every_action(plans: SimpleNamespace) -> None:
    plan = plans.every_action()
    document = json.loads(encode_document(build_plan_document(plan, None, registries=REGISTRIES)))
    check_types(document, PLAN)
    check_changes(document)


def test_tf_summarize_has_the_counts_of_the_plan(plans: SimpleNamespace) -> None:
    # A single action names the change, two are a replacement.
    plan = plans.every_action()
    document = json.loads(encode_document(build_plan_document(plan, None, registries=REGISTRIES)))
    kinds = [change["change"]["actions"] for change in document["resource_changes"]]
    replaced = sum(len(actions) == 2 for actions in kinds)
    assert kinds.count(["create"]) + replaced == plan.to_add
    assert kinds.count(["update"]) == plan.to_change
    assert kinds.count(["delete"]) + replaced == plan.to_destroy
    moved = [change for change in document["resource_changes"] if change.get("previous_address")]
    assert all(change["previous_address"] != change["address"] for change in moved)


def test_go_unmarshals_a_state(plans: SimpleNamespace) -> None:
    document = json.loads(encode_document(build_state_document(plans.some_state())))
    major, minor = map(int, document["format_version"].split("."))
    assert (0, 1) <= (major, minor) < (2, 0)  # StateFormatVersionConstraints
    assert isinstance(document["terraform_version"], str)
    for resource in list_resources(document["values"]["root_module"]):
        check_types(resource, STATE_RESOURCE)
    for output in document["values"].get("outputs", {}).values():
        assert isinstance(output["sensitive"], bool)
