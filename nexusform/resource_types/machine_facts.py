"""Facts about a machine besides its hardware. One table defines the attributes of machines, the overrides of
racks and the attributes from an inventory, and the reasons that a machine takes no new VM. Schedulable =
compute-plane, not evacuating, Uncordoned, On, ready, Provisioned. cordonStatus alone is not enough: a spare
control-plane machine may be Uncordoned and still take no tenant VM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.schemas.block_schema import AttributeSchema
from nexusform.schemas.value_types import BOOL, STRING, SetType

COMPUTE_PLANE: Final = "compute-plane"
CORDONED: Final = "cordoned"
EVACUATING: Final = "being evacuated"
_OFF: Final = "powered off"
_NOT_READY: Final = "not ready"
_NOT_PROVISIONED: Final = "not provisioned"
_HEALTH_REASONS: Final = (_OFF, _NOT_READY, _NOT_PROVISIONED)  # reasons that are not set on purpose
DETAILED_STATUSES: Final = ("Available", "Deprovisioning", "Error", "Preparing", "Provisioned", "Provisioning")


class OverrideSwitch(Struct, frozen=True):
    """Argument of a rack's machine_override for a fact: true or false, with the fact's value for true."""

    name: str
    description: str
    value: Any


class MachineFact(Struct, frozen=True):
    """One fact about a machine. `attribute` is that of nexus_bare_metal_machine with this `name`.
    `find_reason` returns the reason that a machine with this value takes no new VM; "" for none. `switch` is
    the override argument of racks. `export_field` is its field in an export, "" for none; `absent_value` is
    the value if an export lacks that field (the machine then counts as not ready), None for the default.
    """

    name: str
    attribute: AttributeSchema
    find_reason: Callable[[Any], str]
    switch: OverrideSwitch | None = None
    export_field: str = ""
    absent_value: str | None = None


def is_compute_plane(role: str) -> bool:
    """Return whether a role is compute-plane: plain, or
    `platform.afo-nc.microsoft.com/compute-plane=true`.
    """
    name, _, flag = role.lower().rpartition("/")[2].partition("=")
    return name == COMPUTE_PLANE and flag in {"", "true"}


def _check_roles(roles: Any) -> str:
    if any(map(is_compute_plane, roles)):
        return ""
    role_list = ", ".join(sorted(roles))
    return f"not a compute-plane machine (roles: {role_list})" if role_list else "without the role compute-plane"


def _check_status(status: Any) -> str:
    return "" if status.lower() == "provisioned" else f'{_NOT_PROVISIONED} (detailed status "{status}")'


def _build_status(description: str, default: str, choices: tuple[str, ...] = ()) -> AttributeSchema:
    return AttributeSchema(STRING, description, optional=True, default=default, choices=choices, decides_placement=True)


# In the order in which reasons are named ("cordoned, powered off").
MACHINE_FACTS: Final[tuple[MachineFact, ...]] = (
    MachineFact(
        "roles",
        AttributeSchema(
            SetType(STRING),
            "Roles. Only compute-plane machines run VMs.",
            optional=True,
            default=[COMPUTE_PLANE],
            decides_placement=True,
        ),
        _check_roles,
        export_field="machineRoles",
    ),
    MachineFact(
        "evacuate",
        AttributeSchema(
            BOOL, "Re-place its VMs and accept no new ones.", optional=True, default=False, decides_placement=True
        ),
        lambda is_so: EVACUATING if is_so else "",
        OverrideSwitch("evacuate", "Re-place the machine's VMs and accept no new ones.", value=True),
    ),
    MachineFact(
        "cordon_status",
        _build_status("Whether it accepts new VMs.", "Uncordoned", ("Uncordoned", "Cordoned")),
        lambda status: CORDONED if status == "Cordoned" else "",
        OverrideSwitch("cordoned", "The machine accepts no new VMs; existing VMs stay.", value="Cordoned"),
        export_field="cordonStatus",
        absent_value="Uncordoned",
    ),
    MachineFact(
        "power_state",
        _build_status("Whether it is powered on.", "On", ("On", "Off")),
        lambda state: "" if state.lower() == "on" else _OFF,
        export_field="powerState",
        absent_value="On",
    ),
    MachineFact(
        "ready_state",
        AttributeSchema(
            STRING,
            "Whether it is ready for VMs. Accepts a bool.",
            optional=True,
            default="True",
            pattern="(?i:true|false)",
            pattern_hint='"True" or "False"',
            decides_placement=True,
        ),
        lambda state: "" if state.lower() == "true" else _NOT_READY,
        export_field="readyState",
        absent_value="False",
    ),
    MachineFact(
        "detailed_status",
        _build_status(
            f"Detailed status: {', '.join(DETAILED_STATUSES)}. Only Provisioned machines take new VMs.", "Provisioned"
        ),
        _check_status,
        export_field="detailedStatus",
        absent_value="Provisioned",
    ),
)
EXPORTED_FACTS: Final = tuple(fact for fact in MACHINE_FACTS if fact.export_field)


def build_fact_attributes() -> dict[str, AttributeSchema]:
    """Return the attributes of nexus_bare_metal_machine, by name."""
    return {fact.name: fact.attribute for fact in MACHINE_FACTS}


def build_switch_attributes() -> dict[str, AttributeSchema]:
    """Return the arguments of a rack's machine_override, by name."""
    switches = sorted((fact.switch for fact in MACHINE_FACTS if fact.switch), key=lambda switch: switch.name)
    return {
        switch.name: AttributeSchema(BOOL, switch.description, optional=True, default=False, decides_placement=True)
        for switch in switches
    }


def read_override(override: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts set by a machine_override block."""
    switches = [(fact.name, fact.switch) for fact in MACHINE_FACTS if fact.switch]
    return {name: switch.value for name, switch in switches if override.get(switch.name) is True}


def get_default_facts() -> dict[str, Any]:
    """Return the default facts of a machine."""
    return {fact.name: fact.attribute.default for fact in MACHINE_FACTS}


def find_unschedulable_reasons(facts: Mapping[str, Any]) -> str:
    """Return all reasons that a machine takes no new VM; "" if it is schedulable."""
    values = {**get_default_facts(), **{name: value for name, value in facts.items() if value is not None}}
    reasons = [fact.find_reason(values[fact.name]) for fact in MACHINE_FACTS]
    return ", ".join(filter(None, reasons))


def find_health_reasons(reasons: str) -> str:
    """Return the health problems of the machine; "" for a healthy one."""
    return ", ".join(reason for reason in reasons.split(", ") if reason.startswith(_HEALTH_REASONS))
