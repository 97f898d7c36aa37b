"""Tests of a placement's status in the format of `kubectl describe`.

They cover the current messages and those of 2023.
"""

from __future__ import annotations

from msgspec.structs import replace

from nexusform.domains.fleet.importers.fleet_records import FleetPlacement, ObjectSelector
from nexusform.domains.fleet.planning.placement_records import read_placement
from nexusform.domains.fleet.rendering.placement_status_text import (
    _build_selector,
    render_placement,
    render_placements,
)
from nexusform.kubernetes.matching import LabelSelector
from nexusform.resources.address import parse_address
from nexusform.state.objects import InstanceState
from tests.domains.fleet.planning.fleet_harness import (
    build_hub,
    build_member,
    build_pick_n,
    build_placement,
)
from tests.planning.harness import attributes, build_all_types, build_state

KIND = "fleet_cluster_resource_placement"
MEMBERS = build_member("aks-member-1") + build_member("aks-member-2")


def render_status(version: str = "", extra: str = "") -> list[str]:
    values = attributes(
        build_state(build_hub() + MEMBERS + build_placement(build_pick_n(2), extra)), f"{KIND}.p"
    )
    read = build_all_types().resource_types[KIND].build_fleet_object
    assert read is not None
    written = read(values)
    assert isinstance(written, FleetPlacement)
    return render_placement(KIND, read_placement(values, written), version).splitlines()


def test_hidden_placement_is_not_described() -> None:
    state = build_state(build_hub() + MEMBERS + build_placement(build_pick_n(2)))
    address = parse_address(f"{KIND}.p")
    shown = {address: state.instances[address]}
    current = shown[address].current
    assert current is not None
    hidden = {address: replace(shown[address], current=replace(current, sensitive=(("policy",),)))}
    assert render_placements(hidden, "", 0, show_sensitive=False) == ""
    assert render_placements(hidden, "", 0, show_sensitive=True) == render_placements(
        shown, "", 0, show_sensitive=False
    )
    assert render_placements({address: InstanceState(None)}, "", 0, show_sensitive=True) == ""


def test_columns_match_kubectl() -> None:
    lines = render_status()
    assert lines[:2] == ["Name:         p", "Namespace:"]
    start = lines.index("  Resource Selectors:")
    assert lines[start - 2 : start + 7] == [
        "    Number Of Clusters:  2",
        "    Placement Type:      PickN",
        "  Resource Selectors:",
        "    Group:",
        "    Kind:                  Namespace",
        "    Name:                  web",
        "    Selection Scope:       NamespaceWithResources",
        "    Version:               v1",
        "  Revision History Limit:  10",
    ]
    events = lines.index("Events:")
    assert lines[events - 8 : events + 1] == [
        "  Selected Resources:",
        "    Kind:       Namespace",
        "    Name:       web",
        "    Version:    v1",
        "    Kind:       ConfigMap",
        "    Name:       settings",
        "    Namespace:  web",
        "    Version:    v1",
        "Events:",
    ]


def test_events_match_the_hub() -> None:
    lines = render_status()
    events = lines[lines.index("Events:") + 1 :]
    assert events[:3] == [
        "  Type    Reason                        Age        From                  Message",
        "  ----    ------                        ----       ----                  -------",
        (
            "  Normal  PlacementRolloutStarted       <unknown>  placement-controller  Started "
            "rolling out the latest resources"
        ),
    ]
    assert [line.split()[1] for line in events[3:]] == [
        "PlacementOverriddenSucceeded",
        "PlacementWorkSynchronized",
        "PlacementApplied",
        "PlacementAvailable",
        "PlacementRolloutCompleted",
    ]


def test_events_of_2023_match_the_document() -> None:
    lines = render_status("2023")
    assert [line.split()[:2] for line in lines[lines.index("Events:") + 3 :]] == [
        ["Normal", "PlacementScheduleSuccess"],
        ["Normal", "PlacementSyncSuccess"],
        ["Normal", "PlacementRolloutCompleted"],
    ]
    assert all(
        "cluster-resource-placement-controller" in line
        for line in lines[lines.index("Events:") + 3 :]
    )


def list_messages(lines: list[str], label: str) -> list[str]:
    return [line.split(":", 1)[1].strip() for line in lines if line.strip().startswith(f"{label}:")]


def test_current_conditions() -> None:
    found = list_messages(render_status(), "Type")
    prefix = "ClusterResourcePlacement"
    assert [f for f in found if f.startswith(prefix)] == [
        f"{prefix}{name}"
        for name in (
            "Scheduled",
            "RolloutStarted",
            "Overridden",
            "WorkSynchronized",
            "Applied",
            "Available",
        )
    ]


def test_conditions_of_2023() -> None:
    lines = render_status("2023")
    types = list_messages(lines, "Type")
    assert [t for t in types if t not in ("RollingUpdate", "ClientSideApply")] == [
        "ClusterResourcePlacementScheduled",
        "ClusterResourcePlacementSynchronized",
        "ClusterResourcePlacementApplied",
        *(["ResourceScheduled", "WorkSynchronized", "ResourceApplied"] * 2),
    ]
    messages = list_messages(lines, "Message")
    assert messages[0] == "found all the clusters needed as specified by the scheduling policy"
    assert (
        messages[1]
        == "All 2 cluster(s) are synchronized to the latest resources on the hub cluster"
    )
    assert messages[2] == "Successfully applied resources to 2 member clusters"
    picked = "(affinity score: 0, topology spread score: 0): picked by scheduling policy"
    for name in ("aks-member-1", "aks-member-2"):
        assert f"Successfully scheduled resources for placement in {name} {picked}" in messages


def test_reported_differences() -> None:
    lines = render_status("", 'strategy {\n apply_strategy {\n type = "ReportDiff"\n }\n }')
    assert "ClusterResourcePlacementDiffReported" in list_messages(lines, "Type")
    assert "ClusterResourcePlacementApplied" not in list_messages(lines, "Type")


def test_empty_label_selector_is_not_omitted() -> None:
    namespaces = ObjectSelector("", "v1", "Namespace")
    assert "labelSelector" not in _build_selector(namespaces)
    assert _build_selector(replace(namespaces, labels=LabelSelector()))["labelSelector"] == {}
