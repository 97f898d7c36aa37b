"""What an answer or a failure of a provider leaves behind.

An answer may move a VM to another machine and be silent about its rack and availability zone, which are those
of the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.applying.agreement import Agreement, Miss, agree
from nexusform.applying.standing import (
    ProviderCall,
    remembered,
    with_current,
    with_note,
    with_successor,
    with_unfinished,
    without_deposed,
)
from nexusform.forecasts import Claim, with_claims
from nexusform.plain_data import Path, known_parts, part_at, path_text, unknown_paths
from nexusform.plans.plan import StepKind
from nexusform.ports import ProviderAnswer, ProviderProblem
from nexusform.schema import BlockSchema
from nexusform.state.conformity import misfits
from nexusform.state.objects import InstanceState, State

_RACK: Final = "nexus_rack"
_MACHINE: Final = "nexus_bare_metal_machine"


class Whereabouts:
    """The machines of a state, looked through when they are first asked for, and again when a
    machine is not among them: its rack may have come since.
    """

    def __init__(self, state: Callable[[], State]) -> None:
        self._state = state
        self._places: dict[tuple[str, str], tuple[str, str]] | None = None

    def followed(self, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
        """An object's attributes with racks and zones as its machines say."""
        site = str(attributes.get("id")).partition("/")[0]
        changed: dict[str, Any] = self._place(site, attributes)
        for name, entries in attributes.items():
            if not isinstance(entries, dict):
                continue
            places = {key: self._place(site, entry) for key, entry in entries.items()}
            if any(places.values()):
                changed[name] = {
                    key: {**entry, **places[key]} if places[key] else entry for key, entry in entries.items()
                }
        return {**attributes, **changed} if changed else attributes

    def _place(self, site: str, entry: Any) -> dict[str, Any]:
        """What of a VM's rack and zone is to be otherwise; nothing of what is no VM."""
        if not isinstance(entry, Mapping) or "rack" not in entry or not entry.get("machine"):
            return {}
        place = self._of(site, str(entry["machine"]))
        if place is None or place == (entry["rack"], entry.get("availability_zone")):
            return {}
        return {"rack": place[0], "availability_zone": place[1]}

    def _of(self, site: str, machine: str) -> tuple[str, str] | None:
        if self._places is None or (site, machine) not in self._places:
            self._places = _places(self._state())
        return self._places.get((site, machine))


def _places(state: State) -> dict[tuple[str, str], tuple[str, str]]:
    """(site, machine) -> (rack, zone)."""
    racks: dict[str, tuple[str, str]] = {}
    places: dict[tuple[str, str], tuple[str, str]] = {}
    single: list[tuple[str, str]] = []
    for address, instance in state.instances.items():
        if instance.current is None or address.type not in {_RACK, _MACHINE}:
            continue
        attributes = instance.current.attributes
        if address.type == _MACHINE:
            single.append((str(attributes.get("rack_id")), str(attributes.get("name"))))
            continue
        rack_id = str(attributes.get("id"))
        racks[rack_id] = (str(attributes.get("name")), str(attributes.get("availability_zone")))
        for machine in attributes.get("machines") or ():
            places[rack_id.partition("/")[0], machine] = racks[rack_id]
    for rack_id, machine in single:
        if rack_id in racks:
            places[rack_id.partition("/")[0], machine] = racks[rack_id]
    return places


class Result(Struct, frozen=True):
    """How a step ended.

    `instance` is what stands at its address now, `error` "" when all is well; `hits` and `misses`
    say what became of the predictions, `claims` what its provider settled.
    """

    instance: InstanceState | None
    error: str = ""
    hits: int = 0
    misses: tuple[Miss, ...] = ()
    claims: tuple[Claim, ...] = ()

    def followed(self, whereabouts: Whereabouts) -> Result:
        """The same with the racks and zones of machines that were foretold otherwise."""
        if self.instance is None or self.instance.current is None:
            return self
        standing = self.instance.current
        attributes = whereabouts.followed(standing.attributes)
        made = replace(self.instance, current=replace(standing, attributes=attributes))
        return replace(self, instance=made)


