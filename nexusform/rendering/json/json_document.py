"""Documents of plans and states: OpenTofu's plan representation 1.2 with additions of nexusform.

Long lists are `LazyArray` objects, created during writing by `write_json`.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from msgspec import Struct, ValidationError, convert

from nexusform.configuration.declarations.configuration import Configuration
from nexusform.configuration.reference_graph import list_modules
from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.diagnostics.phrases import group_by
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.json_data.plain_data import Path
from nexusform.plans.plan import Change, CheckResult, Mode, OutputChange, Plan
from nexusform.rendering.json.json_configuration import build_configuration_document
from nexusform.rendering.json.json_diagnostics import (
    ACTIONS,
    TERRAFORM_VERSION,
    build_address_keys,
    build_finding_document,
    format_provider_name,
)
from nexusform.rendering.json.json_placements import (
    build_decision_document,
    build_placement_changes,
    build_plan_figures,
)
from nexusform.rendering.json.json_relevance import collect_relevant_attributes
from nexusform.rendering.notation.hcl_text import build_path_trie
from nexusform.rendering.notation.json_values import (
    LazyArray,
    LazyObject,
    build_sensitive_mask,
    build_unknown_mask,
    build_visible_type,
    build_visible_value,
    drop_unknown_values,
    encode_document,
    expand_document,
    omit_empty,
    redact_value,
    write_json,
)
from nexusform.rendering.report.finding_entries import collect_findings
from nexusform.rendering.report.placement_rows import ShownPlacements
from nexusform.resources.address import (
    ROOT_MODULE,
    Address,
    AddressProblem,
    ModulePath,
    compute_address_order,
    format_module,
    parse_address,
)
from nexusform.state.objects import EMPTY, InstanceState, OutputState, State

__all__ = [
    "build_plan_document",
    "build_state_document",
    "encode_document",
    "expand_document",
    "write_json",
]

FORMAT_VERSION: Final = "1.2"
# Reasons without a word of their own in OpenTofu.
_REASONS: Final[Mapping[str, str]] = {"replace_with_its_place": "replace_by_triggers"}
_NO_REGISTRIES: Final = PluginRegistries()
_NO_FILES: Final[Mapping[str, SourceFile]] = {}


def build_plan_document(
    plan: Plan,
    configuration: Configuration | None,
    prior: State = EMPTY,
    *,
    registries: PluginRegistries = _NO_REGISTRIES,
    files: Mapping[str, SourceFile] = _NO_FILES,
    placements: ShownPlacements = ShownPlacements.CHANGED,
    show_sensitive: bool = False,
) -> LazyObject:
    """Build Terraform's JSON plan, large parts lazily.

    `prior` is the refreshed prior state. `files` (default: those of the configuration) supply
    source lines. `placements` selects the listed placements. Sensitive values are redacted unless
    `show_sensitive`; the marks remain.
    """
    known_files = files or (configuration.files if configuration else _NO_FILES)
    changes = _select_changes(plan)
    return LazyObject(
        format_version=FORMAT_VERSION,
        terraform_version=TERRAFORM_VERSION,
        nexusform_version=plan.start.nexusform_version,
        **omit_empty(
            {
                "hypothetical": bool(plan.assumptions),
                "assumptions": list(plan.assumptions),
                "losses": _build_losses(plan),
            }
        ),
        variables=_build_variables(plan, show_sensitive),
        planned_values=_build_planned_values(plan, show_sensitive),
        resource_drift=LazyArray(lambda: _list_drift_documents(plan, show_sensitive)),
        resource_changes=LazyArray(
            lambda: (_build_resource_change(change, show_sensitive) for change in changes)
        ),
        output_changes={
            output.name: _build_output_change(output, show_sensitive)
            for output in plan.root_values.outputs
        },
        prior_state=_build_state(prior, show_sensitive),
        configuration=build_configuration_document(configuration, registries)
        if configuration
        else {},
        relevant_attributes=collect_relevant_attributes(configuration, plan, changes, prior)
        if configuration
        else [],
        checks=_build_checks(plan.verdicts.checks, _list_unchecked_conditions(plan, configuration)),
        timestamp=plan.start.timestamp,
        applyable=plan.has_changes and not (plan.is_rejected or plan.assumptions),
        complete=not (
            plan.errored or plan.options.targets or plan.options.excludes or plan.is_from_state
        ),
        errored=plan.errored,
        decision=build_decision_document(plan),
        placement_changes=LazyArray(lambda: build_placement_changes(plan, placements)),
        # Keys without a counterpart in Terraform: rollouts, capacity and others.
        **build_plan_figures(plan),
        **omit_empty(
            {
                "providers": dict(plan.observed.providers),
                "dry_runs": list(plan.verdicts.dry_run_messages),
            }
        ),
        diagnostics=[
            build_finding_document(finding, known_files) for finding in collect_findings(plan)
        ],
    )


def _build_losses(plan: Plan) -> list[dict[str, Any]]:
    """Build the sections of lost machines, as answers of `simulate failure` have them."""
    if not plan.losses:
        return []
    from nexusform.rendering.json.report_document import build_section_document
    from nexusform.rendering.report.loss_sections import build_loss_section

    return [build_section_document(build_loss_section(loss)) for loss in plan.losses]


def _select_changes(plan: Plan) -> Sequence[Change]:
    """Return the changes to display.

    A refresh-only plan has none: its moved addresses are reported as drift.
    """
    return () if plan.options.mode is Mode.REFRESH_ONLY else plan.changes


def build_state_document(state: State, *, show_sensitive: bool = False) -> LazyObject:
    """Build OpenTofu's state representation, with placements as ordinary attributes."""
    document = _build_state(state, show_sensitive)
    document |= omit_empty({"checks": _build_stored_checks(state.check_results)})
    return document


