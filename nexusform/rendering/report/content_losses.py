"""Clauses about objects on clusters that new content removes or overrides change."""

from collections.abc import Iterator
from typing import Any, Final

from nexusform.diagnostics.name_ranges import format_names
from nexusform.diagnostics.phrases import format_count, group_by, select_word_form
from nexusform.placements.consequence_record import LEFT_CLUSTER, Consequence
from nexusform.plans.impact.overridden_values import list_overridden_values
from nexusform.plans.plan import ContentEffect, Plan
from nexusform.rendering.report.manifest_changes import FieldChange, describe_field, format_value

_MAX_DEPARTURES: Final = 3
_MAX_OVERRIDDEN_VALUES: Final = 5
_MAX_CLUSTERS: Final = 4


def list_departures(plan: Plan) -> list[Consequence]:
    """Return the consequences of placements that leave clusters, without those that end."""
    return [record for record in plan.impact.consequences if record.risk == LEFT_CLUSTER]


def describe_departures(plan: Plan) -> list[str]:
    """Return a clause per placement that leaves clusters: `most-cpu leaves cluster3`.

    The number of others follows the first clauses.
    """
    departures = list(group_by(list_departures(plan), lambda record: record.address).values())
    clauses = []
    for records in departures[:_MAX_DEPARTURES]:
        clusters = [record.where[0] for record in records]
        name = records[0].subject.removesuffix(f" on {clusters[0]}")
        clauses.append(f"{name} leaves {format_names(clusters, _MAX_CLUSTERS)}")
    hidden_count = len(departures) - len(clauses)
    if hidden_count:
        verb = select_word_form(hidden_count, "more placement leaves", "more placements leave")
        clauses.append(f"{hidden_count:,} {verb} clusters")
    return clauses


def describe_content_losses(plan: Plan) -> list[str]:
    """Return clauses: `2 workloads to end`, `4 other objects to remove from clusters`.

    Pods of known number are counted by the effects of the plan.
    """
    workloads = sum(change.ends_workload for change in plan.workloads.content_changes)
    others = sum(change.is_loss for change in plan.workloads.content_changes) - workloads
    clauses = [f"{format_count(workloads, 'workload')} to end"] if workloads else []
    if others:
        noun = "other object" if workloads else "object"
        clauses.append(f"{format_count(others, noun)} to remove from clusters")
    recreated = sum(
        change.effect is ContentEffect.ROLLED_OUT and not change.pods and not change.has_rows
        for change in plan.workloads.content_changes
    )
    if recreated:
        clauses.append(f"pods of {format_count(recreated, 'DaemonSet')} to re-create")
    return clauses


def describe_overridden_values(plan: Plan) -> Iterator[str]:
    """Yield a clause per value that an override changes on clusters, and the number of others.

    An example is `web/colour: ConfigMap web/settings on a and b: /data/colour "red" -> "blue"`.
    """
    values = list_overridden_values(plan)
    for value in values[:_MAX_OVERRIDDEN_VALUES]:
        before, after = (_format_side(side) for side in (value.before, value.after))
        change = "is deleted" if value.before is not None else "is created"
        if value.path:
            change = describe_field(FieldChange(value.object, value.path, before, after))
        yield (
            f"{value.override}: {value.object} on {format_names(value.clusters, _MAX_CLUSTERS)}"
            f"{': ' if value.path else ' '}{change}"
        )
    hidden_count = len(values) - _MAX_OVERRIDDEN_VALUES
    if hidden_count > 0:
        yield format_count(hidden_count, "more value")


def _format_side(value: Any) -> str:
    return "" if value is None else format_value(value)
