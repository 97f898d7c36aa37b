"""Placement in state as printed by `kubectl describe`.

The text has spec, status and events, without times and generations.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import asdict

from nexusform.diagnostics.names import escape_control_characters
from nexusform.domains.fleet.importers.fleet_records import (
    EXTERNAL,
    ApplyStrategy,
    FleetPlacement,
    ObjectSelector,
)
from nexusform.domains.fleet.planning.placement_records import RecordedPlacement, read_placement
from nexusform.domains.fleet.scheduling.bindings import Condition
from nexusform.domains.fleet.scheduling.placement_status import (
    ClusterStatus,
    FailedObject,
    convert_to_status_2023,
)
from nexusform.domains.fleet.scheduling.policy_snapshots import (
    build_policy_document,
    build_selector_document,
)
from nexusform.domains.pods.types.fleet_object_type import FleetObjectType
from nexusform.rendering.notation.colours import wrap_line
from nexusform.rendering.notation.json_values import omit_empty
from nexusform.resource_types.registry import RESOURCE_TYPES
from nexusform.resources.address import Address
from nexusform.state.objects import InstanceState

CURRENT = ""
IN_2023 = "2023"
PLACEMENTS: Final[Mapping[str, str]] = {
    "fleet_cluster_resource_placement": "ClusterResourcePlacement",
    "fleet_resource_placement": "ResourcePlacement",
}
_ACRONYMS: Final = {"api": "API", "url": "URL", "uid": "UID"}


def render_placement(
    kind: str, placement: RecordedPlacement, version: str = CURRENT, width: int = 0
) -> str:
    """Render one placement like `kubectl describe`.

    `kind` is the resource type; `version` "2023" gives the older condition names. Values longer
    than `width` columns wrap; 0 disables wrapping.
    """
    configuration = placement.configuration
    status = placement.status
    if version == IN_2023:
        status = convert_to_status_2023(status, placement.bindings)
    indices = [cluster.observed_resource_index for cluster in status.clusters]
    known_indices = [index for index in indices if index is not None]
    document: dict[str, Any] = {"conditions": list(map(_build_condition, status.conditions))}
    if known_indices:
        document["observedResourceIndex"] = max(known_indices)
    document["placementStatuses"] = list(map(_build_cluster_status, status.clusters))
    document["selectedResources"] = [
        omit_empty(asdict(selected)) for selected in placement.selected_objects
    ]
    # (level, name, value); value None: a heading.
    rows: list[tuple[int, str, str | None]] = [
        (0, "Name", configuration.name),
        (0, "Namespace", configuration.namespace),
        (0, "Labels", "<none>"),
        (0, "Annotations", "<none>"),
        (0, "API Version", placement.api_version or "placement.kubernetes-fleet.io/v1"),
        (0, "Kind", PLACEMENTS[kind]),
        (0, "Spec", None),
        *_list_describe_rows(_build_spec(configuration), 1),
        (0, "Status", None),
        # As in the API.
        *_list_describe_rows({name: part for name, part in document.items() if part != []}, 1),
    ]
    events = list(
        render_events(PLACEMENTS[kind], status.conditions, is_2023=version == IN_2023, width=width)
    )
    rows.append((0, "Events", None if events else "<none>"))
    lines = [*_align_row_values(rows, width), *events]
    return "".join(f"{escape_control_characters(line)}\n" for line in lines)


def _build_spec(configuration: FleetPlacement) -> dict[str, Any]:
    """Return the spec of a placement as in the API."""
    document: dict[str, Any] = {
        "resourceSelectors": list(map(_build_selector, configuration.selectors)),
        "revisionHistoryLimit": configuration.revision_history_limit,
    }
    if configuration.policy is not None:
        document["policy"] = build_policy_document(configuration.policy)
    strategy: dict[str, Any] = {"type": configuration.strategy}
    if configuration.strategy != EXTERNAL:
        strategy["rollingUpdate"] = {
            "maxSurge": str(configuration.rolling_update.max_surge),
            "maxUnavailable": str(configuration.rolling_update.max_unavailable),
            "unavailablePeriodSeconds": configuration.rolling_update.unavailable_period_seconds,
        }
    strategy["applyStrategy"] = _build_apply_strategy(configuration.apply)
    return document | {"strategy": strategy}


def _build_apply_strategy(strategy: ApplyStrategy) -> dict[str, Any]:
    """Build the JSON object of an apply strategy, as in the API."""
    return {
        "type": strategy.type,
        "comparisonOption": strategy.comparison_option,
        "whenToApply": strategy.when_to_apply,
        "whenToTakeOver": strategy.when_to_take_over,
        **omit_empty({"allowCoOwnership": strategy.allow_co_ownership}),
    }


def _build_selector(selector: ObjectSelector) -> dict[str, Any]:
    """Build the JSON object of an object selector, as in the API."""
    document: dict[str, Any] = {
        "group": selector.group,
        "kind": selector.kind,
        "version": selector.version,
        "selectionScope": selector.scope,
    }
    if selector.name:
        document["name"] = selector.name
    if selector.labels is not None:
        document["labelSelector"] = build_selector_document(selector.labels)
    return document


def _build_condition(condition: Condition) -> dict[str, Any]:
    """Build the JSON object of a condition."""
    return {
        "message": condition.message,
        "reason": condition.reason,
        "status": condition.status,
        "type": condition.type,
    }


def _build_cluster_status(status: ClusterStatus) -> dict[str, Any]:
    """Return an entry of placementStatuses as in the API."""
    document: dict[str, Any] = {"conditions": list(map(_build_condition, status.conditions))}
    if status.failed_objects:
        document["failedPlacements"] = list(map(_build_failed_object, status.failed_objects))
    if status.cluster:
        document["clusterName"] = status.cluster
    if status.observed_resource_index is not None:
        document["observedResourceIndex"] = status.observed_resource_index
    return document


def _build_failed_object(failed_object: FailedObject) -> dict[str, Any]:
    """Build the JSON object of a failed object."""
    return {
        **omit_empty(
            {
                "group": failed_object.group,
                "kind": failed_object.kind,
                "namespace": failed_object.namespace,
                "name": failed_object.name,
            }
        ),
        "condition": {
            "message": failed_object.message,
            "reason": failed_object.reason,
            "status": "False",
            "type": "Applied",
        },
    }


def _list_describe_rows(
    content: Mapping[str, Any], level: int
) -> Iterator[tuple[int, str, str | None]]:
    """Yield rows in order of keys, lists by item, like `kubectl describe`.

    A row has level, label and value. The value None makes it a heading.
    """
    for key in sorted(content):
        value = content[key]
        # No field name: a label's key.
        if not re.fullmatch(r"[a-zA-Z]+", key):
            label = key
        else:
            # camel case: maxSurge is "max" and "Surge".
            words = re.sub(r"(?<!^)(?=[A-Z])", " ", key).split()
            label = " ".join(
                _ACRONYMS.get(word.lower(), word[:1].upper() + word[1:]) for word in words
            )
        if isinstance(value, Mapping):
            yield level, label, None
            yield from _list_describe_rows(value, level + 1)
        elif isinstance(value, list):
            yield level, label, None
            for item in value:
                if isinstance(item, Mapping):
                    yield from _list_describe_rows(item, level + 1)
                else:
                    yield level + 1, "", str(item)
        else:
            yield level, label, str(value)


def _align_row_values(rows: Sequence[tuple[int, str, str | None]], width: int) -> Iterator[str]:
    """Yield lines of (level, label, value) aligned by values.

    A heading (no value) or item (no label) ends a block.
    """
    block: list[tuple[str, str]] = []
    for level, label, value in rows:
        prefix = f"{'  ' * level}{label}:" if label else "  " * level
        if value is not None and label:
            block.append((prefix, value))
            continue
        yield from _format_aligned_block(block, width)
        block = []
        # The heading, or the item.
        yield prefix if label else f"{prefix}{value}"
    yield from _format_aligned_block(block, width)


def _format_aligned_block(block: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield lines of (prefix, value) pairs with the values in one column.

    Long values are wrapped.
    """
    lines = list(block)
    indent = max((len(prefix) for prefix, _ in lines), default=0) + 2
    for prefix, value in lines:
        # Wrap only the value: a line must not break at spaces of the label.
        first_line, *further_lines = wrap_line(value, 0, width - indent)
        yield f"{prefix:<{indent}}{first_line}".rstrip()
        yield from (f"{' ' * indent}{line}" for line in further_lines)


