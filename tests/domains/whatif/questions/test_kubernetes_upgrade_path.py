"""Tests of upgrades hop by hop, and of clusters in a feasible order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from nexusform.cli.main import run_command_line
from nexusform.diagnostics.diagnostic import DiagnosticsError
from nexusform.domains.whatif.questions.kubernetes_upgrade import simulate_kubernetes_upgrade
from nexusform.domains.whatif.questions.kubernetes_upgrade_path import (
    SiteUpgradePath,
    find_upgrade_path,
)
from nexusform.domains.whatif.rendering.kubernetes_upgrade_report import build_upgrade_path_report
from nexusform.kubernetes.releases.kubernetes_versions import (
    OfferedVersions,
    has_etcd_gap,
    list_upgrade_hops,
    parse_version,
    select_available_versions,
)
from nexusform.rendering.json.report_document import build_report_document
from nexusform.state.objects import State
from tests.domains.whatif.questions.failures import build_start
from tests.planning.harness import cluster, list_rows, plan, pool
from tests.worlds.small_worlds import build_applied_state, build_racks, get_site, where

OLD = 'kubernetes_version = "1.29"'


def find_path(state: State, names: str, to: str) -> SiteUpgradePath:
    site = get_site(state)
    clusters = [next(one for one in site.clusters if one.name == name) for name in names.split()]
    return find_upgrade_path(build_start(state), site, clusters, to, {})


@pytest.mark.parametrize(
    ("asked", "offered"),
    [
        ("1.31", ["v1.31.4-4.5.0", "1.31.6-4.6.0"]),
        ("1.31.4", ["v1.31.4-4.5.0"]),
        ("1.31.4-4.5.0", ["v1.31.4-4.5.0"]),
        ("1.31.4-4.6.0", []),
        ("1.32.9", ["1.32"]),
        ("1.33", []),
    ],
)
def test_versions_offered_by_site(asked: str, offered: list[str]) -> None:
    version = parse_version(asked)
    assert version is not None
    catalog = ("v1.31.4-4.5.0", "1.31.6-4.6.0", "1.32", "what?")
    assert select_available_versions(version, catalog) == tuple(offered)
    assert select_available_versions(version, None) is None


def test_hops_use_versions_offered_by_site() -> None:
    state = build_applied_state(build_racks(4) + cluster("a", arguments=OLD))
    site = replace(get_site(state), versions=("1.30.2-4.1.0", "1.30.9-4.1.0", "1.31.4-4.5.0"))
    path = find_upgrade_path(build_start(state), site, site.clusters, "1.31", {})
    assert [str(hop.end) for hop in path.clusters[0].hops] == ["1.30.9-4.1.0", "1.31"]
    with pytest.raises(DiagnosticsError, match=r"1\.30\.9-4\.1\.0 -> 1\.31\.7: Azure offers"):
        find_upgrade_path(build_start(state), site, site.clusters, "1.31.7", {})
    # For the next hop, the list of the cluster takes precedence over the catalogue of the site.
    narrowed = replace(site, upgrades={"a": ("1.30.2-4.1.0",)})
    path = find_upgrade_path(build_start(state), narrowed, narrowed.clusters, "1.31", {})
    assert [str(hop.end) for hop in path.clusters[0].hops] == ["1.30.2-4.1.0", "1.31"]


@pytest.mark.parametrize(
    ("start", "end", "hops"),
    [
        ("1.28", "1.31", ["1.29", "1.30", "1.31"]),
        ("v1.29.4", "1.30.1", ["1.30.1"]),
        ("1.29.1-4.4.0", "1.29.1-4.5.0", ["1.29.1-4.5.0"]),
    ],
)
def test_no_minor_version_is_skipped(start: str, end: str, hops: list[str]) -> None:
    first = parse_version(start)
    last = parse_version(end)
    assert first is not None
    assert last is not None
    assert [str(version) for version in list_upgrade_hops(first, last, OfferedVersions())] == hops


@pytest.mark.parametrize(
    ("start", "end", "stands"),
    [
        ("1.30.8-4.3.0", "1.31.12-4.7.0", True),
        ("1.30.8-4.3.0", "1.31.10-4.5.0", False),
        ("1.31.10-4.5.0", "1.31.12-4.7.0", False),
        ("1.27.3-5", "1.28.9-4.6.0", True),
        ("1.27.3", "1.28.9-4.6.0", False),
    ],
)
def test_bundles_with_etcd_gap(start: str, end: str, stands: bool) -> None:
    first = parse_version(start)
    last = parse_version(end)
    assert first is not None
    assert last is not None
    assert has_etcd_gap(first, last) is stands


def test_each_hop_starts_from_result_of_previous_plan() -> None:
    files = build_racks(3, 3) + cluster("a", arguments=OLD, pools=pool("p", 4, "NC_P22_112_v1"))
    state = build_applied_state(files)
    path = find_path(state, "a", "1.31")
    [way] = path.clusters
    assert [(hop.start, str(hop.end)) for hop in way.hops] == [("1.29", "1.30"), ("1.30", "1.31")]
    assert [hop.upgrade.version for hop in way.hops] == ["1.29", "1.30"]
    for version in ("1.30", "1.31"):
        files = re.sub(
            r'kubernetes_version = "[0-9.]+"', f'kubernetes_version = "{version}"', files
        )
        hop = way.hops[("1.30", "1.31").index(version)]
        expected = {
            move.vm.name: move.placement.machine
            for one in hop.upgrade.pools
            for batch in one.batches
            for move in batch.moves
            if move.placement is not None
        }
        planned = {
            name: row.target.machine
            for name, row in list_rows(plan(files, state)).items()
            if row.target
        }
        assert planned == expected
        state = build_applied_state(files, state)
    # Four workers, one at a time, half an hour each; the control plane does not count.
    assert [hop.course.drain_hours for hop in way.hops] == [2.0, 2.0]
    assert [hop.end.end_of_support for hop in way.hops] == ["2026-07", "2026-11"]


def test_summary_names_the_reason_of_a_hop_that_may_stop() -> None:
    path = find_path(
        build_applied_state(build_racks(3, 3) + cluster("a", arguments=OLD, count=1)), "a", "1.30"
    )
    [way] = path.clusters
    [hop] = way.hops
    assert (
        build_upgrade_path_report(path, "here").verdict
        == "The upgrade fits in 1 hop: every surge fits."
    )
    gap = replace(hop, needs_intermediate_bundle=True)
    course = replace(hop.upgrade.course, budgets=("web/a", "web/b"))
    blocked = replace(hop, upgrade=replace(hop.upgrade, course=course))
    for changed, reason in (
        (gap, "it needs another version bundle first."),
        (blocked, "web/a and web/b allow no eviction, so drains time out."),
    ):
        summary = build_upgrade_path_report(
            replace(path, clusters=(replace(way, hops=(changed,)),)), "here"
        ).verdict
        assert summary == f"Every surge fits, but a may stop at 1.29 -> 1.30: {reason}"


def test_infeasible_hop_is_a_finding_and_moves_no_vm() -> None:
    state = build_applied_state(
        build_racks(2) + cluster("a", arguments=OLD, count=1, pools=pool("p", 3, "NC_P46_224_v1"))
    )
    site = get_site(state)
    path = find_path(state, "a", "1.30")
    assert path.has_findings
    [hop] = path.clusters[0].hops
    assert not hop.has_surge_capacity
    upgrade = simulate_kubernetes_upgrade(build_start(state), site, site.clusters[0])
    assert hop.upgrade.pools == upgrade.pools
    assert where(get_site(state)) == where(site)


@pytest.mark.parametrize(
    ("to", "said"),
    [("x", "is not a version"), ("1.28", "is a downgrade"), ("2.0", "changes the major version")],
)
def test_unreachable_versions_are_reported(to: str, said: str) -> None:
    state = build_applied_state(build_racks(2, 2) + cluster("a", arguments=OLD, count=1))
    with pytest.raises(DiagnosticsError) as refused:
        find_path(state, "a", to)
    [found] = refused.value.diagnostics
    assert said in found.detail


def test_clusters_without_version_are_named_with_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = (cluster(name, count=1) for name in "ab")
    (tmp_path / "main.nf.hcl").write_text(build_racks(2, 2) + "".join(bare))
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capsys.readouterr()
    assert run_command_line(["simulate", "kubernetes-upgrade", "a", "b", "-to=1.31"]) == 1
    said = "".join(capsys.readouterr())
    lines = (tmp_path / "main.nf.hcl").read_text().splitlines()
    for name in "ab":
        line = lines.index(f'resource "nexus_kubernetes_cluster" "{name}" {{') + 1
        assert f"main.nf.hcl:{line}" in said or f"main.nf.hcl line {line}" in said
        assert f"s/{name} has no kubernetes_version" in said


def test_no_hops_at_target_version() -> None:
    found = find_path(
        build_applied_state(build_racks(2, 2) + cluster("a", arguments=OLD, count=1)), "a", "1.29"
    )
    assert (found.clusters[0].hops, found.has_findings) == ((), False)


def test_several_clusters_are_upgraded_in_feasible_order() -> None:
    state = build_applied_state(
        build_racks(3, 3)
        + cluster("a", arguments=OLD, count=1)
        + cluster("b", arguments=OLD, count=1)
    )
    found = find_path(state, "b a", "1.30")
    assert [one.cluster for one in found.clusters] == ["b", "a"]
    assert all(hop.has_surge_capacity for one in found.clusters for hop in one.hops)


def test_feasible_order_is_found_if_requested_order_does_not_fit() -> None:
    """The re-created VMs of `a` take the surge capacity of `b`; in reverse order both fit."""
    large = pool("p", 5, "NC_P46_224_v1", more='upgrade_settings {\n max_surge = "2"\n}')
    a = cluster("a", arguments=OLD, pools=pool("p", 2, "NC_G24_112_v1"), count=1)
    state = build_applied_state(
        build_racks(2, 3) + a + cluster("b", arguments=OLD, pools=large, count=1)
    )
    found = find_path(state, "a b", "1.30")
    assert [one.cluster for one in found.clusters] == ["b", "a"]
    assert all(one.fits for one in found.clusters)
    assert (found.tried_orders, found.is_exhaustive) == (2, True)


def test_requested_order_is_shown_if_no_order_fits() -> None:
    blocked = cluster("b", arguments=OLD, count=1, pools=pool("p", 3, "NC_P46_224_v1"))
    state = build_applied_state(build_racks(2) + blocked + cluster("a", arguments=OLD, count=1))
    found = find_path(state, "a b", "1.30")
    assert [one.cluster for one in found.clusters] == ["a", "b"]
    assert found.has_findings
    assert found.is_exhaustive
    facts = " ".join(build_upgrade_path_report(found, "here").facts)
    assert "No tested order fits every surge (each order tested)" in facts


def test_end_of_support_of_site_precedes_built_in_list() -> None:
    state = build_applied_state(build_racks(4) + cluster("a", arguments=OLD))
    days = {"1.30.2-4.1.0": "2026-09-30", "1.30.9-4.4.0": "2026-10-31"}
    site = replace(get_site(state), versions=(*days, "1.31"), supported_until=days)
    path = find_upgrade_path(build_start(state), site, site.clusters, "1.31", {})
    [section] = build_report_document(build_upgrade_path_report(path, "here"))["sections"]
    hops = section["tables"][0]["rows"]
    assert [hop["end_of_support"] for hop in hops] == ["2026-10-31", "2026-11"]
    facts = build_upgrade_path_report(path, "here").facts
    assert any("kubernetesVersions" in fact for fact in facts)
    assert any("learn.microsoft.com" in fact for fact in facts)
