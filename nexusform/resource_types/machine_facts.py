"""Facts about a machine, and its hardware.

The hardware is that of a machine SKU of the catalogue, or of its own `machine` block.

One table defines the attributes of machines, the overrides of racks and the attributes from an
inventory, and the reasons that a machine takes no new VM. Schedulable = compute-plane, not
evacuating, Uncordoned, On, ready, Provisioned. cordonStatus alone is not enough: a spare
control-plane machine may be Uncordoned and still take no tenant VM. Under providers of real sites,
cordonStatus, powerState, readyState and detailedStatus are computed and never planned.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, suggest_name
from nexusform.resource_types.shared_arguments import (
    build_optional_argument,
    build_placement_number,
    build_required_argument,
    check_whole_numbers,
    is_set_and_known,
)
from nexusform.scheduling.machine_actions import CORDONED_BY_ACTION
from nexusform.scheduling.racks.vms import (
    UNKNOWN_STATE,
    VFS_PER_CELL,
    Machine,
    MachineSku,
    MachineStatus,
    UnschedulableReason,
    VmSku,
    join_reasons,
)
from nexusform.scheduling.sku_catalogue import CATALOGUES, DEFAULT_MACHINE_SKU, NEWEST
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, NestedBlock, Nesting
from nexusform.schemas.value_types import BOOL, NUMBER, STRING, ObjectType, SetType

COMPUTE_PLANE: Final = "compute-plane"
CORDONED: Final = "cordoned"
CORDONED_STATUS: Final = "Cordoned"
UNCORDONED: Final = "Uncordoned"
EVACUATING: Final = "being evacuated"
# Names of facts.
ROLES: Final = "roles"
EVACUATE: Final = "evacuate"
CORDON_FACTS: Final = ("cordoned", "cordon_status")
# Rank of an unknown fact of the health of a machine among the reasons.
_UNKNOWN_RANK: Final = 1
DETAILED_STATUSES: Final = (
    "Available",
    "Deprovisioning",
    "Error",
    "Preparing",
    "Provisioned",
    "Provisioning",
)


class CordonOwner(StrEnum):
    """Owner of a cordon.

    Azure cordons degraded compute machines.
    """

    NEXUSFORM = "nexusform"
    AZURE = "azure"
    OTHER = "other"


class MachineFact(Struct, frozen=True):
    """One fact about a machine.

    `attribute` is that of nexus_bare_metal_machine with this `name`. `find_reason` returns the
    reason that a machine with this value takes no new VM; "" for none. `rank`, `is_health` and
    `find_title` (a short form of the reason) are those of the UnschedulableReason. `is_override`
    means that it is also an argument of a rack's machine_override. `export_field` is its field in
    an export, "" for none; an absent one is UNKNOWN_STATE.
    """

    name: str
    attribute: AttributeSchema
    find_reason: Callable[[Any], str]
    rank: int
    is_health: bool = False
    find_title: Callable[[Any], str] | None = None
    is_override: bool = False
    export_field: str = ""

    def build_reasons(self, value: Any) -> tuple[UnschedulableReason, ...]:
        """Return the reason that a machine with this value takes no new VM, if any."""
        if value == UNKNOWN_STATE:
            unknown_reason = UnschedulableReason(
                "in an unknown state", self.name, UNKNOWN_STATE, rank=_UNKNOWN_RANK, is_health=True
            )
            return (unknown_reason,)
        text = self.find_reason(value)
        if not text:
            return ()
        title = self.find_title(value) if self.find_title is not None else ""
        reason = UnschedulableReason(
            text, self.name, _format_fact_value(value), title, self.rank, is_health=self.is_health
        )
        return (reason,)


def _format_fact_value(value: Any) -> str:
    """Return the value of a fact as text, as JSON writes a bool; the roles sorted."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    return ", ".join(sorted(value))


def list_role_names(roles: Any) -> tuple[str, ...]:
    """Return the short names of roles, sorted.

    `platform.afo-nc.microsoft.com/control-plane=true` is control-plane.
    """
    names = set()
    for role in roles or ():
        # Without the prefix: `control-plane=true`.
        label = role.lower().rpartition("/")[2]
        name, _, flag = label.partition("=")
        # A role may be set to false.
        if flag in ("", "true"):
            names.add(name)
    return tuple(sorted(names))


def _explain_wrong_roles(roles: Any) -> str:
    """Return why the roles of a machine exclude VMs; "" if compute-plane is among them."""
    if COMPUTE_PLANE in list_role_names(roles):
        return ""
    role_list = ", ".join(sorted(roles))
    return (
        f"not a compute-plane machine (roles: {role_list})"
        if role_list
        else "without the role compute-plane"
    )


