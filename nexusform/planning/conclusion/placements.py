"""The placement rows of a plan: every VM, what happens to it, why, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nexusform.planning.conclusion.result import Explained
from nexusform.planning.plan import PlacementAction, PlacementChange
from nexusform.planning.verdicts.certainty import SiteCertainty
from nexusform.planning.vms.sites import SitePlan
from nexusform.planning.vms.triggers import VmKey
from nexusform.planning.vms.vm_phase import VmObject
from nexusform.scheduling.decision import Certainty
from nexusform.scheduling.racks.explanation import Explanation

REASONS: Mapping[str, str] = {
    "new": "new",
    "scale_out": "the pool's count was raised",
    "scale_in": "the pool's count was lowered; the highest numbers go",
    "sku_changed": "the pool's VM SKU changed",
    "zones_changed": "the pool's availability zones changed",
    "labels_changed": "the pool's labels changed",
    "taints_changed": "the pool's taints changed",
    "mode_changed": "the pool's mode changed",
    "kubernetes_version_changed": "the cluster's kubernetes_version changed",
    "machine_removed": "its machine is gone",
    "machine_evacuated": "its machine is evacuated",
    "node_deleted": "the node was deleted outside nexusform",
    "pool_removed": "its pool is gone",
    "cluster_replaced": "its cluster is replaced",
    "cluster_removed": "its cluster is gone",
    "requested": "its replacement was asked for",
    "heal": "it was asked to be placed anew",
}


def placement_changes(
    objects: Iterable[VmObject],
    certainty: Mapping[str, SiteCertainty],
    _sites: Mapping[str, SitePlan],
    rejected: bool,
) -> Iterator[PlacementChange]:
    """One row per VM: those that leave, then those that come, by pool and number. VMs that stay
    have rows only when everything was asked for (`rejected`): a site may hold a million.
    """
    for found in objects:
        yield from _leaving(found)
        if rejected or found.tokens:
            yield from _present(found, certainty, rejected)


def _leaving(found: VmObject) -> Iterator[PlacementChange]:
    cluster = found.before.cluster if found.before else ""
    site_id = found.before.site_id if found.before else ""
    gone = dict(found.moves.leave)
    gone |= {key: t for key, t in found.moves.again.items() if _renamed(found, key)}
    for key, trigger in gone.items():
        vm = found.standing.get(key)
        if vm is None:
            continue
        yield PlacementChange(
            found.instance.address,
            "vm",
            vm.name,
            PlacementAction.REMOVE,
            vm.placement,
            None,
            trigger,
            cluster=cluster,
            pool=vm.pool,
            number=vm.number,
            sku=vm.sku_name,
            site_id=site_id,
            reason=REASONS.get(trigger, ""),
            provenance=vm.provenance,
        )


def _renamed(found: VmObject, key: VmKey) -> bool:
    """Whether the VM comes back under another name or on another site."""
    vm = found.standing.get(key)
    if vm is None or found.before is None or found.wanted is None:
        return False
    pool = next((p for p in found.wanted.pools if p.pool == key[0]), None)
    if pool is None or found.before.site_id != found.wanted.site_id:
        return True
    return vm.name not in pool.names


def _present(
    found: VmObject, certainty: Mapping[str, SiteCertainty], rejected: bool
) -> Iterator[PlacementChange]:
    if found.wanted is None or found.going:
        return
    sure = certainty.get(found.wanted.site_id)
    for pool in found.wanted.pools:
        for number in pool.numbers:
            key = (pool.pool, number)
            vm = found.placed.get(key)
            if vm is None:
                continue
            standing = found.standing.get(key)
            trigger = found.moves.again.get(key) or found.moves.arrive.get(key) or ""
            token = found.tokens.get(key)
            if token is None and not rejected:
                continue
            explanation = found.explained.get(key)
            action = PlacementAction.KEEP
            source = standing.placement if standing is not None else None
            if token is not None:
                moved = standing is not None and not _renamed(found, key)
                action = PlacementAction.MOVE if moved else PlacementAction.PLACE
                source = source if moved else None
            yield PlacementChange(
                found.instance.address,
                "vm",
                vm.name,
                action,
                source,
                vm.placement,
                trigger,
                cluster=found.wanted.cluster,
                pool=pool.pool,
                number=number,
                sku=pool.sku.name,
                site_id=found.wanted.site_id,
                reason=REASONS.get(trigger, ""),
                scores=_scores(explanation),
                certainty=_sure(sure, token),
                provenance=vm.provenance,
                rejected=explanation.refusals if explanation is not None and rejected else (),
            )


def _sure(sure: SiteCertainty | None, token: int | None) -> Certainty | None:
    return sure.vms.get(token) if sure is not None and token is not None else None


def _scores(explanation: Explanation | None) -> dict[str, int]:
    """The figures that decided: those of the chosen rack, then of the chosen machine."""
    if explanation is None or not explanation.racks or not explanation.machines:
        return {}
    rack = {f"rack.{part.rule}": part.value for part in explanation.racks[0].keys}
    return rack | {f"machine.{part.rule}": part.value for part in explanation.machines[0].keys}


def explanations(objects: Iterable[VmObject]) -> tuple[Explained, ...]:
    """The explanations that were asked for."""
    found = []
    for item in objects:
        names = {
            (pool.pool, number): name
            for pool in (item.wanted.pools if item.wanted else ())
            for number, name in zip(pool.numbers, pool.names, strict=True)
        }
        for key, explanation in item.explained.items():
            trigger = item.moves.again.get(key) or item.moves.arrive.get(key) or ""
            found.append(Explained(item.instance.address, names[key], explanation, trigger))
    return tuple(found)
