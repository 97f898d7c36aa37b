"""What is known of a machine beside its hardware: one table, from which machines, the overrides of racks and
what an inventory shows have their attributes, and which says why a machine takes no new VM.

Schedulable = compute-plane, not evacuating, Uncordoned, On, ready, Provisioned. cordonStatus alone is not
enough: a spare control-plane machine may be Uncordoned and still take no tenant VM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.schema import Attribute
from nexusform.value_types import BOOL, STRING, SetType

COMPUTE_PLANE: Final = "compute-plane"
CORDONED: Final = "cordoned"
EVACUATING: Final = "being evacuated"
_OFF: Final = "powered off"
_NOT_READY: Final = "not ready"
_NOT_PROVISIONED: Final = "not provisioned"
_NOBODY_ASKED: Final = (_OFF, _NOT_READY, _NOT_PROVISIONED)  # reasons that nobody gave it on purpose
DETAILED_STATUSES: Final = (
    "Available",
    "Deprovisioning",
    "Error",
    "Preparing",
    "Provisioned",
    "Provisioning",
)


class Switch(Struct, frozen=True):
    """How machine_override of a rack says a fact: an argument that is true or false, and what true means."""

    name: str
    description: str
    means: Any


class MachineFact(Struct, frozen=True):
    """One fact about a machine.

    `attribute` is that of nexus_bare_metal_machine called `name`. `refusal` gives the words why a machine of
    which this is so takes no new VM; "" where it does. `switch` is how racks say it
    of their machines. `exported` is its field in an export, "" where none tells; `absent` what an export
    without that field means (a machine then counts as not ready), None where the default will do.
    """

    name: str
    attribute: Attribute
    refusal: Callable[[Any], str]
    switch: Switch | None = None
    exported: str = ""
    absent: str | None = None


def is_compute_plane(role: str) -> bool:
    """Whether a role is compute-plane: plainly, or `platform.afo-nc.microsoft.com/compute-plane=true`."""
    name, _, flag = role.lower().rpartition("/")[2].partition("=")
    return name == COMPUTE_PLANE and flag in {"", "true"}


def _refusal_of_roles(roles: Any) -> str:
    if any(map(is_compute_plane, roles)):
        return ""
    listed = ", ".join(sorted(roles))
    return f"not a compute-plane machine (roles: {listed})" if listed else "without the role compute-plane"


def _refusal_of_status(status: Any) -> str:
    return "" if status.lower() == "provisioned" else f'{_NOT_PROVISIONED} (detailed status "{status}")'


def _status(description: str, default: str, choices: tuple[str, ...] = ()) -> Attribute:
    return Attribute(
        STRING, description, optional=True, default=default, choices=choices, decides_placement=True
    )


# In the order in which reasons are named ("cordoned, powered off").
MACHINE_FACTS: Final[tuple[MachineFact, ...]] = (
    MachineFact(
        "roles",
        Attribute(
            SetType(STRING),
            "Roles. Only compute-plane machines run VMs.",
            optional=True,
            default=[COMPUTE_PLANE],
            decides_placement=True,
        ),
        _refusal_of_roles,
        exported="machineRoles",
    ),
    MachineFact(
        "evacuate",
        Attribute(
            BOOL,
            "Re-place its VMs and accept no new ones.",
            optional=True,
            default=False,
            decides_placement=True,
        ),
        lambda is_so: EVACUATING if is_so else "",
        Switch("evacuate", "Re-place the machine's VMs and accept no new ones.", means=True),
    ),
    MachineFact(
        "cordon_status",
        _status("Whether it accepts new VMs.", "Uncordoned", ("Uncordoned", "Cordoned")),
        lambda status: CORDONED if status == "Cordoned" else "",
        Switch("cordoned", "The machine accepts no new VMs; existing VMs stay.", means="Cordoned"),
        exported="cordonStatus",
        absent="Uncordoned",
    ),
    MachineFact(
        "power_state",
        _status("Whether it is powered on.", "On", ("On", "Off")),
        lambda state: "" if state.lower() == "on" else _OFF,
        exported="powerState",
        absent="On",
    ),
    MachineFact(
        "ready_state",
        Attribute(
            STRING,
            "Whether it is ready for VMs. Accepts a bool.",
            optional=True,
            default="True",
            pattern="(?i:true|false)",
            pattern_hint='"True" or "False"',
            decides_placement=True,
        ),
        lambda state: "" if state.lower() == "true" else _NOT_READY,
        exported="readyState",
        absent="False",
    ),
    MachineFact(
        "detailed_status",
        _status(
            f"Detailed status: {', '.join(DETAILED_STATUSES)}. Only Provisioned machines take new VMs.",
            "Provisioned",
        ),
        _refusal_of_status,
        exported="detailedStatus",
        absent="Provisioned",
    ),
)
EXPORTED_FACTS: Final = tuple(fact for fact in MACHINE_FACTS if fact.exported)


def fact_attributes() -> dict[str, Attribute]:
    """The attributes of nexus_bare_metal_machine, by name."""
    return {fact.name: fact.attribute for fact in MACHINE_FACTS}


def switch_attributes() -> dict[str, Attribute]:
    """The arguments of machine_override of a rack, by name."""
    switches = sorted((fact.switch for fact in MACHINE_FACTS if fact.switch), key=lambda each: each.name)
    return {
        each.name: Attribute(BOOL, each.description, optional=True, default=False, decides_placement=True)
        for each in switches
    }


def facts_of_override(override: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that a machine_override block says."""
    switches = [(fact.name, fact.switch) for fact in MACHINE_FACTS if fact.switch]
    return {name: switch.means for name, switch in switches if override.get(switch.name) is True}


def default_facts() -> dict[str, Any]:
    """The facts of a machine of which nothing is said."""
    return {fact.name: fact.attribute.default for fact in MACHINE_FACTS}


def refusal_of(facts: Mapping[str, Any]) -> str:
    """Why a machine takes no new VM, every reason named, or "" when it is schedulable. A fact that is not
    there is as its default.
    """
    said = {**default_facts(), **{name: value for name, value in facts.items() if value is not None}}
    reasons = [fact.refusal(said[fact.name]) for fact in MACHINE_FACTS]
    return ", ".join(filter(None, reasons))


def unwell_of(refusal: str) -> str:
    """Of the reasons why a machine takes no new VM those that nobody gave it on purpose: what is wrong with
    it, "" for one that is well.
    """
    return ", ".join(reason for reason in refusal.split(", ") if reason.startswith(_NOBODY_ASKED))
