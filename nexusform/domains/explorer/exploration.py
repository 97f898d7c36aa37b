"""A configuration that somebody plays with: other counts, racks lost, active or added, each planned anew.

Nothing is applied, locked or recorded. Literal values can be written back to the files.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address, parse_address
from nexusform.configuration.declared.configuration import Configuration
from nexusform.configuration.literal_edits import TextEdit, edited, literal_edit
from nexusform.diagnostics import Diagnostic
from nexusform.plain_data import Path as ValuePath
from nexusform.planning.conclusion.room_left import with_room
from nexusform.planning.planner import make_plan
from nexusform.planning.request import Adjustment
from nexusform.plans.plan import Plan
from nexusform.ports import Kind
from nexusform.regular_files import write_whole
from nexusform.rendering.notation.hcl_text import quoted
from nexusform.scheduling.racks.vms import CONTROL_PLANE
from nexusform.source import SourceFile
from nexusform.workflow.opening.place import Place, load_configuration
from nexusform.workflow.opening.project import Project, open_project
from nexusform.workflow.runs.locking import Locking
from nexusform.workflow.runs.run import PlanOptions, Run, begin

MOST_ADDED: Final = 50  # racks
MOST_VMS: Final = 10_000  # of one pool


class PoolKnob(Struct, frozen=True):
    """A pool whose count can be changed: its key, names, and count as configured."""

    key: str
    cluster: str
    pool: str
    sku: str
    count: int


class RackKnob(Struct, frozen=True):
    """A rack that can be lost or, where it is planned, made active."""

    key: str
    site: str
    name: str
    machines: int
    planned: bool


class Wish(Struct, frozen=True, forbid_unknown_fields=True):
    """What somebody asks for: counts of pools by key, racks lost and made active by key, and racks added by
    the key of the one that they are like.
    """

    counts: dict[str, int] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    active: tuple[str, ...] = ()
    added: dict[str, int] = field(default_factory=dict)


class WishProblem(ValueError):
    """A wish that cannot be; the message says why."""


class Written(Struct, frozen=True):
    """What a wish would change in the files: a unified diff, its digest, and what cannot be written."""

    difference: str
    digest: str
    left_out: tuple[str, ...]


class Exploration:
    """One project that is planned again and again."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.base = self._plan(self.configuration, ())
        self._paths = dict(_pool_paths(self.base))
        self._racks = dict(_racks(self.base, self.project))

    @property
    def project(self) -> Project:
        """What is played with."""
        return self._run.project

    @property
    def configuration(self) -> Configuration:
        """The configuration as it stands in the files."""
        return self._run.project.configuration

    def pools(self) -> list[PoolKnob]:
        """The pools, in planning order."""
        tables = {_pool_key(t.address, t.pool): t for t in self.base.placement_tables}
        return [
            PoolKnob(
                key=key,
                cluster=tables[key].cluster,
                pool=tables[key].pool,
                sku=tables[key].vm_sku_name,
                count=tables[key].total_count,
            )
            for key in self._paths
        ]

    def racks(self) -> list[RackKnob]:
        """The racks, in planning order."""
        return list(self._racks.values())

    def plan(self, wish: Wish) -> Plan:
        """The plan of a wish. Raises WishProblem."""
        self._check(wish)
        configuration = self.configuration
        if wish.added:
            text = "".join(self._added(wish.added))
            extra = [SourceFile("explored.nf.hcl", text)]
            configuration = load_configuration(self.project.place, extra)[0] or configuration
        return self._plan(configuration, self._adjustments(wish))

    def written(self, wish: Wish) -> Written:
        """What a wish would change in the files. Raises WishProblem."""
        texts, left_out = self._texts(wish)
        difference = self._difference(texts)
        return Written(difference, _digest(difference), tuple(left_out))

    def write(self, wish: Wish, digest: str) -> tuple[str, ...]:
        """Write the change that was shown, recognised by its digest; the names of the files.

        Raises WishProblem, OSError.
        """
        texts, _ = self._texts(wish)
        if _digest(self._difference(texts)) != digest:
            raise WishProblem("That is not the change that was shown. Look at it again.")
        for name in texts:
            if Path(name).read_text(encoding="utf-8") != self.configuration.files[name].text:
                raise WishProblem(f"{name} was changed meanwhile. Start explore again.")
        for name, text in texts.items():
            write_whole(Path(name), text.encode(), 0o666)
        return tuple(texts)

    # --- inside ---

    def _plan(self, configuration: Configuration, adjustments: Sequence[Adjustment]) -> Plan:
        """The plan of a changed configuration, without looking at providers."""
        options = PlanOptions(refresh=False, tie_breaks=0)
        request = replace(
            self._run.request(options),
            configuration=configuration,
            adjustments=tuple(adjustments),
            ways_out=False,
            lint=False,
        )
        return with_room(make_plan(request), self.project.registries).plan

    def _check(self, wish: Wish) -> None:
        """Raises WishProblem for a wish beyond what can be played."""
        unknown = [key for key in wish.counts if key not in self._paths]
        unknown += [key for key in (*wish.lost, *wish.active, *wish.added) if key not in self._racks]
        if unknown:
            raise WishProblem(f'There is no pool or rack "{unknown[0]}".')
        if any(not 0 <= count <= MOST_VMS for count in wish.counts.values()):
            raise WishProblem(f"A pool has 0 to {MOST_VMS:,} VMs here.")
        if any(not 0 <= count <= MOST_ADDED for count in wish.added.values()):
            raise WishProblem(f"0 to {MOST_ADDED} racks can be added at once.")

    def _adjustments(self, wish: Wish) -> list[Adjustment]:
        counts = [Adjustment(*self._paths[key], count) for key, count in wish.counts.items()]
        lost = [Adjustment(parse_address(key), ("machine_count",), 0) for key in wish.lost]
        active = [Adjustment(parse_address(key), ("status",), "active") for key in wish.active]
        return [*counts, *lost, *active]

    def _added(self, added: Mapping[str, int]) -> Iterator[str]:
        """Racks like others, as configuration."""
        after = {str(change.address): change.after or {} for change in self.base.changes}
        for key, count in added.items():
            like = after[key]
            for number in range(1, count + 1):
                name = f"{like['name']}-like-{number}"
                arguments = {"site_id": like["site_id"], "name": name, "machine_sku": like["machine_sku"]}
                lines = [f"  {argument} = {quoted(value)}" for argument, value in arguments.items()]
                lines.append(f"  machine_count = {like['machine_count']}")
                body = "\n".join(lines)
                yield f'resource "nexus_rack" {quoted(name)} {{\n{body}\n}}\n'

    def _texts(self, wish: Wish) -> tuple[dict[str, str], list[str]]:
        """The new texts of files, and what has no literal to be written to."""
        self._check(wish)
        edits: list[TextEdit] = []
        left_out = [
            f"{count} x {self._racks[key].name}: added racks are not written."
            for key, count in wish.added.items()
            if count
        ]
        for adjustment in self._adjustments(wish):
            edit = literal_edit(self.configuration, adjustment.address, adjustment.path, adjustment.value)
            if edit is not None:
                edits.append(edit)
            else:
                path = ".".join(str(step) for step in adjustment.path)
                left_out.append(f"{adjustment.address}: {path} is no literal value of this one object.")
        changed = [edit for edit in edits if edit.before != edit.after]
        return edited(self.configuration.files, changed), left_out

    def _difference(self, texts: Mapping[str, str]) -> str:
        """The new texts as a unified diff."""
        lines: list[str] = []
        for name, text in sorted(texts.items()):
            before = self.configuration.files[name].text.splitlines(keepends=True)
            lines += difflib.unified_diff(before, text.splitlines(keepends=True), name, name, n=1)
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _digest(difference: str) -> str:
    return sha256(difference.encode()).hexdigest()


