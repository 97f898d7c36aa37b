"""JSON of a plan's `configuration` and of provider schemas.

The schemas are as in `terraform providers schema -json`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from nexusform.configuration.declarations.configuration import (
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
from nexusform.configuration.remote_modules.module_sources import hide_server_parameters
from nexusform.configuration.static_arguments import evaluate_constant, is_constant_value
from nexusform.diagnostics.phrases import join_texts
from nexusform.interfaces.plugins import PluginRegistries, ResourceType
from nexusform.json_data.plain_data import Path, convert_to_plain, get_mapping
from nexusform.json_data.secret_paths import find_secret_fields
from nexusform.language.body_decoding import BodySchema, decode_body
from nexusform.language.references import list_traversals
from nexusform.language.syntax.syntax_nodes import Expression, Traversal, TraverseAttribute
from nexusform.providers.registry import PROVIDERS
from nexusform.rendering.json.json_diagnostics import format_provider_name
from nexusform.rendering.notation.hcl_text import build_path_trie
from nexusform.rendering.notation.json_values import REDACTED, omit_empty, redact_value
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, Nesting
from nexusform.schemas.value_types import build_type_json


def build_configuration_document(
    configuration: Configuration, registries: PluginRegistries
) -> dict[str, Any]:
    """Build the providers and the tree of modules of a configuration as Terraform's JSON."""
    providers: dict[str, Any] = {}
    root_module = _build_module(configuration.root, registries, providers)
    return {"provider_config": dict(sorted(providers.items())), "root_module": root_module}


def build_expression_document(expression: Expression) -> dict[str, Any]:
    """Build `{"constant_value": x}`, `{"references": [...]}`, or `{}` without either."""
    if is_constant_value(expression):
        # Problems are reported elsewhere.
        value, problems = evaluate_constant(expression)
        return {} if problems else {"constant_value": convert_to_plain(value)[0]}
    return omit_empty({"references": list_references(list_traversals(expression))})


def list_references(references: Iterable[Traversal]) -> list[str]:
    """List each reference and its prefixes down to the object, longest first.

    `a.b.c[0]` gives its prefixes down to `a.b`, without repeats.
    """
    texts: dict[str, None] = {}
    for reference in references:
        prefixes = [reference.root.name]
        for step in reference.steps:
            if isinstance(step, TraverseAttribute):
                text = f".{step.name}"
            elif isinstance(step.key, str):
                text = f'["{step.key}"]'
            else:
                text = f"[{step.key}]"
            prefixes.append(f"{prefixes[-1]}{text}")
        # `data.type.name` and `type.name` are objects; `data` and the type alone are not.
        shortest = 3 if reference.root.name == "data" else 2
        # At least the root.
        texts.update(dict.fromkeys(reversed(prefixes[shortest - 1 :] or prefixes[:1])))
    return list(texts)


def _build_provider(name: str, module_address: str, block: ProviderBlock | None) -> dict[str, Any]:
    """Build a provider as configured by a module ("": the root).

    Without a `block` it has no alias and expressions.
    """
    optional: dict[str, Any] = {"module_address": module_address}
    if block is not None:
        kind = PROVIDERS.get(name)
        expressions = _build_body_expressions(block.body, kind.settings) if kind is not None else {}
        optional = {"alias": block.alias, **optional, "expressions": expressions}
    return {"name": name, "full_name": format_provider_name(name), **omit_empty(optional)}


def _add_providers(module: Module, providers: dict[str, Any]) -> dict[str, str]:
    """Add the missing providers of a module to `providers`.

    Return their keys there by the references of resources. The key of `simulated.lab` is the same
    for the root, and `module.a.module.b:simulated.lab` for a module of its own.
    """
    module_address = ".".join(f"module.{name}" for name in module.path)
    keys: dict[str, str] = {}
    for reference, block in sorted(module.providers.items()):
        keys[reference] = join_texts((module_address, reference), ":")
        providers[keys[reference]] = _build_provider(block.name, module_address, block)
    used_references = {block.provider or DEFAULT_PROVIDER for block in module.resources.values()}
    for reference in sorted(used_references - keys.keys()):
        # The module inherits it from the root.
        if reference in providers:
            keys[reference] = reference
        else:
            # Without a provider block.
            name = reference.partition(".")[0]  # of `name.alias`
            keys[reference] = join_texts((module_address, reference), ":")
            providers[keys[reference]] = _build_provider(name, module_address, block=None)
    return keys


