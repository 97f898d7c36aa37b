"""Tests of a new kubernetes_version: batches keep old VMs until new ones are created.

Separate pools.
"""

from __future__ import annotations

import pytest

from tests.planning.harness import (
    agent_pool,
    build_state,
    cluster,
    get_line,
    is_empty,
    list_actions,
    list_errors,
    list_places,
    list_rows,
    list_triggers,
    plan,
    pool,
    require_success,
)

BIG = "NC_P46_224_v1"


def build_site(machines: int) -> str:
    return f"""
resource "nexus_site" "s" {{}}
resource "nexus_rack" "r" {{
  site_id       = nexus_site.s.id
  machine_count = {machines}
}}
"""


def build_upgrade(settings: str) -> str:
    return f"upgrade_settings {{\n{settings}\n}}"


def list_upgrade_errors(machines: int, count: int, settings: str) -> list[str]:
    """Return the errors of an upgrade of `count` VMs with one of two cells of a machine each."""
    own = (
        build_site(machines)
        + '\nresource "nexus_rack" "plane" {\n site_id = nexus_site.s.id\n machine_count = 1\n}\n'
    )
    zones = 'availability_zones = ["r"]\n'
    text = own + cluster(
        "a", arguments='kubernetes_version = "1.30"', pools=pool("p", count, BIG, zones + settings)
    )
    text = text.replace('"NC_G6_28_v1"\n', '"NC_G6_28_v1"\n availability_zones = ["plane"]\n', 1)
    state = build_state(text)
    result = plan(text.replace('"1.30"\n', '"1.31"\n', 1), state)
    if not result.plan.errored:
        moved = {name for name in list_triggers(result) if name.startswith("a-p")}
        assert len(moved) == count
    return [d.detail for d in list_errors(result)]


@pytest.mark.parametrize(
    ("machines", "count", "settings", "fits"),
    [
        # four cells, three VMs, surge of one.
        (2, 3, "", True),
        # No free cell.
        (2, 4, "", False),
        (3, 4, build_upgrade('max_surge = "2"'), True),
        # One free cell.
        (3, 5, build_upgrade('max_surge = "2"'), False),
        (3, 4, build_upgrade('max_surge = "50%"'), True),
        # 34 % of 3 is rounded up to two.
        (2, 3, build_upgrade('max_surge = "34%"'), False),
        # 33 % of 3 is one.
        (2, 3, build_upgrade('max_surge = "33%"'), True),
        (2, 3, build_upgrade('max_surge = "1%"'), True),  # rounded up
        (2, 4, build_upgrade('max_surge = "0"\nmax_unavailable = "1"'), True),
        (2, 4, build_upgrade('max_surge = "0%"\nmax_unavailable = "100%"'), True),
        # larger than the pool: all at once.
        (3, 4, build_upgrade('max_surge = "9"'), False),
        (4, 4, build_upgrade('max_surge = "9"'), True),
    ],
)
def test_batch_needs_capacity_beside_old_vms(
    machines: int, count: int, settings: str, fits: bool
) -> None:
    found = list_upgrade_errors(machines, count, settings)
    assert (not found) == fits, found


def test_batch_without_capacity_is_an_insufficient_capacity_error() -> None:
    text = build_site(1) + cluster(
        "a", arguments='kubernetes_version = "1.30"', pools=pool("p", 1, BIG), plane="NC_G24_112_v1"
    )
    state = build_state(text)
    result = plan(text.replace('"1.30"', '"1.31"'), state)
    assert {d.id for d in list_errors(result)} == {"insufficient-capacity"}


def test_control_plane_rolls_one_by_one() -> None:
    text = build_site(2) + cluster("a", arguments='kubernetes_version = "1.30"', plane=BIG, count=3)
    result = require_success(plan(text.replace('"1.30"', '"1.31"'), build_state(text)))
    assert set(list_triggers(result).values()) == {("move", "kubernetes_version_changed")}


