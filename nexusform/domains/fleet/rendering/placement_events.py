"""Events of a placement as the hub records them, in the table of `kubectl describe`. State has no times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from nexusform.domains.fleet.scheduling.bindings import Condition
from nexusform.domains.fleet.scheduling.placement_status import TRUE
from nexusform.rendering.notation.colours import wrap_line

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
_COMPLETED_MESSAGE: Final = "Placement has finished the rollout process and reached the desired status"
_EVENTS_2023: Final = {
    "Scheduled": ("PlacementScheduleSuccess", "Successfully scheduled the placement"),
    "Synchronized": ("PlacementSyncSuccess", "Successfully synchronized the placement"),
    "Applied": (_COMPLETED, "Resources have been applied to the selected clusters"),
}
_HEADINGS: Final = (("Type", "Reason", "Age", "From", "Message"), ("----", "------", "----", "----", "-------"))


def render_events(
    kind: str, conditions: Iterable[Condition], *, is_2023: bool = False, width: int = 0
) -> Iterator[str]:
    """Yield the lines below `Events:`; none without a true condition. `kind` is the Kubernetes kind. Lines longer
    than `width` columns break before the message; 0 disables this.
    """
    events = list(_list_events(kind, tuple(conditions), is_2023=is_2023))
    component = "cluster-resource-placement-controller" if is_2023 else "placement-controller"
    rows = [*_HEADINGS, *(("Normal", reason, "<unknown>", component, message) for reason, message in events)]
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(_HEADINGS[0]) - 1)]
    for row in rows if events else ():
        line = "  " + "".join(map(str.ljust, row, widths))
        if width and len(line) + len(row[-1]) > width:
            yield line.rstrip()
            yield from wrap_line(f"    {row[-1]}", 4, width)
        else:
            yield line + row[-1]


def _list_events(kind: str, conditions: tuple[Condition, ...], *, is_2023: bool) -> Iterator[tuple[str, str]]:
    texts = _EVENTS_2023 if is_2023 else _EVENTS
    for condition in conditions:
        name = condition.type.removeprefix(kind)
        if condition.status == TRUE and name in texts:
            yield texts[name]
    if not is_2023 and conditions and all(condition.status == TRUE for condition in conditions):
        yield _COMPLETED, _COMPLETED_MESSAGE
