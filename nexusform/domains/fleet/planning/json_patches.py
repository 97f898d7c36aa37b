"""JSON patches of overrides as applied by a hub, with its error messages. Source: KubeFleet
pkg/controllers/workgenerator/override.go, which replaces variables in the text of a value;
github.com/evanphx/json-patch v5 applies the patches.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nexusform.domains.fleet.importers.fleet_records import JsonPatch

_CLUSTER_NAME: Final = "${MEMBER-CLUSTER-NAME}"
_LABEL_VARIABLE: Final = "${MEMBER-CLUSTER-LABEL-KEY-"
_MISSING_VALUE: Final = "missing value"


class PatchError(Exception):
    """Failure to apply a patch; its text is the hub's message."""


def replace_patch_variables(patches: Sequence[JsonPatch], cluster: str, labels: Mapping[str, str]) -> list[Any]:
    """Return the values of patches with variables replaced. Raises PatchError."""
    return [_replace_variables_in_value(patch.value, cluster, labels) for patch in patches]


def _replace_variables_in_value(value: Any, cluster: str, labels: Mapping[str, str]) -> Any:
    """Return a value with variables replaced in its keys and values, as text like a hub."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if "${" not in text:
        return value
    original = text = text.replace(_CLUSTER_NAME, cluster)
    while _LABEL_VARIABLE in text:
        prefix, _, suffix = text.partition(_LABEL_VARIABLE)
        key, bracket, remainder = suffix.partition("}")
        if not bracket:
            raise PatchError(f"input {original} is missing the closing bracket `}}`")
        if key not in labels:
            raise PatchError(f"label key {key} not found on cluster {cluster}")
        text = f"{prefix}{labels[key]}{remainder}"
    return json.loads(text)


def apply_json_patches(body: Any, patches: Sequence[JsonPatch], values: Sequence[Any]) -> Any:
    """Return a copy of a body after patches with these values. Raises PatchError."""
    copied = copy.deepcopy(body)
    for patch, value in zip(patches, values, strict=True):
        _apply_patch(copied, patch, copy.deepcopy(value))
    return copied


def _apply_patch(body: Any, patch: JsonPatch, value: Any) -> None:
    steps = [step.replace("~1", "/").replace("~0", "~") for step in patch.path.split("/")[1:]]
    target = body
    for step in steps[:-1]:
        if isinstance(target, dict):
            target = target.get(step)
        else:
            position = _resolve_index(step, len(target)) if isinstance(target, list) else None
            target = None if position is None else target[position]
    last = steps[-1] if steps else ""
    if isinstance(target, dict):
        if patch.operation != "add" and last not in target:
            if patch.operation == "replace":
                raise PatchError(_describe_missing_key(patch))
            unable = f"unable to remove nonexistent key: {last}: {_MISSING_VALUE}"
            raise PatchError(f"error in remove for path: '{patch.path}': {unable}")
        if patch.operation == "remove":
            del target[last]
        else:
            target[last] = value
    elif isinstance(target, list):
        _apply_patch_to_list(target, last, patch, value)
    else:
        path = patch.path if patch.operation == "replace" else f'"{patch.path}"'
        missing_path = f"{patch.operation} operation does not apply: doc is missing path: {path}: {_MISSING_VALUE}"
        raise PatchError(missing_path)


def _describe_missing_key(patch: JsonPatch) -> str:
    """Return the hub's message for a missing key to replace."""
    return f"replace operation does not apply: doc is missing key: {patch.path}: {_MISSING_VALUE}"


def _apply_patch_to_list(target: list[Any], last: str, patch: JsonPatch, value: Any) -> None:
    if patch.operation == "add" and last == "-":
        target.append(value)
        return
    position = _resolve_index(last, len(target) + (patch.operation == "add"))
    if position is None:
        if patch.operation == "replace":
            raise PatchError(_describe_missing_key(patch))
        raise PatchError(f"error in {patch.operation} for path: '{patch.path}': {_explain_missing_item(last, patch)}")
    if patch.operation == "add":
        target.insert(position, value)
    elif patch.operation == "remove":
        del target[position]
    else:
        target[position] = value


_INTEGER: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)


def _explain_missing_item(step: str, patch: JsonPatch) -> str:
    """Return the message for a step that is no valid index of a list."""
    if _INTEGER.fullmatch(step):
        return f"Unable to access invalid index: {int(step)}: invalid index referenced"
    unreadable = f'strconv.Atoi: parsing "{step}": invalid syntax'
    if patch.operation == "add":
        return f"value was not a proper array index: '{step}': {unreadable}"
    return unreadable


def _resolve_index(step: str, count: int) -> int | None:
    """Return the list position of a step, counted from the end if negative; None if invalid."""
    if not _INTEGER.fullmatch(step):
        return None
    number = int(step)
    position = number + count if number < 0 else number
    return position if 0 <= position < count else None
