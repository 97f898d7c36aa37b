"""CEL selectors of devices, evaluated in a child process with limits.

The limits are those of Kubernetes where it has them.
Source: kubernetes staging/src/k8s.io/api/resource/v1/types.go.
"""

from functools import lru_cache
from importlib.util import find_spec
from typing import Final

from msgspec import Struct, convert

from nexusform.diagnostics.missing_packages import format_installation
from nexusform.domains.pods.scheduling.cel_engine import CelAnswer, CelRequest
from nexusform.domains.pods.scheduling.cluster_records import Attribute, Device
from nexusform.files.limited_worker import LimitedWorker, WorkerFailure

# CELSelectorExpressionMaxLength.
_MAX_BYTES: Final = 10 * 1024
# Characters of an expression in a message.
_MAX_SHOWN: Final = 200
_WORKER: Final = LimitedWorker(
    "nexusform.domains.pods.scheduling.cel_engine", cpu_seconds=0.5, memory_mib=96, seconds=20
)


class CelSelectorError(Exception):
    """An expression fails on a device; the scheduler stops there, too."""


class SelectorProblem(Struct, frozen=True):
    """Why an expression is not evaluated here.

    `is_invalid` means that kube-apiserver rejects it, or it fails on every device.
    """

    text: str
    is_invalid: bool = False


@lru_cache(maxsize=1_000)
def find_selector_problem(expression: str) -> SelectorProblem | None:
    """Return why an expression cannot be evaluated here, None if it can."""
    size = len(expression.encode(errors="surrogatepass"))
    if size > _MAX_BYTES:
        text = f"it has {size:,} bytes, and Kubernetes allows {_MAX_BYTES:,}"
        return SelectorProblem(text, is_invalid=True)
    if find_spec("cel_expr_python") is None:
        return SelectorProblem(f"evaluation needs a library: {format_installation('devices')}")
    answer = _evaluate_request(CelRequest(expression))
    return SelectorProblem(answer.problem, answer.is_invalid) if answer.problem else None


def is_device_selected(expression: str, driver: str, device: Device) -> bool:
    """Return whether an expression selects a device.

    Raises CelSelectorError unless the result is boolean.
    """
    attributes = tuple(sorted(device.attributes.items()))
    answer = _evaluate_for_device(
        expression, driver, attributes, tuple(sorted(device.capacity.items()))
    )
    if answer.problem:
        raise CelSelectorError(
            f"selector {shorten_expression(expression)} fails on a device: {answer.problem}"
        )
    return answer.is_selected


def shorten_expression(expression: str) -> str:
    """Return the start of an expression for a message."""
    text = expression.strip()
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


@lru_cache(maxsize=20_000)
def _evaluate_for_device(
    expression: str,
    driver: str,
    attributes: tuple[tuple[str, Attribute], ...],
    capacity: tuple[tuple[str, int], ...],
) -> CelAnswer:
    """Return whether a CEL expression selects a device with these attributes and capacities."""
    # It used up its limits on another device.
    if expression in _EXHAUSTED:
        return _EXHAUSTED[expression]
    triples = tuple((name, kind, value) for name, (kind, value) in attributes)
    return _evaluate_request(CelRequest(expression, driver, triples, capacity))


_EXHAUSTED: Final[dict[str, CelAnswer]] = {}


def _evaluate_request(request: CelRequest) -> CelAnswer:
    """Return the answer of the child process; a request beyond its limits has a problem."""
    try:
        return convert(_WORKER.send_request(request), CelAnswer)
    except WorkerFailure as problem:
        answer = CelAnswer(problem=str(problem), is_invalid=True)
        _EXHAUSTED[request.expression] = answer
        return answer