def after_answer(
    call: ProviderCall,
    answer: ProviderAnswer | None,
    schema: BlockSchema | None,
    before: InstanceState | None,
) -> Result:
    """What stands after an answer.

    An answer that contradicts the plan is kept all the same, and told as an error.
    """
    if answer is None:
        # A delete takes out the object that it was about, and no other at that address.
        left = without_deposed(before, call.deposed) if call.deposed else with_current(before, None)
        return Result(left)
    mistakes = misfits(schema, answer.attributes) if schema is not None else []
    if mistakes:
        # Attributes of the wrong type cannot be written to state. The object is there all the same.
        mistake = f"{path_text(mistakes[0].path)}: {mistakes[0].detail}"
        refusal = f"The answer of provider {call.provider.name} cannot be used. {mistake}"
        return after_problem(call, ProviderProblem(refusal, exists=True), before)
    address = str(call.change.address)
    agreement = agree(address, schema, call.step.planned or {}, answer.attributes, answer.observed)
    unknown = list(unknown_paths(agreement.attributes))
    attributes = known_parts(agreement.attributes) if unknown else agreement.attributes
    complaint = _complaint(call, agreement, answer.attributes, unknown)
    instance = _instance_with(call, attributes, before, tainted=False)
    if instance.current is not None and call.step.kind is not StepKind.RELEASE:
        noted = with_note(with_unfinished(instance.current, answer.unfinished), answer.note)
        noted = replace(noted, private=with_claims(noted.private, answer.claims))
        instance = replace(instance, current=noted)
        complaint = complaint or str((answer.unfinished or {}).get("words", ""))
    return Result(instance, complaint, agreement.hits, agreement.misses, answer.claims)


def after_problem(call: ProviderCall, problem: ProviderProblem, before: InstanceState | None) -> Result:
    """What stands after a failure.

    A create that failed after the object came to be taints it: nobody knows how far it got, so the next
    plan replaces it. A failed update leaves what the provider says it left, else what stood before; it is
    not tainted, for the next plan sees the difference and tries again.
    """
    error = str(problem) or "The provider gave no reason."
    if call.step.kind is StepKind.CREATE and problem.exists:
        attributes = problem.attributes if problem.attributes is not None else call.step.planned
        return Result(_instance_with(call, known_parts(attributes or {}), before, tainted=True), error)
    changing = call.step.kind in (StepKind.UPDATE, StepKind.RELEASE)
    if changing and problem.attributes is not None:
        before = _instance_with(call, known_parts(problem.attributes), before, tainted=False)
    if changing and problem.unfinished and before is not None and before.current is not None:
        before = replace(before, current=with_unfinished(before.current, problem.unfinished))
    return Result(before, error)


def _instance_with(
    call: ProviderCall, attributes: Mapping[str, Any], before: InstanceState | None, *, tainted: bool
) -> InstanceState:
    made = remembered(call.change, attributes, tainted=tainted)
    if call.step.kind is StepKind.RELEASE and before is not None and before.current is not None:
        # A release only makes room ahead of the change proper: what the change notes comes with that one.
        made = replace(before.current, attributes=attributes)
    return with_successor(before, made, call.key.type) if call.keeps_old else with_current(before, made)


def _complaint(
    call: ProviderCall, agreement: Agreement, answer: Mapping[str, Any], unknown: Sequence[Path]
) -> str:
    """What is wrong with an answer, in sentences; "" when nothing is."""
    sentences: list[str] = []
    for path in agreement.disagreements:
        planned, answered = _shown(call, call.step.planned, path), _shown(call, answer, path)
        sentences.append(f"{path_text(path)} was planned as {planned}, and the provider answered {answered}.")
    sentences += [f"{path_text(path)} is still unknown in the answer." for path in unknown]
    if not sentences:
        return ""
    return (
        f"The answer of provider {call.provider.name} does not agree with the plan. {' '.join(sentences)} "
        "The answer was saved, so the next plan starts from it; the object is not marked for replacement."
    )


def _shown(call: ProviderCall, attributes: Any, path: Path) -> str:
    for sensitive in call.change.sensitive_after:
        shared = min(len(path), len(sensitive))
        if path[:shared] == sensitive[:shared]:
            return "(sensitive value)"
    from json import dumps

    text = dumps(part_at(attributes, path), ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."