def _build_status_attribute(
    description: str,
    default: str,
    choices: tuple[str, ...] = (),
    pattern: str = "",
    pattern_hint: str = "",
) -> AttributeSchema:
    """Build an argument of the status of a machine.

    It is observed on real sites, and configured for simulated ones.
    """
    return build_optional_argument(
        STRING,
        f"{description} Computed except under provider simulated.",
        computed=True,
        default=default,
        choices=choices,
        pattern=pattern,
        pattern_hint=pattern_hint,
        observed=True,
    )


# In the order in which reasons are named ("cordoned, powered off").
MACHINE_FACTS: Final[tuple[MachineFact, ...]] = (
    MachineFact(
        ROLES,
        build_optional_argument(
            SetType(STRING),
            "Roles. Only compute-plane machines run VMs. Under a provider of real sites, the "
            "observed roles count: Azure changes them at runtime upgrades.",
            computed=True,
            default=[COMPUTE_PLANE],
            observed=True,
            is_ignored_if_observed=True,
        ),
        _explain_wrong_roles,
        rank=7,
        export_field="machineRoles",
    ),
    MachineFact(
        EVACUATE,
        build_optional_argument(BOOL, "Re-place its VMs and accept no new ones.", default=False),
        lambda is_so: EVACUATING if is_so else "",
        rank=6,
        is_override=True,
    ),
    MachineFact(
        "cordoned",
        build_optional_argument(BOOL, "Accept no new VMs; existing VMs stay."),
        lambda is_so: CORDONED if is_so else "",
        rank=5,
        is_override=True,
    ),
    MachineFact(
        "cordon_status",
        AttributeSchema(
            STRING,
            "Whether it accepts new VMs: Uncordoned or Cordoned.",
            computed=True,
            observed=True,
            instead="To cordon the machine, write: cordoned = true",
        ),
        lambda status: CORDONED if status == CORDONED_STATUS else "",
        rank=5,
        export_field="cordonStatus",
    ),
    MachineFact(
        "power_state",
        _build_status_attribute("Whether it is powered on.", "On", ("On", "Off", UNKNOWN_STATE)),
        lambda state: "" if state.lower() == "on" else "powered off",
        rank=0,
        is_health=True,
        find_title=lambda state: state.capitalize(),
        export_field="powerState",
    ),
    MachineFact(
        "ready_state",
        _build_status_attribute(
            "Whether it is ready for VMs. Accepts a bool.",
            "True",
            pattern="(?i:true|false|unknown)",
            pattern_hint='"True", "False" or "Unknown"',
        ),
        lambda state: "" if state.lower() == "true" else "not ready",
        rank=3,
        is_health=True,
        export_field="readyState",
    ),
    MachineFact(
        "detailed_status",
        _build_status_attribute(
            (
                f"Detailed status: {', '.join(DETAILED_STATUSES)}. Only Provisioned machines take "
                "new VMs."
            ),
            "Provisioned",
        ),
        lambda status: (
            ""
            if status.lower() == "provisioned"
            else f'not provisioned (detailed status "{status}")'
        ),
        rank=2,
        is_health=True,
        find_title=lambda status: status,
        export_field="detailedStatus",
    ),
)
# Facts of a machine as last read, in its private data or that of its rack.
OBSERVED_FACTS: Final = ObjectType.create(
    {
        **{fact.name: fact.attribute.type for fact in MACHINE_FACTS},
        "message": STRING,
        "since": STRING,
        "cordoned_by": STRING,
        CORDONED_BY_ACTION: BOOL,
    }
)
EXPORTED_FACTS: Final = tuple(fact for fact in MACHINE_FACTS if fact.export_field)
# A machine keeps its roles; its status changes.
STATUS_FACTS: Final = tuple(fact.name for fact in EXPORTED_FACTS if fact.name != ROLES)


@cache
def get_default_facts() -> Mapping[str, Any]:
    """Return the default facts of a machine."""
    facts = {fact.name: fact.attribute.default for fact in MACHINE_FACTS}
    return {**facts, "cordon_status": UNCORDONED}


def compute_cordon_status(facts: Mapping[str, Any]) -> str:
    """Return the cordon status of a simulated machine."""
    return CORDONED_STATUS if facts.get("cordoned") is True else UNCORDONED


