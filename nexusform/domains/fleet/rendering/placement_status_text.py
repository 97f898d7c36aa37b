"""A placement in state as `kubectl describe` prints it: what was asked for, and its status.

Times and generations are left out: a state does not know them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import asdict

from nexusform.domains.fleet.importers.fleet_model import (
    EXTERNAL,
    ApplyStrategy,
    FleetPlacement,
    ObjectSelector,
)
from nexusform.domains.fleet.planning.contents import RecordedPlacement, SelectedObject
from nexusform.domains.fleet.scheduling.bindings import Condition
from nexusform.domains.fleet.scheduling.snapshots import policy_document, selector_document
from nexusform.domains.fleet.scheduling.status import ClusterStatus, FailedObject, PlacementStatus
from nexusform.domains.fleet.scheduling.status_2023 import status_in_words_of_2023
from nexusform.json_forms import Form
from nexusform.rendering.notation.colours import harmless, indented

TODAY, IN_2023 = "", "2023"
PLACEMENTS: Final[Mapping[str, str]] = {
    "fleet_cluster_resource_placement": "ClusterResourcePlacement",
    "fleet_resource_placement": "ResourcePlacement",
}
_NEWEST: Final = "placement.kubernetes-fleet.io/v1"
_ACRONYMS: Final = {"api": "API", "url": "URL", "uid": "UID"}
_PADDING: Final = 2


def render_placement(kind: str, placement: RecordedPlacement, version: str = TODAY, width: int = 0) -> str:
    """One placement. `kind` is the resource type; `version` "2023" gives the older condition names.

    Values go on below themselves where a line has more than `width` columns; 0 wraps nothing.
    """
    written, status = placement.written, placement.status
    if version == IN_2023:
        status = status_in_words_of_2023(status, placement.bindings)
    rows: list[tuple[int, str, str | None]] = [
        (0, "Name", written.name),
        (0, "Namespace", written.namespace),
        (0, "Labels", "<none>"),
        (0, "Annotations", "<none>"),
        (0, "API Version", placement.api_version or _NEWEST),
        (0, "Kind", PLACEMENTS[kind]),
        (0, "Spec", None),
        *_mapping(_spec_document(written), 1),
        (0, "Status", None),
        *_mapping(_status_document(status, placement.selected), 1),
        (0, "Events", "<none>"),
    ]
    return "".join(f"{harmless(line)}\n" for line in _aligned(rows, width))


# --- what it says ------------------------------------------------------------------------------


def _spec_document(written: FleetPlacement) -> dict[str, Any]:
    """The spec as the API has it."""
    document: dict[str, Any] = {
        "resourceSelectors": [_SELECTOR(selector) for selector in written.selectors],
        "revisionHistoryLimit": written.revision_history_limit,
    }
    if written.policy is not None:
        document["policy"] = policy_document(written.policy)
    strategy: dict[str, Any] = {"type": written.strategy}
    if written.strategy != EXTERNAL:
        strategy["rollingUpdate"] = {
            "maxSurge": str(written.rolling.max_surge),
            "maxUnavailable": str(written.rolling.max_unavailable),
            "unavailablePeriodSeconds": written.rolling.unavailable_period_seconds,
        }
    strategy["applyStrategy"] = _APPLY(written.apply)
    return document | {"strategy": strategy}


_APPLY: Final = Form(
    ApplyStrategy,
    "type comparisonOption=comparison_option whenToApply=when_to_apply whenToTakeOver=when_to_take_over "
    "[allowCoOwnership=allow_co_ownership]",
)


_SELECTOR: Final = Form(
    ObjectSelector,
    "group kind version selectionScope=scope [name] [labelSelector=labels]",
    labelSelector=selector_document,
)


def _status_document(status: PlacementStatus, selected: Iterable[SelectedObject]) -> dict[str, Any]:
    """The status as the API has it, without empty lists."""
    indices = [cluster.observed_resource_index for cluster in status.clusters]
    known_indices = [index for index in indices if index is not None]
    document: dict[str, Any] = {"conditions": [_CONDITION(condition) for condition in status.conditions]}
    if known_indices:
        document["observedResourceIndex"] = max(known_indices)
    document["placementStatuses"] = [_cluster_document(cluster) for cluster in status.clusters]
    document["selectedResources"] = [_without_empty(asdict(selected_object)) for selected_object in selected]
    return {name: part for name, part in document.items() if part != []}


def _without_empty(resource: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in resource.items() if value}


_CONDITION: Final = Form(Condition, "message reason status type")


def _cluster_document(status: ClusterStatus) -> dict[str, Any]:
    document: dict[str, Any] = {"conditions": [_CONDITION(condition) for condition in status.conditions]}
    if status.failed:
        document["failedPlacements"] = [_failed_document(failed_object) for failed_object in status.failed]
    if status.cluster:
        document["clusterName"] = status.cluster
    if status.observed_resource_index is not None:
        document["observedResourceIndex"] = status.observed_resource_index
    return document


def _failed_document(failed: FailedObject) -> dict[str, Any]:
    condition = {"message": failed.message, "reason": failed.reason, "status": "False", "type": "Applied"}
    identity = {
        "group": failed.group,
        "kind": failed.kind,
        "namespace": failed.namespace,
        "name": failed.name,
    }
    return {**_without_empty(identity), "condition": condition}


# --- how kubectl prints it ---------------------------------------------------------------------


def _mapping(content: Mapping[str, Any], level: int) -> Iterator[tuple[int, str, str | None]]:
    """Keys in order, lists item after item, as `kubectl describe` does."""
    for key in sorted(content):
        value = content[key]
        label = _label(key)
        if isinstance(value, Mapping):
            yield level, label, None
            yield from _mapping(value, level + 1)
        elif isinstance(value, list):
            yield level, label, None
            for item in value:
                if isinstance(item, Mapping):
                    yield from _mapping(item, level + 1)
                else:
                    yield level + 1, "", str(item)
        else:
            yield level, label, str(value)


def _label(key: str) -> str:
    """`observedResourceIndex` -> `Observed Resource Index`; label keys are left as they are."""
    if not re.fullmatch(r"[a-zA-Z]+", key):
        return key
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", key).split()
    return " ".join(_ACRONYMS.get(word.lower(), word[:1].upper() + word[1:]) for word in words)


def _aligned(rows: Sequence[tuple[int, str, str | None]], width: int) -> Iterator[str]:
    """Values of neighbouring lines stand in one column; a line without a value ends the column."""
    block: list[tuple[str, str]] = []
    for level, label, value in rows:
        start = f"{'  ' * level}{label}:" if label else "  " * level
        if value is not None and label:
            block.append((start, value))
            continue
        yield from _column(block, width)
        block = []
        yield start if label else f"{start}{value}"
    yield from _column(block, width)


def _column(block: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    """Lines with their values in one column."""
    lines = list(block)
    indent = max((len(start) for start, _ in lines), default=0) + _PADDING
    for start, value in lines:
        # What stands before the value is filled first: its spaces are no place to break a line.
        first_line, *further_lines = indented(value, 0, width - indent)
        yield f"{start:<{indent}}{first_line}".rstrip()
        yield from (f"{' ' * indent}{line}" for line in further_lines)
