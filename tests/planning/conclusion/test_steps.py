"""Tests of plan steps after random edits of small sites.

Sites have references, create_before_destroy and selections. Steps have no cycles, pass the
current objects to providers, and keep machines within their capacity. NF_TEST_SITES sets how many
sites are tested.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.plans.plan import Mode, Plan, StepKind
from nexusform.state.objects import EMPTY, State
from tests.kill_points import scale_count
from tests.planning.harness import (
    build_state,
    build_state_after,
    cluster,
    is_empty,
    plan,
    pool,
    require_success,
)
from tests.planning.step_runner import check_counts, run

SITES = int(os.environ.get("NF_TEST_SITES") or scale_count(120))
NAMES = "abcd"
SKUS = ("NC_P46_224_v1", "NC_P22_112_v1", "NC_G6_28_v1")


class Part(Struct, frozen=True):
    """A cluster, or with `cpus` a plain VM, with optional references to other parts."""

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


class SmallSite(Struct, frozen=True):
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


def draw_part(draw: st.DrawFn, name: str) -> Part:
    """Return a random part with references to earlier names only, to avoid cycles."""
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
def small_sites(draw: st.DrawFn) -> SmallSite:
    racks = tuple(draw(st.integers(1, 3)) for _ in range(3))
    chosen = draw(st.permutations(draw(st.sampled_from(("ab", "abc", "bd", "abcd")))))
    return SmallSite(racks, tuple(draw_part(draw, name) for name in chosen))


def edit_part(draw: st.DrawFn, old: Part) -> list[Part]:
    """Return the part after an edit, or nothing if it is removed."""
    what = draw(
        st.sampled_from(("keep", "keep", "new", "pool", "version", "plane", "gone", "needs"))
    )
    if what == "gone":
        return []
    if what == "new":
        return [draw_part(draw, old.name)]
    changes: dict[str, dict[str, Any]] = {
        "pool": {"pool": draw(st.integers(0, 5)), "sku": draw(st.sampled_from(SKUS))},
        "version": {"version": draw(st.sampled_from(("1.30", "1.31")))},
        "plane": {"plane": draw(st.sampled_from(SKUS)), "cpus": old.cpus and 8},
        "needs": {"needs": (), "first": not old.first},
    }
    return [replace(old, **changes.get(what, {}))]


def edit_site(draw: st.DrawFn, small: SmallSite) -> SmallSite:
    parts = [p for old in small.parts for p in edit_part(draw, old)]
    for name in NAMES:
        if all(p.name != name for p in small.parts) and draw(st.integers(0, 3)) == 0:
            parts.insert(draw(st.integers(0, len(parts))), draw_part(draw, name))
    racks = tuple(draw(st.sampled_from((n, n, 0, n + 1))) for n in small.racks)
    options: dict[str, Any] = {}
    everything = [p.address for p in (*small.parts, *parts)]
    if everything:
        chosen = (draw(st.sampled_from(everything)),)
        options = draw(
            st.sampled_from(
                ({}, {}, {"targets": chosen}, {"excludes": chosen}, {"mode": Mode.DESTROY})
            )
        )
    return SmallSite(racks, tuple(parts), options)


def can_check_capacity(small: SmallSite, before: SmallSite, plan_: Any) -> bool:
    """Return whether capacity is respected in every order.

    It is not if references require another order, or if old and new VMs of a rolling or replaced
    cluster compete for cells.
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
def test_steps_of_any_edit_can_be_applied(data: st.DataObject) -> None:
    small = data.draw(small_sites())
    state = EMPTY
    before = small
    for turn in range(4):
        result = plan(small.document(), state, **small.options)
        if result.plan.errored:
            event("errored")
            small = replace(before, options={})
        else:
            check_counts(result.plan)
            watch = can_check_capacity(small, before, result.plan)
            event(f"room watched: {watch}")
            room = run(result.plan, state, turn, watch=watch)
            after = build_state_after(result, state)
            check_objects(room.objects, after)
            releases = [s for s in result.plan.steps if s.kind is StepKind.RELEASE]
            assert all(s.waits_for == () for s in releases)
            if not small.options:
                assert is_empty(plan(small.document(), after))
            state = after
            before = small
        small = edit_site(data.draw, small)


def check_objects(objects: dict[tuple[str, str, int], Any], after: State) -> None:
    """Check that the provider's objects equal the state."""
    said = {}
    for address, instance in after.instances.items():
        assert instance.current is not None
        key = address.type, instance.current.attributes["id"], instance.current.creation
        said[key] = instance.current.attributes
    assert objects == said


# --- one machine with two cells
# ------------------------------------------------------------------------

