"""Interactive exploration of a configuration.

Changed counts, and racks lost, activated or added, each planned again. Nothing is applied, locked
or recorded. Literal values can be written back to the files.
"""

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from nexusform.configuration.declarations.configuration import Configuration
from nexusform.configuration.literal_edits import TextEdit, apply_literal_edits, build_literal_edit
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, select_errors
from nexusform.files.regular_files import write_file_atomically
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import Path as ValuePath
from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.planning.edits import AddedBlocks, Edit
from nexusform.planning.hypothesis.hypothetical_plan import plan_hypothesis
from nexusform.planning.hypothesis.losses import list_loss_kinds
from nexusform.planning.plan_request import ArgumentAdjustment
from nexusform.planning.planner import make_plan
from nexusform.plans.plan import Plan
from nexusform.rendering.notation.hcl_text import quote_string
from nexusform.resources.address import Address, parse_address
from nexusform.scheduling.racks.vms import CONTROL_PLANE
from nexusform.workflow.opening.command_context import CommandContext, load_project_configuration
from nexusform.workflow.opening.project import Project, open_project
from nexusform.workflow.runs.run import PlanOptions, Run, begin_run
from nexusform.workflow.runs.state_locking import LockOptions

MAX_ADDED_RACKS: Final = 50  # racks

# Maximum of one pool.
MAX_VMS: Final = 10_000


class PoolCountControl(Struct, frozen=True):
    """Pool with a changeable count: its key, names, and configured count."""

    key: str
    cluster: str
    pool: str
    sku: str
    count: int


class RackStateControl(Struct, frozen=True):
    """Rack that can be lost or, if planned, activated; `key` is its address."""

    key: str
    id: str
    site: str
    name: str
    machines: int
    planned: bool


class ExplorationRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Requested changes.

    They are counts of pools by key, racks lost and activated by key, and racks added by the key
    of a model.
    """

    counts: dict[str, int] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    active: tuple[str, ...] = ()
    added: dict[str, int] = field(default_factory=dict)


class ExplorationRequestError(ValueError):
    """Invalid request; the message states the reason."""


class ConfigurationFileChanges(Struct, frozen=True):
    """File changes of a request: a unified diff, its digest, and changes that cannot be written."""

    difference: str
    digest: str
    left_out: tuple[str, ...]


class PlanExploration:
    """Project planned repeatedly with changes."""

    def __init__(self, run: Run) -> None:
        """Plan the configuration of a run, and collect what can be adjusted.

        This is its pools with a count to change, and its adjustable racks.
        """
        self._run = run
        options = PlanOptions(refresh=False, samples=0, includes_remedies=False)
        self._request = run.build_request(options)
        # Every hypothetical plan is compared with it.
        self._before = add_site_capacity(make_plan(self._request), self.project.registries)
        self.base = self._before.plan
        # Path of the count in the configuration, by pool.
        self._count_paths: dict[str, tuple[Address, ValuePath]] = {}
        self._pools: dict[str, PoolCountControl] = {}
        for table in self.base.figures.placement_tables:
            path = _get_count_path(table.address.type, table.pool)
            # A pool with a count to change.
            if path is not None:
                key = f"{table.address}:{table.pool}"
                self._count_paths[key] = (table.address, path)
                names = (table.cluster, table.pool, table.vm_sku_name)
                self._pools[key] = PoolCountControl(key, *names, table.total_count)
        racks = _list_adjustable_racks(self.base, self.project)
        self._racks = {rack.key: rack for rack in racks}

    @property
    def project(self) -> Project:
        """Explored project."""
        return self._run.project

    @property
    def configuration(self) -> Configuration:
        """Configuration as in the files."""
        return self._run.project.configuration

    def list_pools(self) -> list[PoolCountControl]:
        """Return the pools in planning order."""
        return list(self._pools.values())

    def list_racks(self) -> list[RackStateControl]:
        """Return the racks in planning order."""
        return list(self._racks.values())

    def plan_request(self, request: ExplorationRequest) -> Plan:
        """Return the hypothetical plan of a request.

        No providers are read. Raises ExplorationRequestError.
        """
        self._check_request(request)
        edits: list[Edit] = []
        # Added racks are in a file that is not on disk.
        if request.added:
            extra_files = [
                SourceFile("explored.nf.hcl", "".join(self._render_added_racks(request.added)))
            ]
            configuration, diagnostics = load_project_configuration(
                self.project.context, extra_files
            )
            errors = select_errors(diagnostics)
            if errors:
                raise ExplorationRequestError(f"The racks cannot be added: {errors[0].detail}")
            edits.append(AddedBlocks(configuration))
        edits += self._list_requested_adjustments(request)
        losses = list_loss_kinds()["rack"].list_edits(self._before)
        for key in request.lost:
            # A planned rack has no machines to lose.
            edits += losses.get(self._racks[key].id, ())
        return plan_hypothesis(self._request, edits, self._before).after.plan

    def compute_file_changes(self, request: ExplorationRequest) -> ConfigurationFileChanges:
        """Return the file changes of a request.

        Raises ExplorationRequestError.
        """
        texts, unwritable = self._compute_changed_files(request)
        difference = self._format_file_diff(texts)
        return ConfigurationFileChanges(
            difference, sha256(difference.encode()).hexdigest(), tuple(unwritable)
        )

    def write_files(self, request: ExplorationRequest, digest: str) -> tuple[str, ...]:
        """Write the change with this digest; return the file names.

        Raises ExplorationRequestError, OSError.
        """
        texts, _unwritable = self._compute_changed_files(request)
        difference = self._format_file_diff(texts)
        if sha256(difference.encode()).hexdigest() != digest:
            raise ExplorationRequestError("The change differs from the one shown. Review it again.")
        for name in texts:
            if Path(name).read_text(encoding="utf-8") != self.configuration.files[name].text:
                raise ExplorationRequestError(f"{name} has changed. Restart explore.")
        for name, text in texts.items():
            write_file_atomically(Path(name), text.encode(), 0o666)
        return tuple(texts)

    def _check_request(self, request: ExplorationRequest) -> None:
        """Raise ExplorationRequestError for unknown pools or racks and for counts out of range."""
        rack_keys = (*request.lost, *request.active, *request.added)
        unknown_keys = [key for key in request.counts if key not in self._count_paths]
        unknown_keys += [key for key in rack_keys if key not in self._racks]
        if unknown_keys:
            raise ExplorationRequestError(f'Unknown pool or rack "{unknown_keys[0]}".')
        for vm_count in request.counts.values():
            if not 0 <= vm_count <= MAX_VMS:
                raise ExplorationRequestError(f"A pool can have 0 to {MAX_VMS:,} VMs.")
        for rack_count in request.added.values():
            if not 0 <= rack_count <= MAX_ADDED_RACKS:
                raise ExplorationRequestError(
                    f"At most {MAX_ADDED_RACKS} racks can be added at a time."
                )

    def _list_requested_adjustments(self, request: ExplorationRequest) -> list[ArgumentAdjustment]:
        """Return the arguments changed by a request."""
        counts = [
            ArgumentAdjustment(*self._count_paths[key], count)
            for key, count in request.counts.items()
        ]
        activated_racks = [
            ArgumentAdjustment(parse_address(key), ("status",), "active") for key in request.active
        ]
        return [*counts, *activated_racks]

    def _render_added_racks(self, counts_by_rack: Mapping[str, int]) -> Iterator[str]:
        """Yield the HCL of a block for each added rack.

        `counts_by_rack` has the number of copies of existing racks.
        """
        planned_values = {str(change.address): change.after or {} for change in self.base.changes}
        # Each as often as it counts.
        for number, address in enumerate(Counter(counts_by_rack).elements(), 1):
            model_rack = planned_values[address]
            # A label has no spaces and no dots, unlike a name.
            label = f"{parse_address(address).name}-like-{number}"
            name = f"{model_rack['name']}-like-{number}"
            arguments = {
                "site_id": model_rack["site_id"],
                "name": name,
                "machine_sku": model_rack["machine_sku"],
            }
            lines = [
                f"  {argument} = {quote_string(value)}" for argument, value in arguments.items()
            ]
            # The one of a long name would be too long.
            lines.append(f'  availability_zone = "new{number}"')
            body = "\n".join([*lines, f"  machine_count = {self._racks[address].machines}"])
            yield f'resource "nexus_rack" {quote_string(label)} {{\n{body}\n}}\n'

    def _compute_changed_files(
        self, request: ExplorationRequest
    ) -> tuple[dict[str, str], list[str]]:
        """Return the new texts of changed files by name.

        Also return a sentence for each change without a literal to edit.
        """
        self._check_request(request)
        edits: list[TextEdit] = []
        unwritable = [
            f"{count} x {self._racks[key].name}: added racks cannot be written."
            for key, count in request.added.items()
            if count
        ]
        unwritable += [
            f"{self._racks[key].name} is lost: a loss is not a change of the configuration."
            for key in request.lost
        ]
        for adjustment in self._list_requested_adjustments(request):
            edit = build_literal_edit(
                self.configuration, adjustment.address, adjustment.path, adjustment.value
            )
            # An expression, or an argument shared by several objects.
            if edit is None:
                path = ".".join(map(str, adjustment.path))
                unwritable.append(
                    f"{adjustment.address}: {path} is not a literal value of this object."
                )
            elif edit.before != edit.after:
                edits.append(edit)
        return apply_literal_edits(self.configuration.files, edits), unwritable

    def _format_file_diff(self, texts: Mapping[str, str]) -> str:
        """Return the new texts as a unified diff."""
        lines: list[str] = []
        for name, text in sorted(texts.items()):
            old_lines = self.configuration.files[name].text.splitlines(keepends=True)
            lines += difflib.unified_diff(
                old_lines, text.splitlines(keepends=True), name, name, n=1
            )
        # The last line may lack it.
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


@contextmanager
def open_exploration(
    context: CommandContext,
) -> Iterator[tuple[PlanExploration | None, tuple[Diagnostic, ...], Mapping[str, SourceFile]]]:
    """Yield the exploration of a directory, with diagnostics and their sources.

    The exploration is None if it cannot be opened.
    """
    opening = open_project(context)
    if opening.project is None:
        yield None, opening.diagnostics, opening.sources
        return
    # No lock, and no warning without one.
    locking = LockOptions(enabled=False, is_exclusive=True)
    with begin_run(opening.project, "OperationTypePlan", locking, records_recovery=False) as run:
        diagnostics = (*opening.diagnostics, *run.diagnostics)
        yield (PlanExploration(run) if run.is_ready else None), diagnostics, opening.sources


def _get_count_path(resource_type: str, pool: str) -> ValuePath | None:
    """Return the path of a pool's count, such as ("agent_pool", "np1", "count").

    Return None if the count cannot be adjusted.
    """
    if resource_type == "nexus_agent_pool":
        return ("node_count",)
    # A VM outside of clusters, or a VNF.
    if resource_type != "nexus_kubernetes_cluster":
        return None
    return ("control_plane", "count") if pool == CONTROL_PLANE else ("agent_pool", pool, "count")


def _index_slots_of_machine_blocks(plan: Plan, project: Project) -> dict[str, list[int]]:
    """Index the slots of machines with a block of their own by the id of their rack."""
    slots: dict[str, list[int]] = {}
    for change in plan.changes:
        machine = change.after  # None: deleted
        if (
            machine is not None
            and project.registries.get_kind(change.address.type) is PlanningKind.MACHINE
        ):
            slots.setdefault(str(machine["rack_id"]), []).append(int(machine["slot"]))
    return slots


def _list_adjustable_racks(plan: Plan, project: Project) -> Iterator[RackStateControl]:
    """Yield the racks existing after a plan: each can be lost, and a planned one activated.

    Machines with a block of their own count in slots above the machine count.
    """
    slots_by_rack = _index_slots_of_machine_blocks(plan, project)
    for change in plan.changes:
        rack = change.after  # None: deleted
        if (
            rack is not None
            and project.registries.get_kind(change.address.type) is PlanningKind.RACK
        ):
            count = int(rack["machine_count"])
            added_slots = [slot for slot in slots_by_rack.get(str(rack["id"]), ()) if slot > count]
            yield RackStateControl(
                key=str(change.address),
                id=str(rack["id"]),
                site=str(rack["site_id"]),
                name=str(rack["name"]),
                machines=count + len(added_slots),
                planned=rack.get("status") == "planned",
            )
