"""Tests of -target, -exclude, -replace and -destroy.

Objects outside the selection keep their place and capacity.
"""

from __future__ import annotations

import pytest

from nexusform.plans.plan import Mode, StepKind
from nexusform.state.objects import State
from tests.planning.harness import (
    RACKS,
    agent_pool,
    at,
    build_state,
    cluster,
    is_empty,
    list_actions,
    list_errors,
    list_places,
    list_triggers,
    plan,
    pool,
    require_success,
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
def _build_state() -> State:
    return build_state(TEXT)


def test_target_includes_only_its_references(state: State) -> None:
    result = require_success(plan(MORE, state, targets=("nexus_agent_pool.own",)))
    assert set(list_actions(result)) == {"nexus_agent_pool.own", "nexus_kubernetes_cluster.a"}
    assert set(list_triggers(result)) == {"a-own-1", "a-p-1", "a-p-2"}


def test_site_outside_of_the_targets_is_not_said_to_be_undeclared() -> None:
    text = RACKS + cluster("a").replace("nexus_site.s.id", '"s"')
    (error,) = list_errors(plan(text, targets=("nexus_kubernetes_cluster.a",)))
    assert error.detail == (
        'No site has the id "s". This plan has no site. Write a reference such as '
        "nexus_site.NAME.id, so that -target includes the site."
    )


def test_targets_follow_references_not_phases() -> None:
    result = require_success(
        plan(
            TEXT.replace("nexus_site.s.id\n  machine", '"s"\n  machine'), targets=("nexus_site.s",)
        )
    )
    assert list_actions(result) == {"nexus_site.s": "create"}


def test_target_without_its_racks_is_an_error() -> None:
    # Clusters do not refer to racks, so there are no machines yet.
    result = plan(TEXT, targets=("nexus_kubernetes_cluster.a",))
    assert result.plan.errored
    assert "rack" in " ".join(d.detail for d in list_errors(result))


def test_exclusion_includes_its_dependents(state: State) -> None:
    result = require_success(plan(MORE, state, excludes=("nexus_kubernetes_cluster.a",)))
    assert set(list_triggers(result)) == {"b-p-1", "b-p-2"}
    assert result.plan.figures.unchanged_count == len(list_places(state))


def test_single_instance_can_be_targeted() -> None:
    text = RACKS + cluster("a", arguments='count = 3\n name = "a${count.index}"')
    racks = build_state(RACKS)
    result = require_success(plan(text, racks, targets=("nexus_kubernetes_cluster.a[1]",)))
    assert list_actions(result) == {"nexus_kubernetes_cluster.a[1]": "create"}
    result = require_success(plan(text, racks, excludes=("nexus_kubernetes_cluster.a[1]",)))
    assert set(list_actions(result)) == {
        "nexus_kubernetes_cluster.a[0]",
        "nexus_kubernetes_cluster.a[2]",
    }


@pytest.mark.parametrize("mode", [Mode.NORMAL, Mode.DESTROY, Mode.REFRESH_ONLY])
@pytest.mark.parametrize("option", ["targets", "excludes"])
def test_unknown_instance_is_an_error_of_each_mode(mode: Mode, option: str) -> None:
    """A misspelled exclusion protects nothing, and a misspelled target selects nothing."""
    text = RACKS + cluster("a", arguments='count = 3\n name = "a${count.index}"')
    state = build_state(text)
    for name in ("nexus_kubernetes_cluster.a[7]", 'nexus_kubernetes_cluster.a["x"]'):
        (problem,) = list_errors(plan(text, state, mode=mode, **{option: (name,)}))
        assert problem.id == "nothing-to-target"
        assert f"={name} is in neither configuration nor state." in problem.detail
    known = {option: ("nexus_kubernetes_cluster.a[1]",)}
    problems = list_errors(plan(text, state, mode=mode, **known))
    assert "nothing-to-target" not in [problem.id for problem in problems]


def test_unselected_objects_keep_their_capacity() -> None:
    state = build_state(ONE + cluster("a", pools=pool("p", 1, BIG)))
    swapped = ONE + cluster("b", pools=pool("p", 1, BIG))
    assert not plan(swapped, state).plan.errored
    result = plan(swapped, state, targets=("nexus_kubernetes_cluster.b",))
    assert {d.id for d in list_errors(result)} == {"insufficient-capacity"}
    shrunk = ONE + cluster("a", pools=pool("p", 0, BIG)) + cluster("b", pools=pool("p", 1, BIG))
    assert not plan(shrunk, state).plan.errored
    assert plan(shrunk, state, excludes=("nexus_kubernetes_cluster.a",)).plan.errored


def test_capacity_error_names_unselected_racks() -> None:
    text = (
        ONE
        + '\nresource "nexus_rack" "spare" {\n site_id = nexus_site.s.id\n machine_count = 4\n}\n'
    )
    state = build_state(ONE)
    wanted = text + cluster("b", pools=pool("p", 4, BIG))
    assert not plan(wanted, state).plan.errored
    result = plan(wanted, state, targets=("nexus_kubernetes_cluster.b",))
    (found,) = list_errors(result)
    assert "nexus_rack.spare" in found.detail


def test_unselected_new_capacity_is_not_used() -> None:
    state = build_state(ONE)
    bigger = ONE.replace("machine_count = 1", "machine_count = 9") + cluster(
        "b", pools=pool("p", 4, BIG)
    )
    assert not plan(bigger, state).plan.errored
    assert plan(bigger, state, targets=("nexus_kubernetes_cluster.b",)).plan.errored


def test_unselected_machine_removal_moves_no_vm(state: State) -> None:
    fewer = TEXT.replace("count         = 3", "count         = 1")
    result = require_success(plan(fewer, state, targets=("nexus_kubernetes_cluster.b",)))
    assert is_empty(result)


def test_targets_with_exclusions_are_rejected() -> None:
    assert plan(TEXT, targets=("nexus_site.s",), excludes=("nexus_rack.r",)).plan.errored


@pytest.mark.parametrize("text", ["nexus site", "nexus_rack", "a..b", "nexus_rack.r[", ""])
def test_invalid_address_is_an_error(text: str, state: State) -> None:
    for options in ({"targets": (text,)}, {"excludes": (text,)}, {"replaces": (text,)}):
        assert plan(TEXT, state, **options).plan.errored


@pytest.mark.parametrize("key", ["x:y", r"x\"y:z", r"x:\\"])
def test_colon_in_instance_key_does_not_start_vm_name(key: str) -> None:
    """An escaped quote does not end the key.

    An escaped backslash does not escape the quote after it.
    """
    text = RACKS + cluster("a", arguments=f'for_each = {{ "{key}" = "a" }}\n name = each.value')
    state = build_state(text)
    address = f'nexus_kubernetes_cluster.a["{key}"]'
    result = require_success(plan(text, state, replaces=(f"{address}:a-control-plane-0",)))
    assert list_triggers(result) == {"a-control-plane-0": ("move", "heal")}
    assert list_triggers(require_success(plan(text, state, replaces=(address,)))) == {
        "a-control-plane-0": ("move", "requested")
    }


def test_replace_option_with_colon_but_without_vm_is_an_error() -> None:
    result = plan(RACKS, build_state(RACKS), replaces=("nexus_rack.r[0]:",))
    assert [d.id for d in list_errors(result)] == ["invalid-address-in-option"]


@pytest.mark.parametrize("text", ["nexus_rack.r[0]", "nexus_rack.r[0]:x"])
@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ({"targets": ("nexus_site.lab",)}, "-target does not select it"),
        ({"excludes": ("nexus_rack.r",)}, "-exclude excludes it"),
    ],
)
def test_replace_outside_of_the_selection_is_an_error(
    text: str, flags: dict[str, tuple[str, ...]], reason: str
) -> None:
    problems = list_errors(plan(RACKS, build_state(RACKS), replaces=(text,), **flags))
    assert f"-replace={text} has no effect, because {reason}." in [
        problem.detail for problem in problems
    ]


