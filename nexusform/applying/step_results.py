"""Results of provider answers and failures.

A moved VM takes rack and availability zone from its machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.applying.answer_comparison import (
    ProviderAnswerComparison,
    WrongPrediction,
    compare_answer,
)
from nexusform.applying.provider_calls import (
    ProviderCall,
    add_new_current_object,
    build_object_state,
    merge_note,
    remove_object,
    replace_current_object,
    set_failed_change,
)
from nexusform.interfaces.plugins import ChangeResult, ProviderProblem
from nexusform.json_data.plain_data import (
    Path,
    format_path,
    get_mapping,
    get_part,
    get_text,
    list_unknown_paths,
    replace_unknown,
)
from nexusform.placements.prediction_scores import (
    NOT_VERIFIED_KEY,
    VerifiedPrediction,
    add_predictions_to_note,
)
from nexusform.plans.plan import StepKind
from nexusform.schemas.block_schema import BlockSchema
from nexusform.state.attribute_validation import validate_attributes
from nexusform.state.objects import InstanceState, State, get_current_object

_RACK: Final = "nexus_rack"
_MACHINE: Final = "nexus_bare_metal_machine"


class MachineLocations:
    """Machines of a state with locations, read on first use and for unknown machines."""

    def __init__(self, state: Callable[[], State]) -> None:
        # Called if a machine is not in `_locations`.
        self._state = state
        # (rack, zone) by site and machine.
        self._locations: dict[tuple[str, str], tuple[str, str]] = {}

    def update_locations(self, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an object's attributes with the current racks and zones of its machines.

        Maps of VMs in the attributes get them too.
        """
        site = str(attributes.get("id")).partition("/")[0]
        changed: dict[str, Any] = self._compute_location_change(site, attributes)
        for name, entries in attributes.items():
            if not isinstance(entries, dict):
                # No map of VMs.
                continue
            updated = dict(entries)
            for key, entry in entries.items():
                location = self._compute_location_change(site, entry)
                if location:
                    updated[key] = {**entry, **location}
                    changed[name] = updated
        return {**attributes, **changed} if changed else attributes

    def _compute_location_change(self, site: str, entry: Any) -> dict[str, Any]:
        """Return the rack and zone of a VM's machine if they differ from those in `entry`.

        `entry` has the attributes of the VM. Return {} if they are equal, for an unknown machine,
        and for an entry that is no VM with a machine.
        """
        if not isinstance(entry, Mapping) or "rack" not in entry or not entry.get("machine"):
            return {}
        machine = str(entry["machine"])
        # First use, or new in the state.
        if (site, machine) not in self._locations:
            self._locations = _index_locations(self._state())
        location = self._locations.get((site, machine))
        if location is None or location == (entry["rack"], entry.get("availability_zone")):
            return {}
        rack, zone = location
        return {"rack": rack, "availability_zone": zone}


def _index_locations(state: State) -> dict[tuple[str, str], tuple[str, str]]:
    """Return the names of the rack and zone of each machine in state, by site and machine.

    Sites and machines are given by name.
    """
    # Name and zone by id, SITE/RACK.
    racks: dict[str, tuple[str, str]] = {}
    locations: dict[tuple[str, str], tuple[str, str]] = {}
    # Rack id and name of those with their own resource.
    machines: list[tuple[str, str]] = []
    for address, current in state.list_current_objects():
        attributes = current.attributes
        if address.type == _MACHINE:
            machines.append((str(attributes.get("rack_id")), str(attributes.get("name"))))
        elif address.type == _RACK:
            rack_id = str(attributes.get("id"))
            racks[rack_id] = (str(attributes.get("name")), str(attributes.get("availability_zone")))
            for machine in get_mapping(attributes, "machines"):
                locations[rack_id.partition("/")[0], machine] = racks[rack_id]
    # All racks are known now.
    for rack_id, machine in machines:
        if rack_id in racks:
            locations[rack_id.partition("/")[0], machine] = racks[rack_id]
    return locations


class StepResult(Struct, frozen=True):
    """Result of a step.

    `instance` is the new instance at its address, `error` "" on success; `hits` and
    `wrong_predictions` are the checked predictions, `predictions` those verified by the provider.
    """

    instance: InstanceState | None
    error: str = ""
    hits: int = 0
    wrong_predictions: tuple[WrongPrediction, ...] = ()
    predictions: tuple[VerifiedPrediction, ...] = ()

    def update_locations(self, locations: MachineLocations) -> StepResult:
        """Return the result with the current racks and zones, after a prediction was wrong.

        They are those of the machines of the result.
        """
        current = get_current_object(self.instance)
        if current is None:
            return self
        updated = replace(current, attributes=locations.update_locations(current.attributes))
        return replace(self, instance=replace_current_object(self.instance, updated))


