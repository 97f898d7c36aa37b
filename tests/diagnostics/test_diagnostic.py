from __future__ import annotations

import pytest

from nexusform.diagnostics.diagnostic import (
    Problem,
    convert_problem,
    find_nearest_names,
    suggest_name,
)

SKUS = ("NC_G12_56_v1", "NC_G24_112_v1", "NC_M12_56_v1", "NC_P12_56_v1", "NC_P46_224_v1")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("nc_g12_56_v1", "NC_G12_56_v1"),
        ("NC_g12_56_V1", "NC_G12_56_v1"),
        ("nc_m12_56_v1", "NC_M12_56_v1"),
        ("nc_g24_112_v2", "NC_G24_112_v1"),
    ],
)
def test_name_in_other_case_is_suggested_first(written: str, meant: str) -> None:
    assert suggest_name(written, SKUS) == f' Did you mean "{meant}"?'
    assert find_nearest_names(written, SKUS, max_names=3)[0] == meant


def test_nearest_spelling_is_suggested_among_cases() -> None:
    assert find_nearest_names("Shopp", ["SHOP", "Shop", "shop"], max_names=2) == ["Shop", "shop"]


def test_dissimilar_name_has_no_suggestion() -> None:
    assert suggest_name("zebra", SKUS) == ""


@pytest.mark.parametrize(
    ("problem", "detail"),
    [
        (Problem((), "unknown-argument", "It is wrong."), "It is wrong."),
        (Problem((), "unknown-argument", "It is wrong.", file="a.yaml"), "a.yaml: It is wrong."),
        (
            Problem((), "unknown-argument", "It is wrong.", file="a.yaml", line=3, column=5),
            "a.yaml, line 3, column 5: It is wrong.",
        ),
        (
            Problem((4, "rackId"), "unknown-argument", "It is wrong.", file="a.json"),
            "a.json, [4].rackId: It is wrong.",
        ),
    ],
)
def test_problem_of_a_file_is_reported_with_its_place(problem: Problem, detail: str) -> None:
    assert convert_problem(problem).detail == detail
