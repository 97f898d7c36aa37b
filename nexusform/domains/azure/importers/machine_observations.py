"""Observed facts of machines. The note `observed` of a machine in state has its power_state, ready_state,
detailed_status, message, cordon_status, cordoned_by and since; the note of a rack has one such entry per
generated machine. Facts are recorded, never planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from nexusform.domains.azure.importers.az_records import AzMachine
from nexusform.resource_types.machine_facts import CORDONED_STATUS, CordonOwner, find_observed_reasons
from nexusform.scheduling.machine_actions import CORDONED_BY_ACTION
from nexusform.scheduling.site_inventory import OBSERVED_KEY

_DEGRADED: Final = "degraded"  # Azure cordons compute machines with such a message
_FACTS: Final = ("power_state", "ready_state", "detailed_status", "cordon_status")
Values: TypeAlias = Mapping[str, Any]


def build_machine_observation(machine: AzMachine, before: Values, time: str | None, *, is_requested: bool) -> Values:
    """Build the record of a machine. `before` is its last record; `is_requested`: the applied arguments cordon
    it. `since` is the time of the first read with this status, None for a machine in service.
    """
    record: dict[str, Any] = {name: machine.facts[name] for name in _FACTS}
    record["message"] = machine.status_message
    record["cordoned_by"] = _find_cordon_owner(record, before, is_requested=is_requested)
    if record["cordoned_by"] == CordonOwner.NEXUSFORM and before.get(CORDONED_BY_ACTION) and not is_requested:
        record[CORDONED_BY_ACTION] = True
    is_unchanged = all(before.get(name) == record[name] for name in (*_FACTS, "message"))
    since = (before.get("since") or time) if is_unchanged else time
    record["since"] = since if find_observed_reasons(record) else None
    return record


def _find_cordon_owner(record: Values, before: Values, *, is_requested: bool) -> str | None:
    """Find the owner of a cordon; None without a cordon."""
    if record["cordon_status"] != CORDONED_STATUS:
        return None
    if before.get("cordon_status") == CORDONED_STATUS and before.get("cordoned_by"):
        return str(before["cordoned_by"])
    if is_requested:
        return CordonOwner.NEXUSFORM
    return CordonOwner.AZURE if _DEGRADED in (record["message"] or "").lower() else CordonOwner.OTHER


def build_observed_facts_note(
    attributes: Values, machines: Mapping[str, AzMachine], recorded_note: Values, time: str | None
) -> Values:
    """Build the note of a rack or machine from the machines of its site by name; {} if none is listed."""
    before = recorded_note.get(OBSERVED_KEY) or {}
    if "rack_id" in attributes:
        machine = machines.get(str(attributes["name"]))
        if machine is None:
            return {}
        is_requested = attributes.get("cordoned") is True or attributes.get("evacuate") is True
        return {OBSERVED_KEY: build_machine_observation(machine, before, time, is_requested=is_requested)}
    overrides = attributes.get("machine_override") or {}
    records = {}
    for name in attributes.get("machines") or ():
        if name in machines:
            override = overrides.get(name) or {}
            is_requested = override.get("cordoned") is True or override.get("evacuate") is True
            records[name] = build_machine_observation(
                machines[name], before.get(name) or {}, time, is_requested=is_requested
            )
    return {OBSERVED_KEY: records or None}