def _get_sensitive_paths(sensitive: bool) -> tuple[Path, ...]:
    # The empty path means the whole value.
    return ((),) if sensitive else ()


def _build_resource_change(change: Change, show: bool) -> dict[str, Any]:
    """Build an element of `resource_changes`; `show` includes sensitive values."""
    address = change.address
    optional_addresses = {
        "previous_address": str(change.previous_address or ""),
        "module_address": format_module(address.module),
    }
    document: dict[str, Any] = {
        "address": str(address),
        **omit_empty(optional_addresses),
        **build_address_keys(address),
        "provider_name": format_provider_name(change.provider),
        **omit_empty({"deposed": change.deposed}),
    }
    change_document = _build_change_sides(
        ACTIONS[change.action],
        change.before,
        change.after,
        before_marks=build_path_trie(change.sensitive_before),
        after_marks=build_path_trie(change.sensitive_after),
        show=show,
    )
    importing = omit_empty({"id": change.importing})
    change_document |= omit_empty(
        {"replace_paths": list(map(list, change.replace_paths)), "importing": importing}
    )
    document["change"] = change_document
    document |= omit_empty({"action_reason": _REASONS.get(change.reason, change.reason)})
    if change.source is not None:
        span = change.source
        document["source"] = {
            "file": span.filename,
            "line": span.start.line,
            "column": span.start.column,
            "end_line": span.end.line,
        }
    return document


def _build_change_sides(
    actions: list[str], before: Any, after: Any, *, before_marks: Any, after_marks: Any, show: bool
) -> dict[str, Any]:
    """Build `actions`, both values of a change, and masks of their parts.

    `show` keeps sensitive values unredacted.
    """
    before_value = drop_unknown_values(before)
    after_value = drop_unknown_values(after)
    if not show:
        # Hide a part on both sides if it is sensitive on one of them; the masks below
        # differ by side.
        before_value, after_value = (
            redact_value(redact_value(side, before_marks), after_marks)
            for side in (before_value, after_value)
        )
    return {
        "actions": actions,
        "before": before_value,
        "after": after_value,
        "after_unknown": build_unknown_mask(after) if after is not None else {},  # None: deleted
        "before_sensitive": build_sensitive_mask(before, before_marks)
        if before is not None
        else False,
        "after_sensitive": build_sensitive_mask(after, after_marks) if after is not None else False,
    }


