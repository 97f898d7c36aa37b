"""Tests of override patches: their targets, and the variables in their values."""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.domains.fleet.importers.api_defaults import add_api_server_defaults
from nexusform.domains.fleet.importers.fleet_records import (
    FleetOverride,
    JsonPatch,
    ObjectSelector,
    OverrideRule,
)
from nexusform.domains.fleet.planning.override_rendering import RenderedResources, render_resources
from nexusform.domains.pods.importers.manifest_parser import build_manifest
from tests.domains.fleet.planning.hub_dumps import needs_recordings, read_recording

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


def render_patches(*patches: tuple[Any, ...]) -> RenderedResources:
    manifest = build_manifest(DEPLOYMENT)
    assert manifest is not None
    rule = OverrideRule((), tuple(JsonPatch(*patch) for patch in patches))
    selector = ObjectSelector("apps", "v1", "Deployment", "web")
    override = FleetOverride("o", "shop", "p", (selector,), (rule,))
    return render_resources([manifest], [override], "m1", {"region": "west"})


def apply_patches(*patches: tuple[Any, ...]) -> Any:
    result = render_patches(*patches)
    assert not result.failure, result.failure
    return result.manifests[0].body["spec"]


def get_args(spec: Any) -> list[str]:
    listed: list[str] = spec["template"]["spec"]["containers"][0]["args"]
    return listed


def test_patches_apply_to_default_values() -> None:
    assert apply_patches(("replace", "/spec/replicas", 5))["replicas"] == 5
    assert "strategy" not in apply_patches(("remove", "/spec/strategy"))
    assert "unable" not in render_patches(("replace", "/spec/paused", True)).failure
    assert (
        "doc is missing key: /spec/paused"
        in render_patches(("replace", "/spec/paused", True)).failure
    )


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
def test_negative_index_counts_from_the_end(
    operation: str, index: str, expected: list[str]
) -> None:
    assert get_args(apply_patches((operation, f"{ARGS}/{index}", "x"))) == expected


def test_index_before_first_item_fails() -> None:
    assert "doc is missing key" in render_patches(("replace", f"{ARGS}/-4", "x")).failure


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (
            "1000000000000000000",
            "Unable to access invalid index: 1000000000000000000: invalid index referenced",
        ),
        ("9" * 5000, f'strconv.Atoi: parsing "{"9" * 5000}": value out of range'),
    ],
)
def test_long_index_fails_as_on_a_hub(index: str, error: str) -> None:
    assert render_patches(("remove", f"{ARGS}/{index}")).failure.endswith(error)


def test_variables_are_replaced_in_keys_and_values() -> None:
    value = {"${MEMBER-CLUSTER-NAME}": "${MEMBER-CLUSTER-LABEL-KEY-region}"}
    spec = apply_patches(("add", "/spec/template/metadata/annotations", value))
    assert spec["template"]["metadata"]["annotations"] == {"m1": "west"}


def test_variable_without_closing_bracket_fails() -> None:
    failure = render_patches(("add", f"{ARGS}/0", "${MEMBER-CLUSTER-LABEL-KEY-region")).failure
    assert "is missing the closing bracket" in failure


@needs_recordings
def test_defaults_match_an_api_server() -> None:
    events = read_recording("override-of-defaulted-paths")["events"]
    written = [e["request"]["body"] for e in events if "request" in e and e["request"].get("body")]
    snapshot = next(
        e["object"]["spec"]["selectedResources"]
        for e in events
        if "event" in e and e["object"]["kind"] == "ClusterResourceSnapshot"
    )
    by_kind = {body["kind"]: body for body in written}
    assert [add_api_server_defaults(by_kind[body["kind"]]) for body in snapshot] == snapshot


@pytest.mark.parametrize("label", ["region", "tier"])
def test_variables_of_overrides_after_a_deletion_are_filled_in(label: str) -> None:
    """A hub applies nothing more to a deleted object, but a missing label fails the cluster."""
    manifest = build_manifest(DEPLOYMENT)
    assert manifest is not None
    patch = JsonPatch("replace", "/nope", f"${{MEMBER-CLUSTER-LABEL-KEY-{label}}}")
    selectors = (ObjectSelector("apps", "v1", "Deployment", "web"),)
    delete = OverrideRule((), (), delete=True)
    overrides = [
        FleetOverride("a", "shop", "p", selectors, (delete, OverrideRule((), (patch,)))),
        FleetOverride("b", "shop", "p", selectors, (OverrideRule((), (patch,)),)),
    ]
    for count, fails in ((1, False), (2, label == "tier")):
        result = render_resources([manifest], overrides[:count], "m1", {"region": "west"})
        assert bool(result.failure) is fails
        assert bool(result.manifests) is fails
