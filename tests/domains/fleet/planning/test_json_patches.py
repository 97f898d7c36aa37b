"""What a running hub said of patches that fail, word for word: each was written as an override there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from nexusform.domains.fleet.importers.fleet_records import JsonPatch
from nexusform.domains.fleet.planning.json_patches import PatchError, apply_json_patches, replace_patch_variables

ARGS: Final = "/spec/template/spec/containers/0/args"
DEPLOYMENT: Final[dict[str, Any]] = {
    "metadata": {"name": "web"},
    "spec": {"replicas": 1, "template": {"spec": {"containers": [{"image": "nginx:1", "args": ["a", "b"]}]}}},
}
FAILING: Final[list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("failing_patches.json").read_text(encoding="utf-8")
)


def carried_out(operation: str, path: str, value: Any) -> Any:
    patch = JsonPatch(operation, path, value)
    return apply_json_patches(DEPLOYMENT, [patch], replace_patch_variables([patch], "m1", {"region": "eu"}))


@pytest.mark.parametrize("case", FAILING, ids=lambda case: f"{case['operation']} {case['path']}")
def test_a_patch_fails_in_the_words_of_a_hub(case: Mapping[str, Any]) -> None:
    with pytest.raises(PatchError) as failure:
        carried_out(case["operation"], case["path"], case["value"])
    assert str(failure.value) == case["said"]


@pytest.mark.parametrize("index", ["+1", "01", "-2"])
def test_an_index_is_read_as_go_reads_numbers(index: str) -> None:
    made = carried_out("add", f"{ARGS}/{index}", "x")
    assert made["spec"]["template"]["spec"]["containers"][0]["args"] == ["a", "x", "b"]


def test_variables_are_filled_in_keys_and_values() -> None:
    value = {"${MEMBER-CLUSTER-NAME}": ["${MEMBER-CLUSTER-LABEL-KEY-region}-${MEMBER-CLUSTER-NAME}"]}
    assert carried_out("add", "/metadata/labels", value)["metadata"]["labels"] == {"m1": ["eu-m1"]}


def test_of_keys_that_become_one_the_last_in_the_order_of_their_text_stays() -> None:
    value = {"m1": "as it is", "${MEMBER-CLUSTER-NAME}": "filled in"}
    assert carried_out("add", "/metadata/labels", value)["metadata"]["labels"] == {"m1": "as it is"}
