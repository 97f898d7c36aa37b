"""Clusters that stood on several racks and stand on one after the plan: its loss takes them down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from nexusform.diagnostics import Diagnostic, Problem, Severity
from nexusform.planning.vms.vm_object import VmObject
from nexusform.words import counted

ON_ONE_RACK = "cluster-comes-to-one-rack"


class _Racks(Struct):
    # The racks of a cluster on both sides, and how many VMs it has afterwards.
    first: VmObject
    before: set[str] = field(default_factory=set)
    after: set[str] = field(default_factory=set)
    vms: int = 0


def on_one_rack(objects: Iterable[VmObject]) -> Iterator[Diagnostic]:
    """A warning for every cluster (or VNF) of several VMs that keeps one rack of those that it stood on; a
    separate pool counts with its cluster.
    """
    clusters: dict[str, _Racks] = {}
    for vms in objects:
        if vms.asked.demand is None or vms.going:
            continue
        racks = clusters.setdefault(vms.asked.demand.owner, _Racks(vms))
        racks.before |= vms.racks_before()
        racks.after |= vms.racks_after()
        racks.vms += len(vms.vms_after())
    for racks in clusters.values():
        if racks.vms > 1 and len(racks.after) == 1 < len(racks.before):
            yield _warning(racks)


def _warning(racks: _Racks) -> Diagnostic:
    demand = racks.first.asked.demand
    assert demand is not None
    (rack,) = racks.after
    brief = f"{demand.cluster}: all of its VMs are on {rack} from now on; the loss of that rack takes it down"
    detail = (
        f"{demand.cluster} stands on {counted(len(racks.before), 'rack')}, and this plan leaves all of its "
        f"{counted(racks.vms, 'VM')} on {rack}: the loss of that rack takes the whole of it down. A rule "
        "moves no VM back when another rack opens: heal some then (-replace=ADDRESS:VM), or give it another "
        "rack before this one is emptied."
    )
    return racks.first.instance.problem(Problem((), ON_ONE_RACK, detail, Severity.WARNING, brief=brief))
