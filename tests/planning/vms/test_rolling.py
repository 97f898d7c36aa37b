"""A new kubernetes_version: batches that keep the old VMs until the new stand, and separate pools."""

from __future__ import annotations

import pytest

from tests.planning.harness import (
    actions,
    agent_pool,
    cluster,
    errors,
    good,
    is_empty,
    line_of,
    places,
    plan,
    pool,
    rows,
    state_of,
    triggers,
)

BIG = "NC_P46_224_v1"


def site(machines: int) -> str:
    return f"""
resource "nexus_site" "s" {{}}
resource "nexus_rack" "r" {{
  site_id       = nexus_site.s.id
  machine_count = {machines}
}}
"""


def upgrade(settings: str) -> str:
    return f"upgrade_settings {{\n{settings}\n}}"


def rolled(machines: int, count: int, settings: str) -> list[str]:
    """The errors of an upgrade of `count` VMs that each take one of two cells of a machine."""
    own = site(machines) + '\nresource "nexus_rack" "plane" {\n site_id = nexus_site.s.id\n machine_count = 1\n}\n'
    zones = 'availability_zones = ["r"]\n'
    text = own + cluster("a", arguments='kubernetes_version = "1.30"', pools=pool("p", count, BIG, zones + settings))
    text = text.replace('"NC_G6_28_v1"\n', '"NC_G6_28_v1"\n availability_zones = ["plane"]\n', 1)
    state = state_of(text)
    result = plan(text.replace('"1.30"\n', '"1.31"\n', 1), state)
    if not result.plan.errored:
        moved = {name for name in triggers(result) if name.startswith("a-p")}
        assert len(moved) == count
    return [d.detail for d in errors(result)]


@pytest.mark.parametrize(
    ("machines", "count", "settings", "fits"),
    [
        (2, 3, "", True),  # four cells, three VMs, one over at a time
        (2, 4, "", False),  # no cell is free
        (3, 4, upgrade('max_surge = "2"'), True),
        (3, 5, upgrade('max_surge = "2"'), False),  # one cell is free
        (3, 4, upgrade('max_surge = "50%"'), True),
        (2, 3, upgrade('max_surge = "34%"'), False),  # 34 % of 3 is two
        (2, 3, upgrade('max_surge = "33%"'), True),  # 33 % of 3 is one
        (2, 3, upgrade('max_surge = "1%"'), True),  # rounded up
        (2, 4, upgrade('max_surge = "0"\nmax_unavailable = "1"'), True),
        (2, 4, upgrade('max_surge = "0%"\nmax_unavailable = "100%"'), True),
        (3, 4, upgrade('max_surge = "9"'), False),  # more than the pool: all at once
        (4, 4, upgrade('max_surge = "9"'), True),
    ],
)
def test_a_batch_needs_room_beside_the_old_vms(machines: int, count: int, settings: str, fits: bool) -> None:
    found = rolled(machines, count, settings)
    assert (not found) == fits, found


def test_a_batch_without_room_is_the_does_not_fit_error() -> None:
    text = site(1) + cluster(
        "a", arguments='kubernetes_version = "1.30"', pools=pool("p", 1, BIG), plane="NC_G24_112_v1"
    )
    state = state_of(text)
    result = plan(text.replace('"1.30"', '"1.31"'), state)
    assert {d.id for d in errors(result)} == {"insufficient-capacity"}


def test_the_control_plane_rolls_one_by_one() -> None:
    text = site(2) + cluster("a", arguments='kubernetes_version = "1.30"', plane=BIG, count=3)
    result = good(plan(text.replace('"1.30"', '"1.31"'), state_of(text)))
    assert set(triggers(result).values()) == {("move", "kubernetes_version_changed")}


def test_old_vms_count_while_the_new_are_placed() -> None:
    # Two racks; two VMs, one on each. Each new VM sees both old ones of its pool: a draw between the
    # racks, broken by the number of VMs there; so it cannot simply return to its own cell.
    text = (
        site(2).replace('"r" {', '"r1" {')
        + '\nresource "nexus_rack" "r2" {\n site_id = nexus_site.s.id\n machine_count = 2\n}\n'
        + cluster("a", arguments='kubernetes_version = "1.30"', pools=pool("p", 2, BIG))
    )
    state = state_of(text)
    result = good(plan(text.replace('"1.30"', '"1.31"', 1), state))
    for row in rows(result).values():
        assert row.source is not None
        assert row.target is not None
        assert (row.source.machine, row.source.cells) != (row.target.machine, row.target.cells)


POOLED = site(6) + cluster("a", arguments='kubernetes_version = "1.30"', pools=pool("p", 2))


@pytest.mark.parametrize("reference", ["nexus_kubernetes_cluster.a.id", '"s/a"'])
def test_a_separate_pool_follows_its_cluster(reference: str) -> None:
    text = POOLED + agent_pool("own", reference, 2)
    state = state_of(text)
    result = good(plan(text.replace('"1.30"', '"1.31"', 1), state))
    assert set(triggers(result).values()) == {("move", "kubernetes_version_changed")}
    assert {"a-own-0", "a-own-1"} <= set(triggers(result))
    assert actions(result)["nexus_agent_pool.own"] == "update"
    assert is_empty(
        good(plan(text.replace('"1.30"', '"1.31"', 1), state_of(text.replace('"1.30"', '"1.31"', 1), state)))
    )
    replaced = good(plan(text.replace('"NC_G6_28_v1"', '"NC_G12_56_v1"', 1), state))
    assert triggers(replaced)["a-own-1"] == ("move", "cluster_replaced")
    assert actions(replaced)["nexus_agent_pool.own"] == "delete-create"


