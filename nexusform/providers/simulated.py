"""`simulated` provider: it serves every type and sends nothing.

Without settings, the state is the reality. With `reality = "FILE"` a JSON file simulates the real
site. `fault` blocks inject errors, delays and unexpected answers.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path as FilePath
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem
from nexusform.files.regular_files import UNCONFINED, Confinement, OutsideConfinement
from nexusform.interfaces.plugins import (
    ChangeRequest,
    ChangeResult,
    ObjectKey,
    ProviderProblem,
    ReadRequest,
    ReadResult,
)
from nexusform.json_data.plain_data import (
    Path,
    format_path,
    get_list,
    get_mapping,
    get_part,
    get_text,
    replace_unknown,
)
from nexusform.providers.provider_definition import ProviderDefinition
from nexusform.scheduling.machine_actions import MACHINE_ACTION_TYPE, SUCCEEDED, record_result
from nexusform.scheduling.site_inventory import OBSERVED_KEY
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, NestedBlock, Nesting
from nexusform.schemas.value_types import BOOL, DYNAMIC, NUMBER, STRING

# Most sites are simulated from state alone.
if TYPE_CHECKING:
    from nexusform.providers.simulated_reality import Reality

OPERATIONS: Final = ("create", "read", "update", "delete")
_DELAY: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)?")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}
_STEP: Final = re.compile(r'\.?([^\W\d][\w-]*)|\[([0-9]{1,18})\]|\["((?:[^"\\]++|\\.)*+)"\]')


class Fault(Struct, frozen=True):
    """One `fault` block.

    `delay` is in seconds. `times` is how often the fault occurs; 0 means always. `answer` has pairs
    of path and value.
    """

    pattern: re.Pattern[str]
    operation: str
    error: str = ""
    delay: float = 0.0
    times: int = 1
    after_effect: bool = False
    answer: tuple[tuple[Path, Any], ...] = ()


class Faults(Struct):
    """Injected faults, each with its own counter."""

    faults: Sequence[Fault]
    _used: dict[int, int] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def trigger(self, operation: str, address: str) -> list[Fault]:
        """Return the faults for a call in configured order, and count their use.

        A fault with `times` 0 has no limit.
        """
        triggered: list[Fault] = []
        for number, fault in enumerate(self.faults):
            if fault.operation != operation or not fault.pattern.fullmatch(address):
                continue
            with self._lock:
                used = self._used.get(number, 0)
                if fault.times == 0 or used < fault.times:
                    self._used[number] = used + 1
                    triggered.append(fault)
        return triggered

    def list_reads(self, address: str) -> list[Fault]:
        """Return the faults of reads of an object, without counting their use."""
        return [
            fault
            for fault in self.faults
            if fault.operation == "read" and fault.pattern.fullmatch(address)
        ]


def parse_fault(block: Mapping[str, Any]) -> Fault:
    """Parse the values of a `fault` block.

    Raises ProviderProblem with a sentence for the user.
    """
    address = str(block["address"])
    # * is a wildcard.
    pattern = re.compile(".*".join(map(re.escape, address.split("*"))), re.DOTALL)
    answer = block.get("answer") or {}
    if not isinstance(answer, Mapping):
        raise ProviderProblem('fault: answer must be an object such as { name = "b" }.')
    return Fault(
        pattern=pattern,
        operation=str(block["operation"]),
        error=get_text(block, "error"),
        delay=parse_delay(str(block.get("delay") or "0s")),
        times=int(block.get("times", 1)),
        after_effect=bool(block.get("after_effect")),
        answer=tuple((parse_path(path), value) for path, value in answer.items()),
    )


def parse_delay(text: str) -> float:
    """Return the seconds of `2s`, `300ms`, `1.5m`.

    Raises ProviderProblem.
    """
    match = _DELAY.fullmatch(text.strip())
    if match is None:
        raise ProviderProblem(f'fault: delay "{text}" is not a duration such as "2s" or "300ms".')
    number, unit = match.groups()
    return float(number) * _SECONDS[unit or "s"]


def parse_path(text: str) -> Path:
    """Return the steps of a path: ("nodes", "np-1", "machine") of `nodes["np-1"].machine`.

    Raises ProviderProblem.
    """
    steps: list[str | int] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise ProviderProblem(f'fault: answer "{text}" is not an attribute path.')
        name, number, quoted = match.groups()
        steps.append(
            int(number) if number else name or re.sub(r"\\(.)", r"\1", quoted)
        )  # unescaped
        position = match.end()
    return tuple(steps)


def apply_answer(
    attributes: Mapping[str, Any], answer: Sequence[tuple[Path, Any]]
) -> dict[str, Any]:
    """Return the attributes with the values of an injected answer at their paths."""
    changed: Any = dict(attributes)
    for path, value in answer:
        changed = _replace_value_at_path(changed, path, value)
    return dict(changed)


def _replace_value_at_path(value: Any, path: Path, new: Any) -> Any:
    """Return a value with another part at a path; lists are extended as needed."""
    if not path:
        return new
    step = path[0]
    remaining_path = path[1:]
    if isinstance(step, int):
        items = [*get_list(value)]
        items += [None] * (step + 1 - len(items))
        items[step] = _replace_value_at_path(items[step], remaining_path, new)
        return items
    inner = get_mapping(value)
    return {**inner, step: _replace_value_at_path(inner.get(step), remaining_path, new)}


NAME: Final = "nexusform.dev/builtin/simulated"

_FAULT: Final = BlockSchema(
    {
        "address": AttributeSchema(
            STRING, "Instance address to fail; `*` is a wildcard.", required=True
        ),
        "operation": AttributeSchema(
            STRING, "The call to fail.", required=True, choices=OPERATIONS
        ),
        "error": AttributeSchema(
            STRING, "Error message. Default: the call succeeds.", optional=True
        ),
        "delay": AttributeSchema(
            STRING,
            'Delay before the call, for example "2s".',
            optional=True,
            pattern=rf"\s*{_DELAY.pattern}\s*",
            pattern_hint='a duration such as "2s" or "300ms"',
        ),
        "times": AttributeSchema(
            NUMBER, "Number of times per command; 0 = always.", optional=True, default=1, minimum=0
        ),
        "after_effect": AttributeSchema(
            BOOL, "Fail after the change was made.", optional=True, default=False
        ),
        "answer": AttributeSchema(
            DYNAMIC, "Map of attribute path to the returned value.", optional=True
        ),
    },
    description="A simulated fault, for tests and drills.",
)

SETTINGS: Final = BlockSchema(
    {
        "reality": AttributeSchema(
            STRING, "JSON file that simulates the site, relative to the root module.", optional=True
        )
    },
    {"fault": NestedBlock(_FAULT, Nesting.LIST, "A simulated fault.")},
    "Records planned objects in state and sends nothing.",
)


def make_provider(
    settings: Mapping[str, Any],
    directory: str,
    exit_stack: ExitStack,
    confinement: Confinement = UNCONFINED,
) -> SimulatedProvider:
    """Build the provider from evaluated settings.

    Its reality file (JSON with the objects of a simulated site) is relative to the root module's
    `directory` and within the `confinement`. `exit_stack` closes open files at the end of the run.
    Raises ProviderProblem for an invalid setting.
    """
    faults: list[Fault] = []
    mistakes: list[str] = []
    for block in get_list(settings, "fault"):
        try:
            faults.append(parse_fault(block))
        except ProviderProblem as problem:
            mistakes.append(str(problem))
    if mistakes:
        raise ProviderProblem("\n".join(mistakes))
    reality: Reality | None = None
    if settings.get("reality"):
        from nexusform.providers.simulated_reality import Reality

        path = FilePath(directory) / str(settings["reality"])
        try:
            reality = Reality(FilePath(confinement.resolve(path)))
            reality.load()
        except OutsideConfinement as problem:
            raise ProviderProblem(
                f"The reality file {path} cannot be read: {problem.strerror}."
            ) from None
        exit_stack.callback(reality.close)
    return SimulatedProvider(reality, Faults(faults))


class SimulatedProvider:
    """Provider without a site.

    See the module docstring.
    """

    name = NAME
    sends_changes = False

    def __init__(
        self,
        reality: Reality | None = None,
        faults: Faults | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Observe objects only with a reality or a fault of a read.

        `sleep` waits for the delays of faults.
        """
        self._reality = reality
        self._faults = faults or Faults(())
        self._sleep = sleep
        # Type and id of the objects in state.
        self._managed: set[tuple[str, str]] = set()
        has_read_faults = any(fault.operation == "read" for fault in self._faults.faults)
        self.observes_objects = reality is not None or has_read_faults

    def set_state_objects(
        self, _objects: Iterable[Mapping[str, Any]], managed: Iterable[tuple[str, str]]
    ) -> None:
        """Take type and id of all objects in state: another object of one of these replaces it."""
        self._managed.update(managed)

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadResult]:
        """Return the objects in the reality file, or those of the state without such a file.

        They are the objects of the simulated site. Raises ProviderProblem.
        """
        # An object in state has attributes.
        if self._reality and any(request.attributes for request in requests):
            self._reality.check_presence()
        results: list[ReadResult] = []
        for request in requests:
            faults = self._faults.trigger("read", request.address)
            # A read has no effect: all errors count.
            self._apply_delays_and_failures(faults, after_effect=True)
            # {}: state does not contain the object.
            existing: Mapping[str, Any] | None = request.attributes or None
            if self._reality:
                existing = self._reality.get_attributes(request.key)
            answers = _list_answers(faults)
            if existing is not None:
                existing = apply_answer(existing, answers)
            results.append(ReadResult(existing))
        return results

    def create(self, request: ChangeRequest) -> ChangeResult:
        """Create the object, unless it exists already.

        Raises ProviderProblem.
        """
        planned = replace_unknown(request.planned_attributes)
        faults = self._trigger_faults_before_effect("create", request)
        if request.key.type == MACHINE_ACTION_TYPE:
            from nexusform.providers.clock import read_clock

            now = read_clock()
            # It starts and ends now.
            planned = record_result(planned, now, now, SUCCEEDED)
        result = self._find_unfinished_object(request) if self._reality else None
        if result is None:
            result = apply_answer(planned, _list_answers(faults))
            if self._reality:
                self._reality.set_attributes(request.key, result)
        self._raise_fault_after_effect(faults, result, was_created=True)
        return _build_answer(planned, result, faults)

    def _find_unfinished_object(self, request: ChangeRequest) -> Mapping[str, Any] | None:
        """Return the object left by an interrupted run of this creation, None without one.

        Raises ProviderProblem if an object of another state has its id. Objects of this state may
        have it: the creation replaces them.
        """
        assert self._reality is not None
        key = request.key
        existing = self._reality.get_attributes(key)
        # An earlier run started this step, or its object is recorded as tainted.
        is_repeated = request.resumed_operation is not None or request.is_repeated_create
        is_managed = (key.type, key.id) in self._managed
        # A state that was pushed after a failed save has the object of an unfinished step.
        if existing is not None and (is_repeated or is_managed):
            return existing
        has_other_object = not is_managed and self._reality.find_objects(key.type, key.id)
        if existing is not None or has_other_object:
            raise ProviderProblem(
                f"{key.type} {key.id} already exists, and this state did not create it. Import it, "
                f"or set another name:\nnexusform import {request.address} {key.id}"
            )
        return None

    def update(self, request: ChangeRequest) -> ChangeResult:
        """Change only the values changed by the plan: others may differ in the real object.

        Raises ProviderProblem.
        """
        planned = replace_unknown(request.planned_attributes)
        faults = self._trigger_faults_before_effect("update", request)
        result: Mapping[str, Any] = planned
        if self._reality:
            existing = self._reality.get_attributes(request.key)
            if existing is None:
                raise ProviderProblem(
                    f"Cannot change {request.key.type} {request.key.id}: it does not exist."
                )
            # An earlier run of this step may have changed it.
            if request.resumed_operation is None:
                _check_start_values(request, planned, existing)
            result = _merge_planned_changes_into_existing(request.prior, planned, existing)
        result = apply_answer(result, _list_answers(faults))
        if self._reality:
            self._reality.set_attributes(request.key, result)
        self._raise_fault_after_effect(faults, result, was_created=False)
        # A changed machine has its new arguments: remove the observed effect of earlier actions
        # from its note.
        note = {OBSERVED_KEY: None} if OBSERVED_KEY in request.private_note else {}
        return replace(_build_answer(planned, result, faults), note=note)

    def delete(self, request: ChangeRequest) -> None:
        """Remove the object.

        Raises ProviderProblem.
        """
        faults = self._trigger_faults_before_effect("delete", request)
        if self._reality:
            # An earlier run of this step may have removed a part.
            if request.resumed_operation is None:
                self._check_deleted_object(request, self._reality.get_attributes(request.key))
            self._reality.set_attributes(request.key, None)
        self._raise_fault_after_effect(faults, attributes=None, was_created=False)

    def _check_deleted_object(
        self, request: ChangeRequest, existing: Mapping[str, Any] | None
    ) -> None:
        """Raise ProviderProblem if the object to delete is not as the plan shows it.

        Others may have deleted it, and made one of the same id. A replacement may create the new
        object first: it has the next number.
        """
        assert self._reality is not None
        key = request.key
        numbers = [other.creation for other, _ in self._reality.find_objects(key.type, key.id)]
        if existing is None and any(number > key.creation + 1 for number in numbers):
            raise ProviderProblem(
                f"{key.type} {key.id} was created again since the plan. The object was not "
                "changed. Plan again."
            )
        if existing is None or request.prior is None:
            return
        # The plan has these values from a fault.
        answers = _list_answers(self._faults.list_reads(request.address))
        prior, current = (apply_answer(values, answers) for values in (request.prior, existing))
        path = next(_find_differences(prior, current, ()), None)
        if path is not None:
            raise _build_moved_value_problem(request, path, current)

    def find(
        self, resource_type: str, object_id: str
    ) -> tuple[ObjectKey, Mapping[str, Any]] | None:
        """Return the only object of that type and id in the reality file."""
        matches = self._reality.find_objects(resource_type, object_id) if self._reality else []
        return matches[0] if len(matches) == 1 else None

    def list_warnings(self) -> list[Problem]:
        """Return no warnings."""
        return []

    def _trigger_faults_before_effect(self, operation: str, request: ChangeRequest) -> list[Fault]:
        """Return the faults of a call.

        Wait, and raise ProviderProblem if one fails it before its effect.
        """
        faults = self._faults.trigger(operation, request.address)
        self._apply_delays_and_failures(faults, after_effect=False)
        return faults

    def _apply_delays_and_failures(self, faults: Sequence[Fault], *, after_effect: bool) -> None:
        """Wait, then fail by the first error injected before the effect.

        With `after_effect`, errors injected at any time count.
        """
        for fault in faults:
            if fault.delay:
                self._sleep(fault.delay)
        for fault in faults:
            if fault.error and (after_effect or not fault.after_effect):
                raise ProviderProblem(fault.error)

    def _raise_fault_after_effect(
        self, faults: Sequence[Fault], attributes: Mapping[str, Any] | None, *, was_created: bool
    ) -> None:
        """Raise ProviderProblem for the first error injected after the effect.

        It has the object as it is then. If the call was a create (`was_created`), the apply records
        the object as tainted.
        """
        for fault in faults:
            if fault.error and fault.after_effect:
                raise ProviderProblem(fault.error, object_exists=was_created, attributes=attributes)