# --- destroy -----------------------------------------------------------------------------------


def test_destroy_uses_dependency_order_from_state(state: State) -> None:
    result = require_success(plan("", state, mode=Mode.DESTROY))
    assert result.plan.to_destroy == len(state.instances)
    assert set(list_triggers(result).values()) == {
        ("remove", "cluster_removed"),
        ("remove", "pool_removed"),
    }
    assert len(run(result.plan, state, 1).objects) == 0
    check_counts(result.plan)
    steps = [
        step for step in result.plan.steps if step.kind not in (StepKind.GATE, StepKind.RELEASE)
    ]
    when = {str(result.plan.changes[s.change].address): s for s in steps}
    kinds = {s.id: str(result.plan.changes[s.change].address) for s in steps}

    def list_predecessors(address: str) -> set[str]:
        found = set()
        stack = list(when[address].waits_for)
        while stack:
            step = stack.pop()
            if step not in found:
                found.add(step)
                stack += next(s.waits_for for s in result.plan.steps if s.id == step)
        return {kinds[s] for s in found if s in kinds}

    assert "nexus_agent_pool.own" in list_predecessors("nexus_kubernetes_cluster.a")
    assert {
        "nexus_kubernetes_cluster.a",
        "nexus_kubernetes_cluster.b",
        "nexus_rack.r[1]",
    } <= list_predecessors("nexus_site.s")