def build_answer_result(
    call: ProviderCall,
    answer: ChangeResult | None,
    schema: BlockSchema | None,
    before: InstanceState | None,
) -> StepResult:
    """Return the result of an answer (None after a delete).

    Values other than planned are stored, with an error.
    """
    if answer is None:
        # Other objects at the address stay.
        return StepResult(remove_object(before, call.deposed))
    type_errors = validate_attributes(schema, answer.attributes) if schema is not None else []
    if type_errors:
        # Attributes of the wrong type cannot be written to state, but the object exists.
        type_error = f"{format_path(type_errors[0].path)}: {type_errors[0].detail}"
        rejection = f"The answer of provider {call.provider.name} cannot be used. {type_error}"
        return build_failure_result(call, ProviderProblem(rejection, object_exists=True), before)
    address = str(call.change.address)
    planned = call.step.attributes
    observed_paths = answer.observed_paths
    comparison = compare_answer(
        address, schema, planned, answer.attributes, observed_paths, answer.accepted_paths
    )
    unknown = list(list_unknown_paths(comparison.attributes))
    attributes = replace_unknown(comparison.attributes) if unknown else comparison.attributes
    # "" if as planned.
    disagreement = _format_answer_problems(call, comparison, answer.attributes, unknown)
    instance = _build_instance(call, attributes, before, is_tainted=False)
    if instance.current is not None and call.step.kind is not StepKind.RELEASE:
        note = {**answer.note, NOT_VERIFIED_KEY: answer.not_verified or None}
        updated = merge_note(set_failed_change(instance.current, answer.unfinished_change), note)
        updated = replace(
            updated, private=add_predictions_to_note(updated.private, answer.verified_predictions)
        )
        instance = replace(instance, current=updated)
        # The provider's message.
        disagreement = disagreement or get_text(answer.unfinished_change, "message")
    # Without a difference from the plan, report certain predictions found wrong by the provider.
    wrong_predictions = comparison.wrong_predictions or tuple(
        WrongPrediction(address, path=(), text=prediction.text)
        for prediction in answer.verified_predictions
        if prediction.share >= 1 and not prediction.was_correct and prediction.text
    )
    return StepResult(
        instance, disagreement, comparison.hits, wrong_predictions, answer.verified_predictions
    )


def build_failure_result(
    call: ProviderCall, problem: ProviderProblem, before: InstanceState | None
) -> StepResult:
    """Return the result of a failure.

    If a create fails after the object exists, the object is tainted, and the next plan replaces it.
    A failed update or release keeps the attributes reported by the provider, else the previous
    ones, without a taint: the next plan sees the difference and retries.
    """
    error = str(problem) or "The provider gave no reason."
    if call.step.kind is StepKind.CREATE and problem.object_exists:
        attributes = problem.attributes if problem.attributes is not None else call.step.attributes
        return StepResult(
            _build_instance(call, replace_unknown(attributes), before, is_tainted=True), error
        )
    # A create or delete: nothing was done.
    if call.step.kind not in (StepKind.UPDATE, StepKind.RELEASE):
        return StepResult(before, error)
    instance = before
    if problem.attributes is not None:
        instance = _build_instance(
            call, replace_unknown(problem.attributes), before, is_tainted=False
        )
    current = get_current_object(instance)
    if current is not None and problem.unfinished_change:
        instance = replace_current_object(
            instance, set_failed_change(current, problem.unfinished_change)
        )
    return StepResult(instance, error)


def _build_instance(
    call: ProviderCall,
    attributes: Mapping[str, Any],
    before: InstanceState | None,
    *,
    is_tainted: bool,
) -> InstanceState:
    """Build the instance with these attributes after a create, update or release.

    Its other objects are as before.
    """
    new_object = build_object_state(call.change, attributes, is_tainted=is_tainted)
    current = get_current_object(before)
    if current is not None and call.step.kind is StepKind.RELEASE:
        # A release only frees capacity: the rest of the object, such as notes, changes in
        # a later step.
        new_object = replace(current, attributes=attributes)
    if call.keeps_old:
        return add_new_current_object(before, new_object, call.key.type)
    return replace_current_object(before, new_object)


def _format_answer_problems(
    call: ProviderCall,
    comparison: ProviderAnswerComparison,
    answer: Mapping[str, Any],
    unknown: Sequence[Path],
) -> str:
    """Format the problems of an answer as sentences; "" for none."""
    sentences: list[str] = []
    changed_paths = [path for path in comparison.disagreements if _is_changed(call, answer, path)]
    for path in comparison.disagreements:
        planned = _format_value(call, call.step.planned, path)
        actual = _format_value(call, answer, path)
        text = f"{format_path(path)} was planned as {planned}"
        if path in changed_paths:
            sentences.append(f"{text}, and is {actual} now: changed by others.")
        else:
            sentences.append(f"{text}, but the provider returned {actual}.")
    sentences += [f"{format_path(path)} is still unknown in the answer." for path in unknown]
    if not sentences:
        return ""
    if len(changed_paths) == len(sentences):
        return (
            f"{' '.join(sentences)} The values were saved, so the next plan starts from them; the "
            "object is not marked for replacement."
        )
    return (
        f"The answer of provider {call.provider.name} does not match the plan. "
        f"{' '.join(sentences)} The answer was saved, so the next plan starts from it; the object "
        "is not marked for replacement."
    )


def _is_changed(call: ProviderCall, answer: Mapping[str, Any], path: Path) -> bool:
    """Return whether others changed a value of a real object during its update.

    It is then neither the value before the step nor the planned one.
    """
    prior = get_mapping(call.change.before)
    if call.change.before is None or not call.provider.observes_objects:
        return False
    return bool(get_part(answer, path) != get_part(prior, path))


def _format_value(call: ProviderCall, attributes: Any, path: Path) -> str:
    """Format the value at a path in at most 80 characters, unless a part of it is sensitive."""
    for sensitive in call.change.sensitive_after:
        shared_length = min(len(path), len(sensitive))
        if path[:shared_length] == sensitive[:shared_length]:
            return "(sensitive value)"
    from json import dumps

    text = dumps(get_part(attributes, path), ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."
