"""Clusters reduced from several racks to one by the plan: loss of that rack stops them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity
from nexusform.diagnostics.phrases import format_count
from nexusform.planning.vm_planning.vm_object import VmObject

RACK_CONCENTRATION = "cluster-on-one-rack"


class _ClusterRacks(Struct):
    # Racks of a cluster on both sides, and its number of VMs afterwards.
    first_object: VmObject
    before: set[str] = field(default_factory=set)
    after: set[str] = field(default_factory=set)
    vms: int = 0


def check_rack_concentration(objects: Iterable[VmObject]) -> Iterator[Diagnostic]:
    """Yield a warning for every cluster (or VNF) of several VMs that keeps only one of its racks; a separate
    pool counts with its cluster.
    """
    clusters: dict[str, _ClusterRacks] = {}
    for vms in objects:
        if vms.request.demand is None or vms.is_removed:
            continue
        racks = clusters.setdefault(vms.request.demand.owner, _ClusterRacks(vms))
        racks.before |= vms.list_prior_racks()
        racks.after |= vms.list_racks()
        racks.vms += len(vms.list_vms())
    for racks in clusters.values():
        if racks.vms > 1 and len(racks.after) == 1 < len(racks.before):
            yield _build_single_rack_warning(racks)


def _build_single_rack_warning(racks: _ClusterRacks) -> Diagnostic:
    demand = racks.first_object.request.demand
    assert demand is not None
    (rack,) = racks.after
    summary = f"{demand.cluster}: all of its VMs will be on {rack}; losing that rack takes it down"
    detail = (
        f"{demand.cluster} runs on {format_count(len(racks.before), 'rack')}, and this plan leaves all of "
        f"its {format_count(racks.vms, 'VM')} on {rack}: losing that rack takes the whole cluster down. "
        "Rules do not move VMs back later: re-place some then (-replace=ADDRESS:VM), or open another "
        "rack first."
    )
    return racks.first_object.instance.build_diagnostic(
        Problem((), RACK_CONCENTRATION, detail, Severity.WARNING, brief=summary)
    )
