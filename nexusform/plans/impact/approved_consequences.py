"""Comparison of the consequences of saved steps on the observed site with the approved ones.

A plan is approved with what it shows. Another machine for a VM is no consequence. A thing that
ends, stops or weakens is one, and so is more of it than the plan showed.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, TypeAlias

from nexusform.diagnostics.phrases import format_first_items, format_list, group_by
from nexusform.placement_kinds.placement_kind import VM
from nexusform.placements.consequence_record import Consequence
from nexusform.placements.consequences import ConsequenceSeverity, DataFate
from nexusform.plans.impact.object_effects import (
    LOSS_EFFECTS,
    build_cluster_formatter,
    compute_effect,
)
from nexusform.plans.maintenance import PoolNodeRecreation, Upgrade
from nexusform.plans.plan import PlacementChange, Plan

# Names of VMs in one sentence.
_MAX_NAMES: Final = 4
_SEVERITIES: Final = tuple(reversed(ConsequenceSeverity))
_FATES: Final = (None, *reversed(DataFate))
_ENDS_OF_RESOURCES: Final = frozenset({"destroyed-object", "replaced-object"})
# Compared by their VMs.
_RISKS_OF_ACTIONS: Final = frozenset({"vms-stopped"})

_NOT_SHOWN: Final = ", which the plan did not show"
_UPGRADE_SETTINGS: Final = ("max_surge", "max_unavailable", "drain_timeout")

PoolKey: TypeAlias = tuple[str, str, str]


def list_unapproved_consequences(
    plan: Plan, replay: Plan, without_steps: Plan | None = None
) -> list[str]:
    """Return a clause about each consequence of a replay that is new or larger than in the plan.

    `replay` has the saved steps on the site as observed now. The consequences of the site
    `without_steps` are not theirs. A clause has no full stop.
    """
    accepted = (plan,) if without_steps is None else (plan, without_steps)
    clauses = [
        *_find_stopped_vms(plan, replay),
        *_find_lost_vms(accepted, replay),
        *_find_faster_upgrades(plan, replay),
        *_find_larger_records(accepted, replay),
    ]
    return list(dict.fromkeys(clauses))


def list_smaller_consequences(plan: Plan, replay: Plan) -> list[str]:
    """Return the approved risks that the steps do not have on the site as observed now."""
    remaining = {_get_key(item) for item in replay.impact.consequences}
    return [
        item.text
        for item in plan.impact.consequences
        if item.is_risk and _get_key(item) not in remaining
    ]


def _find_stopped_vms(plan: Plan, replay: Plan) -> Iterator[str]:
    """Yield the machine actions that stop other VMs than the plan showed."""
    approved: dict[tuple[str, str], set[str]] = {}
    for action in plan.impact.machine_actions:
        approved.setdefault((action.site_id, action.machine), set()).update(action.stopped_vms)
    clusters = _map_vms_to_clusters(replay)
    for action in replay.impact.machine_actions:
        known = approved.get((action.site_id, action.machine), set())
        names = [name for name in action.stopped_vms if name not in known]
        if names:
            texts = [_format_vm(name, clusters.get((action.site_id, name), "")) for name in names]
            listed = format_first_items(texts, _MAX_NAMES)
            yield f"{action.action} of {action.machine} would stop {listed}{_NOT_SHOWN}"


def _map_vms_to_clusters(plan: Plan) -> dict[tuple[str, str], str]:
    """Return the cluster of each VM before the plan, by id of the site and name."""
    return {
        (site.id, vm.name): pool.cluster
        for site in plan.site_records.sites
        for pool in site.pools
        for vm in pool.before
    }


def _format_vm(name: str, cluster: str) -> str:
    return f"{name} of {cluster}" if cluster else name


def _find_lost_vms(accepted: Sequence[Plan], replay: Plan) -> Iterator[str]:
    """Yield the pools that lose or re-create more VMs than the plan showed.

    Which VMs of a pool these are may be the choice of the platform, so the numbers count.
    """
    accepted_rows = [_group_lost_vms(plan) for plan in accepted]
    format_cluster = build_cluster_formatter(replay.figures.placement_tables)
    for key, rows in _group_lost_vms(replay).items():
        known = {row.object for groups in accepted_rows for row in groups.get(key, ())}
        if len(rows) <= len(known):
            continue
        new_names = [row.object for row in rows if row.object not in known]
        names = format_first_items(new_names, _MAX_NAMES)
        cluster = format_cluster(rows[0])
        yield f"The steps would remove or re-create {names} of {cluster}{_NOT_SHOWN}"


def _group_lost_vms(plan: Plan) -> Mapping[PoolKey, list[PlacementChange]]:
    """Return the rows of VMs that are interrupted or removed, by site id, cluster and pool."""
    rows = [row for row in plan.placements if row.kind == VM]
    return group_by(
        (row for row in rows if compute_effect(row) in LOSS_EFFECTS),
        lambda row: (row.site_id, row.cluster, row.pool),
    )


def _find_faster_upgrades(plan: Plan, replay: Plan) -> Iterator[str]:
    """Yield the pools of upgrades with fewer nodes up, or with other drains, than in the plan."""
    approved = dict(_index_upgraded_pools(plan))
    format_cluster = build_cluster_formatter(replay.figures.placement_tables)
    for key, (upgrade, pool) in _index_upgraded_pools(replay):
        if key not in approved:
            # Its nodes are counted as lost VMs.
            continue
        _, known = approved[key]
        name = f"{format_cluster(upgrade)}/{pool.pool}"
        differences = []
        if pool.minimum_up < known.minimum_up:
            differences.append(f"leave {pool.minimum_up} nodes up, not {known.minimum_up}")
        if pool.concurrent_vms > known.concurrent_vms:
            differences.append(
                f"re-create {pool.concurrent_vms} nodes at a time, not {known.concurrent_vms}"
            )
        differences += [
            f"run with {setting} {getattr(pool, setting)}, not {getattr(known, setting)}"
            for setting in _UPGRADE_SETTINGS
            if getattr(pool, setting) != getattr(known, setting)
        ]
        if differences:
            yield f"The upgrade of {name} would {format_list(differences)}"


def _index_upgraded_pools(
    plan: Plan,
) -> Iterator[tuple[PoolKey, tuple[Upgrade, PoolNodeRecreation]]]:
    for upgrade in plan.impact.upgrades:
        for pool in upgrade.pools:
            yield (upgrade.site_id, upgrade.cluster, pool.pool), (upgrade, pool)


def _get_key(consequence: Consequence) -> tuple[str, str, str]:
    """Return kind and subject of a consequence.

    A resource that ends is known by its address: its name counts the objects that it still has.
    """
    subject = consequence.subject
    if consequence.risk in _ENDS_OF_RESOURCES:
        subject = consequence.address or subject
    return (consequence.kind, consequence.risk, subject)


def _find_larger_records(accepted: Sequence[Plan], replay: Plan) -> Iterator[str]:
    """Yield the consequences that the plan did not show, or showed smaller."""
    records = chain.from_iterable(plan.impact.consequences for plan in accepted)
    approved = group_by(records, _get_key)
    for consequence in replay.impact.consequences:
        if not consequence.is_caused or consequence.risk in _RISKS_OF_ACTIONS:
            continue
        known = approved.get(_get_key(consequence), ())
        if any(_is_covered(consequence, item) for item in known):
            continue
        yield f"{consequence.text}{_describe_approved(consequence, known)}"


def _describe_approved(consequence: Consequence, known: Sequence[Consequence]) -> str:
    """Return the end of a clause about a larger consequence: what the plan showed of it."""
    if not known:
        return _NOT_SHOWN
    if known[0].text == consequence.text:
        return ", with more than the plan showed"
    return f"; the plan showed: {known[0].text}"


def _is_covered(consequence: Consequence, approved: Consequence) -> bool:
    """Return whether an approved consequence is as large as another one of the same subject."""
    loss = consequence.before - consequence.after
    return (
        _SEVERITIES.index(consequence.severity) <= _SEVERITIES.index(approved.severity)
        and _FATES.index(consequence.data) <= _FATES.index(approved.data)
        and set(consequence.where) <= set(approved.where)
        and loss <= approved.before - approved.after
        and consequence.objects <= approved.objects
        and _has_at_most(consequence.runs, approved.runs)
        and _has_at_most(consequence.removed, approved.removed)
    )


def _has_at_most(counts: Mapping[str, int], approved: Mapping[str, int]) -> bool:
    return all(count <= approved.get(kind, 0) for kind, count in counts.items())