def _build_module(
    module: Module, registries: PluginRegistries, providers: dict[str, Any]
) -> dict[str, Any]:
    """Build the nonempty declarations of a module; its providers are added to `providers`."""
    # Keys in `providers` by the reference of a resource.
    provider_keys = _add_providers(module, providers)
    calls = sorted(module.calls.items())
    variables = sorted(module.variables.items())
    declarations = {
        "outputs": {name: _build_output(output) for name, output in sorted(module.outputs.items())},
        "resources": [
            _build_resource(block, registries, provider_keys) for block in module.resources.values()
        ],
        "module_calls": {
            name: _build_module_call(call, registries, providers) for name, call in calls
        },
        "variables": {name: _build_variable(variable) for name, variable in variables},
    }
    return omit_empty(declarations)


def _build_module_call(
    call: ModuleCall, registries: PluginRegistries, providers: dict[str, Any]
) -> dict[str, Any]:
    """Build the call of a module with its arguments, and its own declarations if it was read."""
    is_read = bool(call.module.directory)
    module = _build_module(call.module, registries, providers) if is_read else None
    inputs = sorted(call.inputs.items())
    return {
        "source": hide_server_parameters(call.source),
        **omit_empty({"version_constraint": call.version}),
        "expressions": {
            name: build_expression_document(expression) for name, (expression, _span) in inputs
        },
        **_build_repetition(call.count, call.for_each),
        **({"module": module} if module is not None else {}),
        **_build_depends_on(call.depends_on),
    }


def _build_output(output: Output) -> dict[str, Any]:
    expression = build_expression_document(output.expression)
    return {
        "expression": expression,
        **_build_common_declaration_keys(output),
        **_build_depends_on(output.depends_on),
    }


def _build_variable(variable: Variable) -> dict[str, Any]:
    """Build a declared variable with its default; "default" is missing for a required one."""
    document: dict[str, Any] = {}
    if variable.default is not None:
        plain, _ = convert_to_plain(variable.default)
        # Null is not a secret.
        document["default"] = REDACTED if variable.sensitive and plain is not None else plain
    return document | _build_common_declaration_keys(variable)


def _build_common_declaration_keys(declared: Output | Variable) -> dict[str, Any]:
    """Build the keys that outputs and variables have in common, if they are set."""
    keys = {
        "description": declared.description,
        "sensitive": declared.sensitive,
        "deprecated": declared.deprecated,
    }
    return omit_empty(keys)


def _build_resource(
    block: ResourceBlock, registries: PluginRegistries, providers: Mapping[str, str]
) -> dict[str, Any]:
    """Build a resource block.

    `providers` maps the provider of a block (`simulated.lab`) to a `provider_config` key.
    """
    table = registries.data_sources if block.mode == "data" else registries.resource_types
    resource_type = table.get(block.type)
    prefix = "data." if block.mode == "data" else ""
    expressions: dict[str, Any] = {}
    if resource_type is not None:
        schema = resource_type.schema
        expressions = _build_body_expressions(block.body, schema)
        constants = {
            name: get_mapping(expressions[name]).get("constant_value")
            for name in schema.attributes.keys() & expressions.keys()
        }
        for name, *_ in resource_type.list_secrets(constants):
            _redact_constant(
                expressions[str(name)], str(name), schema.attributes[str(name)], is_secret=True
            )
    return {
        "address": f"{prefix}{block.type}.{block.name}",
        "mode": block.mode,
        "type": block.type,
        "name": block.name,
        "provider_config_key": providers[block.provider or DEFAULT_PROVIDER],
        "expressions": expressions,
        "schema_version": 0,
        **_build_repetition(block.count, block.for_each),
        **_build_depends_on(block.depends_on),
    }


def _build_repetition(count: Expression | None, for_each: Expression | None) -> dict[str, Any]:
    """Build `count_expression` or `for_each_expression` if configured."""
    expressions = (("count_expression", count), ("for_each_expression", for_each))
    return {
        name: build_expression_document(expression)
        for name, expression in expressions
        if expression is not None
    }


