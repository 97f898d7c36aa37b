"""Whether anything of a plan is known only after apply."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from nexusform.configuration.loader import load
from nexusform.planning.replanning.finalising import is_unfinished
from nexusform.state.objects import OutputState
from nexusform.value_types import DYNAMIC
from nexusform.values import UNKNOWN
from tests.planning.harness import RACKS, all_types, plan


def test_a_plan_is_unfinished_by_an_output_alone(tmp_path: Path) -> None:
    (tmp_path / "main.nf.hcl").write_text(RACKS)
    schemas = all_types().schemas
    configuration, problems = load(
        str(tmp_path), cache_directory=None, managed=schemas["managed"], data=schemas["data"]
    )
    assert configuration is not None, problems
    made = plan(RACKS).plan
    assert not is_unfinished(made, configuration)
    unknown = replace(made, planned_outputs={"of_another": OutputState(UNKNOWN, DYNAMIC)})
    assert is_unfinished(unknown, configuration)
