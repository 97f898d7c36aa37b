"""Values that changed overrides give to objects, with the clusters that share them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, json

from nexusform.diagnostics.phrases import group_by
from nexusform.plans.plan import ContentEffect, Plan

_CLUSTER_NAME: Final = "${MEMBER-CLUSTER-NAME}"


class OverriddenValue(Struct, frozen=True):
    """Value of an object before and after the plan, equal on these clusters.

    `path` is its JSON pointer, "" for the whole object; None is an absent value.
    """

    override: str
    object: str
    clusters: tuple[str, ...]
    path: str
    before: Any
    after: Any


def list_overridden_values(plan: Plan) -> list[OverriddenValue]:
    """Return the values that a plan changes through overrides.

    Values that differ between clusters in the name of the cluster alone share a record, with
    `${MEMBER-CLUSTER-NAME}` in place of the name.
    """
    values: list[OverriddenValue] = []
    overridden = [
        change
        for change in plan.workloads.content_changes
        if change.effect is ContentEffect.OVERRIDDEN
    ]
    groups = group_by(overridden, lambda change: (change.override, change.object, change.path))
    for (override, title, path), changes in groups.items():
        clusters = [change.cluster for change in changes]
        sides = zip(
            _merge_values([change.before for change in changes], clusters),
            _merge_values([change.after for change in changes], clusters),
            strict=True,
        )
        rows = group_by(zip(clusters, sides, strict=True), lambda row: json.encode(row[1]))
        for equal_rows in rows.values():
            before, after = equal_rows[0][1]
            names = tuple(dict.fromkeys(cluster for cluster, _ in equal_rows))
            values.append(OverriddenValue(override, title, names, path, before, after))
    return values


def _merge_values(values: Sequence[Any], clusters: Sequence[str]) -> Sequence[Any]:
    """Return the values of clusters, with a placeholder for the cluster if they are not equal."""
    if all(value == values[0] for value in values):
        return values
    return list(map(_replace_name, values, clusters))


def _replace_name(value: Any, cluster: str) -> Any:
    """Return a value with a placeholder for each name of the cluster in its texts."""
    if isinstance(value, str):
        return re.sub(rf"\b{re.escape(cluster)}\b", lambda _match: _CLUSTER_NAME, value)
    if isinstance(value, Mapping):
        return {key: _replace_name(item, cluster) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace_name(item, cluster) for item in value]
    return value
