"""The `configuration` part of a plan document: what is written, not what it is worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nexusform.configuration.constants import constant, is_constant
from nexusform.configuration.model import AnyBody, Configuration, Module, Output, ResourceBlock, Variable
from nexusform.language.bodies import BodySchema, content
from nexusform.language.references import traversals
from nexusform.language.syntax import Expression, Traversal, TraverseAttribute
from nexusform.plain_data import to_plain
from nexusform.ports import Registries
from nexusform.rendering.json.naming import provider_name
from nexusform.rendering.notation.json_values import REDACTED
from nexusform.schema import BlockSchema, NestedBlock, Nesting


def configuration_document(configuration: Configuration, registries: Registries) -> dict[str, Any]:
    """Providers and the module tree, every expression as its constant or its references."""
    providers: dict[str, Any] = {}
    _collect_providers(configuration.root, providers)
    return {"provider_config": providers, "root_module": _module(configuration.root, registries)}


def expression_document(expression: Expression) -> dict[str, Any]:
    """`{"constant_value": x}`, `{"references": [...]}`, or `{}` when there is neither."""
    if is_constant(expression):
        value, problems = constant(expression)
        return {} if problems else {"constant_value": to_plain(value)[0]}
    references = reference_texts(traversals(expression))
    return {"references": references} if references else {}


def reference_texts(found: Iterable[Traversal]) -> list[str]:
    """Each traversal and every prefix of it down to the object it names, longest first."""
    texts: dict[str, None] = {}
    for traversal in found:
        steps = [traversal.root.name]
        prefixes = []
        for step in traversal.steps:
            steps.append(f".{step.name}" if isinstance(step, TraverseAttribute) else _index(step.key))
            prefixes.append("".join(steps))
        shortest = 2 if traversal.root.name == "data" else 1
        texts.update(dict.fromkeys(reversed(prefixes[shortest - 1 :] or [traversal.root.name])))
    return list(texts)


def _index(key: object) -> str:
    return f'["{key}"]' if isinstance(key, str) else f"[{key}]"


def _collect_providers(module: Module, found: dict[str, Any]) -> None:
    where = ".".join(f"module.{name}" for name in module.path)
    for key, provider in sorted(module.providers.items()):
        entry: dict[str, Any] = {"name": provider.name, "full_name": provider_name(provider.name)}
        if provider.alias:
            entry["alias"] = provider.alias
        if where:
            entry["module_address"] = where
        found[f"{where}:{key}" if where else key] = entry
    for call in module.calls.values():
        _collect_providers(call.module, found)


def _module(module: Module, registries: Registries) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if module.outputs:
        document["outputs"] = {name: _output(o) for name, o in sorted(module.outputs.items())}
    if module.resources:
        document["resources"] = [_resource(block, registries) for block in module.resources.values()]
    if module.calls:
        document["module_calls"] = {
            name: {
                "source": call.source,
                "expressions": {k: expression_document(e) for k, (e, _) in sorted(call.inputs.items())},
                **_repetition(call.count, call.for_each),
                "module": _module(call.module, registries),
                **_depends_on(call.depends_on),
            }
            for name, call in sorted(module.calls.items())
        }
    if module.variables:
        document["variables"] = {name: _variable(v) for name, v in sorted(module.variables.items())}
    return document


def _output(output: Output) -> dict[str, Any]:
    document: dict[str, Any] = {"expression": expression_document(output.expression)}
    if output.description:
        document["description"] = output.description
    if output.sensitive:
        document["sensitive"] = True
    return document | _depends_on(output.depends_on)


def _variable(variable: Variable) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if variable.default is not None:
        plain = to_plain(variable.default)[0]
        document["default"] = REDACTED if variable.sensitive and plain is not None else plain
    if variable.description:
        document["description"] = variable.description
    if variable.sensitive:
        document["sensitive"] = True
    return document


def _resource(block: ResourceBlock, registries: Registries) -> dict[str, Any]:
    table = registries.data_sources if block.mode == "data" else registries.resource_types
    found = table.get(block.type)
    prefix = "data." if block.mode == "data" else ""
    return {
        "address": f"{prefix}{block.type}.{block.name}",
        "mode": block.mode,
        "type": block.type,
        "name": block.name,
        "provider_config_key": block.provider or "simulated",
        "expressions": _expressions(block.body, found.schema) if found else {},
        "schema_version": 0,
        **_repetition(block.count, block.for_each),
        **_depends_on(block.depends_on),
    }


def _repetition(count: Expression | None, for_each: Expression | None) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if count is not None:
        document["count_expression"] = expression_document(count)
    if for_each is not None:
        document["for_each_expression"] = expression_document(for_each)
    return document


def _depends_on(found: Iterable[Traversal]) -> dict[str, Any]:
    texts = [reference_texts([t])[0] for t in found]
    return {"depends_on": texts} if texts else {}


def _expressions(body: AnyBody, schema: BlockSchema) -> dict[str, Any]:
    labels = {name: (b.label,) if b.nesting is Nesting.MAP else () for name, b in schema.blocks.items()}
    wanted = BodySchema(dict.fromkeys(schema.attributes, False), labels)
    # Complaints were made when the configuration was read.
    held, _ = content(body, wanted, partial=True)
    document: dict[str, Any] = {n: expression_document(a.expression) for n, a in held.attributes.items()}
    for block in held.blocks:
        _add_block(document, block.type, schema.blocks, [x.value for x in block.labels], block.body)
    return document


def _add_block(
    document: dict[str, Any],
    name: str,
    blocks: Mapping[str, NestedBlock],
    labels: list[str],
    body: AnyBody,
) -> None:
    inner = _expressions(body, blocks[name].schema)
    match blocks[name].nesting:
        case Nesting.SINGLE:
            document[name] = inner
        case Nesting.LIST:
            document.setdefault(name, []).append(inner)
        case Nesting.MAP:
            document.setdefault(name, {})[labels[0] if labels else ""] = inner