_COMPLETED: Final = "PlacementRolloutCompleted"
# Condition, without the prefix of its placement: reason and message of KubeFleet's event.
_EVENTS: Final = {
    "RolloutStarted": ("PlacementRolloutStarted", "Started rolling out the latest resources"),
    "Overridden": ("PlacementOverriddenSucceeded", "Placement has been successfully overridden"),
    "WorkSynchronized": (
        "PlacementWorkSynchronized",
        "Work(s) have been created or updated successfully for the selected cluster(s)",
    ),
    "Applied": ("PlacementApplied", "Resources have been applied to the selected cluster(s)"),
    "Available": ("PlacementAvailable", "Resources are available on the selected cluster(s)"),
}
_EVENTS_2023: Final = {
    "Scheduled": ("PlacementScheduleSuccess", "Successfully scheduled the placement"),
    "Synchronized": ("PlacementSyncSuccess", "Successfully synchronized the placement"),
    "Applied": (_COMPLETED, "Resources have been applied to the selected clusters"),
}
_HEADINGS: Final = (
    ("Type", "Reason", "Age", "From", "Message"),
    ("----", "------", "----", "----", "-------"),
)


def render_events(
    kind: str, conditions: Iterable[Condition], *, is_2023: bool = False, width: int = 0
) -> Iterator[str]:
    """Yield the lines below `Events:`; none without a true condition.

    `kind` is the Kubernetes kind; `is_2023` selects the older controller and events. Lines longer
    than `width` columns break before the message; 0 disables this.
    """
    events = list(_list_events(kind, tuple(conditions), is_2023=is_2023))
    if not events:
        return
    component = "cluster-resource-placement-controller" if is_2023 else "placement-controller"
    rows = [
        *_HEADINGS,
        *(("Normal", reason, "<unknown>", component, message) for reason, message in events),
    ]
    # The last one is not padded.
    message_column = len(_HEADINGS[0]) - 1
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(message_column)]
    for row in rows:
        line = "  " + "".join(
            f"{row[column]:<{widths[column]}}" for column in range(message_column)
        )
        if width and len(line) + len(row[-1]) > width:
            yield line.rstrip()
            yield from wrap_line(f"    {row[-1]}", 4, width)
        else:
            yield line + row[-1]