def _list_drift_documents(plan: Plan, show: bool) -> Iterator[dict[str, Any]]:
    """Yield a document per object changed outside of nexusform, under its address after moves.

    A refresh-only plan lists its moves here, too, because it changes no object. `show`
    includes sensitive values.
    """
    current_addresses = dict(plan.address_moves)
    providers = (
        {change.address: change.provider for change in plan.changes} if plan.observed.drift else {}
    )
    for drift in plan.observed.drift:
        # The same if it did not move.
        address = current_addresses.get(drift.address, drift.address)
        document: dict[str, Any] = {"address": str(address)}
        if address != drift.address:
            document["previous_address"] = str(drift.address)
        document |= omit_empty({"module_address": format_module(address.module)})
        document |= build_address_keys(address)
        document["provider_name"] = format_provider_name(providers.get(address, ""))
        marks = build_path_trie(drift.sensitive)
        document["change"] = _build_change_sides(
            ["delete"] if drift.after is None else ["update"],
            drift.before,
            drift.after,
            before_marks=marks,
            after_marks=marks,
            show=show,
        )
        yield document
    if plan.options.mode is Mode.REFRESH_ONLY:
        drift_addresses = {drift.address for drift in plan.observed.drift}
        for change in plan.changes:  # only moves
            # A drift has both addresses already.
            if change.previous_address not in drift_addresses:
                yield _build_resource_change(change, show)


def _build_output_change(output: OutputChange, show: bool) -> dict[str, Any]:
    """Build a value of `output_changes`."""
    # Mark of the whole value.
    marks = True if output.sensitive else None
    document = _build_change_sides(
        ACTIONS[output.action],
        output.before,
        output.after,
        before_marks=marks,
        after_marks=marks,
        show=show,
    )
    # False for an empty mask.
    document["after_unknown"] = build_unknown_mask(output.after) or False
    # An output is sensitive as a whole, even if it does not exist.
    document["before_sensitive"] = document["after_sensitive"] = output.sensitive
    return document


def _build_variables(plan: Plan, show_sensitive: bool) -> dict[str, dict[str, Any]]:
    """Return the values of variables by name."""
    documents = {}
    for name, variable in sorted(plan.root_values.variables.items()):
        paths = _get_sensitive_paths(variable.sensitive)
        documents[name] = {
            "value": build_visible_value(variable.value, paths, show_sensitive=show_sensitive)
        }
    return documents


def _build_planned_values(plan: Plan, show: bool) -> LazyObject:
    """Build the planned objects and outputs."""
    # The current object of each instance, if it exists after the plan.
    planned = (
        change
        for change in _select_changes(plan)
        if change.after is not None and not change.deposed
    )
    by_module = {ROOT_MODULE: [], **group_by(planned, lambda change: change.address.module)}

    def list_resources(path: ModulePath) -> Iterator[dict[str, Any]]:
        """Yield the planned objects of a module in Terraform's form."""
        for change in by_module[path]:
            marks = build_path_trie(change.sensitive_after)
            yield {
                "address": str(change.address),
                **build_address_keys(change.address),
                "provider_name": format_provider_name(change.provider),
                "schema_version": 0,
                "values": build_visible_value(
                    change.after, change.sensitive_after, show_sensitive=show
                ),
                "sensitive_values": build_sensitive_mask(change.after, marks),
            }

    root_module = _build_module_tree(by_module.keys(), list_resources)
    return _build_values(plan.root_values.planned_outputs, root_module, show)


