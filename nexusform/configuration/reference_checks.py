"""Validation of all references of a configuration, as far as possible without values."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import (
    DEFAULT_PROVIDER,
    Configuration,
    Module,
    ResourceBlock,
    get_repetition_argument,
)
from nexusform.configuration.reference_graph import (
    Declaration,
    ReferenceScope,
    ReferenceUse,
    build_dependencies,
    collect_references,
    list_modules,
    skip_instance_key,
)
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Span,
    build_error,
    build_warning,
    find_nearest_name,
    find_nearest_names,
    suggest_name,
)
from nexusform.domain_table import explain_absent_domain
from nexusform.json_data.plain_data import Path, format_path
from nexusform.language.parser import sort_by_position
from nexusform.language.references import GuardedTraversal, list_traversals, parse_traversal
from nexusform.language.syntax.syntax_nodes import (
    Body,
    Expression,
    Step,
    Traversal,
    TraverseAttribute,
    TraverseIndex,
)
from nexusform.resources.address import MODE_PREFIXES, OTHER_MODES, Mode
from nexusform.schemas.block_schema import BlockSchema, NestedBlock, Nesting, compute_implied_type
from nexusform.schemas.value_types import (
    DYNAMIC,
    ListType,
    MapType,
    ObjectType,
    SetType,
    TupleType,
    Type,
)

__all__ = [
    "Declaration",
    "build_dependencies",
    "check_references",
    "collect_references",
    "list_modules",
]

_Schemas = Mapping[str, BlockSchema]
_FIXED_ATTRIBUTES: Final = {
    "path": ("module", "root", "cwd"),
    "nexusform": ("workspace", "applying"),
    "count": ("index",),
    "each": ("key", "value"),
}
_FOREIGN_ROOTS = ("terraform", "tofu")
# Local values that refer to each other are reported elsewhere.
_MAXIMUM_LOCALS: Final = 16
_EVALUATED_ONCE: Final = (
    'The "{}" object is not available here: the argument is evaluated once for all instances, also '
    "for those that the configuration no longer has. Use a value that all instances share."
)


def check_references(
    configuration: Configuration,
    managed: Mapping[str, BlockSchema],
    data: Mapping[str, BlockSchema],
) -> list[Diagnostic]:
    """Check the references of all modules, and return the problems in the order of the text."""
    references = collect_references(configuration)
    # By id and place, because a module with two calls reports everything twice.
    problems: dict[tuple[str, Span | None], Diagnostic] = {}
    for module in list_modules(configuration.root):
        checker = _ReferenceChecker(module, {"managed": managed, "data": data})
        for reference in references[module.path]:
            for problem in checker.check(reference):
                problems.setdefault(
                    (problem.id, problem.subject), replace(problem, block=reference.header)
                )
        for problem in [
            *_check_ignored_changes(module, managed),
            *_check_replacement_triggers(module),
        ]:
            problems.setdefault((problem.id, problem.subject), problem)
    for problem in _check_object_references(configuration, managed):
        problems.setdefault((problem.id, problem.subject), problem)
    return sort_by_position(problems.values())


def check_expression(
    expression: Expression,
    module: Module,
    managed: Mapping[str, BlockSchema],
    data: Mapping[str, BlockSchema],
    extra_names: Collection[str] = (),
) -> list[Diagnostic]:
    """Check the references of an expression outside of the blocks of a module.

    `managed` and `data` are the schemas of resource and data types; `extra_names` are valid besides
    the module's names, as `run` or `var.NAME`.
    """
    checker = _ReferenceChecker(module, {"managed": managed, "data": data})
    # A placeholder: no reference is to a local value without a name.
    node = Declaration(module.path, "local", name="")
    problems: list[Diagnostic] = []
    for traversal in list_traversals(expression):
        root = traversal.root.name
        if not {root, f"{root}.{traversal.first_name}"} & set(extra_names):
            problems += checker.check(ReferenceUse(node, traversal, ReferenceScope()))
    return sort_by_position(problems)


def check_provider_names(
    configuration: Configuration, known_names: Collection[str]
) -> Iterator[Diagnostic]:
    """Yield errors for unknown names in `provider` blocks and arguments.

    Arguments without a block in the root are errors, too.
    """
    providers = configuration.root.providers
    for module in list_modules(configuration.root):
        for provider in module.providers.values():
            if provider.name not in known_names:
                header = f'provider "{provider.name}"'
                yield _build_unknown_provider_error(
                    provider.name, known_names, provider.span, header
                )
        for block in module.all_blocks:
            if block.provider in ("", DEFAULT_PROVIDER) or block.provider in providers:
                # The default provider needs no block.
                continue
            name, _, alias = block.provider.partition(".")
            if name not in known_names:
                yield _build_unknown_provider_error(
                    name, known_names, block.header_span, block.header
                )
                continue
            detail = (
                "There is no provider configuration "
                f"{block.provider}.{suggest_name(block.provider, providers)} Write a block "
                f'provider "{name}" {"with this alias " if alias else ""}in the root module.'
            )
            yield build_error(
                "provider-configuration-not-present", detail, block.header_span, block=block.header
            )


def _build_unknown_provider_error(
    name: str, known_names: Collection[str], span: Span, header: str
) -> Diagnostic:
    hint = explain_absent_domain(name, "providers") or suggest_name(name, known_names)
    detail = f'There is no provider "{name}". Known are: {", ".join(known_names)}.{hint}'
    return build_error("unknown-provider", detail, span, block=header)


def _check_ignored_changes(
    module: Module, managed: Mapping[str, BlockSchema]
) -> Iterator[Diagnostic]:
    """Report paths in `ignore_changes` that do not exist in the type.

    A change there would not be ignored.
    """
    for block in module.resources.values():
        schema = managed.get(block.type)
        if schema is None:
            # A data block, or a type reported as unknown.
            continue
        for path, span in zip(
            block.lifecycle.ignore_changes, block.lifecycle.ignore_changes_spans, strict=True
        ):
            detail = _check_path_in_block(block.type, schema, prefix=(), path=path)
            if detail:
                yield build_error("unsupported-attribute", detail, span, block=block.header)


def _check_replacement_triggers(module: Module) -> Iterator[Diagnostic]:
    """Report names in replace_triggered_by that cannot trigger a replacement."""
    for block in module.resources.values():
        for expression in block.lifecycle.replace_triggered_by:
            # The first reference is the trigger itself; further ones are in its brackets.
            name = list_traversals(expression)[0].root.name
            # Neither a resource type nor `data`.
            if name != "data" and name in _ROOT_CHECKS:
                detail = (
                    "Only resources, count.index, and each.key may be used in "
                    "replace_triggered_by. For another value, set it in an argument of a resource, "
                    "and use that resource."
                )
                yield build_error("invalid-trigger", detail, expression.span, block=block.header)


def _check_object_references(
    configuration: Configuration, managed: Mapping[str, BlockSchema]
) -> Iterator[Diagnostic]:
    """Yield an error for each argument with the id of an object of a wrong type.

    The argument is a reference to an id, or a local value that is one. Other values are checked
    by the plan.
    """
    for module in list_modules(configuration.root):
        for block in module.resources.values():
            schema = managed.get(block.type)
            # Without a schema the type is unknown. In JSON the plan checks the values.
            if schema is not None and isinstance(block.body, Body):
                yield from _check_object_ids(block, block.body, schema, module, managed)


def _check_object_ids(
    block: ResourceBlock,
    body: Body,
    schema: BlockSchema,
    module: Module,
    managed: Mapping[str, BlockSchema],
) -> Iterator[Diagnostic]:
    """Yield the errors of the arguments of one block."""
    for attribute in body.attributes:
        attribute_schema = schema.attributes.get(attribute.name)
        reference = attribute_schema.refers_to if attribute_schema is not None else None
        if reference is None or reference.by != "id":
            continue
        object_type = _find_type_of_id(attribute.expression, module)
        if object_type in managed and object_type not in reference.types:
            detail = format_wrong_type(attribute.name, object_type, reference.types)
            yield build_error("wrong-reference", detail, attribute.span, block=block.header)


def format_wrong_type(argument: str, object_type: str, types: tuple[str, ...]) -> str:
    """Return the message about an argument with the id of an object of a wrong type."""
    examples = " or ".join(f"{name}.NAME.id" for name in types)
    return (
        f'"{argument}" takes an id of type {" or ".join(types)}, not {object_type}. Write a '
        f"reference such as {examples}."
    )


def _find_type_of_id(expression: Expression, module: Module) -> str:
    """Return the resource type in a reference to an id, "" if it is none."""
    for _ in range(_MAXIMUM_LOCALS):
        traversal = parse_traversal(expression)
        if traversal is None:
            return ""
        local_value = module.locals.get(traversal.first_name)
        if traversal.root.name != "local" or local_value is None or len(traversal.steps) > 1:
            return _get_type_of_id(traversal.remove_resource_prefix())
        expression = local_value.expression
    return ""


def _get_type_of_id(traversal: Traversal) -> str:
    """Return the root of TYPE.NAME.id or TYPE.NAME[KEY].id, "" of any other traversal."""
    last = traversal.steps[-1] if traversal.steps else None
    is_id = isinstance(last, TraverseAttribute) and last.name == "id" and len(traversal.steps) > 1
    return traversal.root.name if is_id else ""


class _ReferenceChecker:
    """Checker of the references of one module."""

    def __init__(self, module: Module, schemas: Mapping[Mode, _Schemas]) -> None:
        self.module = module
        self.schemas = schemas
        self.module_name = (
            f"module.{'.module.'.join(module.path)}" if module.path else "the root module"
        )

    def check(self, reference: ReferenceUse) -> Iterable[Diagnostic]:
        """Check one reference by its root name.

        A name without a check of its own is a resource type.
        """
        # The node is the declaration with the reference.
        traversal = reference.traversal
        node = reference.node
        name = traversal.root.name
        first_attribute = traversal.first_name
        if (
            first_attribute
            and name == "local"
            and node.kind == "local"
            and node.name == first_attribute
        ):
            detail = f"Local value {node} cannot use its own result as part of its expression."
            return [build_error("self-referencing-local-value", detail, traversal.span)]
        check_root = _ROOT_CHECKS.get(name)
        if check_root is not None:
            return check_root(self, traversal, reference.scope)
        # `terraform` or `tofu`.
        if name in _FOREIGN_ROOTS:
            suggestion = (
                first_attribute
                if first_attribute in _FIXED_ATTRIBUTES["nexusform"]
                else "workspace"
            )
            detail = f'There is no "{name}" object in nexusform: write nexusform.{suggestion}.'
            return [build_error("invalid-reference", detail, traversal.span)]
        return self._check_resource(traversal, reference.scope, "managed", name, traversal.steps)

    def check_variable(self, traversal: Traversal, _scope: ReferenceScope) -> Iterator[Diagnostic]:
        """Check `var.x`."""
        advice = (
            f' This variable can be declared with a variable "{traversal.first_name}" {{}} block.'
        )
        return _check_declared_name(
            traversal, self.module.variables, "input variable", article="an", advice=advice
        )

    def check_call(self, traversal: Traversal, scope: ReferenceScope) -> Iterator[Diagnostic]:
        """Check `module.x`, `module.x.output`."""
        name = traversal.first_name
        if not name:
            yield _build_incomplete_reference_error(traversal, "a module")
            return
        call = self.module.calls.get(name)
        if call is None:
            hint = suggest_name(name, self.module.calls)
            detail = f'No module call named "{name}" is declared in {self.module_name}.{hint}'
            yield build_error("reference-to-undeclared-module", detail, traversal.span)
            return
        label = f"module.{name}"
        # "count", "for_each" or "" (one instance).
        repetition = get_repetition_argument(call.count, call.for_each)
        # After the name.
        steps = traversal.steps[1:]
        # Then the evaluation decides whether a missing output or instance matters.
        is_guarded = isinstance(traversal, GuardedTraversal)
        if not is_guarded:
            yield from _check_instance_key(label, repetition, steps, traversal, noun="module")
        output_steps = skip_instance_key(steps)
        if scope.only_whole_objects and output_steps:  # in depends_on
            yield _build_attribute_in_depends_on_error(traversal)
            return
        lacks_key = bool(repetition) and len(output_steps) == len(steps)
        if not output_steps or lacks_key or not call.module.directory:
            # No output, or it cannot be checked: a key is missing, or the module is unreadable.
            return
        step = output_steps[0]
        if not isinstance(step, TraverseAttribute):
            return
        if step.name not in call.module.outputs:
            if is_guarded:
                return
            hint = suggest_name(step.name, call.module.outputs)
            detail = f'The module "{name}" has no output named "{step.name}".{hint}'
            yield build_error("unsupported-attribute", detail, step.span, context=traversal.span)
        elif call.module.outputs[step.name].deprecated:
            message = call.module.outputs[step.name].deprecated
            detail = f'The output "{step.name}" of module "{name}" is deprecated: {message}'
            yield build_warning("deprecated-output", detail, traversal.span)

    def check_reference_to_count(
        self, traversal: Traversal, scope: ReferenceScope
    ) -> Iterator[Diagnostic]:
        """Check `count.index`."""
        if scope.has_count:
            return _check_builtin_attribute(traversal)
        if scope.block is not None and scope.block.count is not None:
            detail = _EVALUATED_ONCE.format("count")
            return iter([build_error("instance-name-in-shared-argument", detail, traversal.span)])
        detail = (
            'The "count" object can only be used in "module", "resource", and "data" blocks, and '
            'only when the "count" argument is set.'
        )
        return iter(
            [build_error("reference-to-count-in-non-counted-context", detail, traversal.span)]
        )

    def check_reference_to_each(
        self, traversal: Traversal, scope: ReferenceScope
    ) -> Iterator[Diagnostic]:
        """Check `each.key`, `each.value`."""
        if scope.has_each:
            return _check_builtin_attribute(traversal)
        if scope.block is not None and scope.block.for_each is not None:
            detail = _EVALUATED_ONCE.format("each")
            return iter([build_error("instance-name-in-shared-argument", detail, traversal.span)])
        detail = (
            'The "each" object can be used only in "module", "resource", "data" and "import" '
            'blocks, and only when the "for_each" argument is set.'
        )
        return iter(
            [build_error("reference-to-each-in-context-without-for-each", detail, traversal.span)]
        )

    def check_reference_to_self(
        self, traversal: Traversal, scope: ReferenceScope
    ) -> Iterator[Diagnostic]:
        """Check a reference to `self`: whether it is allowed here, and its attributes."""
        if not scope.has_self or scope.block is None:
            detail = (
                'The "self" object is not available in this context. It can be used only in '
                "postcondition blocks of resource and data blocks."
            )
            yield build_error("invalid-self-reference", detail, traversal.span)
            return
        schema = self.schemas[scope.block.mode].get(scope.block.type)
        # An unknown type is reported elsewhere.
        if schema is not None:
            yield from _check_attributes(compute_implied_type(schema), traversal.steps, traversal)

    def check_data(self, traversal: Traversal, scope: ReferenceScope) -> Iterator[Diagnostic]:
        """Check a reference to a data block, `data.TYPE.NAME`."""
        if not traversal.steps or not isinstance(traversal.steps[0], TraverseAttribute):
            detail = (
                'The "data" object must be followed by two attribute names: the data source type '
                "and the resource name."
            )
            yield build_error("invalid-reference", detail, traversal.span)
            return
        yield from self._check_resource(
            traversal, scope, "data", traversal.steps[0].name, traversal.steps[1:]
        )

    def _check_resource(
        self,
        traversal: Traversal,
        scope: ReferenceScope,
        mode: Mode,
        kind: str,
        remaining_steps: tuple[Step, ...],
    ) -> Iterator[Diagnostic]:
        """Check a reference to `TYPE.NAME` or `data.TYPE.NAME`.

        `kind` is the type, `remaining_steps` follow it.
        """
        if not remaining_steps or not isinstance(remaining_steps[0], TraverseAttribute):
            yield self._build_missing_name_error(traversal, kind, mode)
            return
        name = remaining_steps[0].name
        steps = remaining_steps[1:]
        block = self._find_block(mode, kind, name, scope)
        if block is None:
            yield self._build_undeclared_resource_error(traversal, mode, kind, name)
            return
        if scope.block is not None and scope.block.address == block.address:
            detail = f"Configuration for {block.address} may not refer to itself."
            yield build_error("self-referential-block", detail, traversal.span)
            return
        label = f"{MODE_PREFIXES[mode]}{kind}.{name}"
        # "count", "for_each" or "".
        repetition = get_repetition_argument(block.count, block.for_each)
        if scope.only_whole_objects:  # in depends_on
            if skip_instance_key(steps):
                yield _build_attribute_in_depends_on_error(traversal)
            return
        problems = list(_check_instance_key(label, repetition, steps, traversal, noun="resource"))
        yield from problems
        schema = self.schemas[mode].get(kind)
        # After an error in its key, the first attribute is unclear.
        if schema is not None and not problems:
            # Steps without the key.
            attribute_steps = steps[1:] if repetition else steps
            yield from _check_attributes(compute_implied_type(schema), attribute_steps, traversal)

    def _find_block(
        self, mode: Mode, kind: str, name: str, scope: ReferenceScope
    ) -> ResourceBlock | None:
        """Find a resource or data block of the module.

        A reference inside a check finds the data block of that check.
        """
        check_data = scope.check_data
        if check_data is not None and (mode, kind, name) == (
            "data",
            check_data.type,
            check_data.name,
        ):
            # It is visible only inside its `check` block.
            return check_data
        return self.module.resources.get((mode, kind, name))

    def _build_missing_name_error(self, traversal: Traversal, kind: str, mode: Mode) -> Diagnostic:
        """Build the error about `TYPE` or `data.TYPE` without a name.

        An unknown word is often text without quotes.
        """
        if mode == "managed" and kind in _FOREIGN_LITERALS:
            detail = f'"{kind}" is not a valid name here. Did you mean {_FOREIGN_LITERALS[kind]}?'
        elif mode == "managed" and kind not in self.schemas["managed"]:
            known = [*_ROOT_CHECKS, *self.schemas["managed"]]
            detail = (
                f'"{kind}" is not a valid name here. Names are var.NAME, local.NAME, module.NAME, '
                f"data.TYPE.NAME or TYPE.NAME. Write text in quotes.{suggest_name(kind, known)}"
            )
        else:
            # A known type, or `data.TYPE`.
            detail = (
                "A reference to a resource type must be followed by at least one attribute access, "
                "specifying the resource name."
            )
        return build_error("invalid-reference", detail, traversal.span)

    def _build_undeclared_resource_error(
        self, traversal: Traversal, mode: Mode, kind: str, name: str
    ) -> Diagnostic:
        """Build the error about an undeclared resource.

        A hint names the one of the other mode, or one with a similar name.
        """
        detail = f'A {mode} resource "{kind}" "{name}" has not been declared in {self.module_name}.'
        other_mode = OTHER_MODES[mode]
        if (other_mode, kind, name) in self.module.resources:
            detail += (
                f" Did you mean the {other_mode} resource {MODE_PREFIXES[other_mode]}{kind}.{name}?"
            )
        else:
            detail += self._suggest_similar_resource(mode, kind, name)
        return build_error("reference-to-undeclared-resource", detail, traversal.span)

    def _suggest_similar_resource(self, mode: Mode, kind: str, name: str) -> str:
        """Return a question with the nearest name of this type (`kind`), else of any.

        Return "" without a similar name. Only blocks of the same mode count: a data block is no
        suggestion for a managed resource.
        """
        # "data." or "".
        prefix = MODE_PREFIXES[mode]
        blocks = [block for block in self.module.resources.values() if block.mode == mode]
        names_of_type = [block.name for block in blocks if block.type == kind]
        nearest_name = find_nearest_name(name, names_of_type)
        if nearest_name:
            return f" Did you mean {prefix}{kind}.{nearest_name}?"
        full_names = [f"{block.type}.{block.name}" for block in blocks]
        similar_names = find_nearest_names(
            f"{kind}.{name}", full_names, likeness=0.7
        )  # nearest first
        return f" Did you mean {prefix}{similar_names[0]}?" if similar_names else ""


# Spellings of true, false and null in other languages and YAML.
_FOREIGN_LITERALS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("True", "TRUE", "yes", "Yes", "on", "On"), "true"),
    **dict.fromkeys(("False", "FALSE", "no", "No", "off", "Off"), "false"),
    **dict.fromkeys(("None", "nil", "Null", "NULL", "undefined", "nullptr"), "null"),
}

_ROOT_CHECKS: Final[
    Mapping[str, Callable[[_ReferenceChecker, Traversal, ReferenceScope], Iterator[Diagnostic]]]
] = {
    "var": _ReferenceChecker.check_variable,
    "local": lambda checker, traversal, _scope: _check_declared_name(
        traversal, checker.module.locals, "local value", article="a", advice=""
    ),
    "module": _ReferenceChecker.check_call,
    "data": _ReferenceChecker.check_data,
    "path": lambda _checker, traversal, _scope: _check_builtin_attribute(traversal),
    "nexusform": lambda _checker, traversal, _scope: _check_builtin_attribute(traversal),
    "count": _ReferenceChecker.check_reference_to_count,
    "each": _ReferenceChecker.check_reference_to_each,
    "self": _ReferenceChecker.check_reference_to_self,
}


_UNDECLARED_IDS: Final = {
    "input variable": "reference-to-undeclared-input-variable",
    "local value": "reference-to-undeclared-local-value",
}


def _check_declared_name(
    traversal: Traversal, names: Collection[str], noun: str, article: str, advice: str
) -> Iterator[Diagnostic]:
    """Report a reference without a name, or to an undeclared one.

    `advice` replaces the hint if no name is similar.
    """
    name = traversal.first_name
    if not name:
        yield _build_incomplete_reference_error(traversal, f"{article} {noun}")
    elif name not in names:
        hint = suggest_name(name, names) or advice
        detail = (
            f'{article.capitalize()} {noun} with the name "{name}" has not been declared.{hint}'
        )
        yield build_error(_UNDECLARED_IDS[noun], detail, traversal.span)


def _build_incomplete_reference_error(traversal: Traversal, noun: str) -> Diagnostic:
    root = traversal.root.name
    detail = f'The "{root}" object cannot be used by itself: write {root}.NAME, the name of {noun}.'
    return build_error("invalid-reference", detail, traversal.span)


def _check_builtin_attribute(traversal: Traversal) -> Iterator[Diagnostic]:
    """Check a reference with a fixed name and attributes.

    The name is `path`, `nexusform`, `count` or `each`.
    """
    root = traversal.root.name
    attributes = _FIXED_ATTRIBUTES[root]
    name = traversal.first_name
    if name in attributes:
        return
    names = [f"{root}.{attribute}" for attribute in attributes]
    attribute_list = (
        f"attributes are {', '.join(names[:-1])} and {names[-1]}"
        if names[1:]
        else f"attribute is {names[0]}"
    )
    if not name:
        detail = f'The "{root}" object cannot be used by itself. Its {attribute_list}.'
        yield build_error("invalid-reference", detail, traversal.span)
        return
    detail = (
        f'The "{root}" object does not have an attribute named '
        f'"{name}".{suggest_name(name, attributes)} Its {attribute_list}.'
    )
    span = traversal.steps[0].span
    headline = f'Invalid "{root}" attribute'
    yield build_error(
        "invalid-object-attribute", detail, span, context=traversal.span, headline=headline
    )


def _check_instance_key(
    label: str, repetition: str, steps: tuple[Step, ...], traversal: Traversal, noun: str
) -> Iterator[Diagnostic]:
    """Report an unexpected or missing instance key.

    `repetition` is "count", "for_each", or "" for one instance.
    """
    has_index = bool(steps) and isinstance(steps[0], TraverseIndex)
    if has_index and not repetition:
        detail = (
            f'Because {label} does not have "count" or "for_each" set, references to it must not '
            "include an index key. Remove the bracketed index to refer to the single instance of "
            f"this {noun}."
        )
        span = steps[0].span
        headline = f"Unexpected {noun} instance key"
        yield build_error(
            "unexpected-instance-key", detail, span, context=traversal.span, headline=headline
        )
    elif repetition and steps and not (has_index or _is_number(steps[0])):
        # `r` is all instances; `r.0` is old for r[0]
        example = f"{label}[{'count.index' if repetition == 'count' else 'each.key'}]"
        detail = (
            f'Because {label} has "{repetition}" set, its attributes must be accessed on specific '
            "instances. For example, to correlate with indices of a referring resource, use: "
            f"{example}"
        )
        yield build_error(
            "missing-instance-key", detail, traversal.span, headline=f"Missing {noun} instance key"
        )


def _is_number(step: Step) -> bool:
    return isinstance(step, TraverseAttribute) and step.name.isdecimal()


def _build_attribute_in_depends_on_error(traversal: Traversal) -> Diagnostic:
    detail = (
        "References in depends_on must be to a whole object (a resource, a module), not to an "
        "attribute of an object."
    )
    return build_error("invalid-depends-on-reference", detail, traversal.span)


def _check_attributes(
    value_type: Type, steps: tuple[Step, ...], traversal: Traversal
) -> Iterator[Diagnostic]:
    """Report the first step without a match in the type.

    The steps after it cannot be checked.
    """
    for step in steps:
        if isinstance(value_type, ObjectType):
            name = step.name if isinstance(step, TraverseAttribute) else step.key
            attribute_type = value_type.get_attribute(name) if isinstance(name, str) else None
            if attribute_type is None:
                known = value_type.names
                hint = suggest_name(str(name), known)
                detail = (
                    "This object has no argument, nested block, or exported attribute named "
                    f'"{name}".{hint}'
                )
                yield build_error(
                    "unsupported-attribute", detail, step.span, context=traversal.span
                )
                return
            value_type = attribute_type
        elif isinstance(value_type, (MapType, ListType)):
            if (
                isinstance(value_type, ListType)
                and isinstance(step, TraverseAttribute)
                and not _is_number(step)
            ):
                detail = "This value is a list: pick an element by its number, or use [*] for all."
                yield build_error(
                    "unsupported-attribute", detail, step.span, context=traversal.span
                )
                return
            value_type = value_type.element
        else:
            # Steps into other types are checked during evaluation.
            return


def _check_path_in_block(subject: str, schema: BlockSchema, prefix: Path, path: Path) -> str:
    """Return why a path cannot exist in a block, so that it would ignore nothing.

    Return "" if it may exist. `prefix` are the completed steps, `path` the remaining ones;
    `subject` is the name of the block.
    """
    if not path:
        # The whole path exists.
        return ""
    name = path[0]
    remaining_path = path[1:]
    attributes = dict(compute_implied_type(schema).attributes)
    if not isinstance(name, str) or name not in attributes:
        hint = suggest_name(str(name), attributes)
        return f'{subject} has no argument or block "{name}" for ignore_changes.{hint}'
    current_path = (*prefix, name)
    nested = schema.blocks.get(name)
    if nested is None:
        return _check_path_in_value(attributes[name], current_path, remaining_path)
    return _check_path_in_nested_block(nested, current_path, remaining_path)


def _check_path_in_nested_block(
    nested: NestedBlock, current_path: Path, remaining_path: Path
) -> str:
    """Return why the remaining steps into blocks of a type cannot exist; "" if they may."""
    step = remaining_path[0] if remaining_path else None
    text = format_path(current_path)
    match nested.nesting:
        case Nesting.SINGLE if isinstance(step, int):
            return (
                f"{text} is a single block, not a list: write "
                f"{format_path((*current_path, *remaining_path[1:]))}."
            )
        case Nesting.LIST if isinstance(step, str):
            return (
                f"{text} is a list of blocks: write "
                f"{format_path((*current_path, 0, *remaining_path))}."
            )
        case Nesting.MAP if isinstance(step, int):
            corrected_path = format_path((*current_path, nested.label.upper(), *remaining_path[1:]))
            return f"Blocks {text} are selected by label, not by index: write {corrected_path}."
        case Nesting.SINGLE:
            return _check_path_in_block(text, nested.schema, current_path, remaining_path)
    # The step is the number or the label of a block; without one the path is that of all blocks.
    block_path = (*current_path, *remaining_path[:1])
    return _check_path_in_block(
        format_path(block_path), nested.schema, block_path, remaining_path[1:]
    )


def _check_path_in_value(value_type: Type, current_path: Path, remaining_path: Path) -> str:
    """Return why the remaining steps into a value of a type cannot exist; "" if they may."""
    if not remaining_path or value_type is DYNAMIC:
        return ""
    step = remaining_path[0]
    text = format_path(current_path)
    # The two last arguments of this function, one step on.
    next_paths = (*current_path, step), remaining_path[1:]
    match value_type:
        case ObjectType() if step in dict(value_type.attributes):
            return _check_path_in_value(dict(value_type.attributes)[str(step)], *next_paths)
        case ObjectType():
            return (
                f"{text} has no attribute "
                f'"{step}".{suggest_name(str(step), dict(value_type.attributes))}'
            )
        case MapType() if isinstance(step, str):
            return _check_path_in_value(value_type.element, *next_paths)
        case MapType():
            return (
                f"{text} is a map: write "
                f"{format_path((*current_path, str(step), *remaining_path[1:]))}."
            )
        case ListType() if isinstance(step, int):
            return _check_path_in_value(value_type.element, *next_paths)
        case ListType():
            return f"{text} is a list: write {format_path((*current_path, 0, *remaining_path))}."
        case TupleType():
            # Its elements are not checked.
            return ""
        case SetType():
            return (
                f"Elements of a set have no index: write {text} to ignore changes of the whole set."
            )
    return f"{text} has no parts: write {text}."
