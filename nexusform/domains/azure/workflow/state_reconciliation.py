"""Comparison of observed VMs with state, and update of the state."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from msgspec.structs import replace

import nexusform
from nexusform.applying.answer_comparison import compare_answer
from nexusform.applying.prediction_checks import (
    PredictionResults,
    build_journal_records,
    verify_object_predictions,
)
from nexusform.applying.provider_calls import get_failed_change
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    DiagnosticsError,
    Severity,
    build_error,
    convert_problem,
)
from nexusform.documents.times import is_in_future
from nexusform.domains.azure.importers.az_records import AzMachine, AzSite
from nexusform.domains.azure.importers.site_separation import apply_recorded_site_names
from nexusform.domains.azure.providers.azure import KIND
from nexusform.domains.azure.providers.azure_export import NAME
from nexusform.domains.azure.providers.machine_cordons import MACHINE, RACK
from nexusform.domains.azure.providers.observed_site import ObservedSites
from nexusform.domains.azure.providers.site_warnings import INCOMPLETE_IDS
from nexusform.domains.azure.questions.reconciliation import (
    ClusterLocationCheck,
    ReconcileResult,
    SiteReplay,
    VerifiedPredictions,
    compare_cluster_vms,
    run_replays,
)
from nexusform.domains.azure.workflow.site_import import find_site_source
from nexusform.interfaces.plugins import (
    ObjectKey,
    ProviderProblem,
    ReadRequest,
    ResourceType,
    get_unfinished_message,
)
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.json_data.plain_data import get_mapping, get_text
from nexusform.placements.prediction_scores import (
    TIE_PREDICTION,
    PredictionRecord,
    list_wrong_certain,
    parse_record,
)
from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.planning.planner import make_plan
from nexusform.planning.verdicts.placement_fit import DOES_NOT_FIT, PINNED_DOES_NOT_FIT
from nexusform.plans.plan import PREDICTION_KEY, InventoryRead, SeparationVerdict
from nexusform.providers.clock import read_clock
from nexusform.rendering.report.plan_sentences import describe_inventory_age
from nexusform.resources.address import Address, compute_address_order
from nexusform.scheduling.listing.site_listing import ListedSite
from nexusform.scheduling.racks.vms import RackSpread
from nexusform.state import state_codec
from nexusform.state.objects import ObjectState, State, iterate_current_objects
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.project import open_project
from nexusform.workflow.opening.provider_setup import is_capture_of_site, list_managed_objects
from nexusform.workflow.runs.run import (
    Run,
    RunCallbacks,
    begin_run,
    build_base_request,
    find_older_exports,
)
from nexusform.workflow.runs.state_locking import LockOptions
from nexusform.workflow.runs.state_refresh import refresh_objects

# Observed attributes of an object's VMs; requested attributes are not changed.
_OBSERVED: Final = (
    "nodes",
    "node_count",
    "machine",
    "rack",
    "availability_zone",
    "cells",
    "provenance",
)
_SITE: Final = "nexus_site"
_NO_CONFIGURATION: Final = "no-configuration-files"
_DATE_LENGTH: Final = len("2026-11-20")
# Attributes of a node without a machine.
_UNPLACED_NODE: Final = dict.fromkeys(
    ("machine", "rack", "availability_zone", "numa_cells", "platform_name")
)


def _build_score_record(replay: SiteReplay) -> dict[str, Any]:
    """Build the prediction scores of a replay, as stored in state by rack_spread."""
    return {
        "hits": replay.hits,
        "certain_hits": replay.sure,
        "verified": replay.judged,
        "unverified": sum(replay.unjudged.values()),
        "chance": round(replay.chance, 3),
    }


# Plan errors that do not concern current placement.
_CAPACITY_ERRORS: Final = frozenset({DOES_NOT_FIT, PINNED_DOES_NOT_FIT})


def reconcile_site(
    location: CommandContext,
    directory: str,
    locking: LockOptions,
    notices: RunCallbacks,
    *,
    replays: bool,
    allows_older_export: bool = False,
) -> ReconcileResult:
    """Compare state with a site, and write the observations to state.

    Separation rules are checked on the observed VMs. After an error the result has only
    diagnostics. With `replays`, all VMs are also placed again in creation order, to score the
    placement rule; without a configuration only this is done.
    """
    try:
        observed = _read_sites_and_build_provider(location, directory)
    except DiagnosticsError as rejection:
        return ReconcileResult(diagnostics=tuple(rejection.diagnostics))
    opened = open_project(location)
    if opened.project is None:
        if replays and {error.id for error in opened.diagnostics} == {_NO_CONFIGURATION}:
            return replace(_replay_sites(observed[0]), inventory=_describe_age(location, *observed))
        return ReconcileResult(diagnostics=opened.diagnostics, sources=opened.sources)
    with begin_run(opened.project, "OperationTypeReconcile", locking, notices=notices) as run:
        answer = ReconcileResult(diagnostics=opened.diagnostics)
        run.diagnostics += run.check_identities() if run.is_ready else []
        if run.is_ready:
            reconciler = _Reconciler(run, *observed)
            older = [] if allows_older_export else reconciler.find_older_exports()
            if older:
                return ReconcileResult(diagnostics=tuple(older), sources=opened.sources)
            answer = reconciler.reconcile_state(with_replays=replays)
    return replace(
        answer,
        inventory=_describe_age(location, *observed),
        diagnostics=(*answer.diagnostics, *run.diagnostics),
        sources=opened.sources,
    )


def _describe_age(
    location: CommandContext, sites: Iterable[AzSite], provider: ObservedSites
) -> str:
    """Return the age of the oldest export of the sites, "" if they are read now."""
    if not provider.is_captured:
        return ""
    times = [site.inventory.exported_at or "" for site in sites]
    return describe_inventory_age(times, read_clock(location.environment))


def _replay_sites(sites: Iterable[AzSite]) -> ReconcileResult:
    """Place all VMs of sites again, without a state to compare."""
    replays = chain.from_iterable(run_replays(site, (), tuple(RackSpread)) for site in sites)
    return ReconcileResult(replays=tuple(replays), is_compared_with_state=False)


def run_site_replays(run: Run, directory: str) -> ReconcileResult:
    """Place all observed VMs of the sites in state again, and compare their machines.

    Nothing is written.
    """
    try:
        return _Reconciler(
            run, *_read_sites_and_build_provider(run.project.context, directory)
        ).run_replays()
    except DiagnosticsError as rejection:
        return ReconcileResult(diagnostics=tuple(rejection.diagnostics))
    except ProviderProblem as problem:
        return ReconcileResult(diagnostics=(build_error("refresh-failed", str(problem)),))


def _read_sites_and_build_provider(
    location: CommandContext, directory: str
) -> tuple[Sequence[AzSite], ObservedSites]:
    """Read the sites and build their provider.

    Raises DiagnosticsError.
    """
    source = find_site_source(location, directory)
    try:
        sites, findings = source.read()
    except ProviderProblem as problem:
        raise DiagnosticsError(build_error("refresh-failed", str(problem))) from None
    errors = [
        convert_problem(problem) for problem in findings if problem.severity is Severity.ERROR
    ]
    if errors:
        raise DiagnosticsError(*errors)
    # An export; KIND ("azure") reads the live sites.
    is_captured = source.provider != KIND
    return sites, ObservedSites(
        name=NAME,
        source=f"the export in {directory}" if is_captured else source.name,
        advice="capture the export again" if is_captured else "look again",
        read_sites=lambda: (sites, list(findings)),
        is_captured=is_captured,
        verify_absence=source.verify_absence,
    )


def _build_read_request(address: Address, current: ObjectState) -> ReadRequest:
    key = ObjectKey(address.type, str(current.attributes.get("id")), current.creation)
    return ReadRequest(key, current.attributes, str(address), private_note=current.note)


def _collect_prediction_records(state: State) -> dict[str, PredictionRecord]:
    """Collect the records of verified predictions of sites, by site name.

    The names are in the order of addresses.
    """
    records: dict[str, PredictionRecord] = {}
    for address, current in sorted(
        state.list_current_objects(), key=lambda item: compute_address_order(item[0])
    ):
        if address.type == "nexus_site" and (record := parse_record(current.private)):
            records[str(current.attributes.get("name"))] = record
    return records


class _Reconciler:
    """Reconciliation of one run."""

    def __init__(self, run: Run, sites: Sequence[AzSite], provider: ObservedSites) -> None:
        """Prepare the comparison of a run's state with observed sites.

        Sites have the names of the state.
        """
        self.run = run
        self.state = run.stored.state
        self.recorded_objects = dict(self.state.list_current_objects())
        # With the notes of this read.
        self.observed_sites: dict[Address, ObjectState] = {}
        recorded = [current.attributes for current in self.recorded_objects.values()]
        self.sites = apply_recorded_site_names(sites, recorded)
        self.provider = provider
        self.provider.set_state_objects(recorded, list_managed_objects(self.state))
        self.types = run.project.registries.resource_types

    def find_older_exports(self) -> list[Diagnostic]:
        """Return an error for each site whose export is older than that of the last apply."""
        return find_older_exports(self._list_inventories(), self.state)

    def _list_inventories(self) -> list[InventoryRead]:
        """List the exports of the sites that an earlier export recorded, by its reader."""
        return [
            InventoryRead(address, site.inventory.exported_at or "")
            for site in self.sites
            for address in self.state.exports
            if site.inventory.is_age_certain and is_capture_of_site(address, site.name)
        ]

    def reconcile_state(self, *, with_replays: bool) -> ReconcileResult:
        """Compare state with observed objects; write it if changed.

        With `with_replays`, place all VMs again to compare.
        """
        try:
            observed, absent, uncaptured = self._read_observed_vm_objects()
            unfinished = tuple(self._find_unfinished_changes())
        except ProviderProblem as problem:
            return ReconcileResult(diagnostics=(build_error("refresh-failed", str(problem)),))
        warnings = self.provider.list_warnings()
        checks = tuple(self._compare_recorded_vm_locations(observed, uncaptured))
        replays_run = tuple(self._run_replays(checks)) if with_replays else ()
        rules, listed, problems = self._check_observed_state(observed)
        uncertain = {check.address for check in checks if check.unread}
        verifiable = {
            address: item for address, item in observed.items() if str(address) not in uncertain
        }
        # Only recorded predictions.
        prediction_results = verify_object_predictions(verifiable, self.types, new={})
        new_state = self._build_new_state(observed, replays_run, prediction_results)
        if new_state is not self.state and not problems:
            content = state_codec.encode_state(new_state)
            preserved_lines = self.run.stored.list_preserved_lines()
            try:
                self.run.project.backend.write_merged_state(content, preserved_lines)
            except BackendProblem as problem:
                problems.append(build_error("unwritable-state", str(problem)))
        verified = list(chain.from_iterable(prediction_results.verified.values()))
        # The prediction of tied machines repeats the one about the machine, so it is not counted.
        new_count = sum(prediction.subject != TIE_PREDICTION for prediction in verified)
        records = _collect_prediction_records(new_state)
        predictions = VerifiedPredictions(records, new_count, list_wrong_certain(verified))
        return ReconcileResult(
            checks=checks,
            absent=tuple(map(str, absent)),
            uncaptured=tuple(map(str, uncaptured)),
            unfinished=unfinished,
            warnings=tuple(warning.located_detail for warning in warnings),
            is_read_completely=INCOMPLETE_IDS.isdisjoint(warning.id for warning in warnings),
            rules=rules,
            listed=listed,
            replays=replays_run,
            spreads=self._list_spreads(),
            predictions=predictions,
            diagnostics=tuple(problems),
        )

    def run_replays(self) -> ReconcileResult:
        """Run the replays (all observed VMs placed again, to compare) of the sites in state.

        Raises ProviderProblem.
        """
        observed, _, uncaptured = self._read_observed_vm_objects()
        checks = tuple(self._compare_recorded_vm_locations(observed, uncaptured))
        names = {
            str(current.attributes.get("name"))
            for address, current in self.recorded_objects.items()
            if address.type == "nexus_site"
        }
        replays_run = tuple(item for item in self._run_replays(checks) if item.site in names)
        return ReconcileResult(checks=checks, replays=replays_run, spreads=self._list_spreads())

    def _list_spreads(self) -> dict[str, RackSpread]:
        """Return the recorded `rack_spread` by site."""
        return {
            str(current.attributes.get("name")): RackSpread(
                get_text(current.attributes, "scheduler", "rack_spread") or RackSpread.POOL
            )
            for address, current in self.recorded_objects.items()
            if address.type == _SITE
        }

    def _list_vm_objects(self) -> Iterator[tuple[Address, ObjectState, ResourceType]]:
        """Yield the objects in state with VMs of Azure, in order of address, with their types."""
        for address in sorted(self.recorded_objects, key=compute_address_order):
            kind = self.types.get(address.type)
            if kind is not None and kind.vms is not None and kind.name.startswith("nexus_"):
                yield address, self.recorded_objects[address], kind

    def _read_observed_vm_objects(
        self,
    ) -> tuple[dict[Address, ObjectState], list[Address], list[Address]]:
        """Read the objects with VMs.

        Return observed ones, absent ones, and others not covered by the source. Raises
        ProviderProblem. Racks and machines are read, too: a VM on one without read permission
        appears to have no machine.
        """
        objects = list(self._list_vm_objects())
        requests = [_build_read_request(address, current) for address, current, _ in objects]
        hardware = {
            address: _build_read_request(address, current)
            for address, current in self.recorded_objects.items()
            if address.type in {_SITE, RACK, MACHINE}
        }
        # It raises an error if any may not be read, and for another subscription.
        answers = self.provider.read(list(hardware.values()))
        for address, answer in zip(hardware, answers, strict=True):
            # The note of a site has its machines as listed.
            if address.type == _SITE and answer.note:
                current = self.recorded_objects[address]
                note = {**current.note, **answer.note}
                self.observed_sites[address] = replace(current, private=note)
        observed: dict[Address, ObjectState] = {}
        absent: list[Address] = []
        uncaptured: list[Address] = []
        for (address, current, kind), answer in zip(
            objects, self.provider.read(requests), strict=True
        ):
            if answer.attributes is None:
                absent.append(address)
                continue
            if not answer.is_observed:
                uncaptured.append(address)
                continue
            observed_values = {
                name: answer.attributes[name] for name in _OBSERVED if name in answer.attributes
            }
            answered = {**current.attributes, **observed_values}
            # Equal values keep their recorded form.
            agreement = compare_answer(
                str(address), kind.schema, current.attributes, answered, observed=()
            )
            observed[address] = replace(current, attributes=agreement.attributes)
        return observed, absent, uncaptured

    def _find_unfinished_changes(self) -> Iterator[str]:
        """Yield a text for each unfinished change of an apply, as providers report it now.

        Raises ProviderProblem.
        """
        pending = {
            address: instance
            for address, instance in self.state.instances.items()
            if get_failed_change(instance.current)
        }
        if not pending:
            # No provider is read.
            return
        reduced_state = replace(self.state, instances=pending)
        refreshed = refresh_objects(
            reduced_state, self.run.providers, self.types, on_read=lambda _address, _id: None
        )
        # A deleted object (None) has no unfinished change.
        for address in sorted(pending, key=compute_address_order):
            if unfinished := get_failed_change(refreshed.get(address, pending[address].current)):
                yield f"{address}: {get_unfinished_message(unfinished)}"

    def _compare_recorded_vm_locations(
        self, observed: Mapping[Address, ObjectState], uncaptured: Sequence[Address]
    ) -> Iterator[ClusterLocationCheck]:
        """Compare observed and recorded locations of the VMs of every object.

        An object absent on the site has none.
        """
        # Machines by site and name.
        observed_machines: dict[tuple[str, str], AzMachine] = {}
        unread = {site.name: site.inventory.unread for site in self.sites}
        for site in self.sites:
            observed_machines |= {
                (site.name, machine.name): machine for machine in site.inventory.machines
            }
        uncaptured_set = frozenset(uncaptured)
        for address, current, kind in self._list_vm_objects():
            if address in uncaptured_set:
                # Its VMs are unknown.
                continue
            assert kind.vms is not None
            attributes = observed[address].attributes if address in observed else {}
            object_id = str(current.attributes.get("id"))
            yield compare_cluster_vms(
                str(address),
                object_id,
                recorded=kind.vms.list_existing_vms(current.attributes),
                observed=kind.vms.list_existing_vms(attributes),
                unplaced=kind.vms.list_unplaced_vms(attributes),
                observed_machines=observed_machines,
                unread=unread.get(object_id.partition("/")[0], ()),
            )

    def _run_replays(self, checks: Sequence[ClusterLocationCheck]) -> Iterator[SiteReplay]:
        """Run the replays of every site.

        A cluster with a recorded VM not observed counts as removed.
        """
        for site in self.sites:
            # Names of clusters.
            removed: set[str] = set()
            for check in checks:
                if not check.name.startswith(f"{site.name}/"):
                    continue
                if any(vm.observed is None for vm in check.vms):
                    # The name is SITE/CLUSTER.
                    removed.add(check.name.rpartition("/")[2])
            yield from run_replays(site, removed, tuple(RackSpread))

    def _check_observed_state(
        self, observed: Mapping[Address, ObjectState]
    ) -> tuple[tuple[SeparationVerdict, ...], tuple[ListedSite, ...], list[Diagnostic]]:
        """Return the verdicts of separation rules for the observed VMs, and differing sites.

        If the plan for them fails, return its errors instead of verdicts, except
        those about capacity.
        """
        refreshed_objects: dict[Address, ObjectState] = dict(self.observed_sites)
        for address, observed_object in observed.items():
            refreshed_objects[address] = observed_object
            nodes = get_mapping(observed_object.attributes, "nodes")
            before = get_mapping(self.recorded_objects[address].attributes, "nodes")
            missing_nodes = {
                name: {**node, **_UNPLACED_NODE}
                for name, node in before.items()
                if name not in nodes
            }
            # They stay, without a machine: else the plan places them again.
            if missing_nodes:
                attributes = {**observed_object.attributes, "nodes": {**missing_nodes, **nodes}}
                refreshed_objects[address] = replace(observed_object, attributes=attributes)
        request = replace(
            build_base_request(self.run.project, self.run.stored),
            refreshed_objects=refreshed_objects,
            samples=0,
            includes_remedies=False,
        )
        result = make_plan(request)
        # With the capacity of sites that differ.
        if result.plan.observed.listed:
            result = add_site_capacity(result, self.run.project.registries)
        plan = result.plan
        if plan.verdicts.separation_verdicts or not plan.errored:
            return plan.verdicts.separation_verdicts, plan.observed.listed, []
        errors = [
            p
            for p in plan.diagnostics
            if p.severity is Severity.ERROR and p.id not in _CAPACITY_ERRORS
        ]
        return (), plan.observed.listed, errors

    def _read_date(self) -> str:
        """Return the date of this run."""
        return read_clock(self.run.project.context.environment)[:_DATE_LENGTH]

    def _build_new_state(
        self,
        observed: Mapping[Address, ObjectState],
        replays: Sequence[SiteReplay],
        verification: PredictionResults,
    ) -> State:
        """Build the state with observations, verified predictions and replay scores.

        The old one if it is equal.
        """
        instances = dict(self.state.instances)
        for address, observed_object in observed.items():
            instances[address] = replace(instances[address], current=observed_object)
        for record in build_journal_records(verification, replace(self.state, instances=instances)):
            # With verified predictions in its private note.
            if record.instance is not None:
                instances[record.address] = record.instance
        for address, current in list(iterate_current_objects(instances)):
            if address.type != "nexus_site":
                # Only sites store scores.
                continue
            name = str(current.attributes.get("name"))
            scores = {
                replay.spread.value: {**_build_score_record(replay), "date": self._read_date()}
                for replay in replays
                if replay.site == name
            }
            if scores and current.note.get(PREDICTION_KEY) != scores:
                updated = replace(current, private={**current.note, PREDICTION_KEY: scores})
                instances[address] = replace(instances[address], current=updated)
        now = read_clock(self.run.project.context.environment)
        times = {
            item.address: item.exported_at
            for item in self._list_inventories()
            if not is_in_future(item.exported_at, now)
        }
        exports = {**self.state.exports, **times}
        if instances == self.state.instances and exports == self.state.exports:
            return self.state
        serial = self.state.serial + 1
        version = nexusform.__version__
        return replace(
            self.state,
            instances=instances,
            exports=exports,
            serial=serial,
            nexusform_version=version,
        )
