"""Any edit of any small site, with references, create_before_destroy and parts left out: the steps never
wait for each other, tell providers what stands, and keep machines within their room.

NF_TEST_SITES raises how many sites are tried.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.plans.plan import Mode, Plan, StepKind
from nexusform.state.objects import EMPTY, State
from tests.planning.harness import applied, cluster, good, is_empty, plan, pool, state_of
from tests.planning.step_runner import check_counts, run

SITES = int(os.environ.get("NF_TEST_SITES", "30"))
NAMES = "abcd"
SKUS = ("NC_P46_224_v1", "NC_P22_112_v1", "NC_G6_28_v1")


class Part(Struct, frozen=True):
    """A cluster, or with `cpus` a plain VM, that may refer to others."""

    name: str
    plane: str = SKUS[2]
    pool: int = 0
    sku: str = SKUS[0]
    version: str = "1.30"
    cpus: int = 0
    needs: tuple[str, ...] = ()
    first: bool = False

    @property
    def address(self) -> str:
        return f"nexus_{'virtual_machine' if self.cpus else 'kubernetes_cluster'}.{self.name}"

    def body(self, others: dict[str, Part]) -> dict[str, Any]:
        needs = [others[n].address for n in self.needs if n in others]
        shared: dict[str, Any] = {"site_id": "${nexus_site.s.id}"}
        if needs:
            shared["depends_on"] = needs
        if self.first:
            shared["lifecycle"] = {"create_before_destroy": True}
        if self.cpus:
            return {**shared, "cpu_cores": self.cpus, "memory_gib": 2 * self.cpus, "disk_gib": 100}
        size = {"count": self.pool, "vm_sku_name": self.sku}
        plane = {"count": 1, "vm_sku_name": self.plane}
        found = {**shared, "kubernetes_version": self.version, "control_plane": plane}
        return {**found, "agent_pool": {"p": size}} if self.pool else found


class Small(Struct, frozen=True):
    racks: tuple[int, ...]
    parts: tuple[Part, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        others = {p.name: p for p in self.parts}
        site = {"site_id": "${nexus_site.s.id}"}
        racks = {f"r{i}": {**site, "machine_count": n} for i, n in enumerate(self.racks) if n}
        blocks: list[Any] = [{"nexus_site": {"s": {}}}, *([{"nexus_rack": racks}] if racks else [])]
        blocks += [{p.address.split(".")[0]: {p.name: p.body(others)}} for p in self.parts]
        return {"main.nf.json": {"resource": blocks}}


def part(draw: st.DrawFn, name: str) -> Part:
    """References go to earlier names only: no circles."""
    earlier = NAMES[: NAMES.index(name)]
    needs = tuple(n for n in earlier if draw(st.integers(0, 3)) == 0)
    first = draw(st.integers(0, 4)) == 0
    if draw(st.integers(0, 3)) == 0:
        return Part(name, cpus=draw(st.sampled_from((4, 20, 48))), needs=needs, first=first)
    return Part(
        name,
        draw(st.sampled_from(SKUS)),
        draw(st.integers(0, 4)),
        draw(st.sampled_from(SKUS)),
        needs=needs,
        first=first,
    )


@st.composite
def smalls(draw: st.DrawFn) -> Small:
    racks = tuple(draw(st.integers(1, 3)) for _ in range(3))
    chosen = draw(st.permutations(draw(st.sampled_from(("ab", "abc", "bd", "abcd")))))
    return Small(racks, tuple(part(draw, name) for name in chosen))


def changed(draw: st.DrawFn, old: Part) -> list[Part]:
    """The part as it is after an edit; nothing when it is taken out."""
    what = draw(st.sampled_from(("keep", "keep", "new", "pool", "version", "plane", "gone", "needs")))
    if what == "gone":
        return []
    if what == "new":
        return [part(draw, old.name)]
    changes: dict[str, dict[str, Any]] = {
        "pool": {"pool": draw(st.integers(0, 5)), "sku": draw(st.sampled_from(SKUS))},
        "version": {"version": draw(st.sampled_from(("1.30", "1.31")))},
        "plane": {"plane": draw(st.sampled_from(SKUS)), "cpus": old.cpus and 8},
        "needs": {"needs": (), "first": not old.first},
    }
    return [replace(old, **changes.get(what, {}))]


def edited(draw: st.DrawFn, small: Small) -> Small:
    parts = [p for old in small.parts for p in changed(draw, old)]
    for name in NAMES:
        if all(p.name != name for p in small.parts) and draw(st.integers(0, 3)) == 0:
            parts.insert(draw(st.integers(0, len(parts))), part(draw, name))
    racks = tuple(draw(st.sampled_from((n, n, 0, n + 1))) for n in small.racks)
    options: dict[str, Any] = {}
    everything = [p.address for p in (*small.parts, *parts)]
    if everything:
        chosen = (draw(st.sampled_from(everything)),)
        options = draw(st.sampled_from(({}, {}, {"targets": chosen}, {"excludes": chosen}, {"mode": Mode.DESTROY})))
    return Small(racks, tuple(parts), options)


def watched(small: Small, before: Small, plan_: Any) -> bool:
    """Whether room can be kept in every order. Not where references demand another order than room
    does, nor where old and new VMs of a rolled or doubled cluster stand in each other's way.
    """
    rolling = any(r.trigger == "kubernetes_version_changed" for r in plan_.placements)
    related = any(p.needs or p.first for p in (*small.parts, *before.parts))
    return not rolling and not related


@settings(
    max_examples=SITES,
    deadline=None,
    derandomize="NF_TEST_SITES" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data())
def test_steps_of_any_edit_can_be_carried_out(data: st.DataObject) -> None:
    small = data.draw(smalls())
    state, before = EMPTY, small
    for turn in range(4):
        result = plan(small.document(), state, **small.options)
        if result.plan.errored:
            event("errored")
            small = replace(before, options={})
        else:
            check_counts(result.plan)
            watch = watched(small, before, result.plan)
            event(f"room watched: {watch}")
            room = run(result.plan, state, turn, watch=watch)
            after = applied(result, state)
            room_left(room.objects, after)
            releases = [s for s in result.plan.steps if s.kind is StepKind.RELEASE]
            assert all(s.waits_for == () for s in releases)
            if not small.options:
                assert is_empty(plan(small.document(), after))
            state, before = after, small
        small = edited(data.draw, small)


def room_left(objects: dict[tuple[str, str, int], Any], after: State) -> None:
    """What the provider holds in the end is what state says."""
    said = {}
    for address, instance in after.instances.items():
        assert instance.current is not None
        key = address.type, instance.current.attributes["id"], instance.current.creation
        said[key] = instance.current.attributes
    assert objects == said


# --- one machine, two cells --------------------------------------------------------------------------

TIGHT = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  site_id       = nexus_site.s.id
  machine_count = MACHINES
}
"""


