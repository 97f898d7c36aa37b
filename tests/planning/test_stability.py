"""Tests of random edits of small sites.

Every plan does exactly what the rule requires, changes no other VM, and its steps never
exceed the capacity.

NF_TEST_SITES sets how many sites are tested.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.state.objects import EMPTY, State
from tests.kill_points import scale_count
from tests.planning.harness import (
    build_state_after,
    is_empty,
    list_errors,
    list_places,
    list_triggers,
    plan,
)
from tests.planning.site_model import (
    PLANE,
    AppliedBlock,
    Block,
    ExpectedPlan,
    PlacementRule,
    Pool,
    Rack,
    Site,
    build_document,
    replace_block,
)
from tests.planning.step_runner import check_counts, run

SITES = int(os.environ.get("NF_TEST_SITES") or scale_count(160))
RACKS = ("r1", "r2", "r3")
PLANE_SKUS = ("NC_G6_28_v1", "NC_G24_112_v1")
POOL_SKUS = (
    "NC_P46_224_v1",
    "NC_P22_112_v1",
    "NC_G12_56_v1",
    "NC_G6_28_v1",
    "NC_E94_448_v1",
    "NC_G48_224_v1",
)
VERSIONS = ("1.30", "1.31", "1.32")
ZONES = ((), (), ("r1",), ("r1", "r3"), ("r2", "r3"))

pools = st.builds(
    Pool,
    st.just("?"),
    st.integers(0, 5),
    st.sampled_from(POOL_SKUS),
    st.sampled_from(ZONES),
    mode=st.sampled_from(("User", "User", "System")),
    surge=st.sampled_from(("1", "2", "34%", "0")),
    unavailable=st.sampled_from(("1", "50%")),
)


@st.composite
def clusters(draw: st.DrawFn, name: str) -> Block:
    plane = Pool(
        PLANE,
        draw(st.integers(1, 3)),
        draw(st.sampled_from(PLANE_SKUS)),
        draw(st.sampled_from(ZONES)),
    )
    own = [replace(draw(pools), name=n) for n in draw(st.sampled_from(("", "p", "qp")))]
    return Block(name, (plane, *own))


@st.composite
def sites(draw: st.DrawFn) -> Site:
    racks = tuple(Rack(name, draw(st.integers(1, 4))) for name in RACKS)
    blocks = [draw(clusters(name)) for name in draw(st.sampled_from(("a", "ab", "ba")))]
    if draw(st.booleans()):
        own = Block("own", (replace(draw(pools), name="own"),), of="a")
        blocks.insert(draw(st.integers(0, len(blocks))), own)
    return Site(
        racks,
        tuple(blocks),
        draw(st.sampled_from(("pool", "cluster"))),
        draw(st.sampled_from((8, 3))),
    )


class EditedSite(Struct):
    """An edited site and its -replace options."""

    site: Site
    heal: set[str] = field(default_factory=set)
    requested: set[str] = field(default_factory=set)


def edit_site(draw: st.DrawFn, edited: EditedSite, standing: dict[str, AppliedBlock]) -> None:
    site = edited.site
    what = draw(
        st.sampled_from(
            (
                "count",
                "count",
                "argument",
                "argument",
                "version",
                "rack",
                "override",
                "cluster",
                "plane",
                "heal",
                "request",
                "seed",
            )
        )
    )
    event(what)
    if what == "rack":
        rack = draw(st.sampled_from(site.racks))
        fewer = replace(rack, machines=draw(st.integers(1, 5)))
        _edit_rack(edited, fewer)
    elif what == "override":
        rack = draw(st.sampled_from(site.racks))
        slots = st.integers(1, rack.machines)
        chosen = draw(st.dictionaries(slots, st.sampled_from(("cordoned", "evacuate")), max_size=2))
        _edit_rack(edited, replace(rack, overrides=tuple(sorted(chosen.items()))))
    elif what == "cluster":
        _edit_cluster(draw, edited, standing)
    elif what == "seed":
        edited.site = replace(
            site, seed=draw(st.integers(0, 50)), spread=draw(st.sampled_from(("pool", "cluster")))
        )
    elif what == "heal":
        names = [s.block.vm(k) for a, s in standing.items() if site.block(a) for k in s.places]
        if names:
            edited.heal.add(draw(st.sampled_from(sorted(names))))
    elif site.blocks:
        _edit_block(draw, edited, draw(st.sampled_from(site.blocks)), what, standing)


def list_versions(block: Block, standing: dict[str, AppliedBlock]) -> tuple[str, ...]:
    """Return the versions a cluster can have next: no downgrade, no skipped minor version."""
    if block.address not in standing:
        return VERSIONS
    current = VERSIONS.index(standing[block.address].block.version)
    return VERSIONS[current : current + 2]


def _edit_rack(edited: EditedSite, rack: Rack) -> None:
    kept = tuple((slot, what) for slot, what in rack.overrides if slot <= rack.machines)
    rack = replace(rack, overrides=kept)
    racks = tuple(rack if r.name == rack.name else r for r in edited.site.racks)
    edited.site = replace(edited.site, racks=racks)


def _edit_cluster(draw: st.DrawFn, edited: EditedSite, standing: dict[str, AppliedBlock]) -> None:
    site = edited.site
    new = draw(st.sampled_from("abcd"))
    if any(b.cluster == new for b in site.blocks):
        edited.site = replace(site, blocks=tuple(b for b in site.blocks if b.cluster != new))
    else:
        at = draw(st.integers(0, len(site.blocks)))
        block = draw(clusters(new))
        block = replace(block, version=list_versions(block, standing)[0])
        blocks = (*site.blocks[:at], block, *site.blocks[at:])
        edited.site = replace(site, blocks=blocks)


def _edit_block(
    draw: st.DrawFn, edited: EditedSite, block: Block, what: str, standing: dict[str, AppliedBlock]
) -> None:
    if what == "request":
        if block.address in standing:
            edited.requested.add(block.address)
        return
    if what == "version":
        changed = replace(block, version=draw(st.sampled_from(list_versions(block, standing))))
    elif what == "plane" and not block.of:
        plane = replace(
            block.pools[0],
            sku=draw(st.sampled_from(PLANE_SKUS)),
            zones=draw(st.sampled_from(ZONES)),
        )
        changed = replace(block, pools=(plane, *block.pools[1:]))
    else:
        old = draw(st.sampled_from(block.pools))
        new = _edit_pool(draw, old, what)
        changed = replace(block, pools=tuple(new if p is old else p for p in block.pools))
    edited.site = replace_block(edited.site, changed)


def _edit_pool(draw: st.DrawFn, old: Pool, what: str) -> Pool:
    if old.name == PLANE or what == "count":
        return replace(old, count=draw(st.integers(1 if old.name == PLANE else 0, 6)))
    which = draw(st.sampled_from(("sku", "zones", "labels", "taints", "mode")))
    values = {"sku": POOL_SKUS, "zones": ZONES, "mode": ("User", "System")}.get(
        which, ("", "one", "two")
    )
    return replace(old, **{which: draw(st.sampled_from(values))})


def check_plan(
    edited: EditedSite, state: State, standing: dict[str, AppliedBlock], seed: int
) -> tuple[State, ExpectedPlan]:
    """Compare one plan with the rule; return the state after it."""
    site = edited.site
    said = PlacementRule(site, standing, frozenset(edited.heal), frozenset(edited.requested)).plan()
    owners = {s.block.vm(k): a for a, s in standing.items() for k in s.places}
    replaces = (*sorted(edited.requested), *(f"{owners[vm]}:{vm}" for vm in sorted(edited.heal)))
    result = plan({"main.nf.json": build_document(site)}, state, replaces=replaces)
    failing = {(u.cluster, u.pool.pool) for u in result.unplaced}
    if said.refused:
        event("last System pool")
        assert {d.summary for d in list_errors(result)} == {"Last System pool replacement"}
        assert len(list_errors(result)) == len(said.refused)
        return state, ExpectedPlan(after=standing)
    assert result.plan.errored == bool(said.failing), [d.detail for d in list_errors(result)]
    # results after a failure depend on the references to it.
    assert set(said.failing[:1]) <= failing
    if said.failing:
        event("does not fit")
        return state, ExpectedPlan(after=standing)
    assert list_triggers(result) == said.happens
    after = build_state_after(result, state)
    assert list_places(after) == said.places()
    check_counts(result.plan)
    run(result.plan, state, seed, watch=not grows_while_rolling(result)).check("after")
    again = plan({"main.nf.json": build_document(site)}, after)
    assert is_empty(again)
    assert again.plan.figures.unchanged_count == len(said.places())
    return after, said


def grows_while_rolling(result: PlanResult) -> bool:
    """Return whether a cluster gets new VMs in the same step as a roll of its old ones.

    The new VMs may need capacity released by the roll of a later cluster, while that cluster waits
    for this one, so no order is free of conflicts.
    """
    rolling = {
        r.address for r in result.plan.placements if r.trigger == "kubernetes_version_changed"
    }
    return any(r.address in rolling for r in result.plan.placements if r.action == "place")


@settings(
    max_examples=SITES,
    deadline=None,
    derandomize="NF_TEST_SITES" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data())
def test_every_plan_of_edited_site_follows_the_rule(data: st.DataObject) -> None:
    site = data.draw(sites())
    state, said = check_plan(EditedSite(site), EMPTY, {}, 0)
    for turn in range(data.draw(st.integers(1, 4))):
        edited = EditedSite(site)
        for _ in range(data.draw(st.integers(1, 2))):
            edit_site(data.draw, edited, said.after)
        before = state
        state, said = check_plan(edited, state, said.after, turn)
        if state is not before:
            site = edited.site
