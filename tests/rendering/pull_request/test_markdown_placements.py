from __future__ import annotations

from collections.abc import Mapping

from nexusform.rendering.report.plan_sections import find_move_causes
from tests.rendering.real_plans import RealPlan


def test_moves_are_attributed_to_the_changed_rack(examples: Mapping[str, RealPlan]) -> None:
    causes = find_move_causes(examples["evacuated"].saved.plan)
    assert [str(change.address) for change in causes] == ['nexus_rack.rack["3"]']
