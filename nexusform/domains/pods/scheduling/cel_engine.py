"""CEL expressions over devices, evaluated by the library cel-expr-python of the extra "devices".

The module runs in a child process with limits, because a short expression can use gigabytes.
Source: kubernetes staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go.
"""

import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct, convert

from nexusform.files.limited_worker import serve_requests
from nexusform.kubernetes.quantity import read_quantity

_VERSION_KEY: Final = "version"
# Maps of a device by domain; a missing domain is an empty map in Kubernetes.
_MAP: Final = re.compile(r"device\.(?:attributes|capacity)\b")
_TEXT: Final = re.compile(r"""["](?:[^"\\]|\\.)*["]|'(?:[^'\\]|\\.)*'""")
_DEVICE: Final = re.compile(r"(?<![\w.])device\b")
_FIELD: Final = re.compile(
    r"(?<![\w.])device\s*\.\s*(?:driver|attributes|capacity|allowMultipleAllocations)\b"
)
_LOOKUP: Final = re.compile(
    r"""device\.(attributes|capacity)\[\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\]"""
)
_SEMVER: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)\Z")
_MILLI: Final = 1000
_MAX_INT64: Final = (1 << 63) - 1
# Version in the environments of Kubernetes.
_STRINGS_VERSION: Final = 2
_MAX_RECURSION: Final = 10_000
_RESULT_TYPES: Final = ("BOOL", "DYN", "ANY")
# Functions that neither loop nor build a text. With these alone, no expression of the permitted
# length reaches the cost that Kubernetes allows (decision 25).
_CHEAP_FUNCTIONS: Final = frozenset(
    {
        "asInteger",
        "compareTo",
        "contains",
        "endsWith",
        "has",
        "isGreaterThan",
        "isLessThan",
        "lowerAscii",
        "major",
        "matches",
        "minor",
        "quantity",
        "semver",
        "size",
        "startsWith",
        "upperAscii",
    }
)
_CALL: Final = re.compile(r"(\w+)\s*\(")
# Keywords before a bracket that groups.
_OPERATORS: Final = frozenset({"in"})
# The constants are "" there.
_LIST_OF_TEXTS: Final = re.compile(r"""\bin\s*\[\s*(?:""\s*,\s*)*""\s*\]""")
_LIST_OF_NUMBERS: Final = re.compile(r"\bin\s*\[\s*(?:-?\d+\s*,\s*)*-?\d+\s*\]")
_LOOKUP_BY_TEXT: Final = re.compile(r"""(?<=[\w\]])\[\s*""\s*\]""")
_NAME_OF_LOOKUP: Final = re.compile(
    r"""\bcel\.bind\(\s*\w+\s*,\s*device\.(?:attributes|capacity)\[\s*""\s*\]\s*,"""
)
# A comment, and a raw text, bytes or a text in three quotes.
_OTHER_NOTATION: Final = re.compile(r"""//|\w""|"{3}""")
# Errors of functions and overloads that Kubernetes has and the library has not.
_UNKNOWN_FUNCTION: Final = re.compile(
    r"undeclared reference|no matching overload for '(?:semver|indexOf|lastIndexOf)'"
)


class CelRequest(Struct, frozen=True):
    """An expression to compile, or to evaluate for a device of a driver.

    Attributes are triples of name, kind and value.
    """

    expression: str
    driver: str | None = None
    attributes: tuple[tuple[str, str, str | int | bool], ...] = ()
    capacity: tuple[tuple[str, int], ...] = ()


class CelAnswer(Struct, frozen=True):
    """Whether an expression selects the device, or why it cannot be compiled or evaluated.

    `is_invalid` means that kube-apiserver rejects it, or it fails on every device.
    """

    is_selected: bool = False
    problem: str = ""
    is_invalid: bool = False


def answer_request(request: CelRequest) -> CelAnswer:
    """Compile an expression, and evaluate it for the device of the request."""
    try:
        compiled = _compile(request.expression)
    except (RuntimeError, ValueError) as problem:
        _raise_for_memory(problem)
        text = str(problem)
        # The library has one class for all its errors.
        is_invalid = isinstance(problem, RuntimeError) and not _UNKNOWN_FUNCTION.search(text)
        text = text.partition("\n")[0].removeprefix("INVALID_ARGUMENT: ")
        return CelAnswer(problem=text, is_invalid=is_invalid)
    if request.driver is None:
        return _validate_expression(request, compiled)
    return _evaluate_expression(request, compiled)


