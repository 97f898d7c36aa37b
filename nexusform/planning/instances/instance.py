"""One resource instance while it is planned: its arguments, what stands, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.configuration.evaluation import PreparedBody
from nexusform.configuration.model import Lifecycle, ResourceBlock
from nexusform.diagnostics import Diagnostic, Problem, Severity, diagnostic, error
from nexusform.plain_data import Path
from nexusform.planning.instances.difference import (
    ignoring,
    null_elements,
    planned_attributes,
    pool_replacing_paths,
    replacing_paths,
    undecided_paths,
)
from nexusform.planning.names.evaluation import Evaluation, ModuleInstance
from nexusform.planning.names.repetition import Repetition
from nexusform.planning.names.views import ObjectView
from nexusform.planning.plan import Action
from nexusform.ports import ResourceType
from nexusform.schema import Attribute, BlockSchema, Nesting, at_path
from nexusform.source import Span
from nexusform.state.model import ObjectState
from nexusform.value_types import MapType
from nexusform.values import UNKNOWN

UNDECIDED = "placement-depends-on-an-unknown-value"


class Instance(Struct):
    """One instance of a managed resource.

    `prior` is the object as the provider found it (None: nothing stands). `config` are the
    evaluated arguments with ignored changes taken back, None when the instance goes. `planned`
    are all attributes after. `broken` instances had errors: what refers to them is unknown.
    `forced` is a reason to replace from outside (action_reason), with its placement trigger. `private`
    is what state is to note of it (None: what it notes now); that alone is no change. `unsettled` are
    computed attributes that lack VMs which do not fit: what refers to them is unknown.
    """

    address: Address
    type: ResourceType
    prior: ObjectState | None
    block: ResourceBlock | None = None
    module: ModuleInstance | None = None
    repetition: Repetition | None = None
    prepared: PreparedBody | None = None
    config: dict[str, Any] | None = None
    sensitive: tuple[Path, ...] = ()
    planned: dict[str, Any] | None = None
    action: Action = Action.NO_OP
    reason: str = ""
    replace_paths: tuple[Path, ...] = ()
    forced: str = ""
    creation: int = 0
    dependencies: tuple[str, ...] = ()
    create_first: bool = False
    broken: bool = False
    importing: str = ""
    deposed: Mapping[str, ObjectState] = field(default_factory=dict)
    previous: Address | None = None
    private: Mapping[str, Any] | None = None
    unsettled: frozenset[str] = frozenset()

    @property
    def lifecycle(self) -> Lifecycle:
        """Its lifecycle block."""
        return self.block.lifecycle if self.block is not None else _NO_LIFECYCLE

    @property
    def before(self) -> Mapping[str, Any] | None:
        """The attributes that stand."""
        return self.prior.attributes if self.prior is not None else None

    @property
    def going(self) -> bool:
        """Whether it leaves the state, destroyed or forgotten."""
        return self.action in (Action.DELETE, Action.FORGET)

    @property
    def replaced(self) -> bool:
        """Whether a new object takes the place of the old one."""
        return self.action in (Action.REPLACE, Action.REPLACE_CREATE_FIRST)

    @property
    def view(self) -> ObjectView:
        """What expressions see of it."""
        values: Mapping[str, Any] | None = None if self.broken else self.planned
        if values is not None and self.unsettled:
            values = {**values, **dict.fromkeys(self.unsettled, UNKNOWN)}
        return ObjectView(values, self.sensitive, self.type.schema, self.type.present)

    def locate(self, path: Path) -> Span | None:
        """Where a value of its arguments stands."""
        if self.prepared is not None and path:
            return self.prepared.locate(path)
        return self.block.header_span if self.block is not None else None

    def problem(self, found: Problem) -> Diagnostic:
        """A resource type's finding as a diagnostic at its line; of a sensitive value it is not told
        what is wrong with it, since that would show parts of it.
        """
        secret = any(found.path[: len(path)] == path for path in self.sensitive)
        return diagnostic(
            found.severity,
            found.id,
            _HIDDEN if secret and found.path and found.id != DECIDING_ID else found.detail,
            self.locate(found.path),
            address=str(self.address),
            block=self.block.header if self.block is not None else "",
            headline=found.headline,
        )

    def error(self, kind: str, detail: str, path: Path = (), headline: str = "") -> Diagnostic:
        """An error about this instance."""
        return self.problem(Problem(path, kind, detail, headline=headline))


_NO_LIFECYCLE = Lifecycle()
DECIDING_ID = "sensitive-value-decides"
_HIDDEN = (
    "The value is sensitive, so what is wrong with it is not shown. nonsensitive() shows it while you look."
)


def _with_shown(schema: BlockSchema, sensitive: tuple[Path, ...]) -> tuple[Path, ...]:
    """The sensitive paths, and the computed attributes that would show parts of them."""
    shown: dict[Path, None] = dict.fromkeys(sensitive)
    for path in sensitive:
        attribute = schema.attributes.get(str(path[0])) if len(path) == 1 else None
        shown.update({(name,): None for name in (attribute.shown_in if attribute is not None else ())})
    return tuple(shown)


def _deciding_secrets(instance: Instance) -> list[Diagnostic]:
    """Sensitive values where names and places come from: every plan and table would show them."""
    found = []
    for path in instance.sensitive:
        attribute = at_path(instance.type.schema, path)
        if not isinstance(attribute, Attribute) or isinstance(attribute.type, MapType):
            continue
        if attribute.shown_in or not (attribute.decides_placement and attribute.configurable):
            continue
        instance.broken = True
        detail = (
            f'"{argument_text(path, instance.type.schema)}" decides a name or a place, and those are '
            "shown in every plan, so it cannot be sensitive. Wrap it in nonsensitive() if it may be shown."
        )
        problem = Problem(path, DECIDING_ID, detail)
        found.append(instance.problem(problem))
    return found


def evaluate_arguments(instance: Instance, evaluation: Evaluation) -> list[Diagnostic]:
    """Give the instance its arguments: evaluated, named, checked, ignored changes taken back."""
    assert instance.prepared is not None
    assert instance.module is not None
    assert instance.repetition is not None
    scope = evaluation.scope(instance.module, instance.repetition)
    config, sensitive, problems = instance.prepared.evaluate(scope)
    found = [_at(instance, p) for p in problems]
    if any(p.severity is Severity.ERROR for p in problems):
        instance.broken = True
    for path in null_elements(instance.type.schema, config):
        instance.broken = True
        detail = (
            f'"{argument_text(path, instance.type.schema)}" holds a null value. Leave the element out, for '
            "example with compact()."
        )
        found.append(instance.error("null-value-in-a-collection", detail, path))
    if instance.type.fill is not None:
        config |= {n: v for n, v in instance.type.fill(config).items() if config.get(n) is None}
    if "name" in instance.type.schema.attributes and config.get("name") is None:
        found += _default_name(instance, config)
    instance.sensitive = _with_shown(instance.type.schema, sensitive)
    secrets = _deciding_secrets(instance)
    found += secrets
    if instance.type.check is not None and not secrets:
        issues = [instance.problem(p) for p in instance.type.check(config)]
        instance.broken |= any(i.severity is Severity.ERROR for i in issues)
        found += issues
    lifecycle = instance.lifecycle
    if instance.prior is not None and (lifecycle.ignore_all or lifecycle.ignore_changes):
        before = instance.prior.attributes
        config = ignoring(config, before, lifecycle.ignore_changes, everything=lifecycle.ignore_all)
    instance.config = config
    return found


def _at(instance: Instance, found: Diagnostic) -> Diagnostic:
    block = instance.block.header if instance.block is not None else ""
    return replace(found, address=found.address or str(instance.address), block=found.block or block)


def _default_name(instance: Instance, config: dict[str, Any]) -> list[Diagnostic]:
    assert instance.block is not None
    block = instance.block
    if not instance.type.schema.attributes["name"].optional:
        return []
    if block.count is None and block.for_each is None:
        config["name"] = block.name
        return []
    instance.broken = True
    argument = "each.key" if block.for_each is not None else "count.index"
    return [
        error(
            "missing-required-argument",
            f'The argument "name" must be given where a block stands for several instances: the block\'s own '
            f'name can only be used once. Write for example name = "{block.name}-${{{argument}}}".',
            block.header_span,
            address=str(instance.address),
            block=block.header,
        )
    ]


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


def decide(instance: Instance, computed: Mapping[str, Any], *, requested: bool) -> None:
    """Work out the planned attributes and the action."""
    assert instance.config is not None
    schema = instance.type.schema
    prior = instance.before
    instance.planned = planned_attributes(schema, instance.config, prior, computed)
    if prior is None:
        instance.action = Action.CREATE
        return
    assert instance.prior is not None
    instance.replace_paths = replacing_paths(schema, prior, instance.config)
    reason = ""
    if instance.prior.tainted:
        reason = "replace_because_tainted"
    elif requested:
        reason = "replace_by_request"
    elif instance.forced:
        reason = instance.forced
    elif instance.replace_paths:
        reason = "replace_because_cannot_update"
    if reason:
        instance.reason = reason
        instance.action = Action.REPLACE_CREATE_FIRST if instance.create_first else Action.REPLACE
        if computed or instance.replace_paths:
            instance.planned = planned_attributes(schema, instance.config, None, computed)
        return
    instance.action = Action.NO_OP if same(instance.planned, prior) else Action.UPDATE
    instance.replace_paths = tuple(sorted(pool_replacing_paths(schema, prior, instance.config)))


def same(planned: Mapping[str, Any], prior: Mapping[str, Any]) -> bool:
    """Whether nothing differs; an attribute that state does not know yet counts when it is set."""
    return all(prior.get(name) == value for name, value in planned.items())
