"""Tests of state edits: move, remove and untaint."""

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import DiagnosticsError
from nexusform.resources.address import AddressPattern, parse_address, parse_pattern
from nexusform.state.objects import EMPTY, InstanceState, ObjectState, State
from nexusform.state.state_edits import (
    find_instance,
    move_instances,
    plan_moves,
    remove_instances,
    remove_taint,
    select_instances,
)
from tests.taints import taint_object


def build_state(*addresses: str, **dependencies: tuple[str, ...]) -> State:
    instances = {}
    for number, text in enumerate(addresses):
        deps = dependencies.get(text.split(".")[-1].split("[")[0], ())
        made = ObjectState({"id": f"id-{text}"}, number + 1, dependencies=deps)
        instances[parse_address(text)] = InstanceState(made)
    return replace(EMPTY, instances=instances)


def list_moves(state: State, source: str, target: str) -> list[tuple[str, str]]:
    pairs = plan_moves(state, parse_pattern(source), parse_pattern(target))
    return [(str(old), str(new)) for old, new in pairs]


def test_instances_are_found_by_address_module_and_id() -> None:
    state = build_state("t.b[1]", "t.b[0]", "t.a", 'module.m["x"].t.a', "module.n.t.a")
    assert [str(a) for a in select_instances(state, [])] == [
        "t.a",
        "t.b[0]",
        "t.b[1]",
        'module.m["x"].t.a',
        "module.n.t.a",
    ]
    assert [str(a) for a in select_instances(state, [parse_pattern("t.b")])] == ["t.b[0]", "t.b[1]"]
    assert [str(a) for a in select_instances(state, [parse_pattern("module.m")])] == [
        'module.m["x"].t.a'
    ]
    assert [str(a) for a in select_instances(state, [], "id-t.b[1]")] == ["t.b[1]"]


def test_removed_instances_are_deleted_from_state() -> None:
    state = build_state("t.a", "t.b")
    assert set(remove_instances(state, [parse_address("t.a")]).instances) == {parse_address("t.b")}


@pytest.mark.parametrize(
    ("standing", "source", "target", "expected"),
    [
        (["t.a"], "t.a", "t.b", [("t.a", "t.b")]),
        (["t.a[0]", "t.a[1]"], "t.a", "t.b", [("t.a[0]", "t.b[0]"), ("t.a[1]", "t.b[1]")]),
        (["t.a[0]", "t.a[1]"], "t.a[0]", "t.b", [("t.a[0]", "t.b")]),
        (["t.a[0]", "t.a[1]"], "t.a[0]", "t.a[7]", [("t.a[0]", "t.a[7]")]),
        (["t.a"], "t.a", 't.a["k"]', [("t.a", 't.a["k"]')]),
        (["t.a"], "t.a", "module.m.t.a", [("t.a", "module.m.t.a")]),
        (["module.m.t.a"], "module.m.t.a", "t.a", [("module.m.t.a", "t.a")]),
        (["module.m.t.a", "t.a"], "module.m", "module.n", [("module.m.t.a", "module.n.t.a")]),
        (["module.m[0].t.a"], "module.m[0]", "module.m", [("module.m[0].t.a", "module.m.t.a")]),
        (["module.m[0].t.a", "module.m[1].t.a"], "module.m", "module.n",
         [("module.m[0].t.a", "module.n[0].t.a"), ("module.m[1].t.a", "module.n[1].t.a")]),
        (["module.m.module.x.t.a"], "module.m", "module.n.module.o",
         [("module.m.module.x.t.a", "module.n.module.o.module.x.t.a")]),
    ],
)  # fmt: skip
def test_instances_and_modules_are_moved(
    standing: list[str], source: str, target: str, expected: list[tuple[str, str]]
) -> None:
    state = build_state(*standing)
    assert list_moves(state, source, target) == expected
    after = move_instances(state, plan_moves(state, parse_pattern(source), parse_pattern(target)))
    assert len(after.instances) == len(state.instances)
    for old, new in expected:
        assert after.instances[parse_address(new)] == state.instances[parse_address(old)]


@pytest.mark.parametrize(
    ("source", "target", "kind"),
    [
        ("t.a", "t.a", "nothing-to-move"),
        ("t.z", "t.b", "nothing-to-move"),
        ("t.a", "u.a", "moved-between-types"),
        ("t.a", "data.t.a", "moved-between-types"),
        ("t.a", "module.m", "moved-between-kinds"),
        ("module.m", "t.z", "moved-between-kinds"),
        ("t.a", "t.taken", "move-target-exists"),
        ("t.a", "t.many", "move-target-exists"),
        ("t.a", "t.many[0]", "move-target-exists"),
        ("t.many[0]", "t.taken[0]", "move-target-exists"),
        ("t.many", "t.z[0]", "ambiguous-instance-address"),
        ("t.single", "t.z[7]", "ambiguous-instance-address"),
        ("t.single", "t.single[0]", "ambiguous-instance-address"),
        ("module.m", "module.n", "move-target-exists"),
    ],
)
def test_invalid_moves_are_rejected(source: str, target: str, kind: str) -> None:
    state = build_state(
        "t.a", "t.taken", "t.many[0]", "t.many[1]", "t.single[0]", "module.m.t.a", "module.n.t.a"
    )
    with pytest.raises(DiagnosticsError) as problem:
        list_moves(state, source, target)
    (diagnostic,) = problem.value.diagnostics
    assert diagnostic.id == kind
    assert diagnostic.detail.endswith((".", ")."))


def test_dependencies_follow_a_move() -> None:
    state = build_state("t.a[0]", "t.a[1]", "t.user", user=("t.a", "t.other"))
    user = parse_address("t.user")

    def get_dependencies_after(source: str, target: str) -> tuple[str, ...]:
        current = (
            move_instances(state, plan_moves(state, parse_pattern(source), parse_pattern(target)))
            .instances[user]
            .current
        )
        assert current is not None
        return current.dependencies

    assert get_dependencies_after("t.a", "t.b") == ("t.b", "t.other")
    assert get_dependencies_after("t.a[0]", "t.b") == ("t.a", "t.b", "t.other")
    assert get_dependencies_after("t.a[0]", "t.a[5]") == ("t.a", "t.other")


def test_taint_is_removed() -> None:
    state = build_state("t.a")
    address = find_instance(state, parse_pattern("t.a"))
    assert address is not None
    tainted = taint_object(state, "t.a")
    assert remove_taint(tainted, address).instances == state.instances
    with pytest.raises(DiagnosticsError):
        remove_taint(state, address)


def test_address_must_name_one_instance() -> None:
    state = build_state("t.a[0]", "t.a[1]")
    assert find_instance(state, parse_pattern("t.z")) is None
    assert find_instance(state, parse_pattern("t.a[1]")) == parse_address("t.a[1]")
    for text in ("t.a", "module.m", "data.t.a"):
        pattern: AddressPattern = parse_pattern(text)
        with pytest.raises(DiagnosticsError):
            find_instance(state, pattern)
