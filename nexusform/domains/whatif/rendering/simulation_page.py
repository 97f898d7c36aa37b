"""A simulation as the page of a plan shows it: upgrades and failures play on the same map, step by step.

The words and tables of the answer stand below the map, whole without scripts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, TypeAlias

from msgspec import Struct

from nexusform.domains.whatif.questions.failure import Failure
from nexusform.domains.whatif.questions.kubernetes_upgrade import Batch, KubernetesUpgrade, PoolUpgrade
from nexusform.domains.whatif.questions.repack import Repack
from nexusform.domains.whatif.questions.runtime_upgrade import RuntimeUpgrade, UpgradeWave
from nexusform.rendering.answers.answer_page import answer_page
from nexusform.rendering.answers.outline import Outline
from nexusform.rendering.page.html_page import scripted
from nexusform.rendering.page.page_data import Play, PlayStep, StepFigure, simulation_data
from nexusform.rendering.page.page_parts import section
from nexusform.rendering.page.rack_map import OUTSIDE, MapMachine, MapRack, MapVm, Mark, SiteMap
from nexusform.scheduling.racks.vms import Machine, Placement
from nexusform.words import counted, first_of, natural
from nexusform.worlds.availability import PoolLeft
from nexusform.worlds.world_view import SiteView

_VmKey: TypeAlias = tuple[str, str]  # cluster id, name
_NOTHING: Final[Mapping[_VmKey, Placement | None]] = {}


def simulation_page(outline: Outline, plays: Sequence[Play], layer: str = "cluster") -> str:
    """The page of an answer that is played on the map, which is painted by `layer` at first."""
    data = {**simulation_data(plays), "layer": layer}
    return answer_page(outline, section("racks", "Map", scripted("map")), data)


# --- what is played ----------------------------------------------------------------------------


def standing_play(site: SiteView) -> Play:
    """A site as it stands, and nothing happens on it."""
    return Play(_site_map(site, _NOTHING), ())


def upgrade_play(site: SiteView, upgrade: RuntimeUpgrade) -> Play:
    """A runtime upgrade, wave by wave."""
    waves = [
        PlayStep(_wave_title(wave, len(upgrade.waves)), wave.machines, figures=_up(wave.pools))
        for wave in upgrade.waves
    ]
    return Play(
        _site_map(site, _NOTHING), (PlayStep("Before the upgrade"), *waves, PlayStep("After the upgrade"))
    )


def _wave_title(wave: UpgradeWave, waves: int) -> str:
    """`Wave 3 of 8: rack3, 26 VMs down; lost: cluster-d / control-plane`."""
    batch = f", batch {wave.batch} of {wave.batches}" if wave.batches > 1 else ""
    lost = [f"{pool.cluster} / {pool.pool}" for pool in wave.pools if pool.lost]
    loss = f"; lost meanwhile: {', '.join(lost)}" if lost else ""
    return f"Wave {wave.number} of {waves}: {wave.rack}{batch}, {counted(wave.vms, 'VM')} down{loss}"


def _up(pools: Iterable[PoolLeft]) -> tuple[StepFigure, ...]:
    """How many VMs of each pool are up."""
    return tuple(
        StepFigure(f"{pool.cluster} / {pool.pool}", f"{pool.left:,} of {pool.total:,} up", pool.lost)
        for pool in pools
    )


def failure_play(site: SiteView, failure: Failure) -> Play:
    """A failure: before it, what it takes, and what comes back where."""
    places: dict[_VmKey, Placement | None] = {}
    for pool in failure.pools:
        places.update({(pool.cluster_id, vm.name): None for vm in pool.down})
    down = len(places) + len(failure.outsiders)
    for comeback in failure.comebacks:
        places.update(
            {(comeback.cluster_id, replacement.vm.name): replacement.place for replacement in comeback.vms}
        )
    back = sum(place is not None for place in places.values())
    site_map = _site_map(site, places, frozenset(failure.machines))
    moves = tuple(number for number, vm in enumerate(site_map.vms) if vm.mark is not Mark.KEPT)
    steps = (
        PlayStep("Before the failure"),
        PlayStep(
            f"{failure.lost} is lost: {counted(down, 'VM')} down",
            failure.machines,
            figures=_up((*failure.pools, *failure.stay_down)),
        ),
        PlayStep(f"{counted(back, 'VM')} of {down} come back elsewhere", failure.machines, moves),
    )
    return Play(site_map, steps, moved="comes back elsewhere", gone="stays down")


def kubernetes_upgrade_play(site: SiteView, upgrade: KubernetesUpgrade) -> Play:
    """A Kubernetes upgrade, batch by batch: where the new VMs of each come up. A batch that finds no room
    leaves all as it is.
    """
    batches = [(pool, batch) for pool in upgrade.pools for batch in pool.batches]
    places: dict[_VmKey, Placement | None] = {}
    for _, batch in batches:
        if batch.fits:
            places.update({(upgrade.cluster_id, move.vm.name): move.place for move in batch.moves})
    site_map = _site_map(site, places)
    cluster = upgrade.cluster
    numbers = {vm.name: number for number, vm in enumerate(site_map.vms) if vm.cluster == cluster}
    steps = [PlayStep("Before the upgrade")]
    for pool, batch in batches:
        moves = tuple(numbers[move.vm.name] for move in batch.moves) if batch.fits else ()
        steps.append(PlayStep(_batch_title(pool, batch), moves=moves))
    last_title = "Where the upgrade stops" if upgrade.blocked else "After the upgrade"
    return Play(site_map, (*steps, PlayStep(last_title)), moved="is replaced by a new VM elsewhere")


def repack_play(site: SiteView, repack: Repack) -> Play:
    """A repacking, window by window: who is re-created where."""
    places: dict[_VmKey, Placement | None] = {}
    clusters = [cluster for cluster in site.clusters for _ in cluster.pools]
    for window in repack.windows:
        for step in window.steps:
            places[clusters[step.source.pool].id, step.source.vm.name] = step.to
    site_map = _site_map(site, places)
    numbers = {(vm.address, vm.name): number for number, vm in enumerate(site_map.vms)}
    steps = [PlayStep("Before the repacking")]
    for at, window in enumerate(repack.windows, 1):
        moves = tuple(
            numbers[str(site.pools[step.source.pool].address), step.source.vm.name] for step in window.steps
        )
        title = f"Window {at} of {len(repack.windows)}: {counted(len(moves), 'VM')} re-created"
        steps.append(PlayStep(title, moves=moves))
    last = PlayStep("After the repacking") if repack.windows else PlayStep("Nothing is re-created")
    return Play(site_map, (*steps, last), moved="is re-created elsewhere")


def _batch_title(pool: PoolUpgrade, batch: Batch) -> str:
    """`pool1, batch 3 of 24: cluster-d-pool1-2, 23 of 24 nodes up`."""
    names = [move.vm.name for move in batch.moves]
    front = f"{pool.pool}, batch {batch.number} of {-(-pool.count // len(pool.batches[0].moves))}"
    if not batch.fits:
        missing = [move.vm.name for move in batch.moves if move.place is None]
        return f"{front}: no room for the new {first_of(missing, 3)}"
    return f"{front}: {first_of(names, 3)}, {batch.up:,} of {pool.count:,} nodes up"


class _Crew(Struct, frozen=True):
    """The VMs of a site in order, and their numbers by machine on each side."""

    vms: list[MapVm]
    before: dict[str, list[int]]
    after: dict[str, list[int]]

    def add(self, vm: MapVm) -> None:
        """Number a VM and list it where it stands."""
        for place, machines in ((vm.before, self.before), (vm.after, self.after)):
            if place is not None:
                machines.setdefault(place.machine, []).append(len(self.vms))
        self.vms.append(vm)


def _site_map(
    site: SiteView,
    places: Mapping[_VmKey, Placement | None],
    lost: frozenset[str] = frozenset(),
) -> SiteMap:
    """A site as it stands, and as it is once VMs are where `places` says (None: down, as outsiders
    on `lost` machines are); all others stay.
    """
    crew = _Crew([], {}, {})
    for vm in chain(_managed(site, places), _outsiders(site, lost)):
        crew.add(vm)
    clusters = sorted({vm.cluster: None for vm in crew.vms}, key=lambda name: name == OUTSIDE)
    return SiteMap(
        id=site.id, name=site.name, racks=_racks(site, crew), vms=tuple(crew.vms), clusters=tuple(clusters)
    )


def _managed(site: SiteView, places: Mapping[_VmKey, Placement | None]) -> Iterator[MapVm]:
    """The VMs of pools, where they stand and where `places` says that they will."""
    for cluster in site.clusters:
        for pool in cluster.pools:
            for vm in pool.vms:
                after = places.get((cluster.id, vm.name), vm.placement)
                yield MapVm(
                    name=vm.name,
                    address=str(pool.address),
                    cluster=cluster.name,
                    pool=pool.name,
                    sku=pool.sku,
                    mark=_mark(vm.placement, after),
                    before=vm.placement,
                    after=after,
                )


def _outsiders(site: SiteView, lost: frozenset[str]) -> Iterator[MapVm]:
    """The VMs of no pool; those on `lost` machines go down."""
    managed: set[int] = set()
    for cluster in site.clusters:
        for pool in cluster.pools:
            managed.update(pool.handles.values())
    for standing in site.scheduler.vms():
        if standing.handle in managed:
            continue
        place = standing.placement
        after = None if place.machine in lost else place
        yield MapVm(
            name=standing.vm.cluster,
            address="",
            cluster=OUTSIDE,
            pool="",
            sku=standing.sku,
            mark=_mark(place, after),
            before=place,
            after=after,
        )


def _mark(before: Placement, after: Placement | None) -> Mark:
    """What happens to a VM that stood at `before`."""
    if after is None:
        return Mark.REMOVED
    return Mark.KEPT if before == after else Mark.MOVED


def _racks(site: SiteView, crew: _Crew) -> tuple[MapRack, ...]:
    """The racks in natural order of name, their machines by slot."""
    racks: list[MapRack] = []
    for rack in sorted(site.racks, key=lambda rack: natural(rack.name)):
        by_slot = sorted(site.machines_of_rack.get(rack.name, ()), key=lambda facts: facts.slot)
        machines = [_machine(facts, crew) for facts in by_slot]
        racks.append(MapRack(rack.name, rack.availability_zone, rack.planned, tuple(machines)))
    return tuple(racks)


def _machine(facts: Machine, crew: _Crew) -> MapMachine:
    before, after = crew.before.get(facts.name, ()), crew.after.get(facts.name, ())
    return MapMachine(facts, Mark.KEPT, tuple(before), tuple(after))
