"""Tests of content changes that a hub does not notice."""

from __future__ import annotations

import pytest

from tests.domains.fleet.planning.fleet_harness import get_bindings
from tests.planning.harness import (
    build_state,
    build_state_after,
    is_empty,
    list_actions,
    list_warnings,
    plan,
    require_success,
)


def build_reserved_fleet(content: str, namespace: str = "default", limit: int = 10) -> str:
    return f"""
resource "fleet_member_cluster" "a" {{}}
resource "fleet_hub_manifest" "c" {{
  yaml_body = <<-Y
    apiVersion: v1
    kind: ConfigMap
    metadata: {{name: c, namespace: {namespace}}}
    data: {{a: "{content}"}}
  Y
}}
resource "fleet_resource_placement" "p" {{
  namespace              = "{namespace}"
  revision_history_limit = {limit}
  resource_selector {{
    version = "v1"
    kind    = "ConfigMap"
    name    = "c"
  }}
  policy {{
    placement_type = "PickAll"
  }}
}}
"""


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
def test_content_in_reserved_namespace_waits_for_the_placement(namespace: str) -> None:
    """Seen on a running hub: it watches no objects there."""
    address = "fleet_resource_placement.p"
    state = build_state(build_reserved_fleet("1", namespace))
    assert get_bindings(state, address)["a"]["resource_snapshot"] == 0
    changed = build_reserved_fleet("2", namespace)
    for actions in ({"fleet_hub_manifest.c": "update"}, {}):
        result = require_success(plan(changed, state))
        assert list_actions(result) == actions
        assert "unnoticed-content-change" in [warning.id for warning in list_warnings(result)]
        state = build_state_after(result, state)
        assert get_bindings(state, address)["a"]["resource_snapshot"] == 0
    touched = build_reserved_fleet("2", namespace, limit=9)
    result = require_success(plan(touched, state))
    assert "unnoticed-content-change" not in [warning.id for warning in list_warnings(result)]
    state = build_state_after(result, state)
    assert get_bindings(state, address)["a"]["resource_snapshot"] == 1
    assert is_empty(plan(touched, state))


def test_content_in_other_namespace_is_rolled_out() -> None:
    state = build_state(build_reserved_fleet("1", "web"))
    result = require_success(plan(build_reserved_fleet("2", "web"), state))
    state = build_state_after(result, state)
    assert get_bindings(state, "fleet_resource_placement.p")["a"]["resource_snapshot"] == 1