def _build_values(
    outputs: Mapping[str, OutputState], root_module: LazyObject, show: bool
) -> LazyObject:
    """Build outputs and the module tree of `values`; `show` includes sensitive values."""
    documents = {}
    for name, output in sorted(outputs.items()):
        document: dict[str, Any] = {"sensitive": output.sensitive}
        # Unknown values are omitted.
        if not build_unknown_mask(output.value):
            paths = _get_sensitive_paths(output.sensitive)
            document["value"] = build_visible_value(output.value, paths, show_sensitive=show)
        document["type"] = build_visible_type(output.type, is_hidden=output.sensitive and not show)
        documents[name] = document
    return LazyObject(**omit_empty({"outputs": documents}), root_module=root_module)


def _build_module_tree(
    paths: Collection[ModulePath], list_resources: Callable[[ModulePath], Iterable[dict[str, Any]]]
) -> LazyObject:
    """Build `root_module` with its child modules.

    `list_resources(path)` yields the resources of a module.
    """
    all_paths = set(paths)
    for path in paths:
        # A module without resources still contains its child modules.
        all_paths.update(path[:depth] for depth in range(len(path)))
    inner_paths = sorted(all_paths - {ROOT_MODULE}, key=format_module)
    children = group_by(inner_paths, lambda path: path[:-1])

    def build_module(path: ModulePath) -> LazyObject:
        """Build a module with its resources and its child modules."""
        document = LazyObject(address=format_module(path)) if path else LazyObject()
        # Another module only contains child modules.
        if path in paths:
            document["resources"] = LazyArray(lambda: list_resources(path))
        if path in children:
            document["child_modules"] = LazyArray(lambda: map(build_module, children[path]))
        return document

    return build_module(ROOT_MODULE)


def _build_state(state: State, show: bool) -> LazyObject:
    """Build a state representation without its checks.

    A state without objects and outputs has no `values`.
    """
    document = LazyObject(format_version="1.0", terraform_version=TERRAFORM_VERSION)
    if not state.instances and not state.outputs:
        return document
    addresses = sorted(state.instances, key=compute_address_order)
    by_module = {ROOT_MODULE: [], **group_by(addresses, lambda address: address.module)}

    def list_resources(path: ModulePath) -> Iterator[dict[str, Any]]:
        """Yield the objects of a module in Terraform's form."""
        for address in by_module[path]:
            yield from build_object_documents(
                address, state.instances[address], show_sensitive=show
            )

    root_module = _build_module_tree(by_module.keys(), list_resources)
    document["values"] = _build_values(state.outputs, root_module, show)
    return document


def build_object_documents(
    address: Address, instance: InstanceState, *, show_sensitive: bool
) -> Iterator[dict[str, Any]]:
    """Yield the current object of an instance, then its deposed ones, in Terraform's form."""
    for deposed, item in instance.all_objects:
        document: dict[str, Any] = {
            "address": str(address),
            **build_address_keys(address),
            "provider_name": format_provider_name(item.provider),
            "schema_version": item.schema_version,
            "values": build_visible_value(
                item.attributes, item.sensitive, show_sensitive=show_sensitive
            ),
            "sensitive_values": build_sensitive_mask(
                item.attributes, build_path_trie(item.sensitive)
            ),
        }
        optional = {"depends_on": list(item.dependencies), "tainted": item.tainted}
        yield document | omit_empty({**optional, "deposed_key": deposed})


_INSTANCE_KEY: Final = r'\["(?:[^"\\]++|\\.)*+"\]|\[\d+\]'
# The most severe status first.
_SEVERITY_RANKS: Final = {"error": 0, "fail": 1, "unknown": 2, "pass": 3}
_KINDS: Final = {"input_variable": "var"}