def in_every_order(before: str, after: str) -> Plan:
    """The plan from one configuration to the other, its steps tried in many orders."""
    state = state_of(before)
    result = good(plan(after, state))
    for seed in range(12):
        run(result.plan, state, seed)
    return result.plan


def test_what_takes_room_waits_for_the_release_that_frees_it() -> None:
    site = TIGHT.replace("MACHINES", "1")
    before = site + cluster("a", pools=pool("p", 1, SKUS[0]))
    after = site + cluster("a", pools=pool("p", 0, SKUS[0])) + cluster("b", pools=pool("p", 1, SKUS[0]))
    found = in_every_order(before, after)
    release = next(s for s in found.steps if s.kind is StepKind.RELEASE)
    create = next(s for s in found.steps if s.kind is StepKind.CREATE)
    assert release.id in create.waits_for
    assert not release.main


def test_what_takes_room_waits_for_the_delete_that_frees_it() -> None:
    site = TIGHT.replace("MACHINES", "1")
    in_every_order(site + cluster("a", pools=pool("p", 1, SKUS[0])), site + cluster("b", pools=pool("p", 1, SKUS[0])))


def test_what_takes_room_waits_for_the_update_that_rolls_away_from_it() -> None:
    site = TIGHT.replace("MACHINES", "2")
    before = site + cluster("a", arguments='kubernetes_version = "1.30"', plane=SKUS[0])
    after = before.replace('"1.30"', '"1.31"') + cluster("b", pools=pool("p", 2, SKUS[0]), plane=SKUS[0])
    in_every_order(before, after)
