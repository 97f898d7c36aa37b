"""Each kind of edit of a site, with the configuration that states the same without an edit."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.edits import (
    AddedBlocks,
    Edit,
    LostMachines,
    MachineOutage,
    PlacementOrder,
    RemovedInstance,
    VmReplacement,
)
from nexusform.planning.hypothesis.hypothetical_plan import plan_hypothesis
from nexusform.planning.plan_request import ArgumentAdjustment
from nexusform.planning.planner import make_plan
from nexusform.resources.address import Address, parse_address
from nexusform.state.objects import EMPTY
from tests.planning.harness import build_request, build_state_after

_SKUS = ("NC_G6_28_v1", "NC_G12_56_v1", "NC_P22_112_v1", "NC_P46_224_v1")


class RandomPool(Struct):
    """Agent pool of a random site; `zones` None: all."""

    name: str
    count: int
    sku: str
    zones: Sequence[str] | None = None


class RandomCluster(Struct):
    """Cluster of a random site."""

    name: str
    pools: list[RandomPool]
    control_plane: int = 1
    version: str = "1.30.1"

    @property
    def address(self) -> Address:
        """Address of its block."""
        return parse_address(f"nexus_kubernetes_cluster.{self.name}")


class RandomSite(Struct):
    """Configuration of a site: machines by rack, clusters in order, and evacuated machines."""

    racks: Mapping[str, int]
    clusters: list[RandomCluster]
    evacuated: Sequence[str] = ()

    def render(self) -> str:
        """Return the configuration as text."""
        text = 'resource "nexus_site" "s" {}\n'
        for rack, count in self.racks.items():
            machines = "".join(
                f'  machine_override "{name}" {{\n    evacuate = true\n  }}\n'
                for name in self.evacuated
                if name.startswith(f"{rack}-")
            )
            text += f'resource "nexus_rack" "{rack}" {{\n  site_id = nexus_site.s.id\n'
            text += f'  name = "{rack}"\n  machine_count = {count}\n{machines}}}\n'
        return text + "".join(map(_render_cluster, self.clusters))

    def change_cluster(self, changed: RandomCluster) -> RandomSite:
        """Return the site with another cluster of this name."""
        clusters = [changed if each.name == changed.name else each for each in self.clusters]
        return replace(self, clusters=clusters)


class DrawnEdit(Struct):
    """Edits of a site, and the site that states the same, with options -replace."""

    edits: Sequence[Edit]
    written: RandomSite
    replaces: tuple[str, ...] = ()


class EditKind(Struct, frozen=True):
    """Kind of edit: its record, and a random one of a site. `is_new`: nothing is applied before."""

    edit: type
    draw: Callable[[random.Random, RandomSite, PlanResult], DrawnEdit]
    is_new: bool = False


def _render_cluster(cluster: RandomCluster) -> str:
    pools = "".join(
        f'  agent_pool "{pool.name}" {{\n    count = {pool.count}\n'
        f'    vm_sku_name = "{pool.sku}"\n    availability_zones = {json.dumps(pool.zones)}\n  }}\n'
        for pool in cluster.pools
    )
    return (
        f'resource "nexus_kubernetes_cluster" "{cluster.name}" {{\n  site_id = nexus_site.s.id\n'
        f'  kubernetes_version = "{cluster.version}"\n  control_plane {{\n'
        f'    count = {cluster.control_plane}\n    vm_sku_name = "NC_G6_28_v1"\n  }}\n{pools}}}\n'
    )


def draw_site(draw: random.Random) -> RandomSite:
    """Return a random site with room for changes of its clusters."""
    racks = {f"r{number}": draw.randint(2, 6) for number in range(draw.randint(2, 4))}
    clusters = [
        RandomCluster(
            f"c{number}",
            [
                RandomPool(
                    f"p{index}",
                    draw.randint(1, 4),
                    draw.choice(_SKUS),
                    draw.choice([None, None, draw.sample(sorted(racks), 2)]),
                )
                for index in range(draw.randint(1, 3))
            ],
            draw.choice([1, 3]),
        )
        for number in range(draw.randint(2, 4))
    ]
    return RandomSite(racks, clusters)


def _draw_count(draw: random.Random, site: RandomSite, _before: PlanResult) -> DrawnEdit:
    cluster = draw.choice(site.clusters)
    pool = draw.choice(cluster.pools)
    count = pool.count + draw.choice([-1, 1, 2])
    pools = [replace(each, count=count) if each is pool else each for each in cluster.pools]
    edit = ArgumentAdjustment(cluster.address, ("agent_pool", pool.name, "count"), count)
    return DrawnEdit([edit], site.change_cluster(replace(cluster, pools=pools)))


def _draw_zones(draw: random.Random, site: RandomSite, _before: PlanResult) -> DrawnEdit:
    cluster = draw.choice(site.clusters)
    pool = draw.choice(cluster.pools)
    zones = draw.choice([None, draw.sample(sorted(site.racks), 1)])
    pools = [replace(each, zones=zones) if each is pool else each for each in cluster.pools]
    edit = ArgumentAdjustment(
        cluster.address, ("agent_pool", pool.name, "availability_zones"), zones
    )
    return DrawnEdit([edit], site.change_cluster(replace(cluster, pools=pools)))


def _draw_version(draw: random.Random, site: RandomSite, _before: PlanResult) -> DrawnEdit:
    cluster = draw.choice(site.clusters)
    edit = ArgumentAdjustment(cluster.address, ("kubernetes_version",), "1.31.1")
    return DrawnEdit([edit], site.change_cluster(replace(cluster, version="1.31.1")))


def _draw_pool_order(draw: random.Random, site: RandomSite, _before: PlanResult) -> DrawnEdit:
    cluster = draw.choice(site.clusters)
    pools = draw.sample(cluster.pools, len(cluster.pools))
    names = [pool.name for pool in pools]
    edit = ArgumentAdjustment(cluster.address, ("agent_pool_order",), names)
    return DrawnEdit([edit], site.change_cluster(replace(cluster, pools=pools)))


def _draw_lost_machines(draw: random.Random, site: RandomSite, before: PlanResult) -> DrawnEdit:
    machines = sorted(before.sites["s"].machines)
    lost = tuple(draw.sample(machines, draw.randint(1, 3)))
    return DrawnEdit([LostMachines("s", lost)], replace(site, evacuated=lost))


def _draw_lost_rack(draw: random.Random, site: RandomSite, before: PlanResult) -> DrawnEdit:
    rack = draw.choice(sorted(site.racks))
    machines = before.sites["s"].machines.values()
    lost = tuple(machine.name for machine in machines if machine.rack == rack)
    return DrawnEdit([LostMachines("s", lost)], replace(site, evacuated=lost))


def _draw_outage(draw: random.Random, site: RandomSite, before: PlanResult) -> DrawnEdit:
    machines = sorted(before.sites["s"].machines)
    return DrawnEdit([MachineOutage("s", tuple(draw.sample(machines, 2)), "wave 1")], site)


def _draw_lost_node(draw: random.Random, site: RandomSite, before: PlanResult) -> DrawnEdit:
    cluster = draw.choice(site.clusters)
    vms = list(before.objects[cluster.address].placements.vms.values())
    name = f"{cluster.address}:{draw.choice(vms).name}"
    return DrawnEdit([VmReplacement(name)], site, (name,))


def _draw_removed_cluster(draw: random.Random, site: RandomSite, _before: PlanResult) -> DrawnEdit:
    cluster = draw.choice(site.clusters)
    clusters = [each for each in site.clusters if each is not cluster]
    return DrawnEdit([RemovedInstance(cluster.address)], replace(site, clusters=clusters))


def _draw_added_cluster(_draw: random.Random, site: RandomSite, _before: PlanResult) -> DrawnEdit:
    added = RandomCluster("new", [RandomPool("p0", 2, "NC_G12_56_v1")], 3)
    written = replace(site, clusters=[*site.clusters, added])
    # The block is written in a file of its own.
    files = {"main.nf.hcl": site.render(), "new.nf.hcl": _render_cluster(added)}
    return DrawnEdit([AddedBlocks(build_request(files).configuration)], written)


def _draw_order(draw: random.Random, site: RandomSite, _before: PlanResult) -> DrawnEdit:
    clusters = draw.sample(site.clusters, len(site.clusters))
    order = tuple(cluster.address for cluster in clusters)
    return DrawnEdit([PlacementOrder(order)], replace(site, clusters=clusters))


EDIT_KINDS: Mapping[str, EditKind] = {
    "argument": EditKind(ArgumentAdjustment, _draw_count),
    "zones": EditKind(ArgumentAdjustment, _draw_zones),
    "version": EditKind(ArgumentAdjustment, _draw_version),
    "order of pools": EditKind(ArgumentAdjustment, _draw_pool_order, is_new=True),
    "lost machines": EditKind(LostMachines, _draw_lost_machines),
    "lost rack": EditKind(LostMachines, _draw_lost_rack),
    "outage": EditKind(MachineOutage, _draw_outage),
    "lost node": EditKind(VmReplacement, _draw_lost_node),
    "removed block": EditKind(RemovedInstance, _draw_removed_cluster),
    "added block": EditKind(AddedBlocks, _draw_added_cluster),
    "order": EditKind(PlacementOrder, _draw_order, is_new=True),
}


def find_difference(name: str, seed: int) -> str | None:
    """Return how a hypothesis differs from the plan of the written configuration.

    Return "" for equal VMs on equal machines and cells, and None if the random site has
    no such plan.
    """
    kind = EDIT_KINDS[name]
    draw = random.Random(f"{name} {seed}")
    site = draw_site(draw)
    created = make_plan(build_request(site.render()))
    if created.plan.errored:
        return None
    state = EMPTY if kind.is_new else build_state_after(created)
    drawn = kind.draw(draw, site, created)
    hypothesis = plan_hypothesis(build_request(site.render(), state), drawn.edits).after
    written_request = build_request(drawn.written.render(), state, replaces=drawn.replaces)
    written = make_plan(written_request)
    # A hypothetical plan shows what fits.
    fails = hypothesis.plan.errored or bool(hypothesis.unplaced)
    if fails != written.plan.errored:
        return f"errors: {fails}, written: {written.plan.errored}"
    if written.plan.errored:
        return None
    places, written_places = locate_vms(hypothesis), locate_vms(written)
    names = sorted(places.keys() | written_places.keys())
    return "\n".join(
        f"{vm}: {places.get(vm)}, written: {written_places.get(vm)}"
        for vm in names
        if places.get(vm) != written_places.get(vm)
    )


def locate_vms(result: PlanResult) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return machine and cells of each VM after a plan, by address and name."""
    return {
        f"{address}:{vm.name}": (vm.placement.machine, tuple(vm.placement.cells))
        for address, vm_object in result.objects.items()
        if not vm_object.instance.is_removed
        for vm in vm_object.placements.vms.values()
    }