def test_destroy_with_configuration_deletes_everything(state: State) -> None:
    assert require_success(plan(TEXT, state, mode=Mode.DESTROY)).plan.to_destroy == len(
        state.instances
    )


def test_targeted_destroy_includes_dependents(state: State) -> None:
    result = require_success(
        plan(TEXT, state, mode=Mode.DESTROY, targets=("nexus_kubernetes_cluster.a",))
    )
    assert list_actions(result) == {
        "nexus_kubernetes_cluster.a": "delete",
        "nexus_agent_pool.own": "delete",
    }
    assert result.plan.figures.unchanged_count == 2


def test_destroy_with_exclusion_keeps_its_references(state: State) -> None:
    excludes = ("nexus_agent_pool.own", "nexus_rack.r")
    gone = set(
        list_actions(require_success(plan(TEXT, state, mode=Mode.DESTROY, excludes=excludes)))
    )
    assert "nexus_kubernetes_cluster.b" in gone
    assert not {"nexus_agent_pool.own", "nexus_kubernetes_cluster.a", "nexus_site.s"} & gone


def test_destroy_with_exclusion_suggests_racks_to_exclude(state: State) -> None:
    """The excluded pool runs on racks without references to them."""
    refused = list_errors(plan(TEXT, state, mode=Mode.DESTROY, excludes=("nexus_agent_pool.own",)))
    assert {problem.id for problem in refused} == {"deleted-machine-with-vms"}
    assert all(f"Add -exclude='{problem.address}'" in problem.detail for problem in refused)


SITES = {
    "main.nf.hcl": (
        'module "site" {\n  source   = "./site"\n  for_each = toset(["east", "west"])\n  name     '
        "= each.key\n}\n"
    ),
    "site/main.nf.hcl": (
        'variable "name" {}\n'
        + RACKS.replace('"nexus_site" "s" {}', '"nexus_site" "s" {\n  name = var.name\n}')
        + cluster("a", pools=pool("p", 1))
    ),
}


def test_destroy_of_one_module_instance_keeps_the_others() -> None:
    state = build_state(SITES)
    east = {str(a) for a in state.instances if str(a).startswith('module.site["east"]')}
    assert len(east) * 2 == len(state.instances)
    targeted = require_success(
        plan(SITES, state, mode=Mode.DESTROY, targets=('module.site["east"]',))
    )
    assert set(list_actions(targeted)) == east
    excepted = require_success(
        plan(SITES, state, mode=Mode.DESTROY, excludes=('module.site["west"]',))
    )
    assert set(list_actions(excepted)) == east


def test_instances_of_removed_module_give_their_reason() -> None:
    state = build_state(SITES)
    fewer = SITES | {"main.nf.hcl": SITES["main.nf.hcl"].replace('"east", ', "")}
    result = require_success(plan(fewer, state))
    gone = [c for c in result.plan.changes if str(c.action) == "delete"]
    assert len(gone) * 2 == len(state.instances)
    assert {c.reason for c in gone} == {"delete_because_no_module"}


