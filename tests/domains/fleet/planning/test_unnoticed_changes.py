"""Tests of content changes that a hub does not notice."""

from __future__ import annotations

import pytest

from tests.domains.fleet.planning.fleet_harness import build_member, get_bindings
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


REQUIRED_ENV = """
    affinity {
      cluster_affinity {
        required_during_scheduling_ignored_during_execution {
          cluster_selector_term {
            label_selector {
              match_labels = { env = "prod" }
            }
          }
        }
      }
    }
"""


def build_members(**environments: str) -> str:
    return "".join(build_member(name, {"env": env}) for name, env in environments.items())


def build_fleet_of(members: str, content: str, policy: str) -> str:
    text = build_reserved_fleet(content).replace('resource "fleet_member_cluster" "a" {}', members)
    return text.replace('placement_type = "PickAll"', policy)


# By the decisions of the placement: its policy, and its clusters before and after the
# change of members.
PICK_ALL = 'placement_type = "PickAll"'
PICK_PROD = PICK_ALL + REQUIRED_ENV
PICK_TWO = 'placement_type = "PickN"\n    number_of_clusters = 2'
A_AND_B = {"a": "prod", "b": "prod"}


@pytest.mark.parametrize(
    ("policy", "before", "after", "clusters"),
    [
        pytest.param(PICK_ALL, A_AND_B, {**A_AND_B, "c": "prod"}, "abc", id="join"),
        pytest.param(PICK_ALL, A_AND_B, {"a": "prod"}, "a", id="leave"),
        pytest.param(PICK_PROD, A_AND_B, {**A_AND_B, "c": "test"}, "ab", id="rejected"),
        pytest.param(
            PICK_PROD, {"a": "prod", "b": "test"}, A_AND_B, "ab", id="relabelled and picked"
        ),
        pytest.param(
            PICK_TWO, {**A_AND_B, "c": "prod"}, {"a": "prod", "b": "prod"}, "ab", id="swap"
        ),
    ],
)
def test_new_decisions_roll_out_unnoticed_content(
    policy: str, before: dict[str, str], after: dict[str, str], clusters: str
) -> None:
    """Seen on a running hub: it selects the objects again when the scheduler decides anew."""
    address = "fleet_resource_placement.p"
    state = build_state(build_fleet_of(build_members(**before), "1", policy))
    waiting = build_fleet_of(build_members(**before), "2", policy)
    state = build_state_after(require_success(plan(waiting, state)), state)
    assert {row["resource_snapshot"] for row in get_bindings(state, address).values()} == {0}
    changed = build_fleet_of(build_members(**after), "2", policy)
    result = require_success(plan(changed, state))
    assert "unnoticed-content-change" not in [warning.id for warning in list_warnings(result)]
    state = build_state_after(result, state)
    snapshots = {
        name: row["resource_snapshot"] for name, row in get_bindings(state, address).items()
    }
    assert snapshots == dict.fromkeys(clusters, 1)
    assert is_empty(plan(changed, state))


@pytest.mark.parametrize(
    ("policy", "after"),
    [
        pytest.param(PICK_TWO, {**A_AND_B, "c": "prod"}, id="join beside enough clusters"),
        pytest.param(PICK_ALL, {"a": "prod", "b": "test"}, id="label that decides nothing"),
    ],
)
def test_members_without_new_decisions_roll_out_nothing(policy: str, after: dict[str, str]) -> None:
    address = "fleet_resource_placement.p"
    state = build_state(build_fleet_of(build_members(**A_AND_B), "1", policy))
    result = require_success(plan(build_fleet_of(build_members(**after), "2", policy), state))
    assert "unnoticed-content-change" in [warning.id for warning in list_warnings(result)]
    state = build_state_after(result, state)
    assert {row["resource_snapshot"] for row in get_bindings(state, address).values()} == {0}
