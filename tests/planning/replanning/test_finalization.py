"""Tests of plan completeness: values known only after apply."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from nexusform.configuration.loader import load_configuration
from nexusform.planning.replanning.known_after_apply import has_values_known_after_apply
from nexusform.schemas.value_types import DYNAMIC
from nexusform.state.objects import OutputState
from nexusform.values.typed_value import UNKNOWN
from tests.planning.harness import RACKS, build_all_types, plan


def test_output_alone_makes_a_plan_incomplete(tmp_path: Path) -> None:
    (tmp_path / "main.nf.hcl").write_text(RACKS)
    schemas = build_all_types().schemas
    configuration, problems = load_configuration(
        str(tmp_path), cache_directory=None, managed=schemas["managed"], data=schemas["data"]
    )
    assert configuration is not None, problems
    made = plan(RACKS).plan
    assert not has_values_known_after_apply(made, configuration)
    unknown = replace(
        made,
        root_values=replace(
            made.root_values, planned_outputs={"of_another": OutputState(UNKNOWN, DYNAMIC)}
        ),
    )
    assert has_values_known_after_apply(unknown, configuration)