def test_empty_configuration_destroys_everything(state: State) -> None:
    result = require_success(plan("", state))
    assert result.plan.to_destroy == len(state.instances)
    run(result.plan, state, 2)
    assert build_state("", state).instances == {}


def test_rack_is_deleted_after_its_vms_are_released() -> None:
    text = RACKS + cluster("a", pools=pool("p", 6))
    state = build_state(text)
    result = require_success(plan(text.replace("count         = 3", "count         = 2"), state))
    delete = next(s for s in result.plan.steps if s.kind == "delete")
    release = next(s for s in result.plan.steps if s.kind == "release")
    update = next(s for s in result.plan.steps if s.kind == "update")
    assert release.id in delete.waits_for
    assert release.waits_for == ()
    assert update.id not in release.waits_for
    run(result.plan, state, 3)


def test_main_steps_equal_counts_of_plan_line(state: State) -> None:
    result = require_success(plan(MORE.replace("count         = 3", "count         = 2"), state))
    check_counts(result.plan)
    assert (result.plan.to_add, result.plan.to_change, result.plan.to_destroy) == (0, 3, 1)


def test_many_to_many_dependencies_use_a_gate() -> None:
    text = RACKS.replace("= 3\n", "= 30\n") + cluster(
        "a", arguments='count = 20\n name = "a${count.index}"'
    )
    text = text.replace(
        "site_id = nexus_site.s.id\n  count",
        "depends_on = [nexus_rack.r]\n site_id = nexus_site.s.id\n  count",
    )
    result = require_success(plan(text))
    assert sum(len(s.waits_for) for s in result.plan.steps) < 400
    assert any(s.kind == "gate" for s in result.plan.steps)
    run(result.plan, State(), 4)


def test_module_addresses_can_be_targeted() -> None:
    files = {
        "main.nf.hcl": RACKS
        + (
            '\nmodule "m" {\n count = 2\n source = "./m"\n site = nexus_site.s.id\n at = '
            "count.index\n}\n"
        ),
        "m/main.nf.hcl": 'variable "site" {}\nvariable "at" {}\n'
        + cluster("a", arguments='name = "a${var.at}"').replace("nexus_site.s.id", "var.site"),
    }
    state = build_state(RACKS)
    assert set(list_actions(require_success(plan(files, state, targets=("module.m[1]",))))) == {
        "module.m[1].nexus_kubernetes_cluster.a"
    }
    assert set(list_actions(require_success(plan(files, state, targets=("module.m",))))) == {
        "module.m[0].nexus_kubernetes_cluster.a",
        "module.m[1].nexus_kubernetes_cluster.a",
    }
    assert at("module.m[1].nexus_kubernetes_cluster.a") in build_state(files).instances


def test_name_without_type_gets_suggested_addresses() -> None:
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
def test_targeting_only_one_address_of_a_move_is_an_error(
    mode: Mode, options: dict[str, tuple[str, ...]], left_out: str
) -> None:
    result = plan(RACKS + MOVED_RACK, build_state(OLD_SITE), mode=mode, **options)
    (problem,) = list_errors(result)
    assert problem.id == "moved-resource-instances-excluded-by-targeting"
    assert problem.detail.endswith(f":\n  {left_out}")


def test_move_can_be_targeted_with_both_addresses() -> None:
    both = ("nexus_site.s", "nexus_site.old")
    result = require_success(plan(RACKS + MOVED_RACK, build_state(OLD_SITE), targets=both))
    assert list_actions(result) == {}
    require_success(plan(RACKS + MOVED_RACK, build_state(OLD_SITE), excludes=("nexus_rack.r",)))


def test_targeting_warning_appears_only_in_applicable_plans() -> None:
    partial = "resource-targeting-is-in-effect"
    made = require_success(plan(RACKS, targets=("nexus_rack.r",)))
    assert partial in {problem.id for problem in made.plan.diagnostics}
    failed = plan(
        RACKS.replace("nexus_site.s.id", "nexus_site.nobody.id"), targets=("nexus_rack.r",)
    )
    too_big = plan(RACKS + cluster("a", count=99), targets=("nexus_kubernetes_cluster.a",))
    for result in (failed, too_big):
        assert list_errors(result)
        assert partial not in {problem.id for problem in result.plan.diagnostics}
