"""The `simulated` provider: serves every type and sends nothing anywhere.

Without settings, reality is what state remembers. With `reality = "FILE"` a JSON file plays the
real site. `fault` blocks plant errors, delays and unexpected answers.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path as FilePath
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from nexusform.diagnostics import Problem
from nexusform.plain_data import Path, known_parts
from nexusform.ports import ChangeRequest, ObjectKey, ProviderAnswer, ProviderProblem, ReadAnswer, ReadRequest
from nexusform.providers.registry import ProviderKind
from nexusform.regular_files import FREE, Confinement, Outside
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting
from nexusform.value_types import BOOL, DYNAMIC, NUMBER, STRING

if TYPE_CHECKING:  # most sites are played from state alone
    from nexusform.providers.reality import Reality

OPERATIONS: Final = ("create", "read", "update", "delete")
_DELAY: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)?")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}
_STEP: Final = re.compile(r'\.?([^\W\d][\w-]*)|\[(\d+)\]|\["((?:[^"\\]++|\\.)*+)"\]')


class Fault(Struct, frozen=True):
    """One `fault` block. `delay` in seconds; `times` 0 = always; `answer` pairs of path, value."""

    pattern: re.Pattern[str]
    operation: str
    error: str = ""
    delay: float = 0.0
    times: int = 1
    after_effect: bool = False
    answer: tuple[tuple[Path, Any], ...] = ()


class Faults(Struct):
    """The planted faults, each counted for itself."""

    faults: Sequence[Fault]
    _used: dict[int, int] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def strike(self, operation: str, address: str) -> list[Fault]:
        """The faults that hit this call, in the order written; each counts as used."""
        if not self.faults:
            return []
        hit: list[Fault] = []
        with self._lock:
            for number, fault in enumerate(self.faults):
                if fault.operation != operation or not fault.pattern.fullmatch(address):
                    continue
                used = self._used.get(number, 0)
                if fault.times == 0 or used < fault.times:
                    self._used[number] = used + 1
                    hit.append(fault)
        return hit

    def touches(self, operation: str) -> bool:
        """Whether any fault may hit such a call."""
        return any(fault.operation == operation for fault in self.faults)


def read_fault(block: Mapping[str, Any]) -> Fault:
    """A `fault` block's values. Raises ProviderProblem with a sentence for the user."""
    operation = str(block["operation"])
    if operation not in OPERATIONS:
        raise ProviderProblem(f'fault: operation must be one of {", ".join(OPERATIONS)}, not "{operation}".')
    address = str(block["address"])
    pattern = re.compile(".*".join(re.escape(part) for part in address.split("*")), re.DOTALL)
    times = block.get("times")
    return Fault(
        pattern=pattern,
        operation=operation,
        error=str(block.get("error") or ""),
        delay=read_delay(str(block.get("delay") or "0s")),
        times=1 if times is None else int(times),
        after_effect=bool(block.get("after_effect")),
        answer=tuple((read_path(path), value) for path, value in (block.get("answer") or {}).items()),
    )


def _read_faults(blocks: Sequence[Mapping[str, Any]]) -> list[Fault]:
    """Raises ProviderProblem with what is wrong of all."""
    faults: list[Fault] = []
    wrong: list[str] = []
    for block in blocks:
        try:
            faults.append(read_fault(block))
        except ProviderProblem as problem:
            wrong.append(str(problem))
    if wrong:
        raise ProviderProblem("\n".join(wrong))
    return faults


def read_delay(text: str) -> float:
    """Seconds of `2s`, `300ms`, `1.5m`. Raises ProviderProblem."""
    match = _DELAY.fullmatch(text.strip())
    if match is None:
        raise ProviderProblem(f'fault: delay "{text}" is no duration; write for example "2s" or "300ms".')
    return float(match.group(1)) * _SECONDS[match.group(2) or "s"]


def read_path(text: str) -> Path:
    """The steps of `nodes["a-np1-3"].machine`. Raises ProviderProblem."""
    steps: list[str | int] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            raise ProviderProblem(f'fault: answer names "{text}", which is no attribute path.')
        name, number, quoted = match.groups()
        steps.append(int(number) if number else name or re.sub(r"\\(.)", r"\1", quoted or ""))
        at = match.end()
    return tuple(steps)


