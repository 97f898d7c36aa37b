from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from nexusform.diagnostics.name_ranges import build_name_runs, format_names
from nexusform.rendering.report.folding import fold_addresses, fold_instances
from nexusform.rendering.report.object_rows import ObjectRow, fold_rows
from nexusform.resources.address import Address, ModulePathStep

NAMES = st.lists(
    st.one_of(
        st.builds("{}{}".format, st.sampled_from(["rack", "c-", ""]), st.integers(0, 30)),
        st.builds("{}{:03d}".format, st.sampled_from(["rack", "c-"]), st.integers(0, 120)),
        st.text("ab0", min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=30,
    unique=True,
)


@given(NAMES)
def test_every_name_is_in_exactly_one_run(names: list[str]) -> None:
    members = [f"{run.prefix}{number}" for run in build_name_runs(names) for number in run.numbers]
    assert sorted(members) == sorted(names)


@given(NAMES)
def test_run_bounds_match_its_members(names: list[str]) -> None:
    # A reader expands `rack08..10` to 8, 9, 10 with two digits.
    for run in build_name_runs(names):
        if run.numbers == ("",):
            continue
        low = run.numbers[0]
        high = run.numbers[-1]
        width = len(low) if low.startswith("0") else 0
        read = [str(number).zfill(width) for number in range(int(low), int(high) + 1)]
        assert tuple(read) == run.numbers


ADDRESSES = st.builds(
    lambda module, kind, name, key: Address(
        tuple(ModulePathStep("m", k) for k in module), "managed", kind, name, key
    ),
    st.lists(st.sampled_from(["a", "b", 0, None]), max_size=2),
    st.sampled_from(["rack", "site"]),
    st.sampled_from(["r1", "r2", "r3", "x"]),
    st.sampled_from([None, 0, 1, 2, "1", "2", "a"]),
)


@given(st.lists(st.tuples(ADDRESSES, st.sampled_from("+-")), max_size=40))
def test_every_object_is_in_exactly_one_fold_of_its_kind(rows: list[tuple[Address, str]]) -> None:
    folds = fold_addresses([row[0] for row in rows], [row[1] for row in rows])
    members = [member for fold in folds for member in fold.members]
    assert sorted(members) == list(range(len(rows)))
    for fold in folds:
        assert len({(rows[member][1], rows[member][0].type) for member in fold.members}) == 1


def build_rack(name: str, key: int | str | None = None, *module: str) -> Address:
    return Address(
        tuple(ModulePathStep("edge", step) for step in module), "managed", "nexus_rack", name, key
    )


def list_folds(*addresses: Address) -> list[str]:
    return [fold.text for fold in fold_addresses(addresses, [""] * len(addresses))]


def test_indices_and_names_are_folded_into_runs() -> None:
    assert list_folds(*(build_rack("r", str(i)) for i in range(1, 9))) == ['nexus_rack.r["1".."8"]']
    assert list_folds(*(build_rack("r", i) for i in (0, 1, 2, 5))) == ["nexus_rack.r[0..2,5]"]
    assert list_folds(*(build_rack("r", i) for i in (0, 1))) == ["nexus_rack.r[0,1]"]
    assert list_folds(build_rack("r", "a"), build_rack("r", "b")) == ['nexus_rack.r["a", "b"]']
    assert list_folds(*(build_rack(f"c-{i:03d}") for i in range(1, 61))) == [
        "nexus_rack.c-001..060"
    ]
    assert list_folds(build_rack("r", None, "x1"), build_rack("r", None, "x2")) == [
        'module.edge["x1", "x2"].nexus_rack.r'
    ]
    assert list_folds(build_rack("r"), build_rack("s")) == ["nexus_rack.r", "nexus_rack.s"]


def test_many_irregular_names_are_counted() -> None:
    keys = [f"{letter}{letter}" for letter in "abcdefghij"]
    (fold,) = fold_addresses([build_rack("r", key) for key in keys], [""] * 10)
    assert (fold.text, fold.keys) == ("nexus_rack.r[10 keys]", "aa, bb, cc, dd, ee and 5 more")
    assert format_names(keys) == "aa, bb, cc, dd, ee and 5 more"
    assert format_names(["rack1", "rack2", "rack4", "db"]) == "rack1,2,4, db"


def test_many_runs_of_one_prefix_are_counted() -> None:
    names = [f"rack{number}" for number in range(1, 251) if number % 3]
    assert format_names(names) == "rack1,2,4,5,7,8,10,11,13,14,16,17,19,20,22,23 and 151 more"
    assert format_names(names[:20]) == "rack1,2,4,5,7,8,10,11,13,14,16,17,19,20,22,23,25,26,28,29"


def test_single_address_is_unchanged() -> None:
    addresses = [build_rack("r", 'we"ird ${x}'), build_rack("r0", 7, "m")]
    assert list_folds(*addresses) == [str(address) for address in addresses]
    assert not re.search(r"\.\.", list_folds(build_rack("a9"))[0])


def test_addresses_of_one_block_are_folded_for_any_keys() -> None:
    assert fold_instances(['p.x["b"]', 'p.x["c"]', "p.y[0]", "p.y[1]", "p.y[2]", "p.z"]) == [
        'p.x["b", "c"]',
        "p.y[0..2]",
        "p.z",
    ]
    many = [f'p.x["app-{number:05}"]' for number in range(0, 2000, 7)]
    assert fold_instances(many) == ['p.x["app-00000", "app-00007" and 284 more]']
    assert fold_instances([f"p.x[{number}]" for number in range(0, 2000, 7)]) == [
        "p.x[0,7,14,21,28,35,42,49,56,63,70 and 275 more]"
    ]
    # Keys of modules stay unchanged.
    assert fold_instances(['module.m["a"].p.x', 'module.m["b"].p.x']) == [
        'module.m["a"].p.x',
        'module.m["b"].p.x',
    ]


def test_objects_named_after_their_keys_are_folded() -> None:
    def fold_namespaces(*keys: str) -> list[tuple[str, tuple[str, ...]]]:
        addresses = [Address((), "managed", "fleet_hub_manifest", "ns", key) for key in keys]
        rows = [ObjectRow(each, "+", "", (f"Namespace {each.key}",)) for each in addresses]
        return [(fold.label, fold.clauses) for fold in fold_rows(rows)]

    assert fold_namespaces("a", "b") == [
        ('fleet_hub_manifest.ns["a", "b"]', ("Namespace of its name",))
    ]
    assert fold_namespaces("a") == [('fleet_hub_manifest.ns["a"]', ("Namespace a",))]
    # A number may have any meaning.
    assert len(fold_namespaces("2", "3")) == 2
