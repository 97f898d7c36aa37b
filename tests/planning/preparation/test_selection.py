"""-target, -exclude, -replace and -destroy: what is left out keeps its place and its room."""

from __future__ import annotations

import pytest

from nexusform.plans.plan import Mode
from nexusform.state.objects import State
from tests.planning.harness import (
    RACKS,
    actions,
    agent_pool,
    at,
    cluster,
    errors,
    good,
    is_empty,
    places,
    plan,
    pool,
    state_of,
    triggers,
)
from tests.planning.step_runner import check_counts, run

BIG = "NC_P46_224_v1"
ONE = RACKS.replace("= 3\n", "= 1\n").replace("machine_count = 4", "machine_count = 1")
TEXT = (
    RACKS
    + cluster("a", pools=pool("p", 1))
    + agent_pool("own", "nexus_kubernetes_cluster.a.id", 1)
    + cluster("b", pools=pool("p", 1))
)
MORE = TEXT.replace('"p" {\n    count       = 1', '"p" {\n    count       = 3').replace(
    "node_count            = 1", "node_count            = 2"
)


@pytest.fixture(scope="module", name="state")
def _state() -> State:
    return state_of(TEXT)


def test_a_target_takes_in_what_it_refers_to_and_nothing_else(state: State) -> None:
    result = good(plan(MORE, state, targets=("nexus_agent_pool.own",)))
    assert set(actions(result)) == {"nexus_agent_pool.own", "nexus_kubernetes_cluster.a"}
    assert set(triggers(result)) == {"a-own-1", "a-p-1", "a-p-2"}


def test_targets_follow_references_only_never_phases() -> None:
    result = good(plan(TEXT.replace("nexus_site.s.id\n  machine", '"s"\n  machine'), targets=("nexus_site.s",)))
    assert actions(result) == {"nexus_site.s": "create"}


def test_a_target_without_its_racks_names_no_vm_anywhere() -> None:
    # Racks are not referred to by clusters: nothing offers a machine yet.
    result = plan(TEXT, targets=("nexus_kubernetes_cluster.a",))
    assert result.plan.errored
    assert "rack" in " ".join(d.detail for d in errors(result))


def test_an_exclusion_takes_in_what_refers_to_it(state: State) -> None:
    result = good(plan(MORE, state, excludes=("nexus_kubernetes_cluster.a",)))
    assert set(triggers(result)) == {"b-p-1", "b-p-2"}
    assert result.plan.unchanged_count == len(places(state))


def test_a_single_instance_may_be_targeted() -> None:
    text = RACKS + cluster("a", arguments='count = 3\n name = "a${count.index}"')
    racks = state_of(RACKS)
    result = good(plan(text, racks, targets=("nexus_kubernetes_cluster.a[1]",)))
    assert actions(result) == {"nexus_kubernetes_cluster.a[1]": "create"}
    result = good(plan(text, racks, excludes=("nexus_kubernetes_cluster.a[1]",)))
    assert set(actions(result)) == {"nexus_kubernetes_cluster.a[0]", "nexus_kubernetes_cluster.a[2]"}


def test_what_is_left_out_keeps_its_room() -> None:
    state = state_of(ONE + cluster("a", pools=pool("p", 1, BIG)))
    swapped = ONE + cluster("b", pools=pool("p", 1, BIG))
    assert not plan(swapped, state).plan.errored
    result = plan(swapped, state, targets=("nexus_kubernetes_cluster.b",))
    assert {d.id for d in errors(result)} == {"insufficient-capacity"}
    shrunk = ONE + cluster("a", pools=pool("p", 0, BIG)) + cluster("b", pools=pool("p", 1, BIG))
    assert not plan(shrunk, state).plan.errored
    assert plan(shrunk, state, excludes=("nexus_kubernetes_cluster.a",)).plan.errored


