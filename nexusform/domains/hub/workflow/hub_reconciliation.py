"""Comparison of placements on a hub with state, and import of the observed ones."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

import nexusform
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error
from nexusform.domains.hub.providers.hub_bodies import PLACEMENT_TYPES
from nexusform.domains.hub.providers.hub_provider import FleetHubProvider
from nexusform.interfaces.plugins import ObjectKey, ProviderProblem, ReadRequest
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.json_data.plain_data import get_mapping, get_part, get_text
from nexusform.placements.prediction_scores import NOT_VERIFIED_KEY, PredictionRecord, parse_record
from nexusform.planning.planner import make_plan
from nexusform.plans.plan import SeparationVerdict
from nexusform.resources.address import Address, compute_address_order
from nexusform.state import state_codec
from nexusform.state.objects import InstanceState, ObjectState, State
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.project import open_project
from nexusform.workflow.opening.provider_setup import list_objects
from nexusform.workflow.runs.run import Run, RunCallbacks, begin_run, build_base_request
from nexusform.workflow.runs.state_locking import LockOptions

NO_HUB = "no-reconcilable-hub"
_COMPARED_FIELDS = ("state", "resource_snapshot", "affinity_score", "topology_spread_score")
Bindings = Mapping[str, Mapping[str, object]]


class PlacementComparison(Struct, frozen=True):
    """Comparison of one placement: its clusters in state and on the hub.

    `observed` is None if the placement is missing on the hub. `record` holds the verified
    predictions of applied plans, `not_verified` describes unread results of the last.
    """

    address: str
    name: str
    recorded: Bindings
    observed: Bindings | None
    record: PredictionRecord
    not_verified: str = ""

    @property
    def differences(self) -> tuple[tuple[str, str, str], ...]:
        """Bindings that differ between state and hub.

        An item has the cluster, the text of the binding in state, and that of the one on the hub.
        """
        observed_bindings = self.observed or {}
        differences: list[tuple[str, str, str]] = []
        for cluster in sorted({*self.recorded, *observed_bindings}):
            recorded = self.recorded.get(cluster)
            observed = observed_bindings.get(cluster)
            if _select_compared_fields(recorded) != _select_compared_fields(observed):
                differences.append((cluster, _format_binding(recorded), _format_binding(observed)))
        return tuple(differences)


class HubReconciliation(Struct, frozen=True):
    """Result of a reconciliation.

    `rules` are the separation rules on the observed placement; `pending` lists pending work or
    blocked rollouts by placement.
    """

    checks: tuple[PlacementComparison, ...] = ()
    rules: tuple[SeparationVerdict, ...] = ()
    pending: tuple[tuple[str, str], ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)

    @property
    def broken_rules(self) -> tuple[SeparationVerdict, ...]:
        """Separation rules broken by the observed placement."""
        return tuple(rule for rule in self.rules if rule.violations)


def reconcile_hub(
    location: CommandContext, locking: LockOptions, notices: RunCallbacks
) -> HubReconciliation:
    """Compare the placements and evaluate separation rules on the observed ones.

    The observed ones are written to the state.
    """
    opened = open_project(location)
    if opened.project is None:
        return HubReconciliation(diagnostics=opened.diagnostics, sources=opened.sources)
    with begin_run(opened.project, "OperationTypeReconcile", locking, notices=notices) as run:
        run.diagnostics += run.check_identities() if run.is_ready else []
        result = _reconcile_hub_placements(run) if run.is_ready else HubReconciliation()
    problems = (*opened.diagnostics, *run.diagnostics, *result.diagnostics)
    return replace(result, diagnostics=problems, sources=opened.sources)


def _reconcile_hub_placements(run: Run) -> HubReconciliation:
    """Read the placements of all hubs, compare them, and write state.

    A plan without changes evaluates the rules.
    """
    hubs = {
        key: provider
        for key, provider in run.providers.items()
        if isinstance(provider, FleetHubProvider)
    }
    if not hubs:
        detail = 'No provider "fleet" is configured, so there is no hub to compare with.'
        return HubReconciliation(diagnostics=(build_error(NO_HUB, detail),))
    checks: list[PlacementComparison] = []
    observed_states: dict[Address, ObjectState] = {}
    try:
        for key, provider in hubs.items():
            for address, current, observed in _read_placements(run, key, provider):
                recorded = get_mapping(current.attributes, "bindings")
                name = str(current.attributes.get("id"))
                # None if the placement is not on the hub.
                bindings: Mapping[str, Any] | None = None
                if observed is not None:
                    bindings = get_mapping(observed, "bindings")
                    observed_states[address] = replace(current, attributes=observed)
                record = parse_record(current.private)
                not_verified = get_text(current.private, NOT_VERIFIED_KEY)
                checks.append(
                    PlacementComparison(
                        str(address), name, recorded, bindings, record, not_verified
                    )
                )
    except ProviderProblem as problem:
        return HubReconciliation(diagnostics=(build_error("refresh-failed", str(problem)),))
    request = replace(
        build_base_request(run.project, run.stored),
        refreshed_objects=dict(observed_states),
        # The certainty of VM placements is not estimated.
        samples=0,
        includes_remedies=False,
    )
    rules = make_plan(request).plan.verdicts.separation_verdicts
    pending = sorted(
        entry for provider in hubs.values() for entry in provider.pending_messages.items()
    )
    problems = tuple(_write_state(run, observed_states))
    return HubReconciliation(tuple(checks), rules, pending=tuple(pending), diagnostics=problems)


def _read_placements(
    run: Run, key: str, provider: FleetHubProvider
) -> Iterator[tuple[Address, ObjectState, Mapping[str, object] | None]]:
    """Yield the placements of the provider `key` in state.

    Each has its observed attributes, None if the hub has none.
    """
    objects = [
        item for item in list_objects(run.stored.state, key) if item[0].type in PLACEMENT_TYPES
    ]
    objects.sort(key=lambda item: compute_address_order(item[0]))
    requests = [
        ReadRequest(
            key=ObjectKey(address.type, str(current.attributes.get("id")), current.creation),
            attributes=current.attributes,
            address=str(address),
            private_note=current.note,
        )
        for address, current in objects
    ]
    types = run.project.registries.resource_types
    for (address, current), answer in zip(objects, provider.read(requests), strict=True):
        if answer.attributes is None:
            yield address, current, None
            continue
        # Configured arguments are kept: their differences are drift, reported by plans.
        schema = types[address.type].schema.attributes
        observed: dict[str, object] = {}
        for name, value in answer.attributes.items():
            attribute = schema.get(name)
            if attribute is not None and attribute.computed and not attribute.optional:
                observed[name] = value
        yield address, current, {**current.attributes, **observed}


def _select_compared_fields(binding: Mapping[str, object] | None) -> tuple[object, ...]:
    return tuple(get_part(binding, (name,)) for name in _COMPARED_FIELDS)


def _format_binding(binding: Mapping[str, object] | None) -> str:
    """Format a binding: `Bound, snapshot 3, scores 20 and 0`."""
    if binding is None:
        return "not there"
    state, snapshot, affinity, spread = _select_compared_fields(binding)
    version = "" if snapshot is None else f", snapshot {snapshot}"
    return f"{state}{version}, scores {affinity} and {spread}"


def _write_state(run: Run, observed_states: Mapping[Address, ObjectState]) -> Iterator[Diagnostic]:
    """Write the observed placements to the state if they differ.

    Yield an error if the backend fails.
    """
    state = run.stored.state
    instances = dict(state.instances)
    for address, observed in observed_states.items():
        instances[address] = InstanceState(observed, instances[address].deposed)
    if instances == state.instances:
        return  # nothing new
    serial = state.serial + 1
    version = nexusform.__version__
    changed: State = replace(state, instances=instances, serial=serial, nexusform_version=version)
    try:
        run.project.backend.write_merged_state(
            state_codec.encode_state(changed), run.stored.list_preserved_lines()
        )
    except BackendProblem as problem:
        yield build_error("unwritable-state", str(problem))
