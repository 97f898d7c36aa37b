"""From planned instances to the plan: changes, placements, tables, steps, and what was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform import __version__
from nexusform.address import Address
from nexusform.diagnostics import Diagnostic, Severity, has_errors
from nexusform.planning.conclusion.changes import build_changes, find_drift
from nexusform.planning.conclusion.placements import explanations, placement_changes
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.conclusion.steps import build_steps
from nexusform.planning.conclusion.tables import placement_tables
from nexusform.planning.fleet.outcome import FleetOutcome
from nexusform.planning.fleet.rows import kept_count
from nexusform.planning.instances.blocks import Blocks
from nexusform.planning.instances.conditions import PROBLEMS
from nexusform.planning.instances.instance import UNDECIDED
from nexusform.planning.modules.outputs import variable_values
from nexusform.planning.names.evaluation import without_consequences
from nexusform.planning.plan import CheckResult, InventoryRead, Mode, OutputChange, PlacementChange, Plan
from nexusform.planning.pods.blocks import pod_diagnostics
from nexusform.planning.pods.phase import PodPhase
from nexusform.planning.preparation.order import Order
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.request import PlanRequest
from nexusform.planning.verdicts.broken_groups import broken_groups
from nexusform.planning.verdicts.certainty import measure
from nexusform.planning.verdicts.fit import Unplaced, fit_failures
from nexusform.planning.verdicts.overfull import overfull
from nexusform.planning.verdicts.separation import Verdicts, has_rules, judge
from nexusform.planning.vms.sites import SitePlan
from nexusform.planning.vms.surroundings import PlanSurroundings, catalogue_version
from nexusform.planning.vms.vm_phase import VmObject
from nexusform.state.model import OutputState

# Said of every instance, though it stands at one place.
OF_EACH = frozenset(PROBLEMS.values())


class Work(Struct, frozen=True):
    """Where planning has got to. `given` is the request as it came, `request` the same after
    moved blocks were followed.
    """

    given: PlanRequest
    request: PlanRequest
    diagnostics: list[Diagnostic]
    previous: Mapping[Address, Address]
    prior: Prior
    sites: Mapping[str, SitePlan]
    objects: Mapping[Address, VmObject]
    before: PlanSurroundings
    fleet: FleetOutcome = field(default_factory=FleetOutcome)
    pods: PodPhase | None = None


class Results(Struct, frozen=True):
    """Outputs, verdicts of conditions and the inventories that were read."""

    outputs: Sequence[OutputChange]
    planned_outputs: Mapping[str, OutputState]
    checks: tuple[CheckResult, ...]
    inventories: tuple[InventoryRead, ...] = ()


def conclude(work: Work, blocks: Blocks, order: Order, results: Results) -> PlanResult:
    """The plan of everything that was worked out."""
    request = work.request
    for address, old in work.previous.items():
        if address in blocks.instances:
            blocks.instances[address].previous = old
    changes, problems = build_changes(request, blocks.instances, order, work.prior)
    found, unplaced, flawed = _findings(work, blocks, problems)
    ruled = request.mode is Mode.NORMAL and has_rules(blocks.instances.values())
    tie_breaks, certainty = measure(work.sites, request.tie_breaks, keep_outcomes=ruled)
    pods = work.pods
    if pods is not None:
        found += pod_diagnostics(pods, blocks.instances, risks=not (flawed or unplaced))
    pod_rows = _pod_rows(pods, want_rejected=request.want_rejected)
    verdicts = Verdicts()
    if ruled and not flawed:
        places = pods.places() if pods is not None else ()
        verdicts = judge(blocks.instances.values(), work.objects, work.sites, certainty, places)
        found += verdicts.diagnostics
    rows = placement_changes(work.objects.values(), certainty, work.sites, request.want_rejected)
    types = request.registries.resource_types
    steps = build_steps(changes, work.objects, work.sites, work.prior, work.before, types)
    edges = [(str(block), str(need)) for block, needs in order.needs.items() for need in needs]
    plan = Plan(
        mode=request.mode,
        changes=tuple(changes),
        steps=tuple(steps),
        drift=find_drift(work.given),
        outputs=tuple(results.outputs),
        planned_outputs=results.planned_outputs,
        placements=(*rows, *work.fleet.rows, *pod_rows),
        placement_tables=tuple(placement_tables(work.objects.values(), work.sites, certainty)),
        moved=tuple(work.previous.items()),
        kept=sum(len(o.moves.stay) for o in work.objects.values())
        + kept_count((*work.fleet.rows, *pod_rows)),
        tie_breaks=tie_breaks,
        checks=(*results.checks, *blocks.checks),
        inventories=results.inventories,
        separation_rules=tuple(verdicts.verdicts),
    )
    return PlanResult(
        finished(plan, work.given, found),
        tuple(edges),
        tuple(str(b.address) for b in order.blocks),
        explanations(work.objects.values()),
        unplaced,
        work.objects,
        work.sites,
        tuple(verdicts.open_rules),
        work.fleet,
        pods,
    )


def _findings(
    work: Work, blocks: Blocks, problems: Iterable[Diagnostic]
) -> tuple[list[Diagnostic], tuple[Unplaced, ...], bool]:
    """What is to be told, the pools that do not fit, and whether anything else is in error: then nothing is
    said of what fits.
    """
    objects = work.objects.values()
    found = [*work.diagnostics, *problems]
    found += [*overfull(blocks.instances, work.sites, objects), *broken_groups(objects)]
    failures = fit_failures(work.objects.values(), blocks.left_out)
    # what depends on a VM that does not fit is undecided because of that
    if has_errors(d for d in found if d.id != UNDECIDED or not failures.unplaced):
        return found, (), True
    return [*failures.diagnostics, *found], failures.unplaced, False


def _pod_rows(pods: PodPhase | None, *, want_rejected: bool) -> list[PlacementChange]:
    if pods is None:
        return []
    if want_rejected:
        return pods.rows
    return [replace(row, rejected=()) if row.rejected else row for row in pods.rows]


def finished(plan: Plan, request: PlanRequest, diagnostics: Iterable[Diagnostic]) -> Plan:
    """The plan with what it was made from and everything that was found."""
    found = without_consequences(_once(diagnostics))
    state = request.state
    return replace(
        plan,
        diagnostics=tuple(found),
        variables=variable_values(request),
        refreshed={a: o for a, o in request.refreshed.items() if _differs(a, o, request)},
        lineage=state.lineage,
        serial=state.serial,
        prior_digest=request.prior_digest,
        catalogue=catalogue_version(request),
        timestamp=request.now,
        nexusform_version=__version__,
        workspace=request.workspace,
        targets=request.targets,
        excludes=request.excludes,
        replaces=request.replaces,
        errored=has_errors(found),
    )


def _differs(address: Address, found: object, request: PlanRequest) -> bool:
    known = request.state.instances.get(address)
    return known is None or known.current != found


def _once(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Each problem once, errors first, otherwise as they came."""
    seen: set[tuple[object, ...]] = set()
    found = []
    for diagnostic in diagnostics:
        key = (
            diagnostic.severity,
            diagnostic.summary,
            diagnostic.detail,
            diagnostic.subject,
            diagnostic.address if diagnostic.subject is None or diagnostic.id in OF_EACH else "",
        )
        if key not in seen:
            seen.add(key)
            found.append(diagnostic)
    return sorted(found, key=lambda d: d.severity is not Severity.ERROR)