def test_old_vms_count_while_new_vms_are_placed() -> None:
    # Two racks with one VM each. For each new VM both old VMs of its pool count: the racks tie, and
    # the number of VMs on them decides, so a VM cannot simply return to its own cell.
    text = (
        build_site(2).replace('"r" {', '"r1" {')
        + '\nresource "nexus_rack" "r2" {\n site_id = nexus_site.s.id\n machine_count = 2\n}\n'
        + cluster("a", arguments='kubernetes_version = "1.30"', pools=pool("p", 2, BIG))
    )
    state = build_state(text)
    result = require_success(plan(text.replace('"1.30"', '"1.31"', 1), state))
    for row in list_rows(result).values():
        assert row.source is not None
        assert row.target is not None
        assert (row.source.machine, row.source.cells) != (row.target.machine, row.target.cells)


POOLED = build_site(6) + cluster("a", arguments='kubernetes_version = "1.30"', pools=pool("p", 2))


@pytest.mark.parametrize("reference", ["nexus_kubernetes_cluster.a.id", '"s/a"'])
def test_separate_pool_follows_its_cluster(reference: str) -> None:
    text = POOLED + agent_pool("own", reference, 2)
    state = build_state(text)
    result = require_success(plan(text.replace('"1.30"', '"1.31"', 1), state))
    assert set(list_triggers(result).values()) == {("move", "kubernetes_version_changed")}
    assert {"a-own-0", "a-own-1"} <= set(list_triggers(result))
    assert list_actions(result)["nexus_agent_pool.own"] == "update"
    assert is_empty(
        require_success(
            plan(
                text.replace('"1.30"', '"1.31"', 1),
                build_state(text.replace('"1.30"', '"1.31"', 1), state),
            )
        )
    )
    replaced = require_success(plan(text.replace('"NC_G6_28_v1"', '"NC_G12_56_v1"', 1), state))
    assert list_triggers(replaced)["a-own-1"] == ("move", "cluster_replaced")
    assert list_actions(replaced)["nexus_agent_pool.own"] == "delete-create"


def test_separate_pool_with_literal_id_may_precede_its_cluster() -> None:
    text = agent_pool("own", '"s/a"', 2) + POOLED
    state = build_state(text)
    assert "a-own-1" in list_places(state)
    assert is_empty(require_success(plan(text, state)))
    result = require_success(plan(text.replace('"1.30"', '"1.31"', 1), state))
    assert {"a-own-0", "a-own-1", "a-p-0"} <= set(list_triggers(result))


def test_separate_pools_count_as_vms_of_the_cluster() -> None:
    # One rack has four machines, three of them with a VM of the cluster: the VM of the pool
    # takes the fourth.
    text = (
        build_site(4)
        + cluster("a", count=3)
        + agent_pool("own", "nexus_kubernetes_cluster.a.id", 1)
    )
    assert len({machine for machine, _ in list_places(build_state(text)).values()}) == 4


@pytest.mark.parametrize("reference", ['"s/none"', '"none"'])
def test_pool_of_unknown_cluster_is_an_error_at_its_line(reference: str) -> None:
    text = POOLED + agent_pool("own", reference, 1)
    (found,) = list_errors(plan(text))
    assert found.summary == "Unknown cluster"
    assert get_line(found)[1] == text[: text.index("kubernetes_cluster_id")].count("\n") + 1


def test_pool_in_cluster_and_separate_block_is_an_error() -> None:
    (found,) = list_errors(plan(POOLED + agent_pool("p", "nexus_kubernetes_cluster.a.id", 1)))
    assert "agent_pool" in found.detail
    assert '"p"' in found.detail


def test_two_separate_pools_of_one_name_are_an_error() -> None:
    own = agent_pool("x", "nexus_kubernetes_cluster.a.id", 1, more='name = "own"')
    text = POOLED + own + own.replace('"x"', '"y"')
    (found,) = list_errors(plan(text))
    assert "nexus_agent_pool.x" in found.detail


def test_first_configured_version_rolls_too() -> None:
    text = build_site(6) + cluster("a")
    versioned = build_site(6) + cluster("a", arguments='kubernetes_version = "1.30"')
    result = require_success(plan(versioned, build_state(text)))
    assert set(list_triggers(result).values()) == {("move", "kubernetes_version_changed")}


