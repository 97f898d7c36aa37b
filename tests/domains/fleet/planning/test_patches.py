"""What patches of overrides find, and what is filled into their values."""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.domains.fleet.importers.api_defaults import add_api_server_defaults
from nexusform.domains.fleet.importers.fleet_records import FleetOverride, JsonPatch, ObjectSelector, OverrideRule
from nexusform.domains.fleet.planning.override_rendering import RenderedResources, render_resources
from nexusform.domains.pods.importers.manifest_parser import build_manifest
from tests.domains.fleet.planning.hub_dumps import needs_recordings, recorded

DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "selector": {"matchLabels": {"app": "w"}},
        "template": {
            "metadata": {"labels": {"app": "w"}},
            "spec": {"containers": [{"name": "c", "image": "i", "args": ["a", "b", "c"]}]},
        },
    },
}
ARGS = "/spec/template/spec/containers/-1/args"


def rendered(*patches: tuple[Any, ...]) -> RenderedResources:
    manifest = build_manifest(DEPLOYMENT)
    assert manifest is not None
    rule = OverrideRule((), tuple(JsonPatch(*patch) for patch in patches))
    selector = ObjectSelector("apps", "v1", "Deployment", "web")
    override = FleetOverride("o", "shop", "p", (selector,), (rule,))
    return render_resources([manifest], [override], "m1", {"region": "west"})


def patched(*patches: tuple[Any, ...]) -> Any:
    result = rendered(*patches)
    assert not result.failure, result.failure
    return result.manifests[0].body["spec"]


def args(spec: Any) -> list[str]:
    listed: list[str] = spec["template"]["spec"]["containers"][0]["args"]
    return listed


def test_patches_find_what_defaults_made() -> None:
    assert patched(("replace", "/spec/replicas", 5))["replicas"] == 5
    assert "strategy" not in patched(("remove", "/spec/strategy"))
    assert "unable" not in rendered(("replace", "/spec/paused", True)).failure
    assert "doc is missing key: /spec/paused" in rendered(("replace", "/spec/paused", True)).failure


@pytest.mark.parametrize(
    ("operation", "index", "expected"),
    [
        ("replace", "-1", ["a", "b", "x"]),
        ("replace", "-3", ["x", "b", "c"]),
        ("add", "-1", ["a", "b", "c", "x"]),
        ("add", "-2", ["a", "b", "x", "c"]),
        ("remove", "-2", ["a", "c"]),
    ],
)
def test_an_index_below_zero_counts_from_the_end(operation: str, index: str, expected: list[str]) -> None:
    assert args(patched((operation, f"{ARGS}/{index}", "x"))) == expected


def test_no_list_has_an_item_before_its_first() -> None:
    assert "doc is missing key" in rendered(("replace", f"{ARGS}/-4", "x")).failure


def test_variables_are_filled_in_keys_as_well_as_in_values() -> None:
    value = {"${MEMBER-CLUSTER-NAME}": "${MEMBER-CLUSTER-LABEL-KEY-region}"}
    spec = patched(("add", "/spec/template/metadata/annotations", value))
    assert spec["template"]["metadata"]["annotations"] == {"m1": "west"}


def test_a_variable_without_its_bracket_fails() -> None:
    failure = rendered(("add", f"{ARGS}/0", "${MEMBER-CLUSTER-LABEL-KEY-region")).failure
    assert "is missing the closing bracket" in failure


@needs_recordings
def test_an_api_server_fills_in_the_same() -> None:
    events = recorded("override-of-defaulted-paths")["events"]
    written = [e["request"]["body"] for e in events if "request" in e and e["request"].get("body")]
    snapshot = next(
        e["object"]["spec"]["selectedResources"]
        for e in events
        if "event" in e and e["object"]["kind"] == "ClusterResourceSnapshot"
    )
    by_kind = {body["kind"]: body for body in written}
    assert [add_api_server_defaults(by_kind[body["kind"]]) for body in snapshot] == snapshot
