"""Names of pools, which the nodes of a cluster carry in theirs."""

from __future__ import annotations

import pytest

from tests.planning.harness import RACKS, cluster, errors, good, plan, pool


@pytest.mark.parametrize("name", ["gpu_pool", "gpu+1", "a b", "ü", "x" * 250, "a..b"])
def test_a_name_that_no_node_may_have_is_refused_where_it_is_written(name: str) -> None:
    text = RACKS + cluster("a", pools=pool(name, 1))
    (told,) = [each for each in errors(plan(text)) if each.id == "invalid-agent-pool-name"]
    assert told.subject is not None
    assert f'agent_pool "{name}"' in text.splitlines()[told.subject.start.line - 1]
    assert "lower case" in told.detail or "no more than" in told.detail


@pytest.mark.parametrize("name", ["np", "gpu-1", "4x", "workerAgentpool1"])
def test_other_names_are_not(name: str) -> None:
    good(plan(RACKS + cluster("a", pools=pool(name, 1))))