def test_scale_out_during_upgrade_follows_the_roll() -> None:
    text = build_site(6) + cluster("a", arguments='kubernetes_version = "1.30"', pools=pool("p", 2))
    bigger = text.replace('"1.30"', '"1.31"', 1).replace("count       = 2", "count       = 4")
    found = list_triggers(require_success(plan(bigger, build_state(text))))
    assert found["a-p-1"] == ("move", "kubernetes_version_changed")
    assert found["a-p-3"] == ("place", "scale_out")


def test_scale_in_during_upgrade_removes_the_highest_numbers() -> None:
    text = build_site(6) + cluster("a", arguments='kubernetes_version = "1.30"', pools=pool("p", 3))
    smaller = text.replace('"1.30"', '"1.31"', 1).replace("count       = 3", "count       = 1")
    found = list_triggers(require_success(plan(smaller, build_state(text))))
    assert found["a-p-0"] == ("move", "kubernetes_version_changed")
    assert found["a-p-2"] == ("remove", "scale_in")


def test_rejected_upgrade_suggests_removing_vms_first() -> None:
    cells = 'availability_zones = ["r"]\n'
    text = (
        build_site(1)
        + '\nresource "nexus_rack" "plane" {\n site_id = nexus_site.s.id\n machine_count = 1\n}\n'
        + cluster("a", arguments='kubernetes_version = "1.30"', pools=pool("p", 2, BIG, cells))
    ).replace('"NC_G6_28_v1"\n', '"NC_G6_28_v1"\n availability_zones = ["plane"]\n', 1)
    upgraded = text.replace('"1.30"\n', '"1.31"\n', 1)
    [refused] = list_errors(plan(upgraded, build_state(text), suggested_fixes=True))
    assert refused.summary == f"The upgrade of a/p does not fit: 0 of 2 x {BIG} re-placed"
    assert (
        'max_surge = "1" adds 1 surge VM before it removes old ones, and it does not fit'
        in refused.detail
    )
    first = refused.extra["fit"]["suggested_fixes"][0]
    assert first["kind"] == "upgrade"
    assert "removes a VM before it adds the next" in first["text"]
    assert [edit["path"][-2:] for edit in first["edits"]] == [
        ["upgrade_settings", "max_surge"],
        ["upgrade_settings", "max_unavailable"],
    ]
    settings = build_upgrade('max_surge = "0"\nmax_unavailable = "1"')
    require_success(plan(upgraded.replace(cells, cells + settings), build_state(text)))


def test_no_settings_fix_for_control_plane_without_surge_capacity() -> None:
    text = build_site(1) + cluster("a", arguments='kubernetes_version = "1.30"', plane=BIG, count=2)
    [refused] = list_errors(
        plan(text.replace('"1.30"\n', '"1.31"\n', 1), build_state(text), suggested_fixes=True)
    )
    assert "the control plane adds 1 surge VM" in refused.detail
    assert "upgrade" not in [way["kind"] for way in refused.extra["fit"]["suggested_fixes"]]


def test_node_without_a_successor_keeps_its_machine() -> None:
    def build_text(name: str, version: str, pools: str) -> str:
        text = cluster(name, arguments=f'kubernetes_version = "{version}"', pools=pools)
        return text.replace('"NC_G6_28_v1"\n', '"NC_G6_28_v1"\n availability_zones = ["plane"]\n')

    plane = 'resource "nexus_rack" "plane" {\n site_id = nexus_site.s.id\n machine_count = 1\n}\n'
    in_place = build_upgrade('max_surge = "0"\nmax_unavailable = "1"')
    whole_machine = pool("p", 1, "NC_E94_448_v1", f'availability_zones = ["r"]\n{in_place}')
    state = build_state(build_site(1) + plane + build_text("a", "1.30", whole_machine))
    # The control planes are in the other zone, so no whole machine is free there.
    moved = whole_machine.replace('["r"]', '["plane"]')
    other = build_text("b", "1.31", pool("q", 2, BIG, 'availability_zones = ["r"]'))
    result = plan(build_site(1) + plane + build_text("a", "1.31", moved) + other, state)
    assert [error.summary for error in list_errors(result)] == [
        "The upgrade of a/p does not fit: 0 of 1 x NC_E94_448_v1 re-placed",
        f"2 x {BIG} do not fit: 0 of 2 placed",
    ]
