"""The `configuration` part of a plan document: what is written, not what it is worth; and the schemas of what
may be written, in the form of `terraform providers schema -json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from nexusform.configuration.declared.configuration import (
    DEFAULT_PROVIDER,
    AnyBody,
    Configuration,
    Module,
    ModuleCall,
    Output,
    ProviderBlock,
    ResourceBlock,
    Variable,
)
from nexusform.configuration.declared.constants import constant, is_constant
from nexusform.language.bodies import BodySchema, content
from nexusform.language.references import traversals
from nexusform.language.syntax.nodes import Expression, Traversal, TraverseAttribute
from nexusform.plain_data import to_plain
from nexusform.ports import Registries, ResourceType
from nexusform.providers.registry import PROVIDERS
from nexusform.rendering.json.json_parts import provider_name
from nexusform.rendering.notation.json_values import REDACTED
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting
from nexusform.value_types import type_to_json


def configuration_document(configuration: Configuration, registries: Registries) -> dict[str, Any]:
    """Providers and the module tree, every expression as its constant or its references."""
    providers: dict[str, Any] = {}
    root_module = _module_document(configuration.root, registries, providers)
    return {"provider_config": dict(sorted(providers.items())), "root_module": root_module}


def expression_document(expression: Expression) -> dict[str, Any]:
    """`{"constant_value": x}`, `{"references": [...]}`, or `{}` when there is neither."""
    if is_constant(expression):
        value, problems = constant(expression)
        return {} if problems else {"constant_value": to_plain(value)[0]}
    references = reference_texts(traversals(expression))
    return {"references": references} if references else {}


def reference_texts(references: Iterable[Traversal]) -> list[str]:
    """Each traversal and every prefix of it down to the object it names, longest first."""
    texts: dict[str, None] = {}
    for reference in references:
        texts.update(dict.fromkeys(reversed(_prefixes(reference))))
    return list(texts)


def _prefixes(reference: Traversal) -> list[str]:
    """`var.a`, `var.a.b`, ...: from the object that a traversal names to the whole of it."""
    prefixes = [reference.root.name]
    for step in reference.steps:
        text = f".{step.name}" if isinstance(step, TraverseAttribute) else _index(step.key)
        prefixes.append(f"{prefixes[-1]}{text}")
    # `data.type.name` names an object, `type.name` too; neither `data` nor the type alone does.
    shortest = 3 if reference.root.name == "data" else 2
    return prefixes[shortest - 1 :] or prefixes[:1]


def _index(key: object) -> str:
    return f'["{key}"]' if isinstance(key, str) else f"[{key}]"


def _provider_document(name: str, where: str, block: ProviderBlock | None) -> dict[str, Any]:
    """A provider as a module configures it; what uses one that nobody configures has it by name alone."""
    document: dict[str, Any] = {"name": name, "full_name": provider_name(name)}
    if block is not None and block.alias:
        document["alias"] = block.alias
    if where:
        document["module_address"] = where
    kind = PROVIDERS.get(name) if block is not None else None
    if block is not None and kind is not None:
        expressions = _expressions(block.body, kind.settings)
        if expressions:
            document["expressions"] = expressions
    return document


def _providers(module: Module, providers: dict[str, Any]) -> dict[str, str]:
    """The key of the configuration in `provider_config` by what each resource of a module names; adds those
    that are not there yet: what the module configures, and what it uses where neither it nor the root
    configures it, by `module.a.module.b:key`.
    """
    where = ".".join(f"module.{name}" for name in module.path)
    keys: dict[str, str] = {}
    for key, block in sorted(module.providers.items()):
        keys[key] = f"{where}:{key}" if where else key
        providers[keys[key]] = _provider_document(block.name, where, block)
    for used in sorted({block.provider or DEFAULT_PROVIDER for block in module.resources.values()}):
        if used not in keys and used in providers:
            keys[used] = used
        elif used not in keys:
            keys[used] = f"{where}:{used}" if where else used
            providers[keys[used]] = _provider_document(used.partition(".")[0], where, None)
    return keys


def _module_document(module: Module, registries: Registries, providers: dict[str, Any]) -> dict[str, Any]:
    """What a module declares, without what is empty; its providers are added to `providers`."""
    keys = _providers(module, providers)
    calls = sorted(module.calls.items())
    variables = sorted(module.variables.items())
    declared = {
        "outputs": {name: _output_document(output) for name, output in sorted(module.outputs.items())},
        "resources": [_resource_document(block, registries, keys) for block in module.resources.values()],
        "module_calls": {name: _call_document(call, registries, providers) for name, call in calls},
        "variables": {name: _variable_document(variable) for name, variable in variables},
    }
    return {name: documents for name, documents in declared.items() if documents}


def _call_document(call: ModuleCall, registries: Registries, providers: dict[str, Any]) -> dict[str, Any]:
    inputs = sorted(call.inputs.items())
    return {
        "source": call.source,
        "expressions": {name: expression_document(expression) for name, (expression, _) in inputs},
        **_repetition(call.count, call.for_each),
        "module": _module_document(call.module, registries, providers),
        **_depends_on(call.depends_on),
    }


def _output_document(output: Output) -> dict[str, Any]:
    document: dict[str, Any] = {"expression": expression_document(output.expression)}
    if output.description:
        document["description"] = output.description
    if output.sensitive:
        document["sensitive"] = True
    return document | _depends_on(output.depends_on)


def _variable_document(variable: Variable) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if variable.default is not None:
        plain = to_plain(variable.default)[0]
        document["default"] = REDACTED if variable.sensitive and plain is not None else plain
    if variable.description:
        document["description"] = variable.description
    if variable.sensitive:
        document["sensitive"] = True
    return document


def _resource_document(
    block: ResourceBlock, registries: Registries, providers: Mapping[str, str]
) -> dict[str, Any]:
    table = registries.data_sources if block.mode == "data" else registries.resource_types
    resource_type = table.get(block.type)
    prefix = "data." if block.mode == "data" else ""
    return {
        "address": f"{prefix}{block.type}.{block.name}",
        "mode": block.mode,
        "type": block.type,
        "name": block.name,
        "provider_config_key": providers[block.provider or DEFAULT_PROVIDER],
        "expressions": _expressions(block.body, resource_type.schema) if resource_type else {},
        "schema_version": 0,
        **_repetition(block.count, block.for_each),
        **_depends_on(block.depends_on),
    }


def _repetition(count: Expression | None, for_each: Expression | None) -> dict[str, Any]:
    """`count_expression` or `for_each_expression`, where one is written."""
    document: dict[str, Any] = {}
    if count is not None:
        document["count_expression"] = expression_document(count)
    if for_each is not None:
        document["for_each_expression"] = expression_document(for_each)
    return document


def _depends_on(references: Iterable[Traversal]) -> dict[str, Any]:
    texts = [reference_texts([reference])[0] for reference in references]
    return {"depends_on": texts} if texts else {}


def _expressions(body: AnyBody, schema: BlockSchema) -> dict[str, Any]:
    """A body's arguments and nested blocks."""
    labels = {name: _label_names(block) for name, block in schema.blocks.items()}
    body_schema = BodySchema(dict.fromkeys(schema.attributes, False), labels)
    # Complaints were made when the configuration was read.
    written, _ = content(body, body_schema, partial=True)
    document: dict[str, Any] = {}
    for name, attribute in written.attributes.items():
        document[name] = expression_document(attribute.expression)
    for block in written.blocks:
        _add_block(document, block.type, schema.blocks, [label.value for label in block.labels], block.body)
    return document