def _list_answers(faults: Sequence[Fault]) -> list[tuple[Path, Any]]:
    """Return the values injected by the faults into an answer, as pairs of path and value."""
    return list(chain.from_iterable(fault.answer for fault in faults))


def _build_answer(
    planned: Mapping[str, Any], result: Mapping[str, Any], faults: Sequence[Fault]
) -> ChangeResult:
    """Build the answer of a change.

    Observed paths are those different from the plan, and those injected by faults.
    """
    observed = dict.fromkeys(
        [*(path for path, _ in _list_answers(faults)), *_find_differences(planned, result, ())]
    )
    return ChangeResult(result, tuple(observed))


def _check_start_values(
    request: ChangeRequest, planned: Mapping[str, Any], existing: Mapping[str, Any]
) -> None:
    """Raise ProviderProblem if a value that the plan changes is another one in the real object.

    It is then neither that before the plan nor the planned one.
    """
    path = _find_moved_value(request.prior, planned, existing)
    if path is not None:
        raise _build_moved_value_problem(request, path, existing)


def _build_moved_value_problem(
    request: ChangeRequest, path: Path, existing: Mapping[str, Any]
) -> ProviderProblem:
    """Build the problem of a value that changed since the plan."""
    values = ""
    if not request.is_sensitive:
        texts = [get_part(part, path) for part in (existing, request.prior)]
        if not any(isinstance(text, Mapping | list) for text in texts):
            values = f": it is {texts[0]} there, and {texts[1]} before the plan"
    return ProviderProblem(
        f"{format_path(path)} of {request.key.type} {request.key.id} changed since the plan"
        f"{values}. The object was not changed. Plan again."
    )


