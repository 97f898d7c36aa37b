"""A simulation as steps on the map of a site."""

from msgspec import Struct

from nexusform.rendering.report.rack_map import SiteMap


class PoolEffect(Struct, frozen=True):
    """Effect of a step on a pool: the pool, a text, and whether the remaining number is too low."""

    pool: str
    text: str
    is_insufficient: bool = False


class PlaybackStep(Struct, frozen=True):
    """One step of a simulation: title, failed machines, affected VMs and pools.

    `affected_vms` are numbers of VMs of a site, and `figures` the effects on pools.
    """

    title: str
    failed_machines: tuple[str, ...] = ()
    affected_vms: tuple[int, ...] = ()
    figures: tuple[PoolEffect, ...] = ()


class Playback(Struct, frozen=True):
    """A simulation on the map of a site.

    `moved_label` and `removed_label` describe the affected VMs.
    """

    site: SiteMap
    steps: tuple[PlaybackStep, ...]
    moved_label: str = ""
    removed_label: str = ""
