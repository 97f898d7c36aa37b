"""Members of a hub that is there: a plan has a say in their labels and taints, and in nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from nexusform.domains.fleet.importers.fleet_model import FleetMember
from nexusform.planning.instances.instance import Instance


def as_it_will_be(instance: Instance, written: FleetMember, shown: Mapping[str, FleetMember]) -> FleetMember:
    """A member that is written: where a provider writes it to a hub, as that shows it beside what is
    written.
    """
    on_hub = shown.get(written.name)
    if on_hub is None or instance.block is None or not instance.block.provider:
        return written
    return _over_shown(written, on_hub, _former(instance))


def _former(instance: Instance) -> FleetMember | None:
    """The member as it was written before."""
    former = instance.type.fleet(instance.before) if instance.type.fleet and instance.before else None
    return former if isinstance(former, FleetMember) else None


def _over_shown(written: FleetMember, shown: FleetMember, former: FleetMember | None) -> FleetMember:
    """A member as the hub shows it, with the labels and taints that are written for it; what was written and
    is not any more goes. Taints are one list.
    """
    dropped = (former.labels.keys() if former is not None else set()) - written.labels.keys()
    labels = {name: value for name, value in shown.labels.items() if name not in dropped}
    had_taints = former is not None and bool(former.taints)
    taints = written.taints if written.taints or had_taints else shown.taints
    return replace(shown, labels={**labels, **written.labels}, taints=taints, apply_fails=written.apply_fails)
