"""Tests of observed cordons: their owner decides whether a plan uncordons the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from nexusform.domains.azure.importers.az_import import build_machine_observation
from nexusform.domains.azure.importers.az_records import AzMachine

pytestmark = pytest.mark.of_domains("azure")
FACTS = {"power_state": "On", "ready_state": "True", "detailed_status": "Provisioned", "cordon_status": "Cordoned"}
OURS = {"cordon_status": "Cordoned", "cordoned_by": "nexusform"}


@pytest.mark.parametrize(
    ("before", "is_requested", "message", "owner"),
    [
        pytest.param({}, True, "", "nexusform", id="requested, and not recorded yet"),
        pytest.param({}, True, "degraded", "nexusform", id="requested before Azure degrades the machine"),
        pytest.param({}, False, "Machine is Degraded", "azure", id="degraded"),
        pytest.param({}, False, None, "other", id="unknown"),
        pytest.param(OURS, False, "degraded", "nexusform", id="recorded"),
        pytest.param({**OURS, "cordon_status": "Uncordoned"}, False, None, "other", id="cordoned again by others"),
    ],
)
def test_cordon_has_an_owner(before: Mapping[str, Any], is_requested: bool, message: str | None, owner: str) -> None:
    machine = AzMachine("m1", "/m1", "r1", 1, None, None, None, FACTS, status_message=message)
    observation = build_machine_observation(machine, before, "2026-11-23T00:00:00Z", is_requested=is_requested)
    assert observation["cordoned_by"] == owner


def test_uncordoned_machine_has_no_owner() -> None:
    facts = {**FACTS, "cordon_status": "Uncordoned"}
    machine = AzMachine("m1", "/m1", "r1", 1, None, None, None, facts)
    assert build_machine_observation(machine, OURS, None, is_requested=True)["cordoned_by"] is None