def _complete_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts, with defaults for missing and unknown ones."""
    known_facts = {name: value for name, value in facts.items() if is_set_and_known(value)}
    return {**get_default_facts(), **known_facts}


def find_unschedulable_reasons(facts: Mapping[str, Any]) -> tuple[UnschedulableReason, ...]:
    """Return all reasons that a machine takes no new VM; none if it is schedulable."""
    return _list_reasons(_complete_facts(facts))


def _list_reasons(values: Mapping[str, Any]) -> tuple[UnschedulableReason, ...]:
    """Return all reasons against new VMs from the values of all facts."""
    return tuple(
        reason for fact in MACHINE_FACTS for reason in fact.build_reasons(values[fact.name])
    )


def describe_unschedulable_reasons(facts: Mapping[str, Any]) -> str:
    """Return the reasons that a machine takes no new VM, joined; "" if it is schedulable."""
    return join_reasons(find_unschedulable_reasons(facts))


def merge_observed_facts(
    arguments: Mapping[str, Any], observed: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    """Return a machine's arguments with its observed facts.

    An observed cordon set by nexusform for the argument `cordoned` is omitted, because the argument
    may have changed since. A cordon by a machine action is kept.
    """
    if not observed:
        return arguments
    follows_argument = observed.get("cordoned_by") == CordonOwner.NEXUSFORM and not observed.get(
        CORDONED_BY_ACTION
    )
    left_out = {"cordon_status": None} if follows_argument else {}
    return {**arguments, **observed, **left_out}


def _build_machine_status(
    values: Mapping[str, Any], reasons: Sequence[UnschedulableReason]
) -> MachineStatus | None:
    """Build the status of a machine out of service from the values of all facts.

    Return None if it is in service, only evacuated, or not a compute machine.
    """
    deciding_facts = {reason.fact for reason in reasons}
    if ROLES in deciding_facts or deciding_facts <= {EVACUATE}:
        return None
    # Observed or configured.
    is_cordoned = CORDONED_STATUS in (values["cordon_status"], compute_cordon_status(values))
    return MachineStatus(
        power_state=values["power_state"],
        ready_state=values["ready_state"].capitalize(),
        detailed_status=values["detailed_status"],
        cordon_status=CORDONED_STATUS if is_cordoned else values["cordon_status"],
        cordoned_by=(values.get("cordoned_by") or str(CordonOwner.NEXUSFORM))
        if is_cordoned
        else None,
        message=values.get("message"),
        since=values.get("since"),
    )


def find_observed_reasons(facts: Mapping[str, Any]) -> tuple[UnschedulableReason, ...]:
    """Return the reasons against new VMs from observed facts, without roles and arguments."""
    return find_unschedulable_reasons({**facts, "roles": None, "evacuate": None, "cordoned": None})


# Of one machine; each is processed separately.
MAXIMUM_CELLS: Final = 64
# The Nexus document gives NUMA cells, CPUs and memory of its machines, but no disk.
_DEFAULT_DISK_GIB: Final = CATALOGUES[NEWEST].machine_skus[DEFAULT_MACHINE_SKU].disk_gib


def _build_number_attribute(
    description: str, minimum: int, maximum: int | None = None
) -> AttributeSchema:
    return build_required_argument(NUMBER, description, minimum=minimum, maximum=maximum)


MACHINE_BLOCK: Final = NestedBlock(
    BlockSchema(
        {
            "numa_cells": _build_number_attribute("NUMA cells.", 1, MAXIMUM_CELLS),
            "cpus_per_cell": _build_number_attribute("vCPUs for VMs per cell.", 1),
            "memory_gib_per_cell": _build_number_attribute("Memory for VMs per cell, in GiB.", 1),
            "ephemeral_disk_gib": build_placement_number(
                f"Disk for VM root disks per machine, in GiB. Default: as {DEFAULT_MACHINE_SKU}.",
                0,
                _DEFAULT_DISK_GIB,
            ),
            "vfs_per_cell": build_optional_argument(
                NUMBER,
                (
                    f"SR-IOV virtual functions for VMs in each cell. Default: {VFS_PER_CELL} "
                    "(inferred)."
                ),
                minimum=0,
            ),
        }
    ),
    Nesting.SINGLE,
    "Custom hardware instead of machine_sku. Every VM SKU passes the hardware check.",
    max_items=1,
)

MACHINE_SKU: Final = build_optional_argument(STRING, "Machine SKU of the catalogue.")

VFS: Final = build_optional_argument(
    NUMBER,
    (
        "SR-IOV virtual functions per VM, from its NUMA cells. A cell has 30 (inferred). A change "
        "moves no VM. Default: 0."
    ),
    minimum=0,
)


class Hardware(NamedTuple):
    """Hardware of a machine; without `sku` its own figures, per cell except for disk."""

    sku: str | None
    cells: int
    cpus_per_cell: int
    memory_gib_per_cell: int
    disk_gib: int
    vfs_per_cell: int = VFS_PER_CELL


def list_machine_sku_names() -> tuple[str, ...]:
    """Return the machine SKUs of the catalogue, sorted."""
    return tuple(sorted(CATALOGUES[NEWEST].machine_skus))


def read_hardware(attributes: Mapping[str, Any]) -> Hardware | None:
    """Return the hardware of the block `machine`, else of `machine_sku`.

    Return None if it is incomplete or unknown.
    """
    block = attributes.get("machine")
    if isinstance(block, Mapping):
        # In the order of the fields of Hardware, from `cells` to `disk_gib`.
        figure_names = ("numa_cells", "cpus_per_cell", "memory_gib_per_cell", "ephemeral_disk_gib")
        figures = [block[name] for name in figure_names if isinstance(block.get(name), int)]
        if len(figures) < len(figure_names):
            return None
        vfs = block.get("vfs_per_cell")
        # The default also for an unknown number.
        vfs_per_cell = vfs if isinstance(vfs, int) else VFS_PER_CELL
        # None: without the name of a SKU.
        return Hardware(None, *figures)._replace(vfs_per_cell=vfs_per_cell)
    sku = CATALOGUES[NEWEST].machine_skus.get(str(attributes.get("machine_sku")))
    return None if sku is None else build_hardware(sku, sku.name)


def build_hardware(sku: MachineSku, name: str | None) -> Hardware:
    """Build the hardware of a machine SKU; `name` is None if the catalogue does not list it."""
    return Hardware(
        sku=name,
        cells=sku.cells,
        cpus_per_cell=sku.cpus_per_cell,
        memory_gib_per_cell=sku.memory_gib_per_cell,
        disk_gib=sku.disk_gib,
    )


def check_hardware(attributes: Mapping[str, Any], *, is_required: bool) -> list[Problem]:
    """Return the problems of `machine` and `machine_sku`.

    Both are set, neither is set (with `is_required`), invalid figures of the block, or a SKU
    missing in the catalogue.
    """
    block = attributes.get("machine")
    sku = attributes.get("machine_sku")
    if block is not None and sku is not None:
        detail = 'A "machine" block and "machine_sku" both describe the hardware. Keep one of them.'
        return [Problem(("machine_sku",), "conflicting-arguments", detail)]
    if is_required and block is None and sku is None:
        detail = (
            'Specify the hardware of this machine: either "machine_sku" '
            f"({', '.join(list_machine_sku_names())}) or a "
            '"machine" block with its figures. For a machine of data.nexus_inventory whose '
            "machine_sku is null, map "
            'its machineSkuId in "machine_sku_by_id".'
        )
        return [Problem((), "missing-required-argument", detail)]
    if isinstance(block, Mapping):
        return check_whole_numbers(block, block, ("machine",))
    if is_set_and_known(sku) and sku not in list_machine_sku_names():
        names = list_machine_sku_names()
        detail = (
            f'The catalogue has no machine SKU "{sku}".{suggest_name(str(sku), names)} '
            f'It lists {", ".join(names)}; describe other hardware with a "machine" block.'
        )
        return [Problem(("machine_sku",), "unknown-machine-sku", detail)]
    return []


def build_machine(
    hardware: Hardware,
    facts: Mapping[str, Any],
    *,
    name: str,
    rack: str,
    availability_zone: str,
    slot: int,
) -> Machine:
    """Build a machine for the scheduler.

    `facts` are its arguments merged with the observed facts.
    """
    values = _complete_facts(facts)
    reasons = _list_reasons(values)
    return Machine(
        name=name,
        rack=rack,
        availability_zone=availability_zone,
        slot=slot,
        machine_sku=hardware.sku,
        cells=hardware.cells,
        cpus_per_cell=hardware.cpus_per_cell,
        memory_gib_per_cell=hardware.memory_gib_per_cell,
        disk_gib=hardware.disk_gib,
        unschedulable_reasons=reasons,
        vfs_per_cell=hardware.vfs_per_cell,
        status=_build_machine_status(values, reasons),
        roles=list_role_names(facts.get("roles") if is_set_and_known(facts.get("roles")) else ()),
    )


def add_vfs_to_sku(sku: VmSku, values: Mapping[str, Any]) -> VmSku:
    """Return a SKU with the VFs used by the VMs of a pool or VDU; the same object for none."""
    vfs = int(values.get("sriov_vfs") or 0)
    return replace(sku, vfs=vfs) if vfs else sku
