"""JSON patches of overrides as a hub carries them out, and its words where one fails.

Source: KubeFleet pkg/controllers/workgenerator/override.go, which fills in variables in the text of a value;
github.com/evanphx/json-patch v5, which it patches with.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nexusform.domains.fleet.importers.fleet_model import JsonPatch

_NAME: Final = "${MEMBER-CLUSTER-NAME}"
_OPEN: Final = "${MEMBER-CLUSTER-LABEL-KEY-"
_MISSING: Final = "missing value"


class PatchFailed(Exception):
    """A patch cannot be carried out; its text is what a hub says of it."""


def filled_values(patches: Sequence[JsonPatch], cluster: str, labels: Mapping[str, str]) -> list[Any]:
    """The values of patches with their variables filled in. Raises PatchFailed."""
    return [_filled(patch.value, cluster, labels) for patch in patches]


def _filled(value: Any, cluster: str, labels: Mapping[str, str]) -> Any:
    """A value with its variables filled in, in keys as well as in values: in its text, as a hub does."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if "${" not in text:
        return value
    written = text = text.replace(_NAME, cluster)
    while _OPEN in text:
        before, _, after = text.partition(_OPEN)
        key, closed, rest = after.partition("}")
        if not closed:
            raise PatchFailed(f"input {written} is missing the closing bracket `}}`")
        if key not in labels:
            raise PatchFailed(f"label key {key} not found on cluster {cluster}")
        text = f"{before}{labels[key]}{rest}"
    return json.loads(text)


def patched(body: Any, patches: Sequence[JsonPatch], values: Sequence[Any]) -> Any:
    """A copy of a body after patches with these values. Raises PatchFailed."""
    attempt = copy.deepcopy(body)
    for patch, value in zip(patches, values, strict=True):
        _apply(attempt, patch, copy.deepcopy(value))
    return attempt


def _apply(body: Any, patch: JsonPatch, value: Any) -> None:
    """Carry out one patch in a body."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in patch.path.split("/")[1:]]
    target = body
    for step in steps[:-1]:
        target = _below(target, step)
    last = steps[-1] if steps else ""
    if isinstance(target, dict):
        _apply_to_object(target, last, patch, value)
    elif isinstance(target, list):
        _apply_to_list(target, last, patch, value)
    else:
        raise PatchFailed(_no_such_path(patch))


def _below(target: Any, step: str) -> Any:
    """What is one step of a path below a value; None where nothing is."""
    if isinstance(target, dict):
        return target.get(step)
    position = _position(step, len(target)) if isinstance(target, list) else None
    return None if position is None else target[position]


def _no_such_path(patch: JsonPatch) -> str:
    """What is said where a path leads nowhere before its last step."""
    path = patch.path if patch.operation == "replace" else f'"{patch.path}"'
    return f"{patch.operation} operation does not apply: doc is missing path: {path}: {_MISSING}"


def _no_such_key(patch: JsonPatch) -> str:
    """What is said where there is nothing to replace."""
    return f"replace operation does not apply: doc is missing key: {patch.path}: {_MISSING}"


def _apply_to_object(target: dict[str, Any], last: str, patch: JsonPatch, value: Any) -> None:
    """Carry out a patch at a key of an object."""
    if patch.operation != "add" and last not in target:
        if patch.operation == "replace":
            raise PatchFailed(_no_such_key(patch))
        unable = f"unable to remove nonexistent key: {last}: {_MISSING}"
        raise PatchFailed(f"error in remove for path: '{patch.path}': {unable}")
    if patch.operation == "remove":
        del target[last]
    else:
        target[last] = value


def _apply_to_list(target: list[Any], last: str, patch: JsonPatch, value: Any) -> None:
    """Carry out a patch at an item of a list."""
    if patch.operation == "add" and last == "-":
        target.append(value)
        return
    position = _position(last, len(target) + (patch.operation == "add"))
    if position is None:
        if patch.operation == "replace":
            raise PatchFailed(_no_such_key(patch))
        raise PatchFailed(f"error in {patch.operation} for path: '{patch.path}': {_why_no_item(last, patch)}")
    if patch.operation == "add":
        target.insert(position, value)
    elif patch.operation == "remove":
        del target[position]
    else:
        target[position] = value


_WHOLE: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)


def _why_no_item(step: str, patch: JsonPatch) -> str:
    """Why a step names no item of a list: it is no number, or none that is there."""
    if _WHOLE.fullmatch(step):
        return f"Unable to access invalid index: {int(step)}: invalid index referenced"
    unreadable = f'strconv.Atoi: parsing "{step}": invalid syntax'
    if patch.operation == "add":
        return f"value was not a proper array index: '{step}': {unreadable}"
    return unreadable


def _position(step: str, count: int) -> int | None:
    """The item of a list that a step names: from 0, or from the end for one below 0; None: there is none."""
    if not _WHOLE.fullmatch(step):
        return None
    number = int(step)
    position = number + count if number < 0 else number
    return position if 0 <= position < count else None
