"""Tests of the table of feature gates: every gate has a row, and a row says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nexusform
from nexusform.domains.pods.scheduling.feature_gates import (
    GateEffect,
    is_feature_enabled,
    load_defaults,
    load_rows,
)
from nexusform.domains.pods.scheduling.scheduler_versions import (
    BALANCE_CHANGE,
    DECLARED_FEATURES,
    NEWEST_KNOWN,
    STORAGE_SCORES,
    UNAVAILABLE_CHANGE,
)

PODS = Path(nexusform.__file__).parent / "domains" / "pods"
GATES = load_defaults().defaults
ROWS = load_rows()


def test_every_gate_has_a_row() -> None:
    """Look at what a new gate does, then write its row into feature_gate_rows.txt."""
    assert sorted(GATES.keys() - ROWS.keys()) == []
    assert sorted(ROWS.keys() - GATES.keys()) == []


def test_table_has_the_known_versions() -> None:
    """A newer version is uncertain until the table has it, and all of its gates have rows."""
    assert load_defaults().versions == ((1, 34), (1, 35), (1, 36), (1, 37))
    assert load_defaults().versions[-1] == NEWEST_KNOWN
    assert is_feature_enabled("StorageCapacityScoring", (1, 38)) is None
    assert is_feature_enabled("StorageCapacityScoring", ()) is None


def test_gates_that_are_off_in_their_rows_are_off_in_every_version() -> None:
    enabled = {gate for gate, defaults in GATES.items() if any(defaults.values())}
    off = {gate for gate, row in ROWS.items() if row.effect is GateEffect.OFF}
    assert sorted(enabled & off) == []


def test_modules_named_in_rows_exist() -> None:
    for row in ROWS.values():
        assert row.reason
        paths = re.findall(r"\w+(?:/\w+)+\.py", row.reason)
        if row.effect in (GateEffect.MODELLED, GateEffect.UNCERTAIN):
            assert paths, row.reason
        for path in paths:
            assert (PODS / path).is_file(), path


@pytest.mark.parametrize(
    ("gate", "since"),
    [
        ("NodeDeclaredFeatures", DECLARED_FEATURES),
        ("StorageCapacityScoring", STORAGE_SCORES),
        ("VolumeLimitScaling", STORAGE_SCORES),
        ("MaxUnavailableStatefulSet", UNAVAILABLE_CHANGE),
    ],
)
def test_rules_begin_with_their_gates(gate: str, since: tuple[int, int]) -> None:
    assert next(version for version, is_on in GATES[gate].items() if is_on) == since


def test_versions_before_the_table_have_no_newer_gate() -> None:
    assert is_feature_enabled("StorageCapacityScoring", (1, 33)) is False
    # On in the first version of the table: earlier ones are unknown.
    assert is_feature_enabled("PodDeletionCost", (1, 33)) is None
    assert BALANCE_CHANGE in load_defaults().versions
