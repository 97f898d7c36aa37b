"""A hypothesis is the plan of the configuration that is written with the edit."""

from __future__ import annotations

from typing import get_args

import pytest

from nexusform.planning.edits import Edit
from tests.kill_points import scale_count
from tests.planning.hypothesis.edit_kinds import EDIT_KINDS, find_difference


def test_table_has_every_kind_of_edit() -> None:
    assert {kind.edit for kind in EDIT_KINDS.values()} == set(get_args(Edit))
    assert len(EDIT_KINDS) == 11


@pytest.mark.parametrize("name", EDIT_KINDS)
def test_hypothesis_is_the_plan_of_the_written_configuration(name: str) -> None:
    differences = [find_difference(name, seed) for seed in range(scale_count(80))]
    assert not [difference for difference in differences if difference]
    # Most random sites have such a plan.
    assert sum(difference == "" for difference in differences) * 2 > len(differences)