def _list_events(
    kind: str, conditions: tuple[Condition, ...], *, is_2023: bool
) -> Iterator[tuple[str, str]]:
    """Yield the events (reason, message).

    There is one per true condition, and one for the completed rollout. A condition type is
    `kind` and a step: "ClusterResourcePlacementApplied". KubeFleet of 2023 has other texts,
    and no completion.
    """
    texts = _EVENTS_2023 if is_2023 else _EVENTS
    for condition in conditions:
        name = condition.type.removeprefix(kind)
        if condition.status == "True" and name in texts:
            yield texts[name]  # (reason, message)
    statuses = {condition.status for condition in conditions}
    if statuses == {"True"} and not is_2023:
        yield (
            _COMPLETED,
            "Placement has finished the rollout process and reached the desired status",
        )


def render_placements(
    instances: Mapping[Address, InstanceState], version: str, width: int, *, show_sensitive: bool
) -> str:
    """Render placements like `kubectl describe` (of KubeFleet `version`).

    The result is "" if one is unreadable or hidden.
    """
    texts = []
    for address, instance in instances.items():
        resource_type = RESOURCE_TYPES[address.type]
        assert isinstance(resource_type, FleetObjectType)
        current = instance.current
        if current is None or (current.sensitive and not show_sensitive):
            return ""
        configuration = resource_type.build_fleet_object(current.attributes)
        assert isinstance(configuration, FleetPlacement)
        placement = read_placement(current.attributes, configuration)
        texts.append(render_placement(address.type, placement, version, width))
    return "\n\n".join(texts)
