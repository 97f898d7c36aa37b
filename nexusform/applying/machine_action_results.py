"""Effect of a machine action on the observed facts in the private note of its machine: all of them without a
site, and the owner of a cordon.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from nexusform.applying.provider_calls import ProviderCall, merge_note
from nexusform.interfaces.plugins import ChangeResult
from nexusform.scheduling.machine_actions import ACTION_KINDS, MACHINE_ACTION_TYPE, compute_facts_after
from nexusform.scheduling.site_inventory import OBSERVED_KEY
from nexusform.state.journal import InstanceOutcome
from nexusform.state.objects import State

_RACK: Final = "nexus_rack"
_MACHINE: Final = "nexus_bare_metal_machine"


def build_machine_outcome(call: ProviderCall, answer: ChangeResult | None, state: State) -> InstanceOutcome | None:
    """Return the machine of an action with its new facts; None for other steps. A machine without a resource of
    its own is one of its rack. A provider with a site observes all but the owner of a cordon.
    """
    if call.key.type != MACHINE_ACTION_TYPE or answer is None:
        return None
    values = answer.attributes
    if call.provider.sends_changes and ACTION_KINDS[str(values.get("action"))].is_disruptive:
        return None
    machine_id = str(values.get("machine_id"))
    rack_id, _, name = machine_id.rpartition("/")
    owner_ids = {_MACHINE: machine_id, _RACK: rack_id}
    for kind, owner_id in owner_ids.items():
        for address, instance in state.instances.items():
            current = instance.current
            if current is None or address.type != kind or current.attributes.get("id") != owner_id:
                continue
            note: Mapping[str, Any] = (current.private or {}).get(OBSERVED_KEY) or {}
            before = note if kind == _MACHINE else note.get(name) or {}
            arguments = current.attributes if kind == _MACHINE else {}
            facts = compute_facts_after(str(values.get("action")), {**arguments, **before}, str(values.get("finished")))
            updated = merge_note(current, {OBSERVED_KEY: facts if kind == _MACHINE else {**note, name: facts}})
            return InstanceOutcome(address, current.creation, replace(instance, current=updated))
    return None