def _validate_expression(request: CelRequest, compiled: Any) -> CelAnswer:
    """Validate an expression as kube-apiserver does; evaluate one that uses no device."""
    result_type = str(compiled.return_type())
    if result_type not in _RESULT_TYPES:
        return CelAnswer(problem=f"it returns {result_type}, not BOOL", is_invalid=True)
    construct = _find_costly_construct(request.expression)
    if construct:
        return CelAnswer(problem=f"whether Kubernetes accepts the cost of {construct} is not known")
    if _DEVICE.search(_TEXT.sub("", request.expression)):
        return CelAnswer()
    problem = _evaluate_expression(request, compiled).problem
    if not problem:
        return CelAnswer()
    return CelAnswer(problem=f"it fails on every device: {problem}", is_invalid=True)


def _find_costly_construct(expression: str) -> str:
    """Return the first construct whose cost is not bounded by the length of an expression, or "".

    These are loops, texts that are put together, values with another name than that of a lookup,
    and lists and maps other than a list of texts or of integers after `in`.
    """
    code = _TEXT.sub('""', expression)
    if _OTHER_NOTATION.search(code):
        return "a comment or another form of text"
    code = _NAME_OF_LOOKUP.sub("(", code)
    for name in _CALL.findall(code):
        if name not in _CHEAP_FUNCTIONS | _OPERATORS:
            return f"{name}()"
    if "+" in code:
        return "+"
    for bounded in (_LIST_OF_TEXTS, _LIST_OF_NUMBERS, _LOOKUP_BY_TEXT):
        code = bounded.sub("", code)
    return "a list or map" if "[" in code or "{" in code else ""


def _evaluate_expression(request: CelRequest, compiled: Any) -> CelAnswer:
    """Evaluate a compiled expression for the device of the request."""
    try:
        value = compiled.eval(data={"device": _build_device_value(request)}).value()
    except MemoryError:
        # The process ends.
        raise
    # The library has no class for its errors.
    except Exception as problem:  # noqa: BLE001
        _raise_for_memory(problem)
        return CelAnswer(problem=str(problem).partition("\n")[0])
    if not isinstance(value, bool):
        return CelAnswer(problem=str(value))
    return CelAnswer(is_selected=value)


def _raise_for_memory(problem: Exception) -> None:
    """Raise MemoryError if the library reports a lack of memory as another error."""
    if "std::bad_alloc" in str(problem):
        raise MemoryError from None


def _build_device_value(request: CelRequest) -> dict[str, Any]:
    """Build the value of `device` in CEL.

    A name without a domain gets the domain of the driver: `gpu.example.com/model`.
    """
    driver = request.driver or ""
    values: dict[str, dict[str, dict[str, Any]]] = {"attributes": {}, "capacity": {}}
    for name, kind, value in request.attributes:
        # Versions are maps in CEL, as those of `semver`.
        cel_value = {_VERSION_KEY: value} if kind == "version" else value
        _add_domain_value(values["attributes"], name, driver, cel_value)
    for name, amount in request.capacity:
        _add_domain_value(values["capacity"], name, driver, amount)
    # A lookup such as device.attributes["gpu.example.com"]: a domain without values is empty,
    # not an error.
    for part, double_quoted_domain, single_quoted_domain in _LOOKUP.findall(request.expression):
        values[part].setdefault(double_quoted_domain or single_quoted_domain, {})
    return {"driver": driver, "allowMultipleAllocations": False, **values}


def _add_domain_value(
    domains: dict[str, dict[str, Any]], name: str, driver: str, value: Any
) -> None:
    """Add a value to the domain of its full name (`domain/identifier`).

    A name without a domain belongs to the driver's.
    """
    domain, _, identifier = name.rpartition("/")
    domains.setdefault(domain or driver, {})[identifier] = value


