"""Assumptions as texts: `lost:rack/lab/rack1`, or `ADDR:PATH=VALUE`."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.configuration.body_preparation import build_prepared_body
from nexusform.configuration.static_arguments import EMPTY_SCOPE, is_constant_value
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    DiagnosticsError,
    SourceFile,
    build_error,
    suggest_name,
)
from nexusform.diagnostics.phrases import format_list
from nexusform.domain_table import explain_absent_domain
from nexusform.interfaces.plugins import ResourceType
from nexusform.json_data.plain_data import Path
from nexusform.language.parser import parse_file
from nexusform.language.syntax.syntax_nodes import JsonBody
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.edits import Edit
from nexusform.planning.hypothesis.losses import list_loss_kinds
from nexusform.planning.instances.argument_evaluation import format_argument
from nexusform.planning.plan_request import ArgumentAdjustment
from nexusform.resources.address import Address, AddressProblem, parse_address
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, find_schema

INVALID: Final = "invalid-assumption"
_LOST: Final = "lost:"
_MAX_NAMES: Final = 20
_STEP: Final = r'[A-Za-z_][\w-]*|\[\d{1,6}\]|\["(?:[^"\\]|\\.)*"\]'
# ADDR, PATH and VALUE. A key in brackets may contain a colon.
_ARGUMENT: Final = re.compile(
    r'((?:[^:"\[\]=]|\[\d+\]|\["(?:[^"\\]|\\.)*"\])+)'
    rf":((?:{_STEP})(?:\.?(?:{_STEP}))*)"
    r"\s*=(.+)",
    re.DOTALL,
)
_FORMS: Final = (
    "Write -assume=lost:KIND/NAME, or -assume=ADDR:PATH=VALUE with a literal of HCL, for example "
    "-assume=nexus_kubernetes_cluster.a:agent_pool.np1.count=5"
)


class Assumption(Struct, frozen=True):
    """Assumption of a hypothetical plan: its text as written, and the edits that it means."""

    text: str
    edits: tuple[Edit, ...]


def parse_assumption(
    text: str, before: PlanResult, types: Mapping[str, ResourceType]
) -> Assumption:
    """Parse one assumption; `before` is the plan without it.

    Raises DiagnosticsError: for a text of another form, and for an unknown object or argument.
    """
    if text.startswith(_LOST):
        return Assumption(text, _find_loss(text, before))
    return Assumption(text, (_parse_argument(text, before, types),))


def _find_loss(text: str, before: PlanResult) -> tuple[Edit, ...]:
    """Return the edits of a loss, `lost:KIND/NAME`."""
    word, _, name = text.removeprefix(_LOST).partition("/")
    kinds = list_loss_kinds()
    if word not in kinds:
        suggestion = explain_absent_domain(word, "losses") or suggest_name(word, kinds)
        forms = format_list(f"lost:{kind}/{kinds[kind].syntax}" for kind in kinds)
        raise _reject(text, f'there is no kind of loss "{word}".{suggestion} Use one of: {forms}')
    edits = kinds[word].list_edits(before)
    if name not in edits:
        noun = kinds[word].noun
        known = sorted(edits, key=str.encode)
        suggestion = suggest_name(name, known)
        known_text = f"Known: {format_list(known, _MAX_NAMES)}" if known else f"No {noun} is known"
        raise _reject(text, f'there is no {noun} "{name}".{suggestion} {known_text}')
    return tuple(edits[name])


def _parse_argument(
    text: str, before: PlanResult, types: Mapping[str, ResourceType]
) -> ArgumentAdjustment:
    """Return the edit of an argument, `ADDR:PATH=VALUE`."""
    match = _ARGUMENT.fullmatch(text)
    if match is None:
        raise _reject(text, f"this is not an assumption. {_FORMS}")
    address_text, path_text, value_text = match.groups()
    try:
        address = parse_address(address_text)
    except AddressProblem as problem:
        raise _reject(text, f"{str(problem).rstrip('.')}. {_FORMS}") from None
    attributes = _find_attributes(text, address, before)
    path = _parse_path(path_text)
    schema = find_schema(types[address.type].schema, path)
    if not isinstance(schema, AttributeSchema) or not schema.is_configurable:
        raise _reject(
            text, f"{address.type} has no argument {path_text}. Its reference page lists them"
        )
    _check_path(text, address, path, attributes, schema_of_type=types[address.type])
    return ArgumentAdjustment(address, path, _parse_value(text, path, value_text.strip(), schema))


def _find_attributes(text: str, address: Address, before: PlanResult) -> Mapping[str, Any]:
    """Return the attributes of an instance in the plan without assumptions."""
    planned = {change.address: change.after for change in before.plan.changes if not change.deposed}
    attributes = planned.get(address)
    if attributes is None:
        known = [name for name, after in planned.items() if after is not None]
        suggestion = suggest_name(str(address), map(str, known))
        raise _reject(
            text,
            f"no configured resource has the address {address}.{suggestion} "
            "Name one instance, with its key if the block has count or for_each",
        )
    return attributes


def _parse_path(text: str) -> Path:
    """Return the steps of `agent_pool.np1.count` or `agent_pool["np1"].count`."""
    path: list[str | int] = []
    for step in re.findall(_STEP, text):
        if step.startswith('["'):
            path.append(re.sub(r"\\(.)", r"\1", step[2:-2]))
        elif step.startswith("["):
            path.append(int(step[1:-1]))
        else:
            path.append(step)
    return tuple(path)


def _check_path(
    text: str,
    address: Address,
    path: Path,
    attributes: Mapping[str, Any],
    schema_of_type: ResourceType,
) -> None:
    """Check that the blocks on the path to an argument exist, and that it ends at the argument.

    Raises DiagnosticsError.
    """
    part: Any = attributes
    for position, step in enumerate(path[:-1]):
        try:
            part = part[step]
        except (KeyError, IndexError, TypeError):
            part = None
        if not isinstance(part, Mapping | list):
            name = format_argument(path[: position + 1], schema_of_type.schema)
            raise _reject(text, f"{address} has no {name}")
    if not isinstance(part, Mapping) or path[-1] not in part:
        argument = format_argument(path[:-1], schema_of_type.schema)
        raise _reject(text, f"an assumption replaces a whole argument: assume {argument} instead")


def _parse_value(text: str, path: Path, value_text: str, schema: AttributeSchema) -> Any:
    """Return the value of an HCL literal as plain data of the argument's type."""
    name = str(path[-1])
    body, problems = parse_file(SourceFile("-assume", f"{name} = {value_text}"))
    attributes = [] if isinstance(body, JsonBody) else body.attributes
    if problems or len(attributes) != 1:
        raise _reject(text, _join_details(problems) or "write one value")
    if not is_constant_value(attributes[0].expression):
        raise _reject(text, 'its value is an expression. Write a literal: 5, "text", true, [1, 2]')
    # All checks of the argument apply.
    prepared, problems = build_prepared_body(body, BlockSchema({name: schema}))
    values, _, value_problems = prepared.evaluate(EMPTY_SCOPE)
    problems += value_problems
    if problems:
        raise _reject(text, _join_details(problems))
    return values[name]


def _join_details(problems: Iterable[Diagnostic]) -> str:
    return " ".join(problem.detail for problem in problems).rstrip(".")


def _reject(text: str, reason: str) -> DiagnosticsError:
    """Return the error about an assumption; `reason` has no final period."""
    return DiagnosticsError(build_error(INVALID, f"-assume={text}: {reason}."))
