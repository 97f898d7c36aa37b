"""Faults that users plant in the simulated provider: errors, delays and unexpected answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Final

from msgspec import Struct, field

from nexusform.plain_data import Path
from nexusform.ports import ProviderProblem

OPERATIONS: Final = ("create", "read", "update", "delete")
_DELAY: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)?")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}
_STEP: Final = re.compile(r'\.?([^\W\d][\w-]*)|\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]')


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
