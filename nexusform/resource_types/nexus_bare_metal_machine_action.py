"""nexus_bare_metal_machine_action: one run of a lifecycle action on a machine."""

from collections.abc import Mapping
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Problem
from nexusform.interfaces.plugins import PlanningKind, ResourceType
from nexusform.resource_types.shared_arguments import (
    POOL_AZURE_BLOCK,
    build_id_attribute,
    build_id_builder,
    build_optional_argument,
    build_required_argument,
)
from nexusform.scheduling.machine_actions import ACTION_KINDS, MACHINE_ACTION_TYPE, SUCCEEDED
from nexusform.scheduling.site_inventory import PlanInventory
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, ObjectReference, OnChange
from nexusform.schemas.value_types import BOOL, STRING
from nexusform.values.typed_value import UNKNOWN

_SCHEMA: Final = BlockSchema(
    {
        "id": build_id_attribute("<machine id>/<action>"),
        "machine_id": build_required_argument(
            STRING,
            "Id of the machine: `<site>/<rack>/<machine>`.",
            on_change=OnChange.REPLACE,
            refers_to=ObjectReference(("nexus_bare_metal_machine",)),
        ),
        "action": build_required_argument(
            STRING, "Action to run once.", choices=tuple(ACTION_KINDS), on_change=OnChange.REPLACE
        ),
        "run_id": AttributeSchema(
            STRING,
            "Any text. A new one runs the action again.",
            optional=True,
            on_change=OnChange.REPLACE,
        ),
        "allow_workloads": build_optional_argument(
            BOOL,
            (
                "Run it while VMs use the machine. They stop, and start again there. After "
                "PowerOff they stay down."
            ),
            default=False,
        ),
        "started": AttributeSchema(
            STRING, "Start of the last run, RFC 3339.", computed=True, observed=True
        ),
        "finished": AttributeSchema(
            STRING, "End of the last run, RFC 3339.", computed=True, observed=True
        ),
        "result": AttributeSchema(
            STRING, "Result: Succeeded or Failed.", computed=True, observed=True
        ),
    },
    {"azure": POOL_AZURE_BLOCK},
    "One run of a lifecycle action on a bare-metal machine. Removing the block sends nothing.",
)
build_id: Final = build_id_builder("machine_id", "action")


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Check the form of the machine id, and the action of an azure block."""
    problems = []
    machine_id = attributes.get("machine_id")
    if isinstance(machine_id, str) and machine_id.count("/") != 2:
        detail = (
            f'"{machine_id}" is not a machine id. Write it as "SITE/RACK/MACHINE", or refer to a '
            "machine."
        )
        problems.append(Problem(("machine_id",), "unknown-machine", detail))
    if attributes.get("azure") and attributes.get("action") not in ("Replace", UNKNOWN):
        detail = "Only Replace has a body with further properties. Remove the azure block."
        problems.append(Problem(("azure",), "invalid-azure-body", detail))
    return problems


def add_to_inventory(
    attributes: Mapping[str, Any], address: str, inventory: PlanInventory
) -> list[Problem]:
    """Keep new VMs off a machine with a pending action.

    Two blocks for one action are a problem.
    """
    machine_id = attributes.get("machine_id")
    action = attributes.get("action")
    if not isinstance(machine_id, str) or not isinstance(action, str):
        # Unknown in this plan.
        return []
    first = inventory.addresses_by_name.setdefault(
        (MACHINE_ACTION_TYPE, machine_id, action), address
    )
    if first != address:
        detail = f"{first} runs {action} on this machine already. Remove one of the two blocks."
        return [Problem(("machine_id",), "duplicate-machine-action", detail)]
    # Until then the state of the machine is unknown.
    if attributes.get("result") != SUCCEEDED:
        inventory.pending_actions.add(machine_id)
    return []


NEXUS_BARE_METAL_MACHINE_ACTION: Final = ResourceType(
    MACHINE_ACTION_TYPE,
    3,
    _SCHEMA,
    build_id,
    check=check,
    add_to_inventory=add_to_inventory,
    kind=PlanningKind.MACHINE_ACTION,
)