def _build_depends_on(references: Iterable[Traversal]) -> dict[str, Any]:
    # The longest: without prefixes.
    texts = [list_references([reference])[0] for reference in references]
    return omit_empty({"depends_on": texts})


def _redact_constant(
    expression: dict[str, Any], name: str, attribute: AttributeSchema, *, is_secret: bool = False
) -> None:
    """Hide the secret parts of the constant value of an argument."""
    constant = expression.get("constant_value")
    if constant is None:
        return
    paths: Iterable[Path] = ()
    if is_secret or attribute.sensitive or attribute.write_only:
        paths = [()]
    elif attribute.secret_fields is not None:
        found_paths = find_secret_fields(constant, attribute.secret_fields, (name,))
        # Without the name.
        paths = [path[1:] for path in found_paths]
    expression["constant_value"] = redact_value(constant, build_path_trie(paths))


def _build_body_expressions(body: AnyBody, schema: BlockSchema) -> dict[str, Any]:
    """Build the arguments and nested blocks of a body by name.

    Blocks of types missing in `schema` are ignored. The schema of a type of blocks decides their
    form: one object, a list of objects, or objects by label.
    """
    labels = {
        name: (block.label,) if block.nesting is Nesting.MAP else ()
        for name, block in schema.blocks.items()
    }
    # False: not required.
    body_schema = BodySchema(dict.fromkeys(schema.attributes, False), labels)
    # Diagnostics were reported when the configuration was loaded.
    body_content, _ = decode_body(body, body_schema, partial=True)
    document: dict[str, Any] = {}
    for name, attribute in body_content.attributes.items():
        document[name] = build_expression_document(attribute.expression)
        _redact_constant(document[name], name, schema.attributes[name])
    for block in body_content.blocks:
        name = block.type
        nested = schema.blocks[block.type]
        inner = _build_body_expressions(block.body, nested.schema)
        match nested.nesting:
            case Nesting.SINGLE:
                document[name] = inner
            case Nesting.LIST:
                document.setdefault(name, []).append(inner)
            case Nesting.MAP:
                label = block.labels[0].value if block.labels else ""
                document.setdefault(name, {})[label] = inner
    return document


FORMAT_VERSION: Final = "1.0"


def build_providers_schema(registries: PluginRegistries) -> dict[str, Any]:
    """Build the document with the resource types and data sources of the provider by name."""
    schemas = {
        "provider": {"version": 0, "block": {}},
        "resource_schemas": _build_resource_type_schemas(registries.resource_types),
        "data_source_schemas": _build_resource_type_schemas(registries.data_sources),
    }
    return {"format_version": FORMAT_VERSION, "provider_schemas": {"nexusform": schemas}}


def _build_resource_type_schemas(types: Mapping[str, ResourceType]) -> dict[str, Any]:
    return {
        name: {"version": 0, "block": _build_block_schema(types[name].schema)}
        for name in sorted(types)
    }


def _build_block_schema(schema: BlockSchema) -> dict[str, Any]:
    """Build the arguments of a block and its nested blocks, recursively."""
    block: dict[str, Any] = {
        "attributes": {
            name: _build_attribute(attribute)
            for name, attribute in sorted(schema.attributes.items())
        }
    }
    block_types: dict[str, Any] = {}
    for name, nested in sorted(schema.blocks.items()):
        limits = omit_empty({"min_items": nested.min_items, "max_items": nested.max_items})
        inner = _build_block_schema(nested.schema)
        block_types[name] = {"nesting_mode": nested.nesting.value, "block": inner, **limits}
    block |= omit_empty({"block_types": block_types})
    if schema.description:
        block |= {"description": schema.description, "description_kind": "plain"}
    return block


def _build_attribute(attribute: AttributeSchema) -> dict[str, Any]:
    """Build an argument with the flags that are true for it."""
    flags = ("required", "optional", "computed", "sensitive")
    return {
        "type": build_type_json(attribute.type),
        "description": attribute.description,
        "description_kind": "plain",
        **{flag: True for flag in flags if getattr(attribute, flag)},
    }
