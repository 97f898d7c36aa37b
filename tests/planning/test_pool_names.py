"""Tests of pool names.

They are part of node names.
"""

from __future__ import annotations

import pytest

from tests.planning.harness import RACKS, cluster, list_errors, plan, pool, require_success


@pytest.mark.parametrize("name", ["gpu_pool", "gpu+1", "a b", "ü", "x" * 250, "a..b"])
def test_pool_name_invalid_in_node_names_is_rejected_at_its_line(name: str) -> None:
    text = RACKS + cluster("a", pools=pool(name, 1))
    (told,) = [each for each in list_errors(plan(text)) if each.id == "invalid-agent-pool-name"]
    assert told.subject is not None
    assert f'agent_pool "{name}"' in text.splitlines()[told.subject.start.line - 1]
    assert "lower case" in told.detail or "no more than" in told.detail


@pytest.mark.parametrize("name", ["np", "gpu-1", "4x", "workerAgentpool1"])
def test_valid_pool_names_are_accepted(name: str) -> None:
    require_success(plan(RACKS + cluster("a", pools=pool(name, 1))))
