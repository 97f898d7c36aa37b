"""Verification of predictions for VMs by observations, recorded with the site of the VMs.

Only an observation by a provider verifies a prediction of a plan; a failed step verifies nothing.
Unobserved predictions stay open with their object (`open_claims` in its private note), until an
apply or `reconcile` observes all VMs of that pool.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.applying.answer_comparison import WrongPrediction
from nexusform.applying.events import StepEvent, StepOutcome
from nexusform.applying.open_predictions import (
    OpenPredictions,
    PredictedVm,
    read_open_predictions,
    set_open_predictions,
)
from nexusform.diagnostics.phrases import format_count, format_first_items, select_word_form
from nexusform.interfaces.plugins import ResourceType
from nexusform.json_data.plain_data import get_mapping
from nexusform.placement_kinds.placement_kind import VM
from nexusform.placements.prediction_scores import (
    COUNT_PREDICTION,
    MACHINE_PREDICTION,
    RACK_PREDICTION,
    TIE_PREDICTION,
    VerifiedPrediction,
    add_predictions_to_note,
)
from nexusform.placements.vm_demands import OBSERVED, PlacedVm, index_vms
from nexusform.plans.plan import PlacementAction, PlacementChange, PlacementTable, Plan, Step
from nexusform.plans.saved.tied_machines import TiedMachineReader
from nexusform.resources.address import Address
from nexusform.scheduling.racks.vms import Placement
from nexusform.state.journal import InstanceOutcome
from nexusform.state.objects import ObjectState, State

_SITE: Final = "nexus_site"
_MAX_TIED: Final = 5
_PLACING_ACTIONS: Final = frozenset({PlacementAction.PLACE, PlacementAction.MOVE})
_CHANGING_ACTIONS: Final = _PLACING_ACTIONS | {PlacementAction.REMOVE}


class PredictionResults(Struct, frozen=True):
    """Verified predictions by site id, and open ones of objects with changes, by address."""

    verified: Mapping[str, Sequence[VerifiedPrediction]]
    unverified: Mapping[Address, OpenPredictions]


def verify_predictions(
    plan: Plan,
    completed: Collection[str],
    state: State,
    types: Mapping[str, ResourceType],
    waiting: Collection[str] = (),
) -> PredictionResults:
    """Verify the predictions of the plan for completed objects, and open ones of earlier plans.

    `completed` are the addresses of these objects. `waiting` are those with a step left to another
    process: their VMs to move are still at their former machines.
    """
    objects = {
        address: current
        for address, current in state.list_current_objects()
        if str(address) in completed
    }
    return verify_object_predictions(objects, types, _collect_predictions(plan, completed, waiting))


def verify_object_predictions(
    objects: Mapping[Address, ObjectState],
    types: Mapping[str, ResourceType],
    new: Mapping[Address, OpenPredictions],
) -> PredictionResults:
    """Verify the open predictions of observed `objects`.

    An earlier apply recorded them in the private note of their object, because nothing was observed
    then. The predictions in `new` replace those of the same pools.
    """
    # Verified predictions by site id.
    verified: dict[str, list[VerifiedPrediction]] = {}
    # To replace other open ones in the note.
    unverified: dict[Address, OpenPredictions] = {}
    for address, observed in objects.items():
        recorded = read_open_predictions(observed.private)
        new_predictions = new.get(address, {})
        # Nothing to verify.
        if not recorded and not new_predictions:
            continue
        owner_id = str(observed.attributes.get("id"))
        resource_type = types.get(address.type)
        existing_vms: Iterable[PlacedVm] = ()
        if resource_type is not None and resource_type.vms is not None:
            existing_vms = resource_type.vms.list_existing_vms(observed.attributes)
        vms = index_vms(existing_vms)
        earlier = {
            pool: predicted for pool, predicted in recorded.items() if pool not in new_predictions
        }
        newly_verified, remaining = verify_open_predictions(
            {**earlier, **new_predictions}, vms, owner_id
        )
        if newly_verified:
            site_id, _, _ = owner_id.partition("/")
            verified.setdefault(site_id, []).extend(newly_verified)
        if remaining != recorded:
            unverified[address] = remaining
    return PredictionResults(verified, unverified)


def verify_open_predictions(
    open_predictions: OpenPredictions, vms: Mapping[tuple[str, int | str], PlacedVm], owner_id: str
) -> tuple[list[VerifiedPrediction], OpenPredictions]:
    """Return the verified predictions of an object, and the open ones of unobserved pools."""
    verified: list[VerifiedPrediction] = []
    remaining: dict[str, tuple[PredictedVm, ...]] = {}
    for pool, predictions in open_predictions.items():
        checked_predictions: list[PredictedVm] = []
        for prediction in predictions:
            checked = prediction
            vm = vms.get((pool, prediction.number))
            # Without this origin, no provider observed it.
            if vm is not None and vm.provenance == OBSERVED:
                checked = replace(
                    prediction, observed_placement=vm.placement, object=prediction.object or vm.name
                )
            checked_predictions.append(checked)
        if any(checked.observed_placement is not None for checked in checked_predictions):
            # The name is without the site.
            _, _, name = owner_id.partition("/")
            # A separate pool is named in its id.
            title = name if "/" in name else f"{name}/{pool}"
            verified.extend(_verify_pool_predictions(title, checked_predictions))
        else:
            remaining[pool] = predictions
    return verified, remaining


def _collect_predictions(
    plan: Plan, completed: Collection[str], waiting: Collection[str]
) -> dict[Address, dict[str, tuple[PredictedVm, ...]]]:
    """Return the plan's predictions for the VMs of completed objects, by address and pool.

    No prediction is certain on a site with incomplete objects, because the plan was certain only
    for the case with all of their VMs.
    """
    # The certainty of pools.
    tables = _index_tables(plan)
    ties = TiedMachineReader(plan)
    completed_rows: list[PlacementChange] = []
    incomplete_sites: set[str] = set()
    for row in plan.placements:
        if row.kind == VM and row.action in _CHANGING_ACTIONS:
            if str(row.address) in completed:
                completed_rows.append(row)
            else:
                incomplete_sites.add(row.site_id)
    predictions: dict[Address, dict[str, tuple[PredictedVm, ...]]] = {}
    for row in completed_rows:
        if (
            row.action not in _PLACING_ACTIONS
            or row.certainty is None
            or not isinstance(row.target, Placement)
        ):
            # The VM is removed, or has no prediction.
            continue
        if row.action is PlacementAction.MOVE and str(row.address) in waiting:
            # The next plan predicts it again.
            continue
        rack = row.target.rack
        machine = row.target.machine
        prediction = PredictedVm(row.number, rack, machine, row.certainty, object=row.object)
        table = tables.get((row.site_id, row.cluster, row.pool))
        if table is not None:
            prediction = replace(prediction, tied_machines=ties.list_machines(table))
        if table is not None and row.site_id not in incomplete_sites:
            prediction = replace(
                prediction,
                # 0 also if earlier certain ones were partly wrong.
                is_machine_certain=table.machines_certain > 0,
                is_count_certain=rack in table.certain_racks,
                is_tie_certain=table.is_tie_certain,
            )
        object_predictions = predictions.setdefault(row.address, {})
        object_predictions[row.pool] = (*object_predictions.get(row.pool, ()), prediction)
    return predictions


def _index_tables(plan: Plan) -> dict[tuple[str, str, str], PlacementTable]:
    """Return the placement tables by site id, cluster and pool."""
    return {
        (table.site_id, table.cluster, table.pool): table for table in plan.figures.placement_tables
    }


def select_tied(
    plan: Plan, wrong_predictions: Sequence[WrongPrediction], state: State
) -> list[WrongPrediction]:
    """Return the wrong predictions about ties.

    The VM runs on another machine, equally good by the placement rule.
    """
    if not wrong_predictions:
        return []
    tables = _index_tables(plan)
    # By address and name of the VM.
    tied_machines: dict[tuple[str, str], tuple[str, ...]] = {}
    reader = TiedMachineReader(plan)
    for row in plan.placements:
        table = tables.get((row.site_id, row.cluster, row.pool))
        if table is not None and row.kind == VM and row.action in _PLACING_ACTIONS:
            tied_machines[str(row.address), row.object] = reader.list_machines(table)
    ties: list[WrongPrediction] = []
    attributes_by_address = {
        str(address): current.attributes for address, current in state.list_current_objects()
    }
    for prediction in wrong_predictions:
        # Cells, not the name of a machine or rack.
        if not isinstance(prediction.predicted, str):
            continue
        attributes = attributes_by_address.get(prediction.address, {})
        # The path is ("nodes", "web-1", "machine") in a map of VMs, and ("machine",) of an object
        # that is a VM.
        *path_of_vm, _ = prediction.path
        name = str(path_of_vm[-1] if path_of_vm else attributes.get("name"))
        machine = get_mapping(attributes, *path_of_vm).get("machine")
        if machine in tied_machines.get((prediction.address, name), ()):
            ties.append(prediction)
    return ties


def list_vms_without_machine(
    plan: Plan, completed: Collection[str], state: State, types: Mapping[str, ResourceType]
) -> list[str]:
    """Return the names of VMs placed by the plan, but without a machine in state.

    Only VMs of `completed` objects (addresses) are checked.
    """
    # Address, pool and number of those with a machine.
    placed_vms: set[tuple[Address, str, int | str]] = set()
    for address, current in state.list_current_objects():
        handlers = types[address.type].vms if str(address) in completed else None
        if handlers is not None:
            placed_vms.update(
                (address, vm.pool, vm.number)
                for vm in handlers.list_existing_vms(current.attributes)
            )
    names: list[str] = []
    for row in plan.placements:
        is_placed_by_plan = row.kind == VM and row.action in _PLACING_ACTIONS
        is_placed_in_state = (row.address, row.pool, row.number) in placed_vms
        if is_placed_by_plan and not is_placed_in_state and str(row.address) in completed:
            names.append(row.object)
    return names


def list_completed_objects(
    events: Iterable[StepEvent], plan: Plan, earlier: Iterable[Step] = ()
) -> frozenset[str]:
    """Return the addresses with all steps done.

    By this run (`events`), or by an earlier one (the steps `earlier`).
    """
    completed = {str(plan.changes[step.change].address) for step in earlier}
    incomplete: set[str] = set()
    for event in events:
        if event.outcome is StepOutcome.DONE:
            completed.add(event.address)
        else:
            incomplete.add(event.address)
    return frozenset(completed - incomplete)


def _verify_pool_predictions(
    pool: str, predictions: Sequence[PredictedVm]
) -> Iterator[VerifiedPrediction]:
    """Yield verified predictions of a pool.

    They are the rack and machine of observed VMs, and the VMs per rack if all are observed.
    """
    pairs = [(prediction, prediction.observed_placement) for prediction in predictions]
    observed = [(prediction, placement) for prediction, placement in pairs if placement is not None]
    yield from _verify_single_vm_predictions(observed)
    if len(observed) == len(predictions):
        counts = Counter(placement.rack for _, placement in observed)
        predicted_counts = Counter(prediction.rack for prediction in predictions)
        # All of a rack have one rack_count.
        last_by_rack = {prediction.rack: prediction for prediction in predictions}
        for rack, number in predicted_counts.items():
            prediction = last_by_rack[rack]
            observed_count = counts.get(rack, 0)
            certainty = prediction.certainty
            # Of rack, machine and rack count.
            _, _, unreduced_share = certainty.measured or (None, None, None)
            # Numbers of equally good racks, machines and counts.
            _, _, tied_count = certainty.tied
            is_certain = certainty.rack_count >= 1 and prediction.is_count_certain
            text = (
                f"{format_count(number, 'new VM')} of {pool} "
                f"{select_word_form(number, 'was', 'were')} predicted "
                f"with certainty on rack {rack}, but {observed_count} "
                f"{select_word_form(observed_count, 'runs', 'run')} there"
            )
            is_correct = observed_count == number
            chance = 1 / max(tied_count, 1)
            yield VerifiedPrediction(
                COUNT_PREDICTION,
                certainty.rack_count,
                chance,
                is_correct,
                unreduced_share,
                is_certain,
                text,
            )


def _verify_single_vm_predictions(
    observed: Sequence[tuple[PredictedVm, Placement]],
) -> Iterator[VerifiedPrediction]:
    """Yield the verified predictions of single VMs.

    Predicted are the rack, the machine, and the tied machines (equally good by the placement rule).
    VMs of a pool are interchangeable, so a VM on a machine counts for the most certain prediction
    of this machine. Only a machine predicted in every sample (simulated placement) was certain.
    """
    # VMs not yet counted for a prediction.
    racks = Counter(placement.rack for _, placement in observed)
    machines = Counter(placement.machine for _, placement in observed)
    most_certain_first = sorted(
        observed, key=lambda pair: (-pair[0].certainty.machine, -pair[0].certainty.rack)
    )
    for prediction, placement in most_certain_first:
        certainty = prediction.certainty
        # Shares before a reduction by the accuracy of earlier predictions; None without one.
        old_rack, old_machine, _ = certainty.measured or (None, None, None)
        # Chances of a correct guess.
        rack_chance, machine_chance, _ = (1 / max(number, 1) for number in certainty.tied)
        is_certain = certainty.machine >= 1 and prediction.is_machine_certain
        result = f"but runs on {placement.machine}"
        text = f"{prediction.object} was predicted with certainty on {prediction.machine}, {result}"
        is_rack_correct = _take_observed_vm(racks, prediction.rack)
        is_machine_correct = _take_observed_vm(machines, prediction.machine)
        yield VerifiedPrediction(
            RACK_PREDICTION, certainty.rack, rack_chance, is_rack_correct, old_rack
        )
        yield VerifiedPrediction(
            MACHINE_PREDICTION,
            certainty.machine,
            machine_chance,
            is_machine_correct,
            old_machine,
            is_certain,
            text,
        )
        if prediction.tied_machines and not is_certain:
            # The rule always allows the tied machines, so a guess is correct, too: share and
            # chance are 1.
            count = len(prediction.tied_machines)
            tied_machines = format_first_items(prediction.tied_machines, _MAX_TIED)
            names = f"one of {tied_machines}" if count > 1 else tied_machines
            tie_text = f"{prediction.object} was predicted on {names}, {result}"
            is_correct = placement.machine in prediction.tied_machines
            yield VerifiedPrediction(
                TIE_PREDICTION,
                1.0,
                1.0,
                is_correct,
                is_certain=prediction.is_tie_certain,
                text=tie_text,
            )


def _take_observed_vm(counts: Counter[str], name: str) -> bool:
    """Subtract one VM from the observed VMs of the rack or machine `name`.

    Return whether one was left.
    """
    counts[name] -= 1
    return counts[name] >= 0


def build_journal_records(results: PredictionResults, state: State) -> Iterator[InstanceOutcome]:
    """Yield records that add predictions to private notes.

    Verified ones are added to the notes of sites, and open ones to those of objects.
    """
    for address, current in state.list_current_objects():
        private = current.private
        if address in results.unverified:
            private = set_open_predictions(private, results.unverified[address])
        site_predictions = (
            results.verified.get(str(current.attributes.get("id")))
            if address.type == _SITE
            else None
        )
        if site_predictions:
            private = add_predictions_to_note(private, site_predictions)
        if private is not current.private:
            updated = replace(current, private=private)
            instance = replace(state.instances[address], current=updated)
            yield InstanceOutcome(address, current.creation, instance)
