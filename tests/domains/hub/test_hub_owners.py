"""What a manager applied is not sent again where it stands as it was sent."""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.domains.hub.providers.hub_owners import is_as_applied

SPEC = {"policy": {"numberOfClusters": 2}, "resourceSelectors": [{"kind": "Namespace", "name": "web"}]}
SENT = {"apiVersion": "v1", "kind": "Placement", "metadata": {"name": "web"}, "spec": SPEC}
FIELDS = {"f:spec": {"f:policy": {".": {}, "f:numberOfClusters": {}}, "f:resourceSelectors": {}}}


def standing(spec: dict[str, Any], fields: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    entry = {"manager": "nexusform", "operation": "Apply", "fieldsV1": fields}
    other = {"manager": "hubagent", "operation": "Update", "fieldsV1": {"f:spec": {"f:strategy": {}}}}
    return {**SENT, "metadata": {"name": "web", "managedFields": [other, entry], **metadata}, "spec": spec}


def test_what_stands_as_it_was_sent_is_as_applied() -> None:
    assert is_as_applied(SENT, standing({**SPEC, "strategy": {"type": "RollingUpdate"}}, FIELDS), "nexusform")


def test_an_atomic_field_is_compared_as_a_whole() -> None:
    sent = {"spec": {"selector": {"matchLabels": {"env": "prod"}}}}
    fields = {"f:spec": {"f:selector": {}}}
    assert is_as_applied(sent, standing(sent["spec"], fields), "nexusform")
    wider = {"selector": {"matchLabels": {"env": "prod", "tier": "gold"}}}
    assert not is_as_applied(sent, standing(wider, fields), "nexusform")


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({**SPEC, "policy": {"numberOfClusters": 3}}, FIELDS),  # another value
        ({**SPEC, "revisionHistoryLimit": 3}, {"f:spec": {**FIELDS["f:spec"], "f:revisionHistoryLimit": {}}}),
        (SPEC, {"f:spec": {"f:policy": {"f:numberOfClusters": {}}}}),  # the list belongs to somebody else
        (
            SPEC,
            {
                "f:spec": {
                    "f:policy": {"f:numberOfClusters": {}},
                    "f:resourceSelectors": {'k:{"name":"web"}': {}},
                }
            },
        ),
        (SPEC, {}),
    ],
)
def test_what_is_otherwise_or_belongs_to_others_is_sent(spec: dict[str, Any], fields: dict[str, Any]) -> None:
    assert not is_as_applied(SENT, standing(spec, fields), "nexusform")


def test_a_namespace_that_says_nothing_is_as_applied() -> None:
    bare = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}
    assert is_as_applied(bare, {**bare, "spec": {"finalizers": ["kubernetes"]}}, "nexusform")


def test_what_another_manager_applied_is_sent() -> None:
    assert not is_as_applied(SENT, standing(SPEC, FIELDS), "somebody-else")
