"""The arguments of an instance: evaluated, named, checked."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from nexusform.configuration.prepared_body import Remarks
from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.plain_data import Path
from nexusform.planning.instances.difference import ignoring, null_elements, undecided_paths
from nexusform.planning.instances.instance import DECIDING_ID, UNDECIDED, Instance
from nexusform.planning.names.evaluation import Evaluation
from nexusform.schema import Attribute, BlockSchema, Nesting, at_path
from nexusform.value_types import MapType


def evaluate(instance: Instance, evaluation: Evaluation) -> list[Diagnostic]:
    """Give the instance its arguments: evaluated, named, checked, ignored changes taken back."""
    assert instance.prepared is not None
    assert instance.module is not None
    assert instance.repetition is not None
    resource_type = instance.type
    scope = evaluation.scope(instance.module, instance.repetition)
    remarks = Remarks()
    arguments = instance.prepared.fill(scope, remarks)
    instance.arguments = replace(instance.arguments, refined=tuple(remarks.refined))
    diagnostics = [_about(instance, problem) for problem in remarks.problems]
    diagnostics += _null_elements(instance, arguments)
    files = evaluation.setting.files
    if resource_type.unpack is not None and files is not None:
        unpacked, problems = resource_type.unpack(arguments, files)
        arguments |= unpacked
        diagnostics += [instance.problem(problem) for problem in problems]
    if resource_type.fill is not None:
        filled = resource_type.fill(arguments)
        arguments |= {name: value for name, value in filled.items() if arguments.get(name) is None}
    diagnostics += _default_name(instance, arguments)
    sensitive = _with_shown(resource_type.schema, tuple(remarks.sensitive))
    instance.arguments = replace(instance.arguments, sensitive=sensitive)
    secrets = _deciding_secrets(instance)
    diagnostics += secrets
    if resource_type.check is not None and not secrets:  # a check could tell what the secret is
        diagnostics += [instance.problem(problem, arguments) for problem in resource_type.check(arguments)]
    instance.broken |= has_errors(diagnostics)
    hides = resource_type.secrets if not instance.broken else None
    instance.arguments = replace(
        instance.arguments,
        config=_without_ignored(instance, arguments),
        secrets=hides(arguments) if hides is not None else instance.arguments.secrets,
    )
    return diagnostics


def _about(instance: Instance, problem: Diagnostic) -> Diagnostic:
    """A problem that names the instance and its block, where it names none itself."""
    block = instance.block.header if instance.block is not None else ""
    return replace(problem, address=problem.address or str(instance.address), block=problem.block or block)


def _null_elements(instance: Instance, arguments: dict[str, Any]) -> list[Diagnostic]:
    """An error per list, set or map with a null among its elements."""
    diagnostics = []
    for path in null_elements(instance.type.schema, arguments):
        detail = (
            f'"{argument_text(path, instance.type.schema)}" holds a null value. Leave the element out, for '
            "example with compact()."
        )
        diagnostics.append(instance.error("null-value-in-a-collection", detail, path))
    return diagnostics


def _default_name(instance: Instance, arguments: dict[str, Any]) -> list[Diagnostic]:
    """Where no `name` is written, the object keeps the one that it has (it may have been moved to a block of
    another name), and the name of the block stands in for a new one, unless several instances would share it.
    """
    name = instance.type.schema.attributes.get("name")
    if name is None or not name.optional or arguments.get("name") is not None:
        return []
    block = instance.block
    assert block is not None
    if block.count is None and block.for_each is None:
        prior_name = instance.prior.attributes.get("name") if instance.prior is not None else None
        arguments["name"] = prior_name or block.name
        return []
    key = "each.key" if block.for_each is not None else "count.index"
    return [
        error(
            "missing-required-argument",
            'The argument "name" must be given where a block stands for several instances: the block\'s own '
            f'name can only be used once. Write for example name = "{block.name}-${{{key}}}".',
            block.header_span,
            address=str(instance.address),
            block=block.header,
        )
    ]


def _without_ignored(instance: Instance, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with what ignore_changes names as it stands."""
    lifecycle = instance.lifecycle
    if instance.prior is None or not (lifecycle.ignore_all or lifecycle.ignore_changes):
        return arguments
    before = instance.prior.attributes
    return ignoring(arguments, before, lifecycle.ignore_changes, everything=lifecycle.ignore_all)


# --- sensitive values --------------------------------------------------------------------------


def _with_shown(schema: BlockSchema, sensitive: tuple[Path, ...]) -> tuple[Path, ...]:
    """The sensitive paths, and the computed attributes that would show parts of them."""
    paths: dict[Path, None] = dict.fromkeys(sensitive)
    for path in sensitive:
        attribute = schema.attributes.get(str(path[0])) if len(path) == 1 else None
        if attribute is not None:
            paths.update(((name,), None) for name in attribute.shown_in)
    return tuple(paths)


def _deciding_secrets(instance: Instance) -> list[Diagnostic]:
    """Sensitive values where names and places come from: every plan and table would show them."""
    diagnostics = []
    for path in instance.arguments.sensitive:
        attribute = at_path(instance.type.schema, path)
        if not isinstance(attribute, Attribute) or isinstance(attribute.type, MapType):
            continue
        if attribute.shown_in or not (attribute.decides_placement and attribute.configurable):
            continue
        detail = (
            f'"{argument_text(path, instance.type.schema)}" decides a name or a place, and those are '
            "shown in every plan, so it cannot be sensitive. Wrap it in nonsensitive() if it may be shown."
        )
        diagnostics.append(instance.error(DECIDING_ID, detail, path))
    return diagnostics


# --- values that must be known -----------------------------------------------------------------


def undecided(instance: Instance) -> tuple[Path, ...]:
    """Arguments that decide placements and are not known."""
    if instance.config is None:
        return ()
    return tuple(undecided_paths(instance.type.schema, instance.config))


def undecided_error(instance: Instance, path: Path) -> Diagnostic:
    """The error for one of them."""
    name = argument_text(path, instance.type.schema)
    return instance.error(
        UNDECIDED,
        f'"{name}" decides where things land, so it must be known in the plan, and its value is known only '
        "after apply. Use a literal, a variable, or an attribute that nexusform computes in the plan "
        "(ids, names, placements); timestamp() and uuid() are known only after apply.",
        path,
    )


def argument_text(path: Path, schema: BlockSchema) -> str:
    """A path as written in a configuration: `agent_pool["np1"].count`."""
    text, label, inner = "", False, schema
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
            continue
        text += f'["{step}"]' if label else f".{step}" if text else step
        block = None if label else inner.blocks.get(step)
        label = block is not None and block.nesting is Nesting.MAP
        inner = block.schema if block is not None else inner
    return text