def test_an_error_for_room_names_the_racks_left_out() -> None:
    text = ONE + '\nresource "nexus_rack" "spare" {\n site_id = nexus_site.s.id\n machine_count = 4\n}\n'
    state = state_of(ONE)
    wanted = text + cluster("b", pools=pool("p", 4, BIG))
    assert not plan(wanted, state).plan.errored
    result = plan(wanted, state, targets=("nexus_kubernetes_cluster.b",))
    (found,) = errors(result)
    assert "nexus_rack.spare" in found.detail


def test_new_capacity_that_is_left_out_is_not_seen() -> None:
    state = state_of(ONE)
    bigger = ONE.replace("machine_count = 1", "machine_count = 9") + cluster("b", pools=pool("p", 4, BIG))
    assert not plan(bigger, state).plan.errored
    assert plan(bigger, state, targets=("nexus_kubernetes_cluster.b",)).plan.errored


def test_a_machine_that_is_left_out_of_a_plan_takes_no_vm_with_it(state: State) -> None:
    fewer = TEXT.replace("count         = 3", "count         = 1")
    result = good(plan(fewer, state, targets=("nexus_kubernetes_cluster.b",)))
    assert is_empty(result)


def test_targets_and_exclusions_together_are_refused() -> None:
    assert plan(TEXT, targets=("nexus_site.s",), excludes=("nexus_rack.r",)).plan.errored


@pytest.mark.parametrize("text", ["nexus site", "nexus_rack", "a..b", "nexus_rack.r[", ""])
def test_an_address_that_cannot_be_read_is_an_error(text: str, state: State) -> None:
    for options in ({"targets": (text,)}, {"excludes": (text,)}, {"replaces": (text,)}):
        assert plan(TEXT, state, **options).plan.errored


@pytest.mark.parametrize("key", ["x:y", r"x\"y:z", r"x:\\"])
def test_a_colon_in_a_key_is_not_where_the_vm_begins(key: str) -> None:
    """Neither behind an escaped quote, which does not end the key, nor is an escaped backslash taken for
    what escapes the quote behind it.
    """
    text = RACKS + cluster("a", arguments=f'for_each = {{ "{key}" = "a" }}\n name = each.value')
    state = state_of(text)
    address = f'nexus_kubernetes_cluster.a["{key}"]'
    result = good(plan(text, state, replaces=(f"{address}:a-control-plane-0",)))
    assert triggers(result) == {"a-control-plane-0": ("move", "heal")}
    assert triggers(good(plan(text, state, replaces=(address,)))) == {"a-control-plane-0": ("move", "requested")}


# --- destroy -----------------------------------------------------------------------------------


def test_everything_goes_in_an_order_that_state_recorded(state: State) -> None:
    result = good(plan("", state, mode=Mode.DESTROY))
    assert result.plan.to_destroy == len(state.instances)
    assert set(triggers(result).values()) == {("remove", "cluster_removed"), ("remove", "pool_removed")}
    assert len(run(result.plan, state, 1).objects) == 0
    check_counts(result.plan)
    when = {str(result.plan.changes[s.change].address): s for s in result.plan.steps if s.main}
    kinds = {s.id: str(result.plan.changes[s.change].address) for s in result.plan.steps if s.main}

    def before(address: str) -> set[str]:
        found, stack = set(), list(when[address].waits_for)
        while stack:
            step = stack.pop()
            if step not in found:
                found.add(step)
                stack += next(s.waits_for for s in result.plan.steps if s.id == step)
        return {kinds[s] for s in found if s in kinds}

    assert "nexus_agent_pool.own" in before("nexus_kubernetes_cluster.a")
    assert {"nexus_kubernetes_cluster.a", "nexus_kubernetes_cluster.b", "nexus_rack.r[1]"} <= before("nexus_site.s")


def test_the_same_with_the_configuration_at_hand(state: State) -> None:
    assert good(plan(TEXT, state, mode=Mode.DESTROY)).plan.to_destroy == len(state.instances)