def _find_moved_value(prior: Any, planned: Any, existing: Any, path: Path = ()) -> Path | None:
    """Return the path of a value that differs from both the prior and the planned one.

    Only values that the plan changes count.
    """
    if planned == prior or existing in (prior, planned):
        return None
    if not all(isinstance(value, Mapping) for value in (prior, planned, existing)):
        return path
    for name in {**prior, **planned}:
        moved = _find_moved_value(
            prior.get(name), planned.get(name), existing.get(name), (*path, name)
        )
        if moved is not None:
            return moved
    return None


def _merge_planned_changes_into_existing(prior: Any, planned: Any, existing: Any) -> Any:
    """Return the result of an update.

    Values changed by the plan are as planned, and the others as in the real object. `prior` is the
    value before the plan, `existing` the one in the real object: {"a": 1, "b": 1}, changed to
    {"a": 2, "b": 1} by the plan, is {"a": 2, "b": 5} if the object has b = 5. Names removed by the
    plan are removed.
    """
    if planned == prior:
        return existing
    if (
        isinstance(prior, Mapping)
        and isinstance(planned, Mapping)
        and isinstance(existing, Mapping)
    ):
        removed_names = prior.keys() - planned.keys()
        return {
            name: _merge_planned_changes_into_existing(
                prior.get(name), planned.get(name), existing.get(name)
            )
            for name in {**planned, **existing}
            if name not in removed_names
        }
    return planned


def _find_differences(planned: Any, result: Any, path: Path) -> Iterator[Path]:
    """Yield the paths with differences between the planned and the resulting object.

    Mappings and lists of equal length are compared part by part: for `{"a": [1, 2]}` and `{"a": [1,
    3]}` the path is ("a", 1). Other values differ as a whole. `path` is the path of the two values.
    """
    if planned == result:
        return
    if isinstance(planned, Mapping) and isinstance(result, Mapping):
        for name in {**planned, **result}:
            yield from _find_differences(planned.get(name), result.get(name), (*path, name))
    elif isinstance(planned, list) and isinstance(result, list) and len(planned) == len(result):
        for position, planned_item in enumerate(planned):
            yield from _find_differences(planned_item, result[position], (*path, position))
    else:
        yield path


PROVIDER: Final = ProviderDefinition(SETTINGS, make_provider, frozenset({"answer"}))