def _list_unchecked_conditions(
    plan: Plan, configuration: Configuration | None
) -> Iterator[tuple[str, str]]:
    """Yield the kind and the address of each condition in a configuration.

    An example is `("check", "check.racks")`. A destroy plan does not check them, so their status is
    unknown; yield nothing for other plans.
    """
    if plan.options.mode is not Mode.DESTROY or configuration is None:
        return
    for module in list_modules(configuration.root):
        prefix = "".join(f"module.{name}." for name in module.path)
        for check in module.checks:
            yield "check", f"{prefix}check.{check.name}"
        for output in module.outputs.values():
            if output.preconditions:
                yield "output_value", f"{prefix}output.{output.name}"
        for block in module.resources.values():
            if block.lifecycle.preconditions or block.lifecycle.postconditions:
                yield "resource", str(block.address)


def _build_checks(
    results: Sequence[CheckResult], unchecked: Iterable[tuple[str, str]] = ()
) -> list[dict[str, Any]]:
    """Build the results of conditions, grouped by declaration.

    The status of `unchecked` conditions is unknown.
    """
    groups = group_by(
        results, lambda result: (result.kind, re.sub(_INSTANCE_KEY, "", result.address))
    )
    documents = []
    for (kind, address), instances in groups.items():
        statuses = [instance.status for instance in instances]
        document = {
            "address": _build_check_address(kind, address),
            # The worst; others last.
            "status": min(statuses, key=lambda status: _SEVERITY_RANKS.get(status, 4)),
            "instances": list(map(_build_check_instance, instances)),
        }
        documents.append(document)
    for kind, address in unchecked:
        documents.append({"address": _build_check_address(kind, address), "status": "unknown"})
    return sorted(documents, key=lambda document: document["address"]["to_display"])


class _StoredAddress(Struct, frozen=True):
    to_display: str
    kind: str = ""


class _StoredProblem(Struct, frozen=True):
    message: str


class _StoredInstance(Struct, frozen=True):
    address: _StoredAddress
    status: str
    problems: list[_StoredProblem] = []


class _StoredCheck(Struct, frozen=True):
    address: _StoredAddress
    instances: list[_StoredInstance]


def _build_stored_checks(stored: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Build the check results of a state.

    If one has an unexpected structure, return all as they are in the state.
    """
    try:
        checks = convert(list(map(dict, stored)), list[_StoredCheck])
        return _build_checks(list(chain.from_iterable(map(_convert_stored_results, checks))))
    except (ValidationError, AddressProblem):
        return list(map(dict, stored))


def _convert_stored_results(check: _StoredCheck) -> Iterator[CheckResult]:
    """Yield the result of each instance of a check in a state."""
    for instance in check.instances:
        messages = tuple(problem.message for problem in instance.problems)
        yield CheckResult(
            check.address.kind, instance.address.to_display, instance.status, messages
        )


def _build_check_address(kind: str, address: str) -> dict[str, Any]:
    """Build the JSON of an address.

    A resource, or another block such as `module.a.output.b` (module, kind, name).
    """
    if kind == "resource":
        parsed = parse_address(address)
        # "": the root module.
        module = format_module(parsed.module)
        names = {"mode": parsed.mode, "type": parsed.type, "name": parsed.name}
    else:
        front, _, name = address.rpartition(".")
        # Without the kind.
        module = front.rpartition(".")[0]
        names = {"name": name}
    return {
        "kind": _KINDS.get(kind, kind),
        **names,
        **omit_empty({"module": module}),
        "to_display": address,
    }


def _build_check_instance(result: CheckResult) -> dict[str, Any]:
    """Build the result of the conditions of one instance.

    It has the address of the instance in parts, its status, and its problems.
    """
    address: dict[str, Any] = {}
    if result.kind == "resource":
        parsed = parse_address(result.address)
        if parsed.key is not None:
            address["instance_key"] = parsed.key
        module = format_module(parsed.module)
    else:
        # Without kind and name.
        module = result.address.rpartition(".")[0].rpartition(".")[0]
    address |= {**omit_empty({"module": module}), "to_display": result.address}
    problems = omit_empty({"problems": [{"message": text} for text in result.messages]})
    return {"address": address, "status": result.status, **problems}