@lru_cache(maxsize=100)
def _compile(expression: str) -> Any:
    """Compile an expression.

    Raise a ValueError if it uses `device.attributes` or `.capacity` other than by lookups, or
    `device` as a whole: amounts and versions have other types here.
    """
    code = _TEXT.sub("", expression)
    if len(_DEVICE.findall(code)) != len(_FIELD.findall(code)):
        raise ValueError("only fields of device are evaluated, not device as a whole")
    if len(_MAP.findall(expression)) != len(_LOOKUP.findall(expression)):
        raise ValueError('only lookups such as device.attributes["example.com"] are evaluated')
    return _create_environment().compile(expression)


@lru_cache(maxsize=1)
def _create_environment() -> Any:
    """Return the environment for CEL expressions.

    It has the library's extensions, and Kubernetes' functions for amounts and versions. CEL gets an
    amount as an integer (in thousandths), and a version as a map.
    """
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

    amount = cel.Type.INT
    version = cel.Type.MAP
    truth = cel.Type.BOOL
    text = cel.Type.STRING

    def declare(name: str, *overloads: tuple[Any, list[Any], Any]) -> Any:
        """Return the declaration of a function.

        An overload is its result type, parameter types and Python function.
        """
        # The function is called as a method of the first parameter.
        is_member = name not in ("quantity", "semver")
        return cel.FunctionDecl(
            name,
            [
                cel.Overload(f"{name}_{index}", result, parameters, is_member, function)
                for index, (result, parameters, function) in enumerate(overloads)
            ],
        )

    functions = [
        declare("quantity", (amount, [text], parse_device_quantity)),
        declare("semver", (version, [text], _parse_version)),
        declare(
            "compareTo",
            (amount, [amount, amount], lambda left, right: (left > right) - (left < right)),
            (amount, [version, version], _compare_versions),
        ),
        declare(
            "isGreaterThan",
            (truth, [amount, amount], lambda left, right: left > right),
            (truth, [version, version], lambda left, right: _compare_versions(left, right) > 0),
        ),
        declare(
            "isLessThan",
            (truth, [amount, amount], lambda left, right: left < right),
            (truth, [version, version], lambda left, right: _compare_versions(left, right) < 0),
        ),
        declare("asInteger", (amount, [amount], _convert_to_integer)),
        declare("major", (amount, [version], lambda value: _split_version(value)[0])),
        declare("minor", (amount, [version], lambda value: _split_version(value)[1])),
    ]
    return cel.NewEnv(
        variables={"device": cel.Type.DYN},
        extensions=[
            ext_bindings.ExtBindings(),
            ext_optional.ExtOptional(),
            ext_strings.ExtStrings(_STRINGS_VERSION),
        ],
        functions=functions,
    )


def parse_device_quantity(text: str) -> int:
    """Return a quantity in thousandths.

    Any other text, or an amount too large, is a ValueError.
    """
    quantity = read_quantity(text)
    if quantity is None:
        raise ValueError(f"{text} is not a quantity")
    amount = quantity.round_to_milli()
    if abs(amount) >= _MAX_INT64:
        raise ValueError(f"{text} is too large")
    return amount


def _convert_to_integer(amount: int) -> int:
    """Return an amount in thousandths as a whole number; a fraction is a ValueError."""
    if amount % _MILLI:
        raise ValueError("the quantity is not an integer")
    return amount // _MILLI


def _parse_version(text: str) -> dict[str, str]:
    """Return a version as a map, its form in CEL; any other text is a ValueError."""
    version = {_VERSION_KEY: text}
    # This raises the error of another text.
    _split_version(version)
    return version


def _split_version(version: Mapping[str, str]) -> tuple[int, ...]:
    """Return major, minor and patch number of a version; any other text is a ValueError."""
    match = _SEMVER.match(version[_VERSION_KEY])
    if match is None:
        raise ValueError(f"{version[_VERSION_KEY]} is not a version of three numbers")
    return tuple(map(int, match.groups()))


def _compare_versions(left: Mapping[str, str], right: Mapping[str, str]) -> int:
    """Return 1 if the left version is higher, -1 if it is lower, 0 if both are equal."""
    left_parts = _split_version(left)
    right_parts = _split_version(right)
    return (left_parts > right_parts) - (left_parts < right_parts)


def main() -> None:
    """Answer the requests on stdin."""
    # Nested expressions within the limits of the library.
    sys.setrecursionlimit(_MAX_RECURSION)
    _create_environment()
    serve_requests(lambda request: answer_request(convert(request, CelRequest)), sys.stdin.buffer)


if __name__ == "__main__":
    main()