def test_a_separate_pool_written_as_a_literal_may_stand_before_its_cluster() -> None:
    text = agent_pool("own", '"s/a"', 2) + POOLED
    state = state_of(text)
    assert "a-own-1" in places(state)
    assert is_empty(good(plan(text, state)))
    result = good(plan(text.replace('"1.30"', '"1.31"', 1), state))
    assert {"a-own-0", "a-own-1", "a-p-0"} <= set(triggers(result))


def test_separate_pools_count_as_the_clusters_vms() -> None:
    # Four machines in one rack, one VM of the cluster on three of them: the pool's VM takes the fourth.
    text = site(4) + cluster("a", count=3) + agent_pool("own", "nexus_kubernetes_cluster.a.id", 1)
    assert len({machine for machine, _ in places(state_of(text)).values()}) == 4


@pytest.mark.parametrize("reference", ['"s/none"', '"none"'])
def test_a_pool_of_an_unknown_cluster_is_an_error_at_its_line(reference: str) -> None:
    text = POOLED + agent_pool("own", reference, 1)
    (found,) = errors(plan(text))
    assert found.summary == "Unknown cluster"
    assert line_of(found)[1] == text[: text.index("kubernetes_cluster_id")].count("\n") + 1


def test_the_same_pool_in_both_places_is_an_error() -> None:
    (found,) = errors(plan(POOLED + agent_pool("p", "nexus_kubernetes_cluster.a.id", 1)))
    assert "agent_pool" in found.detail
    assert '"p"' in found.detail


def test_two_separate_pools_of_one_name_are_an_error() -> None:
    own = agent_pool("x", "nexus_kubernetes_cluster.a.id", 1, more='name = "own"')
    text = POOLED + own + own.replace('"x"', '"y"')
    (found,) = errors(plan(text))
    assert "nexus_agent_pool.x" in found.detail


def test_a_version_given_for_the_first_time_rolls_too() -> None:
    text = site(6) + cluster("a")
    versioned = site(6) + cluster("a", arguments='kubernetes_version = "1.30"')
    result = good(plan(versioned, state_of(text)))
    assert set(triggers(result).values()) == {("move", "kubernetes_version_changed")}


def test_growing_during_an_upgrade_adds_after_the_roll() -> None:
    text = site(6) + cluster("a", arguments='kubernetes_version = "1.30"', pools=pool("p", 2))
    bigger = text.replace('"1.30"', '"1.31"', 1).replace("count       = 2", "count       = 4")
    found = triggers(good(plan(bigger, state_of(text))))
    assert found["a-p-1"] == ("move", "kubernetes_version_changed")
    assert found["a-p-3"] == ("place", "scale_out")


def test_shrinking_during_an_upgrade_takes_the_highest_away() -> None:
    text = site(6) + cluster("a", arguments='kubernetes_version = "1.30"', pools=pool("p", 3))
    smaller = text.replace('"1.30"', '"1.31"', 1).replace("count       = 3", "count       = 1")
    found = triggers(good(plan(smaller, state_of(text))))
    assert found["a-p-0"] == ("move", "kubernetes_version_changed")
    assert found["a-p-2"] == ("remove", "scale_in")


def test_a_refused_upgrade_says_so_and_offers_to_take_vms_away_first() -> None:
    cells = 'availability_zones = ["r"]\n'
    text = (
        site(1)
        + '\nresource "nexus_rack" "plane" {\n site_id = nexus_site.s.id\n machine_count = 1\n}\n'
        + cluster("a", arguments='kubernetes_version = "1.30"', pools=pool("p", 2, BIG, cells))
    ).replace('"NC_G6_28_v1"\n', '"NC_G6_28_v1"\n availability_zones = ["plane"]\n', 1)
    upgraded = text.replace('"1.30"\n', '"1.31"\n', 1)
    [refused] = errors(plan(upgraded, state_of(text), suggested_fixes=True))
    assert refused.summary == f"The upgrade of a/p does not fit: 0 of 2 x {BIG} re-placed"
    assert 'max_surge = "1" adds 1 surge VM before it removes old ones, and it does not fit' in refused.detail
    first = refused.extra["fit"]["suggested_fixes"][0]
    assert first["kind"] == "upgrade"
    assert "removes a VM before it adds the next" in first["text"]
    assert [edit["path"][-2:] for edit in first["edits"]] == [
        ["upgrade_settings", "max_surge"],
        ["upgrade_settings", "max_unavailable"],
    ]
    settings = upgrade('max_surge = "0"\nmax_unavailable = "1"')
    good(plan(upgraded.replace(cells, cells + settings), state_of(text)))


def test_a_control_plane_that_finds_no_room_for_its_surge_vm_is_offered_no_settings() -> None:
    text = site(1) + cluster("a", arguments='kubernetes_version = "1.30"', plane=BIG, count=2)
    [refused] = errors(plan(text.replace('"1.30"\n', '"1.31"\n', 1), state_of(text), suggested_fixes=True))
    assert "the control plane adds 1 surge VM" in refused.detail
    assert "upgrade" not in [way["kind"] for way in refused.extra["fit"]["suggested_fixes"]]
