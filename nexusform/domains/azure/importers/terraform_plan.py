"""Changes of Operator Nexus resources in `terraform show -json PLANFILE`.

The resources are of `azapi_resource` and `azapi_update_resource`. A body is an object (azapi 2)
or a JSON string (azapi 1). Values unknown at plan time are reported with their path. The cluster
of a pool with an unknown id and the creation order follow from the references of the
configuration, across modules.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise, takewhile
from typing import Any, Final, TypeAlias

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import format_first_items
from nexusform.documents.scalars import list_scalars
from nexusform.domains.azure.importers.arm_resources import SHAPE, describe_type, normalize_id
from nexusform.domains.azure.importers.az_changes import (
    CLUSTERS,
    KIND_OF,
    POOLS,
    TYPE_OF_KIND,
    AzAction,
    ToolChange,
    build_fleet_note,
    find_fleet_noun,
)
from nexusform.domains.azure.importers.az_documents import locate_problems, parse_json
from nexusform.domains.azure.importers.azure_fields import NAMESPACE, has_unread_effects
from nexusform.json_data.plain_data import (
    Path,
    format_path,
    get_mapping,
    get_text,
    get_value_at_path,
    list_mappings,
    list_texts,
)
from nexusform.plans.impact.guard_rails import NOT_PREDICTED
from nexusform.rendering.notation.json_values import omit_empty
from nexusform.resources.graph import find_cycles, find_reachable, sort_topologically

# Its creations and deletions update an existing resource.
_UPDATE_TYPE: Final = "azapi_update_resource"
_TYPES: Final = frozenset({"azapi_resource", _UPDATE_TYPE})
_PROVIDER_PREFIX: Final = "azapi_"
_DEPLOYMENT_SUFFIX: Final = "_template_deployment"
# Resources with a body and those with an action; others of the provider need no type.
_TYPED: Final = _TYPES | {"azapi_resource_action"}
_UPDATE_ACTIONS: Final = {
    AzAction.CREATE: AzAction.UPDATE,
    AzAction.REPLACE: AzAction.UPDATE,
    AzAction.DELETE: AzAction.KEEP,
}
_NOT_A_PLAN: Final = "not-a-terraform-plan"
_SHOW_HINT: Final = "Write it with `terraform show -json PLANFILE > plan.json`."
_ACTIONS: Final[Mapping[tuple[str, ...], AzAction]] = {
    ("create",): AzAction.CREATE,
    ("update",): AzAction.UPDATE,
    ("delete",): AzAction.DELETE,
    ("delete", "create"): AzAction.REPLACE,
    ("create", "delete"): AzAction.REPLACE,
    # The existing object leaves the state and remains next to the new one.
    ("create", "forget"): AzAction.CREATE,
    ("forget", "create"): AzAction.CREATE,
    **dict.fromkeys([("no-op",), ("read",), ("forget",)], AzAction.KEEP),
}
_UNKNOWN_BODY: Final = (
    "the whole body is known only after apply (one unknown part makes jsonencode() unknown; with "
    "azapi 2 the body is an object and its other parts stay known)"
)
_TOP_LEVEL_FIELDS: Final = (
    ("planned_values", Mapping, "an object"),
    ("resource_changes", list, "a list"),
    ("deferred_changes", list, "a list"),
    ("configuration", Mapping, "an object"),
    ("errored", bool, "true or false"),
    ("complete", bool, "true or false"),
)
# Major versions of the format.
_FORMATS: Final = frozenset({"0", "1"})
# Texts of a resource's values that decide its identity.
_TEXT_VALUES: Final = ("name", "id", "parent_id", "resource_id", "location")
_CREATING_ACTIONS: Final = frozenset({AzAction.CREATE, AzAction.REPLACE})
_INDEX: Final = re.compile(r'\[(?:\d+|"(?:[^"\\]++|\\.)*+")\]')
_MODULE_STEP: Final = re.compile(r'module\.[^.\[]+(?:\[(?:\d+|"(?:[^"\\]++|\\.)*+")\])?')

# A resource block: names of its modules, and its `type.name`.
Block: TypeAlias = tuple[tuple[str, ...], str]


def read_terraform_plan(file: str, content: bytes) -> tuple[tuple[ToolChange, ...], list[Problem]]:
    """Read the changes in execution order, and all findings about the document."""
    document, problem = parse_json(file, content)
    if problem is not None:
        # A saved plan is a zip file.
        is_binary = content.startswith(b"PK")
        reason = "this is a saved plan, not its JSON form." if is_binary else problem.detail
        detail = f"{reason} {_SHOW_HINT}"
        return (), [
            Problem((), _NOT_A_PLAN, detail, file=file, line=problem.line, column=problem.column)
        ]
    reason = _explain_invalid_plan(document)
    if reason:
        return (), [Problem((), _NOT_A_PLAN, f"{reason} {_SHOW_HINT}", file=file)]
    reader = _PlanReader(file, document, content)
    changes = reader.build_changes()
    places: dict[str, Path] = {
        get_text(value, "address"): ("resource_changes", number)
        for number, value in enumerate(document.get("resource_changes", []))
    }
    # Malformed rows have no address.
    places.pop("", None)
    return changes, locate_problems(reader.findings, content, places)


def _explain_invalid_plan(document: Any) -> str:
    """Explain why a document is not a plan, "" if it is one."""
    if not isinstance(document, Mapping):
        return (
            f"this is not a plan: the top level must be an object, not {describe_type(document)}."
        )
    if "planned_values" not in document:
        return (
            "this is a state."
            if "values" in document
            else 'this is not a plan: it has no "planned_values".'
        )
    version = get_text(document, "format_version")
    if version.partition(".")[0] not in _FORMATS:
        found = f'"{version}"' if version else "missing"
        return f'its "format_version" must be 0.x or 1.x and is {found}.'
    for name, kind, expected in _TOP_LEVEL_FIELDS:
        if name in document and not isinstance(document[name], kind):
            return (
                f'this is not a plan: its "{name}" must be {expected}, not '
                f"{describe_type(document[name])}."
            )
    return ""


class _ResourceChange(Struct, frozen=True):
    """One relevant resource change: address, kind, block, module instances and instance key."""

    address: str
    kind: str
    block: Block
    # With their keys.
    modules: tuple[str, ...]
    index: str
    action: AzAction
    change: Mapping[str, Any]
    # Path of the change in the file.
    place: Path

    @property
    def values(self) -> Mapping[str, Any]:
        """Values after the change, or before a deletion."""
        return get_mapping(self.change, "after") or get_mapping(self.change, "before")


class _PlanReader:
    """Reader of one plan; collects changes and findings."""

    def __init__(self, file: str, document: Mapping[str, Any], content: bytes) -> None:
        """Read the changes of Operator Nexus resources (`entries`).

        Unreadable and deferred changes are reported.
        """
        self.file = file
        self.content = content
        self.findings: list[Problem] = []
        self.references = _ReferenceIndex(document.get("configuration"))
        for path, message in self.references.malformed:
            self._report(f"configuration.{path}", SHAPE, message)
        self.entries: list[_ResourceChange] = []
        self._report_partial_list(document)
        for number, value in enumerate(document.get("resource_changes", [])):
            reason = _explain_malformed(value)
            # It is reported, so that it is not skipped silently.
            if reason:
                self._report(
                    get_text(value, "address") or f"resource_changes[{number}]", SHAPE, reason
                )
            elif value["type"] in _TYPES:
                place = ("resource_changes", number, "change")
                entry = _build_resource_change(value, place)
                if entry is not None:
                    self.entries.append(entry)
        fleet_changes: list[tuple[str, str]] = []
        for value in list_mappings(document, "resource_changes"):
            if not _is_changed(value):
                continue
            self._report_unread_type(value)
            azure_type = get_text(_read_values(value), "type").partition("@")[0].lower()
            noun = find_fleet_noun(azure_type) or find_fleet_noun(get_text(value, "type"))
            if noun:
                fleet_changes.append((noun, get_text(value, "address")))
        self.findings += build_fleet_note(file, fleet_changes)
        self._report_deferred(document.get("deferred_changes"))
        is_errored = document.get("errored") is True
        if is_errored or (
            document.get("complete") is False and not document.get("deferred_changes")
        ):
            reason = (
                "Terraform could not finish it" if is_errored else "for example because of -target"
            )
            detail = f"this plan is not complete ({reason}): other changes are not predicted."
            self._report("", NOT_PREDICTED, detail, is_warning=True)

    def _report_partial_list(self, document: Mapping[str, Any]) -> None:
        """Report resources with planned values but without a change, and those with two changes.

        Terraform lists each resource with planned values once, also unchanged ones.
        """
        changes = list_mappings(document, "resource_changes")
        counts = Counter(
            (get_text(change, "address"), str(change.get("deposed") or "")) for change in changes
        )
        for (address, _), count in counts.items():
            if address and count > 1:
                self._report(address, SHAPE, "the plan has two changes of it.")
        root = get_mapping(document, "planned_values", "root_module")
        for resource in _list_planned_resources(root):
            address = get_text(resource, "address")
            if get_text(resource, "type") in _TYPES and (address, "") not in counts:
                detail = 'it has "planned_values" but no change: this is only a part of a plan.'
                self._report(address, SHAPE, detail)

    def _report_unread_type(self, value: Mapping[str, Any]) -> None:
        """Report a change of an unread type with effects on placement.

        An error only if no other change is read.
        """
        tool_type = get_text(value, "type")
        values = _read_values(value)
        type_name = get_text(values, "type").partition("@")[0]
        is_unread = has_unread_effects(type_name.lower()) or (
            tool_type not in _TYPES and type_name.lower() in KIND_OF
        )
        if not tool_type.startswith(_PROVIDER_PREFIX):
            template = get_text(values, "template_content").lower()
            is_unread = tool_type.endswith(_DEPLOYMENT_SUFFIX) and NAMESPACE in template
            type_name = "Microsoft.NetworkCloud"
        if is_unread:
            detail = (
                f"{tool_type} of {type_name} is not read: the effects on placement are not "
                "predicted."
            )
            self._report(
                get_text(value, "address"), NOT_PREDICTED, detail, is_warning=bool(self.entries)
            )

    def _report_deferred(self, deferred_changes: Any) -> None:
        """Warn about Azure resources deferred to a later plan.

        Changed ones and those with an unreadable change.
        """
        for number, deferred_change in enumerate(deferred_changes or ()):
            value = get_value_at_path(deferred_change, "resource_change")
            reason = _explain_malformed(value)
            if get_text(value, "type") not in _TYPES:
                # Of another provider, unless it cannot be read.
                if reason:
                    self._report(f"deferred_changes[{number}].resource_change", SHAPE, reason)
                continue
            is_malformed = bool(reason)
            entry = None if is_malformed else _build_resource_change(value, place=())
            if is_malformed or (entry is not None and entry.action is not AzAction.KEEP):
                detail = (
                    "Terraform defers this resource to a later plan: its changes are not predicted."
                )
                self._report(str(value.get("address")), NOT_PREDICTED, detail, is_warning=True)

    def build_changes(self) -> tuple[ToolChange, ...]:
        """Return the changes in the predicted order.

        Changes come after their dependencies, and those of existing objects before those of new
        ones. A cycle of dependencies is reported, and the result is () then. Warn if Terraform does
        not define the order of creations.
        """
        built_changes = [self._build_change(entry) for entry in self.entries]
        # None was reported.
        change_list = [change for change in built_changes if change is not None]
        # Existing objects come first.
        change_list.sort(key=lambda change: change.action in _CREATING_ACTIONS)
        by_address = {change.address: change for change in change_list}
        # The order if it is free.
        position = {address: number for number, address in enumerate(by_address)}
        dependencies: dict[str, list[str]] = {}
        for change in change_list:
            # A dependency without a change was reported.
            dependencies[change.address] = [
                address for address in change.dependencies if address in by_address
            ]
        if find_cycles(dependencies, position):
            self._report("configuration", SHAPE, "its resources refer to each other in a cycle.")
            return ()
        changes = tuple(
            by_address[address] for address in sort_topologically(dependencies, position)
        )
        # Without a dependency the earlier object may get the better location.
        created = [change for change in changes if change.action in _CREATING_ACTIONS]
        unordered_pairs = [
            f"{change.address} and {next_change.address}"
            for change, next_change in pairwise(created)
            if change.address not in next_change.dependencies
        ]
        if unordered_pairs:
            self._report(
                "",
                "ambiguous-creation-order",
                f"the creation order of {format_first_items(unordered_pairs, 2)} is not defined. "
                "Predicted in address "
                "order. Set depends_on to define it, large clusters first.",
                is_warning=True,
            )
        return changes

    def _build_change(self, entry: _ResourceChange) -> ToolChange | None:
        """Build the change of a planned resource.

        Report an unknown name or cluster and return None.
        """
        action = entry.action
        # Module path, and TYPE.NAME.
        _, block_name = entry.block
        # The block updates a resource created elsewhere.
        if block_name.startswith(_UPDATE_TYPE):
            action = _UPDATE_ACTIONS.get(action, action)
        arm_id = _find_arm_id(entry)
        name = get_text(entry.values, "name") or arm_id.rpartition("/")[2]
        if not name:
            self._report(entry.address, "unknown-in-plan", "its name is known only after apply.")
            return None
        # A deletion needs no body.
        body, unknown = ({}, {}) if action is AzAction.DELETE else self._read_body(entry)
        names: tuple[str, ...] = (name,)
        # A pool is named by its cluster, too.
        if entry.kind == POOLS and action is not AzAction.KEEP:
            owner = self._find_cluster_name(entry, arm_id)
            if not owner:
                return None  # reported above
            names = (owner, name)
        dependencies = tuple(
            other.address for other in self.entries if self._is_created_after(entry, other)
        )
        return ToolChange(
            kind=entry.kind,
            names=names,
            action=action,
            address=entry.address,
            file=self.file,
            id=arm_id,
            body=body,
            previous_body=_read_previous_body(entry),
            unknown=unknown,
            dependencies=dependencies,
            content=self.content,
            place=(*entry.place, "after", "body"),
        )

    def _read_body(self, entry: _ResourceChange) -> tuple[Mapping[str, Any], Mapping[Path, str]]:
        """Return the body, and the reason of each unknown value by path.

        Report a malformed body; return {} and {}.
        """
        body = entry.values.get("body")
        all_unknown = entry.change.get("after_unknown")
        unknown = all_unknown if all_unknown is True else get_value_at_path(all_unknown, "body")
        if isinstance(body, str):
            try:
                body = json.loads(body)
            except ValueError:
                self._report(entry.address, SHAPE, "its body is a string that is not JSON.")
                return {}, {}
        if not isinstance(body, Mapping | None):
            self._report(entry.address, SHAPE, "its body is not an object.")
            return {}, {}
        extra_fields = omit_empty({"location": entry.values.get("location")})
        reasons: dict[Path, str] = {}
        for path, scalar in list_scalars(unknown):
            # True marks an unknown part; () is the path of the whole body.
            if scalar is True:
                is_whole_body = path in ((), ("properties",))
                reasons[path] = _UNKNOWN_BODY if is_whole_body else "this is known only after apply"
        return {**extra_fields, **(body or {})}, reasons

    def _find_cluster_name(self, entry: _ResourceChange, arm_id: str) -> str:
        """Find the name of a pool's cluster by the pool's id, else by its parent.

        Report an unknown one; return "".
        """
        if not arm_id:
            return self._resolve_cluster_from_parent_id(entry)
        segments = arm_id.split("/")
        if len(segments) > 2 and segments[-3]:  # .../CLUSTER/agentPools/POOL
            return segments[-3]
        self._report(entry.address, SHAPE, f'its id "{arm_id}" is not that of an agent pool.')
        return ""

    def _resolve_cluster_from_parent_id(self, entry: _ResourceChange) -> str:
        """Resolve the cluster name from the references of a pool's `parent_id`.

        Report an ambiguous one, return "".
        """
        blocks = self.references.find_blocks(entry.block, "parent_id")
        clusters = [
            candidate
            for candidate in self.entries
            if candidate.kind == CLUSTERS and candidate.block in blocks
        ]

        # Prefer clusters in the modules of the pool, then those with its count or for_each key.
        def compute_nearness(candidate: _ResourceChange) -> tuple[int, bool]:
            return _count_shared_modules(
                candidate.modules, entry.modules
            ), candidate.index == entry.index

        maximum = max(map(compute_nearness, clusters), default=None)
        nearest = [candidate for candidate in clusters if compute_nearness(candidate) == maximum]
        known_names = {
            str(candidate.values.get("name"))
            for candidate in nearest
            if candidate.values.get("name")
        }
        if len(known_names) == 1:
            return known_names.pop()
        candidates = format_first_items(sorted(candidate.address for candidate in nearest), 3)
        reason = (
            f"it may be any of {candidates}"
            if nearest
            else "its references lead to no cluster of this plan"
        )
        self._report(
            entry.address,
            "unknown-pool-cluster",
            f"its parent_id is known only after apply, and {reason}. Let parent_id refer to the "
            "cluster, for example azapi_resource.NAME.id.",
        )
        return ""

    def _is_created_after(self, entry: _ResourceChange, other: _ResourceChange) -> bool:
        """Return True if the entry's block depends on the other's.

        Both are within the same instance of each shared module.
        """
        if entry.block == other.block or other.block not in self.references.find_dependencies(
            entry.block
        ):
            return False
        # Module names, such as ("net",).
        shared_modules = _count_shared_modules(entry.block[0], other.block[0])
        # With keys, such as ("net[0]",).
        shared_instances = _count_shared_modules(entry.modules, other.modules)
        return shared_modules == shared_instances

    def _report(self, address: str, kind: str, detail: str, *, is_warning: bool = False) -> None:
        severity = Severity.WARNING if is_warning else Severity.ERROR
        self.findings.append(
            Problem((address,) if address else (), kind, detail, severity, file=self.file)
        )


def _is_changed(value: Mapping[str, Any]) -> bool:
    """Return whether a resource change is one, also one with unknown actions."""
    actions = tuple(list_texts(value, "change", "actions"))
    return _ACTIONS.get(actions) is not AzAction.KEEP


def _read_values(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values of a resource after its change, or before a deletion."""
    change = get_mapping(value, "change")
    return get_mapping(change, "after") or get_mapping(change, "before")