def _label_names(block: NestedBlock) -> tuple[str, ...]:
    """The labels that a nested block has: one where it stands for an entry of a map."""
    return (block.label,) if block.nesting is Nesting.MAP else ()


def _add_block(
    document: dict[str, Any],
    name: str,
    blocks: Mapping[str, NestedBlock],
    labels: list[str],
    body: AnyBody,
) -> None:
    """Add a nested block in the shape that its nesting gives."""
    inner = _expressions(body, blocks[name].schema)
    match blocks[name].nesting:
        case Nesting.SINGLE:
            document[name] = inner
        case Nesting.LIST:
            document.setdefault(name, []).append(inner)
        case Nesting.MAP:
            document.setdefault(name, {})[labels[0] if labels else ""] = inner


FORMAT_VERSION: Final = "1.0"


def providers_schema(registries: Registries) -> dict[str, Any]:
    """The document: the one provider's resource types and data sources, by name."""
    schemas = {
        "provider": {"version": 0, "block": {}},
        "resource_schemas": _schemas(registries.resource_types),
        "data_source_schemas": _schemas(registries.data_sources),
    }
    return {"format_version": FORMAT_VERSION, "provider_schemas": {"nexusform": schemas}}


def _schemas(types: Mapping[str, ResourceType]) -> dict[str, Any]:
    return {name: {"version": 0, "block": _block(types[name].schema)} for name in sorted(types)}


def _block(schema: BlockSchema) -> dict[str, Any]:
    block: dict[str, Any] = {
        "attributes": {name: _attribute(attribute) for name, attribute in sorted(schema.attributes.items())}
    }
    if schema.blocks:
        block["block_types"] = {name: _nested(nested) for name, nested in sorted(schema.blocks.items())}
    if schema.description:
        block |= {"description": schema.description, "description_kind": "plain"}
    return block


def _attribute(attribute: Attribute) -> dict[str, Any]:
    flags = ("required", "optional", "computed", "sensitive")
    return {
        "type": type_to_json(attribute.type),
        "description": attribute.description,
        "description_kind": "plain",
        **{flag: True for flag in flags if getattr(attribute, flag)},
    }


def _nested(nested: NestedBlock) -> dict[str, Any]:
    limits = {"min_items": nested.min_items, "max_items": nested.max_items}
    return {
        "nesting_mode": nested.nesting.value,
        "block": _block(nested.schema),
        **{name: limit for name, limit in limits.items() if limit},
    }
