"""Plans and states as documents: OpenTofu's plan representation 1.2, and what nexusform adds.

Long lists are `Rows`, made while they are written: see json_writer.write_json.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, ValidationError, convert

from nexusform.address import Address, AddressProblem, ModulePath, address_order, module_text, parse_address
from nexusform.configuration.declared.configuration import Configuration
from nexusform.plain_data import Path
from nexusform.plans.plan import Action, Change, CheckResult, Drift, Mode, OutputChange, Plan
from nexusform.ports import Registries
from nexusform.rendering.json.json_configuration import configuration_document
from nexusform.rendering.json.json_parts import (
    ACTIONS,
    TERRAFORM_VERSION,
    address_keys,
    finding_document,
    provider_name,
)
from nexusform.rendering.json.json_placements import (
    other_room_documents,
    placement_changes,
    placement_tables,
    rollout_documents,
    room_documents,
    score_documents,
    separation_documents,
    total_documents,
    upgrade_documents,
)
from nexusform.rendering.notation.hcl_text import trie
from nexusform.rendering.notation.json_bounds import DRAWS
from nexusform.rendering.notation.json_values import (
    Rows,
    Section,
    json_bytes,
    known_part,
    materialised,
    redacted,
    sensitive_mask,
    shown,
    shown_type,
    unknown_mask,
    write_json,
)
from nexusform.rendering.report.entries import plan_findings
from nexusform.rendering.report.placement_rows import Detail
from nexusform.source import SourceFile
from nexusform.state.objects import EMPTY, InstanceState, ObjectState, OutputState, State

__all__ = ["json_bytes", "materialised", "plan_document", "state_document", "write_json"]

FORMAT_VERSION: Final = "1.2"
# Reasons for which OpenTofu has one word with another.
_REASONS: Final[Mapping[str, str]] = {"replace_with_its_place": "replace_by_triggers"}
_NO_REGISTRIES: Final = Registries()
_NO_FILES: Final[Mapping[str, SourceFile]] = {}


def plan_document(
    plan: Plan,
    configuration: Configuration | None,
    prior: State = EMPTY,
    *,
    registries: Registries = _NO_REGISTRIES,
    files: Mapping[str, SourceFile] = _NO_FILES,
    placements: Detail = Detail.CHANGED,
    show_sensitive: bool = False,
) -> Section:
    """The plan representation. `prior` is the state the plan started from (refreshed).

    `files` (default: the configuration's) give the source lines of diagnostics. Sensitive values
    are redacted unless `show_sensitive`; the marks stay either way.
    """
    known_files = files or (configuration.files if configuration else _NO_FILES)
    show = show_sensitive
    changes = _acted_on(plan)
    return Section(
        format_version=FORMAT_VERSION,
        terraform_version=TERRAFORM_VERSION,
        nexusform_version=plan.nexusform_version,
        variables={
            name: {"value": shown(variable.value, _whole(variable.sensitive), show_sensitive=show)}
            for name, variable in sorted(plan.variables.items())
        },
        planned_values=_planned_values(plan, show),
        resource_drift=Rows(lambda: _drifts(plan, show)),
        resource_changes=Rows(lambda: (_resource_change(change, show) for change in changes)),
        output_changes={output.name: _output_change(output, show) for output in plan.outputs},
        prior_state=_state(prior, show),
        configuration=configuration_document(configuration, registries) if configuration else {},
        relevant_attributes=_relevant(plan, changes, configuration, prior),
        checks=_checks(plan.checks),
        timestamp=plan.timestamp,
        applyable=plan.has_changes and not plan.denied,
        complete=not (plan.errored or plan.targets or plan.excludes),
        errored=plan.errored,
        placement_changes=Rows(lambda: placement_changes(plan, placements)),
        placement_totals=total_documents(plan),
        placement_tables=placement_tables(plan),
        separation_rules=separation_documents(plan),
        rollouts=rollout_documents(plan),
        upgrades=upgrade_documents(plan),
        room=room_documents(plan.room),
        **({"room_other": other_room_documents(plan.room_other)} if plan.room_other else {}),
        draws=plan.draws and DRAWS(plan.draws),
        **({"prediction_scores": score_documents(plan.scores)} if plan.scores else {}),
        **({"judgements": list(plan.judgements)} if plan.judgements else {}),
        diagnostics=[finding_document(finding, known_files) for finding in plan_findings(plan)],
    )


def _relevant(
    plan: Plan, changes: Sequence[Change], configuration: Configuration | None, prior: State
) -> list[dict[str, Any]]:
    if configuration is None:
        return []
    from nexusform.rendering.json.json_relevance import relevant_attributes

    return relevant_attributes(configuration, plan, changes, prior)


def _acted_on(plan: Plan) -> Sequence[Change]:
    """The changes that a plan makes: what one that only refreshes finds moved is drift."""
    return () if plan.mode is Mode.REFRESH_ONLY else plan.changes


def state_document(state: State, *, show_sensitive: bool = False) -> Section:
    """OpenTofu's state representation; placements are ordinary attributes in it."""
    document = _state(state, show_sensitive)
    if state.check_results:
        document["checks"] = _kept_checks(state.check_results)
    return document


def _whole(sensitive: bool) -> tuple[Path, ...]:
    return ((),) if sensitive else ()


# --- changes -----------------------------------------------------------------------------------


def _resource_change(change: Change, show: bool) -> dict[str, Any]:
    """An element of `resource_changes`; `show` = sensitive values, too."""
    address = change.address
    document: dict[str, Any] = {"address": str(address)}
    if change.previous_address is not None and change.previous_address != address:
        document["previous_address"] = str(change.previous_address)
    if address.module:
        document["module_address"] = module_text(address.module)
    document |= address_keys(address) | {"provider_name": provider_name(change.provider)}
    if change.deposed:
        document["deposed"] = change.deposed
    document["change"] = _change(change, show)
    if change.reason:
        document["action_reason"] = _REASONS.get(change.reason, change.reason)
    if change.source is not None:
        span = change.source
        document["source"] = {
            "file": span.filename,
            "line": span.start.line,
            "column": span.start.column,
            "end_line": span.end.line,
        }
    return document


def _change(change: Change, show: bool) -> dict[str, Any]:
    """The `change` of a resource change: actions, both sides and their masks."""
    document = _sides(
        ACTIONS[change.action],
        change.before,
        change.after,
        before_marks=trie(change.sensitive_before),
        after_marks=trie(change.sensitive_after),
        show=show,
    )
    if change.replace_paths:
        document["replace_paths"] = [list(path) for path in change.replace_paths]
    if change.importing:
        document["importing"] = {"id": change.importing}
    return document


def _sides(
    actions: list[str], before: Any, after: Any, *, before_marks: Any, after_marks: Any, show: bool
) -> dict[str, Any]:
    """Both sides of a change with what is unknown and sensitive in them."""
    left, right = known_part(before), known_part(after)
    if not show:
        # What is or becomes secret is hidden on both sides; the marks below tell them apart.
        left, right = (redacted(redacted(side, before_marks), after_marks) for side in (left, right))
    return {
        "actions": actions,
        "before": left,
        "after": right,
        "after_unknown": unknown_mask(after) if after is not None else {},
        "before_sensitive": sensitive_mask(before, before_marks) if before is not None else False,
        "after_sensitive": sensitive_mask(after, after_marks) if after is not None else False,
    }


def _drifts(plan: Plan, show: bool) -> Iterator[dict[str, Any]]:
    """What was found otherwise, under the addresses of now; in a plan that only refreshes also what merely
    moved.
    """
    moved = dict(plan.moved)
    providers = {change.address: change.provider for change in plan.changes} if plan.drift else {}
    for drift in plan.drift:
        address = moved.get(drift.address, drift.address)
        yield _drift(drift, address, providers.get(address, ""), show)
    if plan.mode is Mode.REFRESH_ONLY:
        drifted = {drift.address for drift in plan.drift}
        for change in plan.changes:
            if change.previous_address not in drifted:
                yield _resource_change(change, show)


def _drift(drift: Drift, address: Address, provider: str, show: bool) -> dict[str, Any]:
    """An element of `resource_drift`."""
    document: dict[str, Any] = {"address": str(address)}
    if address != drift.address:
        document["previous_address"] = str(drift.address)
    if address.module:
        document["module_address"] = module_text(address.module)
    marks = trie(drift.sensitive)
    actions = ["delete"] if drift.after is None else ["update"]
    change = _sides(actions, drift.before, drift.after, before_marks=marks, after_marks=marks, show=show)
    keys = address_keys(address) | {"provider_name": provider_name(provider)}
    return document | keys | {"change": change}


def _output_change(output: OutputChange, show: bool) -> dict[str, Any]:
    """A value of `output_changes`."""
    marks = True if output.sensitive else None
    document = _sides(
        ACTIONS[output.action], output.before, output.after, before_marks=marks, after_marks=marks, show=show
    )
    # An output is sensitive as a whole, whether it is there or not.
    document["after_unknown"] = unknown_mask(output.after) or False
    document["before_sensitive"] = document["after_sensitive"] = output.sensitive
    return document


# --- values ------------------------------------------------------------------------------------


def _planned_values(plan: Plan, show: bool) -> Section:
    """The objects and outputs as they will be."""
    by_module: dict[ModulePath, list[Change]] = {(): []}
    for change in _acted_on(plan):
        stays = change.after is not None and change.action is not Action.FORGET
        if stays and not change.deposed:
            by_module.setdefault(change.address.module, []).append(change)

    def rows(path: ModulePath) -> Iterator[dict[str, Any]]:
        return (_planned(change, show) for change in by_module[path])

    root_module = _module_tree(by_module.keys(), rows)
    return _values(plan.planned_outputs, root_module, show)


def _values(outputs: Mapping[str, OutputState], root_module: Section, show: bool) -> Section:
    """Outputs and the tree of modules, as `values` has them."""
    if not outputs:
        return Section(root_module=root_module)
    documents = {name: _output(output, show) for name, output in sorted(outputs.items())}
    return Section(outputs=documents, root_module=root_module)


def _planned(change: Change, show: bool) -> dict[str, Any]:
    return {
        "address": str(change.address),
        **address_keys(change.address),
        "provider_name": provider_name(change.provider),
        "schema_version": 0,
        "values": shown(change.after, change.sensitive_after, show_sensitive=show),
        "sensitive_values": sensitive_mask(change.after, trie(change.sensitive_after)),
    }


def _output(output: OutputState, show: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"sensitive": output.sensitive}
    if not unknown_mask(output.value):
        document["value"] = shown(output.value, _whole(output.sensitive), show_sensitive=show)
    return document | {"type": shown_type(output.type, hidden=output.sensitive and not show)}


def _module_tree(
    paths: Collection[ModulePath], rows: Callable[[ModulePath], Iterable[dict[str, Any]]]
) -> Section:
    """`root_module` with its child modules; `rows(path)` gives the resources of a module."""
    present = set(paths)
    for path in paths:
        # A module without resources of its own still holds the modules in it.
        present.update(path[:depth] for depth in range(len(path)))
    children: dict[ModulePath, list[ModulePath]] = {}
    for path in sorted(present, key=module_text):
        if path:
            children.setdefault(path[:-1], []).append(path)

    def module(path: ModulePath) -> Section:
        document = Section(address=module_text(path)) if path else Section()
        if path in paths:
            document["resources"] = Rows(lambda: rows(path))
        if path in children:
            document["child_modules"] = Rows(lambda: map(module, children[path]))
        return document

    return module(())


def _state(state: State, show: bool) -> Section:
    """A state representation, without its checks."""
    document = Section(format_version="1.0", terraform_version=TERRAFORM_VERSION)
    if not state.instances and not state.outputs:
        return document
    by_module: dict[ModulePath, list[Address]] = {(): []}
    for address in sorted(state.instances, key=address_order):
        by_module.setdefault(address.module, []).append(address)

    def rows(path: ModulePath) -> Iterator[dict[str, Any]]:
        for address in by_module[path]:
            for deposed, instance in _objects(state.instances[address]):
                yield _object(address, instance, deposed, show)

    root_module = _module_tree(by_module.keys(), rows)
    document["values"] = _values(state.outputs, root_module, show)
    return document


def _objects(instance: InstanceState) -> Iterable[tuple[str, ObjectState]]:
    """The objects of an instance with their deposed keys ("" for the current one)."""
    if instance.current is not None:
        yield "", instance.current
    yield from sorted(instance.deposed.items())


def _object(address: Address, instance: ObjectState, deposed: str, show: bool) -> dict[str, Any]:
    """An object of state, in Terraform's form."""
    document: dict[str, Any] = {
        "address": str(address),
        **address_keys(address),
        "provider_name": provider_name(instance.provider),
        "schema_version": instance.schema_version,
        "values": shown(instance.attributes, instance.sensitive, show_sensitive=show),
        "sensitive_values": sensitive_mask(instance.attributes, trie(instance.sensitive)),
    }
    if instance.dependencies:
        document["depends_on"] = list(instance.dependencies)
    if instance.tainted:
        document["tainted"] = True
    if deposed:
        document["deposed_key"] = deposed
    return document


# --- checks ------------------------------------------------------------------------------------

_WORST: Final = ("error", "fail", "unknown", "pass")
_KINDS: Final = {"input_variable": "var"}


def _checks(results: Sequence[CheckResult]) -> list[dict[str, Any]]:
    """The results of conditions, grouped by what declares them."""
    groups: dict[tuple[str, str], list[CheckResult]] = {}
    for result in results:
        groups.setdefault((result.kind, _without_keys(result.address)), []).append(result)
    documents = [_check(kind, address, instances) for (kind, address), instances in groups.items()]
    return sorted(documents, key=lambda document: document["address"]["to_display"])


class _KeptAddress(Struct, frozen=True):
    to_display: str
    kind: str = ""


class _KeptProblem(Struct, frozen=True):
    message: str


class _KeptInstance(Struct, frozen=True):
    address: _KeptAddress
    status: str
    problems: list[_KeptProblem] = []


class _KeptCheck(Struct, frozen=True):
    address: _KeptAddress
    instances: list[_KeptInstance]


def _kept_checks(kept: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The results that a state keeps; as they stand there where somebody wrote them in another form."""
    try:
        checks = convert([dict(check) for check in kept], list[_KeptCheck])
        return _checks([result for check in checks for result in _kept_results(check)])
    except (ValidationError, AddressProblem):
        return [dict(check) for check in kept]


def _kept_results(check: _KeptCheck) -> Iterator[CheckResult]:
    for instance in check.instances:
        problems = tuple(problem.message for problem in instance.problems)
        yield CheckResult(check.address.kind, instance.address.to_display, instance.status, problems)


def _check(kind: str, address: str, instances: Sequence[CheckResult]) -> dict[str, Any]:
    return {
        "address": {"kind": _KINDS.get(kind, kind), **_declared(kind, address), "to_display": address},
        "status": min((instance.status for instance in instances), key=_severity),
        "instances": [_check_instance(instance) for instance in instances],
    }


def _declared(kind: str, address: str) -> dict[str, Any]:
    """The parts of an address that has conditions, without instance keys: what it is and in which module."""
    if kind == "resource":
        parsed = parse_address(address)
        named = {"mode": parsed.mode, "type": parsed.type, "name": parsed.name}
        return {**named, **_module_key(module_text(parsed.module))}
    front, _, name = address.rpartition(".")
    return {"name": name, **_module_key(front.rpartition(".")[0])}


def _instance(kind: str, address: str) -> dict[str, Any]:
    """The keys in an address that has conditions."""
    if kind != "resource":
        return _module_key(address.rpartition(".")[0].rpartition(".")[0])
    parsed = parse_address(address)
    key = {} if parsed.key is None else {"instance_key": parsed.key}
    return {**key, **_module_key(module_text(parsed.module))}


def _module_key(module: str) -> dict[str, str]:
    return {"module": module} if module else {}


def _severity(status: str) -> int:
    """How bad a status is: the lowest is the worst."""
    return _WORST.index(status) if status in _WORST else len(_WORST)


def _check_instance(result: CheckResult) -> dict[str, Any]:
    address = {**_instance(result.kind, result.address), "to_display": result.address}
    document: dict[str, Any] = {"address": address, "status": result.status}
    if result.problems:
        document["problems"] = [{"message": text} for text in result.problems]
    return document


def _without_keys(address: str) -> str:
    """An address without the keys of instances: `a.b["x"]` -> `a.b`."""
    import re

    return re.sub(r'\["(?:[^"\\]++|\\.)*+"\]|\[\d+\]', "", address)