def test_a_targeted_destroy_takes_what_depends_on_it(state: State) -> None:
    result = good(plan(TEXT, state, mode=Mode.DESTROY, targets=("nexus_kubernetes_cluster.a",)))
    assert actions(result) == {"nexus_kubernetes_cluster.a": "delete", "nexus_agent_pool.own": "delete"}
    assert result.plan.unchanged_count == 2


def test_a_destroy_with_an_exclusion_keeps_what_it_stands_on(state: State) -> None:
    excludes = ("nexus_agent_pool.own", "nexus_rack.r")
    gone = set(actions(good(plan(TEXT, state, mode=Mode.DESTROY, excludes=excludes))))
    assert "nexus_kubernetes_cluster.b" in gone
    assert not {"nexus_agent_pool.own", "nexus_kubernetes_cluster.a", "nexus_site.s"} & gone


def test_a_destroy_with_an_exclusion_names_the_racks_to_exclude_as_well(state: State) -> None:
    """What is excluded stands on racks to which nothing refers."""
    refused = errors(plan(TEXT, state, mode=Mode.DESTROY, excludes=("nexus_agent_pool.own",)))
    assert {problem.id for problem in refused} == {"deleted-machine-with-vms"}
    assert all(f"Add -exclude='{problem.address}'" in problem.detail for problem in refused)


SITES = {
    "main.nf.hcl": (
        'module "site" {\n  source   = "./site"\n  for_each = toset(["east", "west"])\n  name     = each.key\n}\n'
    ),
    "site/main.nf.hcl": (
        'variable "name" {}\n'
        + RACKS.replace('"nexus_site" "s" {}', '"nexus_site" "s" {\n  name = var.name\n}')
        + cluster("a", pools=pool("p", 1))
    ),
}


def test_a_destroy_of_one_module_instance_leaves_the_others_alone() -> None:
    state = state_of(SITES)
    east = {str(a) for a in state.instances if str(a).startswith('module.site["east"]')}
    assert len(east) * 2 == len(state.instances)
    targeted = good(plan(SITES, state, mode=Mode.DESTROY, targets=('module.site["east"]',)))
    assert set(actions(targeted)) == east
    excepted = good(plan(SITES, state, mode=Mode.DESTROY, excludes=('module.site["west"]',)))
    assert set(actions(excepted)) == east


def test_instances_of_a_module_that_is_no_longer_called_say_so() -> None:
    state = state_of(SITES)
    fewer = SITES | {"main.nf.hcl": SITES["main.nf.hcl"].replace('"east", ', "")}
    result = good(plan(fewer, state))
    gone = [c for c in result.plan.changes if str(c.action) == "delete"]
    assert len(gone) * 2 == len(state.instances)
    assert {c.reason for c in gone} == {"delete_because_no_module"}


def test_taking_everything_out_of_the_configuration_destroys_it(state: State) -> None:
    result = good(plan("", state))
    assert result.plan.to_destroy == len(state.instances)
    run(result.plan, state, 2)
    assert state_of("", state).instances == {}


def test_a_rack_goes_after_its_vms_left_it() -> None:
    text = RACKS + cluster("a", pools=pool("p", 6))
    state = state_of(text)
    result = good(plan(text.replace("count         = 3", "count         = 2"), state))
    delete = next(s for s in result.plan.steps if s.kind == "delete")
    release = next(s for s in result.plan.steps if s.kind == "release")
    update = next(s for s in result.plan.steps if s.kind == "update")
    assert release.id in delete.waits_for
    assert release.waits_for == ()
    assert update.id not in release.waits_for
    run(result.plan, state, 3)


def test_the_main_steps_are_what_the_plan_line_counts(state: State) -> None:
    result = good(plan(MORE.replace("count         = 3", "count         = 2"), state))
    check_counts(result.plan)
    assert (result.plan.to_add, result.plan.to_change, result.plan.to_destroy) == (0, 3, 1)