TIGHT = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  site_id       = nexus_site.s.id
  machine_count = MACHINES
}
"""


def plan_and_run_in_many_orders(before: str, after: str) -> Plan:
    """Plan the change from one configuration to the other, and run its steps in 12 orders."""
    state = build_state(before)
    result = require_success(plan(after, state))
    for seed in range(12):
        run(result.plan, state, seed)
    return result.plan


def test_create_waits_for_release_of_its_capacity() -> None:
    site = TIGHT.replace("MACHINES", "1")
    before = site + cluster("a", pools=pool("p", 1, SKUS[0]))
    after = (
        site + cluster("a", pools=pool("p", 0, SKUS[0])) + cluster("b", pools=pool("p", 1, SKUS[0]))
    )
    found = plan_and_run_in_many_orders(before, after)
    release = next(s for s in found.steps if s.kind is StepKind.RELEASE)
    create = next(s for s in found.steps if s.kind is StepKind.CREATE)
    assert release.id in create.waits_for


def test_create_waits_for_delete_of_its_capacity() -> None:
    site = TIGHT.replace("MACHINES", "1")
    plan_and_run_in_many_orders(
        site + cluster("a", pools=pool("p", 1, SKUS[0])),
        site + cluster("b", pools=pool("p", 1, SKUS[0])),
    )


def test_create_waits_for_rolling_update_of_its_capacity() -> None:
    site = TIGHT.replace("MACHINES", "2")
    before = site + cluster("a", arguments='kubernetes_version = "1.30"', plane=SKUS[0])
    after = before.replace('"1.30"', '"1.31"') + cluster(
        "b", pools=pool("p", 2, SKUS[0]), plane=SKUS[0]
    )
    plan_and_run_in_many_orders(before, after)


# --- ids that move to other addresses
# ------------------------------------------------------------------------

LAB = """
variable "name" {}
resource "nexus_site" "s" {
  name = var.name
}
resource "nexus_rack" "r" {
  site_id       = nexus_site.s.id
  machine_count = 4
}
"""
LABS = """
locals {
  names = [NAMES]
}
module "m" {
  source = "./lab"
  count  = length(local.names)
  name   = local.names[count.index]
}
"""


@pytest.mark.parametrize(
    "names",
    [
        ('"a", "b", "c"', '"b", "c"'),
        ('"a", "b", "c"', '"c", "b", "a"'),
        ('"a", "b", "c"', '"b", "c", "a"'),
        ('"a", "b"', '"x", "a", "b"'),
    ],
)
def test_object_is_deleted_before_its_id_is_created_again(names: tuple[str, str]) -> None:
    """Otherwise a provider would update the old object, and then delete it."""
    lab = LAB + cluster("k", arguments="depends_on = [nexus_rack.r]", pools=pool("p", 1))
    texts = [{"main.nf.hcl": LABS.replace("NAMES", n), "lab/main.nf.hcl": lab} for n in names]
    state = build_state(texts[0])
    result = require_success(plan(texts[1], state))
    for seed in range(12):
        run(result.plan, state, seed)
    assert is_empty(plan(texts[1], build_state_after(result, state)))


def test_renamed_object_is_deleted_before_it_is_created_again() -> None:
    site = TIGHT.replace("MACHINES", "2").replace('"s" {}', '"s" {\n  name = "lab"\n}')
    plan_and_run_in_many_orders(site, site.replace('"s"', '"t"').replace("_site.s", "_site.t"))


def test_exchanged_ids_under_create_before_destroy_are_an_error() -> None:
    text = """
resource "nexus_site" "s" {
  for_each = { x = "a", y = "b", z = "c" }
  name     = each.value
  lifecycle {
    create_before_destroy = true
  }
}
"""
    state = build_state(text)
    exchanged = text.replace('x = "a", y = "b"', 'x = "b", y = "a"')
    result = plan(exchanged, state)
    [problem] = [problem for problem in result.plan.diagnostics if problem.id == "exchanged-ids"]
    assert problem.detail.startswith('nexus_site.s["x"] and nexus_site.s["y"] exchange their ids.')
    # Without the argument, and along a list, there is an order.
    plan_and_run_in_many_orders(text, exchanged.replace("= true", "= false"))
    shifted = text.replace('x = "a", y = "b"', 'x = "b", y = "d"')
    result = require_success(plan(shifted, state))
    for seed in range(12):
        run(result.plan, state, seed)


def test_updated_dependent_does_not_keep_the_old_object() -> None:
    """Its update waits for the creates of the block, and they wait for the old ids."""
    text = """
resource "nexus_site" "s" {
  count = 2
  name  = ["a", "b"][count.index]
}
resource "nexus_site" "home" {
}
resource "nexus_rack" "r" {
  site_id       = nexus_site.home.id
  depends_on    = [nexus_site.s]
  machine_count = 2
}
"""
    after = text.replace('["a", "b"]', '["b", "c"]').replace(
        "machine_count = 2", "machine_count = 3"
    )
    plan_and_run_in_many_orders(text, after)
    plan_and_run_in_many_orders(text, after.replace("count = 2", "count = 1"))
