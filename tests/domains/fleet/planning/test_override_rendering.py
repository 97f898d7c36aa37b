"""Messages of a running hub for failing patches, word for word.

Each was written there as an override.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from nexusform.domains.fleet.importers.fleet_records import JsonPatch
from nexusform.domains.fleet.planning.override_rendering import (
    PatchError,
    apply_json_patches,
    replace_patch_variables,
)

ARGS: Final = "/spec/template/spec/containers/0/args"
DEPLOYMENT: Final[dict[str, Any]] = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1,
        "template": {"spec": {"containers": [{"image": "nginx:1", "args": ["a", "b"]}]}},
    },
}
FAILING: Final[list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("failing_patches.json").read_text(encoding="utf-8")
)


def apply_patch(operation: str, path: str, value: Any) -> Any:
    patch = JsonPatch(operation, path, value)
    return apply_json_patches(
        DEPLOYMENT, [patch], replace_patch_variables([patch], "m1", {"region": "eu"})
    )


@pytest.mark.parametrize("case", FAILING, ids=lambda case: f"{case['operation']} {case['path']}")
def test_patch_fails_with_message_of_a_hub(case: Mapping[str, Any]) -> None:
    with pytest.raises(PatchError) as failure:
        apply_patch(case["operation"], case["path"], case["value"])
    assert str(failure.value) == case["said"]


@pytest.mark.parametrize("index", ["+1", "01", "-2"])
def test_index_is_parsed_as_in_go(index: str) -> None:
    made = apply_patch("add", f"{ARGS}/{index}", "x")
    assert made["spec"]["template"]["spec"]["containers"][0]["args"] == ["a", "x", "b"]


def test_variables_are_replaced_in_keys_and_values() -> None:
    value = {
        "${MEMBER-CLUSTER-NAME}": ["${MEMBER-CLUSTER-LABEL-KEY-region}-${MEMBER-CLUSTER-NAME}"]
    }
    assert apply_patch("add", "/metadata/labels", value)["metadata"]["labels"] == {"m1": ["eu-m1"]}


def test_last_of_equal_keys_in_text_order_is_kept() -> None:
    value = {"m1": "as it is", "${MEMBER-CLUSTER-NAME}": "filled in"}
    assert apply_patch("add", "/metadata/labels", value)["metadata"]["labels"] == {"m1": "as it is"}