def with_answer(attributes: Mapping[str, Any], answer: Sequence[tuple[Path, Any]]) -> dict[str, Any]:
    """The attributes with the answered values in place."""
    changed: Any = dict(attributes)
    for path, value in answer:
        changed = _put(changed, path, value)
    return dict(changed)


def _put(value: Any, path: Path, new: Any) -> Any:
    """A value with another part at a path; lists grow as far as needed."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        items = list(value) if isinstance(value, list) else []
        items += [None] * (step + 1 - len(items))
        items[step] = _put(items[step], rest, new)
        return items
    inner = value if isinstance(value, Mapping) else {}
    return {**inner, step: _put(inner.get(step), rest, new)}


NAME: Final = "nexusform.dev/builtin/simulated"

_FAULT: Final = BlockSchema(
    {
        "address": Attribute(STRING, "Instance address to fail; `*` is a wildcard.", required=True),
        "operation": Attribute(STRING, "The call to fail.", required=True, choices=OPERATIONS),
        "error": Attribute(STRING, "Error message. Default: the call succeeds.", optional=True),
        "delay": Attribute(
            STRING,
            'Delay before the call, for example "2s".',
            optional=True,
            pattern=rf"\s*{_DELAY.pattern}\s*",
            pattern_hint='a duration such as "2s" or "300ms"',
        ),
        "times": Attribute(NUMBER, "Number of times; 0 = always.", optional=True, default=1, minimum=0),
        "after_effect": Attribute(BOOL, "Fail after the change was made.", optional=True, default=False),
        "answer": Attribute(DYNAMIC, "Map of attribute path to the returned value.", optional=True),
    },
    description="A simulated fault, for tests and drills.",
)

SETTINGS: Final = BlockSchema(
    {
        "reality": Attribute(
            STRING,
            "JSON file that simulates the site, relative to the root module.",
            optional=True,
        ),
    },
    {"fault": NestedBlock(_FAULT, Nesting.LIST, "A simulated fault.")},
    "Records planned objects in state and sends nothing.",
)


def make(
    settings: Mapping[str, Any], directory: str, leaving: ExitStack, confinement: Confinement = FREE
) -> SimulatedProvider:
    """The provider for evaluated settings.

    `directory` is the root module's; `leaving` closes what is open when the run ends; the reality file stands
    where the `confinement` lets it. Raises ProviderProblem when a setting is wrong.
    """
    faults = Faults(_read_faults(settings.get("fault") or ()))
    reality: Reality | None = None
    if settings.get("reality"):
        from nexusform.providers.reality import Reality

        path = FilePath(directory) / str(settings["reality"])
        try:
            reality = Reality(FilePath(confinement.admitted(path)))
        except Outside as problem:
            raise ProviderProblem(f"The reality file {path} cannot be read: {problem.strerror}.") from None
    if reality is not None:
        leaving.callback(reality.close)
    return SimulatedProvider(reality, faults)


class SimulatedProvider:
    """A provider without a site. See the module's text."""

    name = NAME
    sends = False

    def __init__(
        self,
        reality: Reality | None = None,
        faults: Faults | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._reality = reality
        self._faults = faults or Faults(())
        self._sleep = sleep
        self.observes = reality is not None or self._faults.touches("read")

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadAnswer]:
        """What stands; without a reality file, what state remembers. Raises ProviderProblem."""
        return [self._read(request) for request in requests]

    def create(self, request: ChangeRequest) -> ProviderAnswer:
        """Make the object, or find that it is there already. Raises ProviderProblem."""
        planned = known_parts(request.planned or {})
        hit = self._before("create", request)
        standing = self._reality.get(request.key) if self._reality else None
        made = standing if standing is not None else with_answer(planned, _answers(hit))
        if self._reality and standing is None:
            self._reality.put(request.key, made)
        self._after(hit, made, exists=True)
        return _answer(planned, made, hit)

    def update(self, request: ChangeRequest) -> ProviderAnswer:
        """Change the object. Raises ProviderProblem."""
        planned = known_parts(request.planned or {})
        hit = self._before("update", request)
        made: Mapping[str, Any] = planned
        if self._reality:
            standing = self._reality.get(request.key)
            if standing is None:
                raise ProviderProblem(
                    f"{request.key.type} {request.key.id} is gone, so it cannot be changed."
                )
            made = _merged(request.prior, planned, standing)
        made = with_answer(made, _answers(hit)) if hit else made
        if self._reality:
            self._reality.put(request.key, made)
        self._after(hit, made, exists=False)
        return _answer(planned, made, hit)

    def delete(self, request: ChangeRequest) -> None:
        """Remove the object. Raises ProviderProblem."""
        hit = self._before("delete", request)
        if self._reality:
            self._reality.remove(request.key)
        self._after(hit, None, exists=False)

    def find(self, resource_type: str, object_id: str) -> tuple[ObjectKey, Mapping[str, Any]] | None:
        """The only object of that type and id in the reality file."""
        matches = self._reality.named(resource_type, object_id) if self._reality else []
        return matches[0] if len(matches) == 1 else None

    def remarks(self) -> list[Problem]:
        """Nothing: a reality file is all there is."""
        return []

    def _read(self, request: ReadRequest) -> ReadAnswer:
        """One object as the reality has it, or as an answer of the drill says."""
        hit = self._faults.strike("read", request.address)
        self._delay_and_fail(hit, after_effect=True)
        standing: Mapping[str, Any] | None = request.attributes or None
        if self._reality:
            standing = self._reality.get(request.key)
        answers = _answers(hit)
        if standing is not None and answers:
            standing = with_answer(standing, answers)
        return ReadAnswer(standing, observed=self._reality is not None or bool(answers))

    def _before(self, operation: str, request: ChangeRequest) -> list[Fault]:
        hit = self._faults.strike(operation, request.address)
        self._delay_and_fail(hit, after_effect=False)
        return hit

    def _delay_and_fail(self, hit: Sequence[Fault], *, after_effect: bool) -> None:
        """Wait, and fail where a fault fails before the effect (reads have none)."""
        for fault in hit:
            if fault.delay:
                self._sleep(fault.delay)
        for fault in hit:
            if fault.error and (after_effect or not fault.after_effect):
                raise ProviderProblem(fault.error)

    def _after(self, hit: Sequence[Fault], made: Mapping[str, Any] | None, *, exists: bool) -> None:
        for fault in hit:
            if fault.error and fault.after_effect:
                raise ProviderProblem(fault.error, exists=exists, attributes=made)