def test_many_to_many_waits_go_through_a_gate() -> None:
    text = RACKS.replace("= 3\n", "= 30\n") + cluster("a", arguments='count = 20\n name = "a${count.index}"')
    text = text.replace(
        "site_id = nexus_site.s.id\n  count", "depends_on = [nexus_rack.r]\n site_id = nexus_site.s.id\n  count"
    )
    result = good(plan(text))
    assert sum(len(s.waits_for) for s in result.plan.steps) < 400
    assert any(s.kind == "gate" for s in result.plan.steps)
    run(result.plan, State(), 4)


def test_addresses_of_modules() -> None:
    files = {
        "main.nf.hcl": RACKS
        + '\nmodule "m" {\n count = 2\n source = "./m"\n site = nexus_site.s.id\n at = count.index\n}\n',
        "m/main.nf.hcl": 'variable "site" {}\nvariable "at" {}\n'
        + cluster("a", arguments='name = "a${var.at}"').replace("nexus_site.s.id", "var.site"),
    }
    state = state_of(RACKS)
    assert set(actions(good(plan(files, state, targets=("module.m[1]",))))) == {
        "module.m[1].nexus_kubernetes_cluster.a"
    }
    assert set(actions(good(plan(files, state, targets=("module.m",))))) == {
        "module.m[0].nexus_kubernetes_cluster.a",
        "module.m[1].nexus_kubernetes_cluster.a",
    }
    assert at("module.m[1].nexus_kubernetes_cluster.a") in state_of(files).instances


def test_a_name_without_its_type_is_given_the_addresses_that_end_in_it() -> None:
    result = plan(TEXT, targets=("a",))
    (problem,) = result.diagnostics
    assert problem.detail.endswith("e.g. nexus_rack.r1. Did you mean nexus_kubernetes_cluster.a?")


MOVED_RACK = 'moved {\n  from = nexus_site.old["a b"]\n  to   = nexus_site.s\n}\n'
OLD_SITE = 'resource "nexus_site" "old" {\n  for_each = toset(["a b"])\n  name = "s"\n}\n'


@pytest.mark.parametrize("mode", [Mode.NORMAL, Mode.DESTROY, Mode.REFRESH_ONLY])
@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        ({"targets": ("nexus_site.s",)}, "-target=nexus_site.old"),
        ({"targets": ("nexus_rack.r",)}, "-target=nexus_site.old\n  -target=nexus_site.s"),
        ({"excludes": ("nexus_site.s",)}, "-exclude=nexus_site.s"),
    ],
)
def test_what_moved_is_planned_with_both_addresses(
    mode: Mode, options: dict[str, tuple[str, ...]], left_out: str
) -> None:
    result = plan(RACKS + MOVED_RACK, state_of(OLD_SITE), mode=mode, **options)
    (problem,) = errors(result)
    assert problem.id == "moved-resource-instances-excluded-by-targeting"
    assert problem.detail.endswith(f":\n  {left_out}")


def test_what_moved_may_be_targeted_with_both_addresses() -> None:
    both = ("nexus_site.s", "nexus_site.old")
    result = good(plan(RACKS + MOVED_RACK, state_of(OLD_SITE), targets=both))
    assert actions(result) == {}
    good(plan(RACKS + MOVED_RACK, state_of(OLD_SITE), excludes=("nexus_rack.r",)))


def test_a_selection_is_told_of_plans_that_can_be_applied_only() -> None:
    partial = "resource-targeting-is-in-effect"
    made = good(plan(RACKS, targets=("nexus_rack.r",)))
    assert partial in {problem.id for problem in made.plan.diagnostics}
    failed = plan(RACKS.replace("nexus_site.s.id", "nexus_site.nobody.id"), targets=("nexus_rack.r",))
    too_big = plan(RACKS + cluster("a", count=99), targets=("nexus_kubernetes_cluster.a",))
    for result in (failed, too_big):
        assert errors(result)
        assert partial not in {problem.id for problem in result.plan.diagnostics}
