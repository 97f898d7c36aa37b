"""Whether every reference of a configuration leads somewhere, as far as can be told without values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from nexusform.address import Mode
from nexusform.configuration.declared.configuration import Configuration, Module, ResourceBlock
from nexusform.configuration.uses import Declaration, Sight, Use, all_uses, dependencies, modules
from nexusform.configuration.written import in_text_order
from nexusform.diagnostics import Diagnostic, did_you_mean, error, nearest, nearest_names
from nexusform.language.references import traversals
from nexusform.language.syntax.nodes import Expression, Step, Traversal, TraverseAttribute, TraverseIndex
from nexusform.schema import BlockSchema, implied_type
from nexusform.source import Span
from nexusform.value_types import ListType, MapType, ObjectType, SetType, TupleType, Type

__all__ = ["Declaration", "all_uses", "check_references", "dependencies", "modules"]

_Schemas = Mapping[str, BlockSchema]
_FIXED: Final = {
    "path": ("module", "root", "cwd"),
    "nexusform": ("workspace", "applying"),
    "count": ("index",),
    "each": ("key", "value"),
}
_FOREIGN = ("terraform", "tofu")


def check_references(
    configuration: Configuration,
    managed: Mapping[str, BlockSchema],
    data: Mapping[str, BlockSchema],
) -> list[Diagnostic]:
    """What is wrong with the references of all modules, in the order of the text."""
    uses = all_uses(configuration)
    problems: list[Diagnostic] = []
    seen: set[tuple[str, Span | None]] = set()
    for module in modules(configuration.root):
        checker = _Checker(module, {"managed": managed, "data": data})
        for use in uses[module.path]:
            for problem in checker.check(use):
                # A module that is called twice says everything twice.
                if (problem.id, problem.subject) not in seen:
                    seen.add((problem.id, problem.subject))
                    problems.append(problem if problem.block else replace(problem, block=use.header))
        others = [*_provider_problems(module, configuration.root), *_ignored_problems(module, managed)]
        for problem in [*others, *_trigger_problems(module)]:
            if (problem.id, problem.subject) not in seen:
                seen.add((problem.id, problem.subject))
                problems.append(problem)
    return in_text_order(problems)


def check_expression(
    expression: Expression,
    module: Module,
    managed: Mapping[str, BlockSchema],
    data: Mapping[str, BlockSchema],
    besides: Collection[str] = (),
) -> list[Diagnostic]:
    """What is wrong with the references of an expression that stands in no block of the module.

    `besides` are further names that mean something there.
    """
    checker = _Checker(module, {"managed": managed, "data": data})
    node = Declaration(module.path, "local", "")
    problems: list[Diagnostic] = []
    for traversal in traversals(expression):
        if traversal.root.name not in besides:
            problems += checker.check(Use(node, traversal, Sight()))
    return in_text_order(problems)


def _provider_problems(module: Module, root: Module) -> Iterator[Diagnostic]:
    """Aliases that nobody configured; a plain provider name needs no configuration."""
    known = {**root.providers, **module.providers}
    for block in module.resources.values():
        if "." in block.provider and block.provider not in known:
            detail = (
                f"There is no provider configuration {block.provider}.{did_you_mean(block.provider, known)} "
                "Write a provider block with this alias in the root module."
            )
            yield error("provider-configuration-not-present", detail, block.header_span, block=block.header)


def unknown_providers(configuration: Configuration, known: Collection[str]) -> Iterator[Diagnostic]:
    """Names of providers that there are not, in `provider` blocks and arguments."""
    for module in modules(configuration.root):
        for provider in module.providers.values():
            if provider.name not in known:
                yield _unknown_provider(provider.name, known, provider.span, f'provider "{provider.name}"')
        for block in module.resources.values():
            name = block.provider.partition(".")[0]
            if name and name not in known:
                yield _unknown_provider(name, known, block.header_span, block.header)


def _unknown_provider(name: str, known: Collection[str], span: Span, header: str) -> Diagnostic:
    hint = did_you_mean(name, known)
    detail = f'There is no provider "{name}". Known are: {", ".join(known)}.{hint}'
    return error("unknown-provider", detail, span, block=header)


def _ignored_problems(module: Module, managed: Mapping[str, BlockSchema]) -> Iterator[Diagnostic]:
    """Paths in `ignore_changes` at which the type has nothing: a change there would not be ignored."""
    for block in module.resources.values():
        schema = managed.get(block.type) if block.mode == "managed" else None
        if schema is None or not block.lifecycle.ignore_changes:
            continue
        from nexusform.configuration.ignored_changes import never_there

        lifecycle = block.lifecycle
        for path, span in zip(lifecycle.ignore_changes, lifecycle.ignored_at, strict=True):
            detail = never_there(block.type, schema, path)
            if detail:
                yield error("unsupported-attribute", detail, span, block=block.header)


def _trigger_problems(module: Module) -> Iterator[Diagnostic]:
    """What replace_triggered_by names and nothing can become of."""
    for block in module.resources.values():
        for expression in block.lifecycle.replace_triggered_by:
            name = next(iter(traversals(expression))).root.name
            if name != "data" and name in _SPECIAL:
                detail = (
                    "Only resources, count.index, and each.key may be used in replace_triggered_by. For "
                    "another value, let it stand in an argument of a resource, and name that resource."
                )
                yield error("invalid-trigger", detail, expression.span, block=block.header)


class _Checker:
    """Checks the references of one module."""

    def __init__(self, module: Module, schemas: Mapping[Mode, _Schemas]) -> None:
        self.module = module
        self.schemas = schemas
        self.place = f"module.{'.module.'.join(module.path)}" if module.path else "the root module"

    def check(self, use: Use) -> Iterable[Diagnostic]:
        """What is wrong with one reference."""
        name = use.traversal.root.name
        if name == use.node.kind == "local" and _first_name(use.traversal) == use.node.name:
            detail = f"Local value {use.node} cannot use its own result as part of its expression."
            return [error("self-referencing-local-value", detail, use.traversal.span)]
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self, use.traversal, use.sight)
        if name in _FOREIGN:
            return _foreign(use.traversal)
        return self._resource(use.traversal, use.sight, "managed", use.traversal.steps)

    # --- names of the module -------------------------------------------------------------------

    def variable(self, traversal: Traversal, _sight: Sight) -> Iterator[Diagnostic]:
        """`var.x`."""
        name = _first_name(traversal)
        if name is None:
            yield _incomplete(traversal, "an input variable")
        elif name not in self.module.variables:
            hint = did_you_mean(name, self.module.variables)
            advice = hint or f' This variable can be declared with a variable "{name}" {{}} block.'
            detail = f'An input variable with the name "{name}" has not been declared.{advice}'
            yield error("reference-to-undeclared-input-variable", detail, traversal.span)

    def local(self, traversal: Traversal, _sight: Sight) -> Iterator[Diagnostic]:
        """`local.x`."""
        name = _first_name(traversal)
        if name is None:
            yield _incomplete(traversal, "a local value")
        elif name not in self.module.locals:
            hint = did_you_mean(name, self.module.locals)
            detail = f'A local value with the name "{name}" has not been declared.{hint}'
            yield error("reference-to-undeclared-local-value", detail, traversal.span)

    def call(self, traversal: Traversal, sight: Sight) -> Iterator[Diagnostic]:
        """`module.x`, `module.x.output`."""
        name = _first_name(traversal)
        if name is None:
            yield _incomplete(traversal, "a module")
            return
        call = self.module.calls.get(name)
        if call is None:
            hint = did_you_mean(name, self.module.calls)
            detail = f'No module call named "{name}" is declared in {self.place}.{hint}'
            yield error("reference-to-undeclared-module", detail, traversal.span)
            return
        what = f"module.{name}"
        key = _repetition(call.count, call.for_each)
        steps = traversal.steps[1:]
        yield from _key_problems(what, key, steps, traversal, "module")
        output = steps[1:] if steps and isinstance(steps[0], TraverseIndex) else steps
        if sight.whole and output:
            yield _not_whole(traversal)
            return
        # Without the key that the call needs, the first name is no output's.
        step = output[0] if output and (not key or len(output) < len(steps)) else None
        if not call.module.directory:
            return  # it could not be read, as has been told
        if isinstance(step, TraverseAttribute) and step.name not in call.module.outputs:
            hint = did_you_mean(step.name, call.module.outputs)
            detail = f'The module "{name}" has no output named "{step.name}".{hint}'
            yield error("unsupported-attribute", detail, step.span, context=traversal.span)

    # --- names that nexusform gives ------------------------------------------------------------

    def fixed(self, traversal: Traversal, _sight: Sight) -> Iterator[Diagnostic]:
        """`path.*`, `nexusform.*`."""
        yield from _fixed_attribute(traversal)

    def count(self, traversal: Traversal, sight: Sight) -> Iterator[Diagnostic]:
        """`count.index`."""
        if not sight.count:
            detail = (
                'The "count" object can only be used in "module", "resource", and "data" blocks, and only '
                'when the "count" argument is set.'
            )
            yield error("reference-to-count-in-non-counted-context", detail, traversal.span)
            return
        yield from _fixed_attribute(traversal)

    def each(self, traversal: Traversal, sight: Sight) -> Iterator[Diagnostic]:
        """`each.key`, `each.value`."""
        if not sight.each:
            detail = (
                'The "each" object can be used only in "module", "resource", "data" and "import" blocks, and '
                'only when the "for_each" argument is set.'
            )
            yield error("reference-to-each-in-context-without-for-each", detail, traversal.span)
            return
        yield from _fixed_attribute(traversal)

    def itself(self, traversal: Traversal, sight: Sight) -> Iterator[Diagnostic]:
        """`self`."""
        if not sight.itself or sight.block is None:
            detail = (
                'The "self" object is not available in this context. It can be used only in postcondition '
                "blocks of resource and data blocks."
            )
            yield error("invalid-self-reference", detail, traversal.span)
            return
        schema = self.schemas[sight.block.mode].get(sight.block.type)
        if schema is not None:
            yield from _attribute_problems(implied_type(schema), traversal.steps, traversal)

    # --- resources -----------------------------------------------------------------------------

    def data(self, traversal: Traversal, sight: Sight) -> Iterator[Diagnostic]:
        """`data.t.n`."""
        if not traversal.steps or not isinstance(traversal.steps[0], TraverseAttribute):
            yield error(
                "invalid-reference",
                'The "data" object must be followed by two attribute names: the data source type and the '
                "resource name.",
                traversal.span,
            )
            return
        yield from self._resource(traversal, sight, "data", traversal.steps[1:])

    def _resource(
        self, traversal: Traversal, sight: Sight, mode: Mode, rest: tuple[Step, ...]
    ) -> Iterator[Diagnostic]:
        """What is wrong with a reference to a resource."""
        first = traversal.steps[0] if mode == "data" else traversal.root
        kind = first.name if not isinstance(first, TraverseIndex) else ""
        if not rest or not isinstance(rest[0], TraverseAttribute):
            yield self._no_resource_name(traversal, kind, mode)
            return
        name, steps = rest[0].name, rest[1:]
        block = self._block(mode, kind, name, sight)
        if block is None:
            yield self._undeclared(traversal, mode, kind, name)
            return
        if sight.block is not None and sight.block.address == block.address:
            detail = f"Configuration for {block.address} may not refer to itself."
            yield error("self-referential-block", detail, traversal.span)
            return
        label = f"data.{kind}.{name}" if mode == "data" else f"{kind}.{name}"
        key = _repetition(block.count, block.for_each)
        if sight.whole:
            inner = steps[1:] if steps and isinstance(steps[0], TraverseIndex) else steps
            if inner:
                yield _not_whole(traversal)
            return
        problems = list(_key_problems(label, key, steps, traversal, "resource"))
        yield from problems
        schema = self.schemas[mode].get(kind)
        if schema is not None and not problems:
            yield from _attribute_problems(implied_type(schema), steps[1:] if key else steps, traversal)

    def _block(self, mode: Mode, kind: str, name: str, sight: Sight) -> ResourceBlock | None:
        scoped = sight.scoped
        if scoped is not None and (mode, kind, name) == ("data", scoped.type, scoped.name):
            return scoped
        return self.module.resources.get((mode, kind, name))

    def _no_resource_name(self, traversal: Traversal, kind: str, mode: Mode) -> Diagnostic:
        if mode == "managed" and kind in _WORDS_ELSEWHERE:
            detail = f'"{kind}" is no name that can be used here. Did you mean {_WORDS_ELSEWHERE[kind]}?'
        elif mode == "managed" and kind not in self.schemas["managed"]:
            known = [*_SPECIAL, *self.schemas["managed"]]
            detail = (
                f'"{kind}" is no name that can be used here. Names are var.NAME, local.NAME, module.NAME, '
                f"data.TYPE.NAME or TYPE.NAME; text stands in quotes.{did_you_mean(kind, known)}"
            )
        else:
            detail = (
                "A reference to a resource type must be followed by at least one attribute access, "
                "specifying the resource name."
            )
        return error("invalid-reference", detail, traversal.span)

    def _undeclared(self, traversal: Traversal, mode: Mode, kind: str, name: str) -> Diagnostic:
        noun = "managed" if mode == "managed" else "data"
        detail = f'A {noun} resource "{kind}" "{name}" has not been declared in {self.place}.'
        other: Mode = "data" if mode == "managed" else "managed"
        if (other, kind, name) in self.module.resources:
            written = f"data.{kind}.{name}" if other == "data" else f"{kind}.{name}"
            detail += f" Did you mean the {'data' if other == 'data' else 'managed'} resource {written}?"
        else:
            detail += self._near(mode, kind, name)
        return error("reference-to-undeclared-resource", detail, traversal.span)

    def _near(self, mode: Mode, kind: str, name: str) -> str:
        """The nearest declared resource, as a question; "" without one."""
        same_type = [n for m, k, n in self.module.resources if m == mode and k == kind]
        near = nearest(name, same_type)
        prefix = "data." if mode == "data" else ""
        if near:
            return f" Did you mean {prefix}{kind}.{near}?"
        declared = [f"{k}.{n}" for m, k, n in self.module.resources if m == mode]
        others = nearest_names(f"{kind}.{name}", declared, likeness=0.7)
        return f" Did you mean {prefix}{others[0]}?" if others else ""


# How other languages, and YAML, write the values that are true, false and null here.
_WORDS_ELSEWHERE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("True", "TRUE", "yes", "Yes", "on", "On"), "true"),
    **dict.fromkeys(("False", "FALSE", "no", "No", "off", "Off"), "false"),
    **dict.fromkeys(("None", "nil", "Null", "NULL", "undefined", "nullptr"), "null"),
}

_SPECIAL: Final[Mapping[str, Callable[[_Checker, Traversal, Sight], Iterator[Diagnostic]]]] = {
    "var": _Checker.variable,
    "local": _Checker.local,
    "module": _Checker.call,
    "data": _Checker.data,
    "path": _Checker.fixed,
    "nexusform": _Checker.fixed,
    "count": _Checker.count,
    "each": _Checker.each,
    "self": _Checker.itself,
}


# --- pieces of a traversal ---------------------------------------------------------------------


def _first_name(traversal: Traversal) -> str | None:
    first = traversal.steps[0] if traversal.steps else None
    return first.name if isinstance(first, TraverseAttribute) else None


def _incomplete(traversal: Traversal, noun: str) -> Diagnostic:
    root = traversal.root.name
    detail = f'The "{root}" object cannot be used by itself: write {root}.NAME, the name of {noun}.'
    return error("invalid-reference", detail, traversal.span)


def _fixed_attribute(traversal: Traversal) -> Iterator[Diagnostic]:
    """What is wrong with a reference to one of the names that nexusform gives."""
    root = traversal.root.name
    known = _FIXED[root]
    name = _first_name(traversal)
    if name in known:
        return
    names = [f"{root}.{k}" for k in known]
    listed = (
        f"attributes are {', '.join(names[:-1])} and {names[-1]}" if names[1:] else f"attribute is {names[0]}"
    )
    if name is None:
        detail = f'The "{root}" object cannot be used by itself. Its {listed}.'
        yield error("invalid-reference", detail, traversal.span)
        return
    detail = (
        f'The "{root}" object does not have an attribute named "{name}".{did_you_mean(name, known)} '
        f"Its {listed}."
    )
    yield error(
        "invalid-object-attribute",
        detail,
        traversal.steps[0].span,
        context=traversal.span,
        headline=f'Invalid "{root}" attribute',
    )


def _foreign(traversal: Traversal) -> Iterator[Diagnostic]:
    name = _first_name(traversal)
    here = f"nexusform.{name}" if name in _FIXED["nexusform"] else "nexusform.workspace"
    detail = f'There is no "{traversal.root.name}" object in nexusform: write {here}.'
    yield error("invalid-reference", detail, traversal.span)


def _repetition(count: object, for_each: object) -> str:
    return "count" if count is not None else "for_each" if for_each is not None else ""


def _key_problems(
    what: str, key: str, steps: tuple[Step, ...], traversal: Traversal, noun: str
) -> Iterator[Diagnostic]:
    """An instance key where there is none, or none where there is one."""
    indexed = bool(steps) and isinstance(steps[0], TraverseIndex)
    if indexed and not key:
        detail = (
            f'Because {what} does not have "count" or "for_each" set, references to it must not include an '
            f"index key. Remove the bracketed index to refer to the single instance of this {noun}."
        )
        yield error(
            "unexpected-instance-key",
            detail,
            steps[0].span,
            context=traversal.span,
            headline=f"Unexpected {noun} instance key",
        )
    elif steps and not indexed and key and not _is_number(steps[0]):
        example = f"{what}[{'count.index' if key == 'count' else 'each.key'}]"
        detail = (
            f'Because {what} has "{key}" set, its attributes must be accessed on specific instances. For '
            f"example, to correlate with indices of a referring resource, use: {example}"
        )
        yield error("missing-instance-key", detail, traversal.span, headline=f"Missing {noun} instance key")


def _is_number(step: Step) -> bool:
    return isinstance(step, TraverseAttribute) and step.name.isdecimal()


def _not_whole(traversal: Traversal) -> Diagnostic:
    detail = (
        "References in depends_on must be to a whole object (a resource, a module), not to an attribute of "
        "an object."
    )
    return error("invalid-depends-on-reference", detail, traversal.span)


def _attribute_problems(of: Type, steps: tuple[Step, ...], traversal: Traversal) -> Iterator[Diagnostic]:
    """The first step that the type says cannot be taken."""
    for step in steps:
        if isinstance(of, ObjectType):
            name = step.name if isinstance(step, TraverseAttribute) else step.key
            inner = of.attribute(name) if isinstance(name, str) else None
            if inner is None:
                known = [n for n, _ in of.attributes]
                hint = did_you_mean(str(name), known)
                detail = (
                    f'This object has no argument, nested block, or exported attribute named "{name}".{hint}'
                )
                yield error("unsupported-attribute", detail, step.span, context=traversal.span)
                return
            of = inner
        elif isinstance(of, (MapType, ListType)):
            if isinstance(of, ListType) and isinstance(step, TraverseAttribute) and not _is_number(step):
                detail = "This value is a list: pick an element by its number, or use [*] for all."
                yield error("unsupported-attribute", detail, step.span, context=traversal.span)
                return
            of = of.element
        elif isinstance(of, (SetType, TupleType)):
            return
        else:
            return