@contextmanager
def explored(
    place: Place,
) -> Iterator[tuple[Exploration | None, tuple[Diagnostic, ...], Mapping[str, SourceFile]]]:
    """The exploration of a directory, on the recorded state; None with the diagnostics that say why not."""
    opened = open_project(place)
    if opened.project is None:
        yield None, opened.diagnostics, opened.sources
        return
    with begin(opened.project, "OperationTypePlan", Locking(enabled=False, alone=True), settles=False) as run:
        diagnostics = (*opened.diagnostics, *run.diagnostics)
        yield (Exploration(run) if run.ready else None), diagnostics, opened.sources


def _pool_paths(plan: Plan) -> Iterator[tuple[str, tuple[Address, ValuePath]]]:
    """Where the count of each pool is written."""
    for table in plan.placement_tables:
        path: ValuePath | None = None
        if table.address.type == "nexus_agent_pool":
            path = ("node_count",)
        elif table.address.type == "nexus_kubernetes_cluster":
            is_control_plane = table.pool == CONTROL_PLANE
            path = ("control_plane", "count") if is_control_plane else ("agent_pool", table.pool, "count")
        if path is not None:
            yield _pool_key(table.address, table.pool), (table.address, path)


def _pool_key(address: Address, pool: str) -> str:
    return f"{address}:{pool}"


def _racks(plan: Plan, project: Project) -> Iterator[tuple[str, RackKnob]]:
    """The racks of a plan, with what can be changed of each."""
    for change in plan.changes:
        rack = change.after
        if rack is None or project.registries.kind_of(change.address.type) is not Kind.RACK:
            continue
        key = str(change.address)
        planned = rack.get("status") == "planned"
        yield (
            key,
            RackKnob(
                key=key,
                site=str(rack["site_id"]),
                name=str(rack["name"]),
                machines=int(rack["machine_count"]),
                planned=planned,
            ),
        )