def _list_planned_resources(module: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the resources of a module of planned values, and of the modules in it."""
    modules = [module]
    while modules:
        inner = modules.pop()
        for resource in list_mappings(inner, "resources"):
            if resource.get("mode") != "data":
                yield resource
        modules += list_mappings(inner, "child_modules")


def _count_shared_modules(first: Sequence[str], second: Sequence[str]) -> int:
    """Count the equal first steps of two module paths."""
    shared = takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return len(list(shared))


def _explain_malformed(value: Any) -> str:
    """Explain why a resource change is unreadable; "" if it is readable or of another provider."""
    if not isinstance(value, Mapping):
        return f"expected an object, not {describe_type(value)}."
    if not isinstance(value.get("type"), str):
        return _describe_wrong_field("type", "a string", value.get("type"))
    if value["type"] not in _TYPED:
        return ""
    change = get_mapping(value, "change")
    actions = get_value_at_path(value, "change", "actions")
    # Each field has a name, an expected value, and its validity.
    fields = (
        ("address", "the address of the resource", get_text(value, "address")),
        ("name", "a string", isinstance(value.get("name", ""), str)),
        ("index", "a string or a number", isinstance(value.get("index") or 0, str | int)),
        ("deposed", "a string", isinstance(value.get("deposed") or "", str)),
        ("module_address", "a string", isinstance(value.get("module_address") or "", str)),
        ("change", "an object", isinstance(value.get("change"), Mapping)),
    )
    for name, expected, is_valid in fields:
        if not is_valid:
            return _describe_wrong_field(name, expected, value.get(name))
    if actions not in [list(known_actions) for known_actions in _ACTIONS]:
        excerpt = json.dumps(actions) if isinstance(actions, list) and actions else ""
        return _describe_wrong_field(
            "change.actions", 'the actions, such as ["create"],', actions, excerpt
        )
    return _explain_malformed_values(change, is_deletion=actions in (["delete"], ["forget"]))


def _explain_malformed_values(change: Mapping[str, Any], *, is_deletion: bool) -> str:
    """Explain why the values `before` or `after` a change are unreadable, "" if both are readable.

    Each is an object with a `type`. Only the one without use may be null: `after` of a
    deletion, else `before`.
    """
    required = "before" if is_deletion else "after"
    for name in ("before", "after"):
        values = change.get(name)
        if values is None and name != required:
            # Null is allowed.
            continue
        if not isinstance(values, Mapping):
            return _describe_wrong_field(f"change.{name}", "an object", values)
        type_name = values.get("type")
        if not isinstance(type_name, str):
            expected = "a resource type with its API version"
            return _describe_wrong_field(f"change.{name}.type", expected, type_name)
        for key in _TEXT_VALUES:
            if not isinstance(values.get(key) or "", str):
                return _describe_wrong_field(f"change.{name}.{key}", "a string", values[key])
    after_unknown = change.get("after_unknown")
    # Values after a deletion are not read.
    is_absent = after_unknown is None and is_deletion
    if not isinstance(after_unknown, Mapping | bool) and not is_absent:
        return _describe_wrong_field("change.after_unknown", "an object", after_unknown)
    for path, scalar in list_scalars(after_unknown):
        if not isinstance(scalar, bool):
            name = format_path(("change", "after_unknown", *path))
            return _describe_wrong_field(name, "true or false", scalar)
    return ""


def _describe_wrong_field(name: str, expected: str, value: Any, excerpt: str = "") -> str:
    """Describe a wrong field by the type of its value, or by an excerpt of the value."""
    description = excerpt or ("missing" if value is None else describe_type(value))
    return f'its "{name}" must be {expected} and is {description}.'


def _build_resource_change(value: Mapping[str, Any], place: Path) -> _ResourceChange | None:
    """Build a resource change of an Operator Nexus type, None for others."""
    change = value["change"]
    # A deletion has only `before`.
    type_name = (change.get("after") or change["before"])["type"]
    kind = KIND_OF.get(type_name.partition("@")[0].lower())
    if kind is None:
        return None
    modules = tuple(_MODULE_STEP.findall(get_text(value, "module_address")))
    module_names = tuple(_INDEX.sub("", step).removeprefix("module.") for step in modules)
    block = (module_names, f"{value['type']}.{value.get('name')}")
    # An earlier create-before-destroy left it next to the current one.
    deposed = value.get("deposed")
    return _ResourceChange(
        address=f"{value['address']} (deposed {deposed})" if deposed else value["address"],
        kind=kind,
        block=block,
        modules=modules,
        index=json.dumps(value.get("index")),
        action=_ACTIONS[tuple(change["actions"])],
        change=change,
        place=place,
    )


def _read_previous_body(entry: _ResourceChange) -> Mapping[str, Any]:
    """Return the body before the change, {} if it is unknown."""
    body = get_value_at_path(entry.change, "before", "body")
    if isinstance(body, str):
        with suppress(ValueError):
            body = json.loads(body)
    return body if isinstance(body, Mapping) else {}


def _find_arm_id(entry: _ResourceChange) -> str:
    """Return the ARM id, else one built from the parent's, else "".

    A created resource may replace a forgotten one (removed from state only), so its earlier id
    is not used.
    """
    before = "" if entry.action is AzAction.CREATE else get_text(entry.change, "before", "id")
    arm_id = before or get_text(entry.values, "resource_id")
    if arm_id:
        return arm_id
    parent = get_text(entry.values, "parent_id")
    name = get_text(entry.values, "name")
    if not name or not parent.strip("/"):
        return ""  # unknown
    if entry.kind == POOLS:
        return f"{normalize_id(parent)}/agentPools/{name}"
    return f"{normalize_id(parent)}/providers/{TYPE_OF_KIND[entry.kind]}/{name}"


_EXPRESSIONS: Final = ("expression", "for_each_expression", "count_expression")
_KINDS: Final[Mapping[type, str]] = {list: "a list", str: "a string", Mapping: "an object"}


class _ReferenceIndex:
    """References between the resource blocks of a configuration, across modules."""

    def __init__(self, configuration: Any) -> None:
        """Index the blocks, outputs and calls of all modules.

        Malformed parts are collected, not raised.
        """
        # Path and problem of each malformed part.
        self.malformed: list[tuple[str, str]] = []
        root = get_value_at_path(configuration, "root_module")
        # Resources by module path and address.
        self._blocks: dict[Block, Mapping[str, Any]] = {}
        # Outputs of each module by its path.
        self._outputs: dict[tuple[str, ...], Mapping[str, Any]] = {}
        # `module` block of each module by its path.
        self._calls: dict[tuple[str, ...], Mapping[str, Any]] = {}
        self._index_module(
            path=(), module=self._check_part_type("root_module", root, Mapping, default={})
        )
        # By block, those computed so far.
        self._dependencies: dict[Block, frozenset[Block]] = {}

    def _index_module(self, path: tuple[str, ...], module: Mapping[str, Any]) -> None:
        """Index the resources, outputs and calls of the module at a path, recursively.

        Module names from the root.
        """
        module_path = ".".join(["root_module", *path])
        resources = self._check_part_type(
            f"{module_path}.resources", module.get("resources"), list, default=[]
        )
        for number, part in enumerate(resources):
            part_path = f"{module_path}.resources[{number}]"
            resource = self._check_part_type(part_path, part, Mapping, {})
            address = self._check_part_type(
                f"{part_path}.address", resource.get("address"), str, default=""
            )
            self._check_references(part_path, resource)
            self._blocks[path, address] = resource
        self._outputs[path] = self._check_part_type(
            f"{module_path}.outputs", module.get("outputs"), Mapping, {}
        )
        for name, output in self._outputs[path].items():
            output_path = f"{module_path}.outputs.{name}"
            self._check_references(
                output_path, self._check_part_type(output_path, output, Mapping, {})
            )
        calls = self._check_part_type(
            f"{module_path}.module_calls", module.get("module_calls"), Mapping, default={}
        )
        for name, value in calls.items():
            call = self._check_part_type(
                f"{module_path}.module_calls.{name}", value, Mapping, default={}
            )
            inner = self._check_part_type(
                f"{module_path}.module_calls.{name}.module", call.get("module"), Mapping, {}
            )
            self._check_references(f"{module_path}.module_calls.{name}", call)
            self._calls[(*path, name)] = call
            self._index_module((*path, name), inner)

    def _check_part_type(self, path: str, part: Any, kind: type, default: Any) -> Any:
        """Return a part of the expected type, else `default`.

        Record a malformed part: it may hide a dependency.
        """
        if part is None or isinstance(part, kind):
            return part or default
        expected = _KINDS[kind]
        self.malformed.append((path, f"expected {expected}, not {describe_type(part)}."))
        return default

    def _check_references(self, path: str, block: Mapping[str, Any]) -> None:
        """Record the malformed references of a resource, output or module call."""
        self._check_texts(f"{path}.depends_on", block.get("depends_on"))
        for name in ("expressions", *_EXPRESSIONS):
            part = self._check_part_type(f"{path}.{name}", block.get(name), Mapping, {})
            # `expressions` has one expression for each argument.
            expressions = {name: part} if name in _EXPRESSIONS else part
            for argument, expression in expressions.items():
                self._check_expression(f"{path}.{argument}", expression)

    def _check_expression(self, path: str, expression: Any) -> None:
        """Record the malformed parts of an expression or of nested blocks."""
        if isinstance(expression, list):
            for number, part in enumerate(expression):
                self._check_expression(f"{path}[{number}]", part)
            return
        fields = self._check_part_type(path, expression, Mapping, {})
        for name, part in fields.items():
            if name == "references":
                self._check_texts(f"{path}.{name}", part)
            # A constant is any value.
            elif name != "constant_value":
                self._check_expression(f"{path}.{name}", part)

    def _check_texts(self, path: str, part: Any) -> None:
        """Record a part that is no list of texts."""
        for number, text in enumerate(self._check_part_type(path, part, list, [])):
            self._check_part_type(f"{path}[{number}]", text, str, "")

    def find_blocks(self, block: Block, argument: str) -> set[Block]:
        """Find the blocks referenced by an argument of a block, and by its for_each.

        These are needed for each.value.
        """
        resource = self._blocks.get(block, {})
        expression = get_value_at_path(resource, "expressions", argument)
        names = [
            *_list_references(expression),
            *_list_references(resource.get("for_each_expression")),
        ]
        return self._resolve_references_to_blocks(block[0], names)

    def find_dependencies(self, block: Block) -> frozenset[Block]:
        """Find all direct and indirect dependencies of a block."""
        dependencies = self._dependencies.get(block)
        if dependencies is None:
            dependencies = frozenset(
                find_reachable([block], self._find_direct_dependencies) - {block}
            )
            self._dependencies[block] = dependencies
        return dependencies

    def _find_direct_dependencies(self, block: Block) -> set[Block]:
        """Find the blocks that a block refers to.

        They are in its expressions and depends_on, and in the depends_on of its modules.
        """
        path, _ = block
        resource = self._blocks.get(block, {})
        parts = [
            resource.get(name)
            for name in ("expressions", "for_each_expression", "count_expression")
        ]
        names = [reference for part in parts for reference in _list_references(part)]
        blocks = self._resolve_references_to_blocks(
            path, [*names, *list_texts(resource, "depends_on")]
        )
        for depth in range(len(path), 0, -1):
            call = self._calls.get(path[:depth], {})
            blocks |= self._resolve_references_to_blocks(
                path[: depth - 1], list_texts(call, "depends_on")
            )
        return blocks

    def _resolve_references_to_blocks(
        self, path: tuple[str, ...], names: Iterable[str]
    ) -> set[Block]:
        """Resolve references in the module at `path` to the resource blocks that they depend on.

        `TYPE.NAME` is a block itself. `var.x` leads to the argument in the module's call, and
        thus to the module around it. `module.m.out` leads to the output of the called module. A
        block is its module path and `TYPE.NAME`: in the root module, `azapi_resource.core.id`
        is ((), "azapi_resource.core").
        """
        blocks: set[Block] = set()
        visited: set[tuple[tuple[str, ...], str]] = set()
        # Module path and reference.
        stack = [(path, name) for name in names]
        while stack:
            module_path, name = entry = stack.pop()
            if entry in visited:
                continue  # resolved before
            visited.add(entry)
            steps = _INDEX.sub("", name).split(".")
            # An argument of the module's call.
            if steps[0] == "var" and module_path and len(steps) > 1:
                expression = get_value_at_path(
                    self._calls.get(module_path), "expressions", steps[1]
                )
                stack += [
                    (module_path[:-1], reference) for reference in _list_references(expression)
                ]
            elif steps[0] == "module" and len(steps) > 1:
                output = steps[2] if len(steps) > 2 else ""
                stack += self._list_output_references((*module_path, steps[1]), output)
            else:
                # The form is data.TYPE.NAME or TYPE.NAME.
                size = 3 if steps[0] == "data" else 2
                blocks.add((module_path, ".".join(steps[:size])))
        return blocks

    def _list_output_references(
        self, path: tuple[str, ...], output: str
    ) -> list[tuple[tuple[str, ...], str]]:
        """List the references of a module output as (module path, name).

        For an undeclared output, list all resources of the module and of modules in it.
        """
        declaration = self._outputs.get(path, {}).get(output)
        if isinstance(declaration, Mapping):
            names = _list_references(declaration.get("expression"))
            return [(path, name) for name in [*names, *list_texts(declaration, "depends_on")]]
        return [
            (block_path, name)
            for block_path, name in self._blocks
            if block_path[: len(path)] == path
        ]


def _list_references(part: Any) -> Iterator[str]:
    """List every reference below an expression or a block."""
    if isinstance(part, Mapping):
        for name, inner in part.items():
            yield from list_texts(inner) if name == "references" else _list_references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _list_references(inner)
