"""Line about machines out of service, per site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from nexusform.plans.plan import Plan
from nexusform.plans.site_capacity.occupancy import OutOfService, SiteVms, list_out_of_service
from nexusform.scheduling.machine_actions import ACTION_PENDING
from nexusform.scheduling.racks.vms import MachineStatus

_MAX_GROUPS: Final = 5
_AZURE: Final = "azure"
_TEMPORARY_REASONS: Final = {"", "being evacuated", ACTION_PENDING}
_OWNERS: Final = {"nexusform": "nexusform", _AZURE: "Azure"}
_AZURE_RULE: Final = (
    "Azure cordons a degraded compute machine after 15 minutes. Azure uncordons a recovered machine after 2 hours."
)


def describe_out_of_service(plan: Plan) -> Iterator[str]:
    """Yield a line per site: `Out of service: 5 of 16 machines (4 Off: BMC unreachable; ...). Capacity ...`."""
    for site_id, group in groupby(list_out_of_service(plan.sites), key=lambda row: row.site_id):
        rows = list(group)
        site = next(site for site in plan.sites if site.id == site_id)
        place = f" on {site.name}" if len(plan.sites) > 1 else ""
        total = _count_compute_machines(site)
        sentences = [f"Out of service{place}: {len(rows):,} of {total:,} machines ({_describe_groups(rows)})."]
        capacity = next((row.after for row in plan.capacity if row.site_id == site_id), None)
        if capacity is not None:
            reduced = capacity.free_interval_after_rack_loss
            sentences.append(f"Capacity without them: {capacity.free_interval} ({reduced} with one rack down).")
        if any(row.status.cordoned_by == _AZURE for row in rows):
            sentences.append(_AZURE_RULE)
        yield " ".join(sentences)


def _count_compute_machines(site: SiteVms) -> int:
    """Count the compute machines of active racks: in service, or with a status."""
    planned_racks = {rack.name for rack in site.racks if rack.is_planned}
    return sum(
        machine.exists_after
        and machine.facts.rack not in planned_racks
        and (
            machine.facts.status is not None
            or set(machine.facts.unschedulable_reason.split(", ")) <= _TEMPORARY_REASONS
        )
        for machine in site.machines
    )


def _describe_groups(rows: Sequence[OutOfService]) -> str:
    """Return `4 Off: BMC unreachable; 1 cordoned by Azure: Degraded: port down`, the largest group first."""
    groups = Counter(_describe_status(row.status) for row in rows)
    ordered = sorted(groups.items(), key=lambda entry: (-entry[1], entry[0]))
    texts = [f"{count:,} {text}" for text, count in ordered[:_MAX_GROUPS]]
    remaining = sum(count for _, count in ordered[_MAX_GROUPS:])
    return "; ".join([*texts, f"{remaining:,} more"] if remaining else texts)


def _describe_status(status: MachineStatus) -> str:
    """Return the main reason, and the message of the platform."""
    if status.power_state.lower() == "off":
        text = "Off"
    elif status.detailed_status.lower() != "provisioned":
        text = status.detailed_status
    elif status.ready_state.lower() != "true":
        text = "not ready"
    else:
        text = f"cordoned by {_OWNERS.get(status.cordoned_by or '', 'another manager')}"
    return f"{text}: {status.message.rstrip('.')}" if status.message else text