def _answers(hit: Sequence[Fault]) -> list[tuple[Path, Any]]:
    return [pair for fault in hit for pair in fault.answer]


def _answer(planned: Mapping[str, Any], made: Mapping[str, Any], hit: Sequence[Fault]) -> ProviderAnswer:
    """The answer, and what was seen rather than echoed: what differs, and what a fault answered."""
    seen = dict.fromkeys([*(path for path, _ in _answers(hit)), *_differing(planned, made, ())])
    return ProviderAnswer(made, tuple(seen))


def _merged(prior: Any, planned: Any, standing: Any) -> Any:
    """What an update leaves: what it changes as planned, the rest as it stands."""
    if planned == prior:
        return standing
    if isinstance(prior, Mapping) and isinstance(planned, Mapping) and isinstance(standing, Mapping):
        names = [*planned, *(n for n in standing if n not in planned and n not in prior)]
        return {n: _merged(prior.get(n), planned.get(n), standing.get(n)) for n in names}
    return planned


def _differing(planned: Any, made: Any, path: Path) -> Iterator[Path]:
    """The paths at which what was made differs from what was planned."""
    if planned == made:
        return
    if isinstance(planned, Mapping) and isinstance(made, Mapping):
        for name in dict.fromkeys([*planned, *made]):
            yield from _differing(planned.get(name), made.get(name), (*path, name))
        return
    if isinstance(planned, list) and isinstance(made, list) and len(planned) == len(made):
        for position, (want, have) in enumerate(zip(planned, made, strict=True)):
            yield from _differing(want, have, (*path, position))
        return
    yield path


PROVIDER: Final = ProviderKind(SETTINGS, make, frozenset({"answer"}))
