"""Tests of measurements for advice: the passes of the plan are repeated with a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.planning.planner import make_plan
from nexusform.workflow.opening.linting import lint_plan
from tests.planning.harness import build_request, build_state, cluster, pool, require_success

BIG = "NC_P46_224_v1"
RACKS = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  count         = 3
  name          = "r${count.index}"
  site_id       = nexus_site.s.id
  machine_count = 2
}
"""
NO_SURGE = 'upgrade_settings {\n      max_surge       = "0"\n      max_unavailable = "1"\n    }'


def build_pinned_cluster(settings: str, count: int) -> str:
    zones = 'availability_zones = ["r1", "r2"]\n    '
    return RACKS + cluster(
        "a", arguments='kubernetes_version = "1.30"', pools=pool("w", count, BIG, zones + settings)
    )


# Eight VMs fill all eight cells of two racks; seven leave one for a surge VM.
@pytest.mark.parametrize(("settings", "count"), [(NO_SURGE, 8), (NO_SURGE, 7), ("", 7)])
def test_rolling_upgrade_is_measured_in_batches(tmp_path: Path, settings: str, count: int) -> None:
    text = build_pinned_cluster(settings, count).replace(
        '"NC_G6_28_v1"\n', '"NC_G6_28_v1"\n availability_zones = ["r0"]\n', 1
    )
    upgraded = text.replace('"1.30"\n', '"1.31"\n', 1)
    request = build_request(upgraded, build_state(text), directory=str(tmp_path))
    result = require_success(make_plan(request))
    [pin] = [each for each in lint_plan(result, request) if each.id == "zones-pinned"]
    assert "not fit because" not in pin.detail
    assert f"all {count + 1} VMs fit on" in pin.detail
