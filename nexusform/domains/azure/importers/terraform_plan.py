"""The document of `terraform show -json PLANFILE` -> what it makes, changes and removes of Operator Nexus:
the `azapi_resource` and `azapi_update_resource` of its types.

A body is an object (azapi 2) or a JSON text (azapi 1). What is unknown while planning is named with its
path. Which cluster a pool belongs to, where its id is not known yet, and what is made before what, follow
from the references of the configuration, through variables and outputs of modules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, TypeAlias

from msgspec import Struct

from nexusform.diagnostics import Problem, Severity
from nexusform.documents.leaves import leaves
from nexusform.documents.shapes import mapping_at, mappings_at, text_at, texts_at, value_at
from nexusform.domains.azure.importers.arm import SHAPE, id_key, kind_of
from nexusform.domains.azure.importers.az_changes import (
    CLUSTERS,
    KIND_OF,
    POOLS,
    TYPE_OF_KIND,
    AzAction,
    AzChange,
)
from nexusform.domains.azure.importers.az_documents import parse_json
from nexusform.graph import cycles, ordered, reached
from nexusform.plain_data import Path
from nexusform.words import counted, first_of, form

_UPDATE: Final = "azapi_update_resource"  # what it makes and removes is a change of what stands
_TYPES: Final = frozenset({"azapi_resource", _UPDATE})
_UPDATES: Final = {
    AzAction.MAKE: AzAction.CHANGE,
    AzAction.REPLACE: AzAction.CHANGE,
    AzAction.REMOVE: AzAction.KEEP,
}
_NOT_A_PLAN: Final = "not-a-terraform-plan"
_MOST_NAMED: Final = 4
_SHOW: Final = "Write it with `terraform show -json PLANFILE > plan.json`."
_ACTIONS: Final[Mapping[tuple[str, ...], AzAction]] = {
    ("create",): AzAction.MAKE,
    ("update",): AzAction.CHANGE,
    ("delete",): AzAction.REMOVE,
    ("delete", "create"): AzAction.REPLACE,
    ("create", "delete"): AzAction.REPLACE,
    # What stood is forgotten, and stands on beside the new one.
    ("create", "forget"): AzAction.MAKE,
    ("forget", "create"): AzAction.MAKE,
}
_UNTOUCHED: Final = frozenset({("no-op",), ("read",), ("forget",)})
_TOP: Final = (("resource_changes", list, "a list"), ("configuration", Mapping, "an object"))
_PLACED_ANEW: Final = frozenset({AzAction.MAKE, AzAction.REPLACE})
_INDEX: Final = re.compile(r'\[(?:\d+|"(?:[^"\\]++|\\.)*+")\]')
_STEP: Final = re.compile(r'module\.[^.\[]+(?:\[(?:\d+|"(?:[^"\\]++|\\.)*+")\])?')

# A resource block: the names of the modules it stands in, and its `type.name`.
Block: TypeAlias = tuple[tuple[str, ...], str]


def read_terraform_plan(file: str, content: bytes) -> tuple[tuple[AzChange, ...], list[Problem]]:
    """The changes in the order in which they are made, and everything wrong with the document."""
    document, problem = parse_json(file, content)
    if problem is not None:
        binary = content.startswith(b"PK")
        detail = (
            f"this is a saved plan, not its JSON form. {_SHOW}" if binary else f"{problem.detail} {_SHOW}"
        )
        return (), [Problem((), _NOT_A_PLAN, detail, file=file, line=problem.line, column=problem.column)]
    wrong = _why_no_plan(document)
    if wrong:
        return (), [Problem((), _NOT_A_PLAN, f"{wrong} {_SHOW}", file=file)]
    reading = _Reading(file, document)
    return reading.changes(), reading.findings


def _why_no_plan(document: Any) -> str:
    """What a document lacks that every plan has; "" for a plan."""
    if not isinstance(document, Mapping):
        return f"this is no plan: an object is needed at its top, not {kind_of(document)}."
    if "planned_values" not in document:
        if "values" in document:
            return "this is a state."
        return 'this is no plan: it has no "planned_values".'
    for name, kind, needed in _TOP:
        if name in document and not isinstance(document[name], kind):
            return f'this is no plan: its "{name}" is {needed} in one, not {kind_of(document[name])}.'
    return ""


class _Entry(Struct, frozen=True):
    """One resource change of interest: where it stands, its kind, its instance's modules and key."""

    address: str
    kind: str
    block: Block
    modules: tuple[str, ...]  # with their keys
    index: str
    action: AzAction
    change: Mapping[str, Any]

    @property
    def values(self) -> Mapping[str, Any]:
        """What it will be; of what goes, what it was."""
        return mapping_at(self.change, "after") or mapping_at(self.change, "before")


class _Reading:
    """One plan while it is read."""

    def __init__(self, file: str, document: Mapping[str, Any]) -> None:
        self.file = file
        self.findings: list[Problem] = []
        self.references = _References(document.get("configuration"))
        for path, wrong in self.references.malformed:
            self._say(f"configuration.{path}", SHAPE, wrong)
        entries = [
            self._entry(number, one) for number, one in enumerate(document.get("resource_changes", []))
        ]
        self.entries = [entry for entry in entries if entry is not None]
        self._say_deferred(document.get("deferred_changes"))
        if document.get("errored") is True:
            self._say("", "unfinished-terraform-plan", "Terraform could not finish this plan.", warns=True)

    def _say_deferred(self, deferred: Any) -> None:
        """Say which resources this plan leaves to a later one: nothing of them can be foretold."""
        addresses = _deferred_addresses(deferred)
        if addresses:
            them = form(len(addresses), "it", "them")
            self._say(
                "",
                "deferred-in-the-plan",
                f"Terraform defers {counted(len(addresses), 'resource')} to a later plan "
                f"({first_of(addresses, _MOST_NAMED)}): what becomes of {them} is not foretold here.",
                warns=True,
            )

    def changes(self) -> tuple[AzChange, ...]:
        """The changes, each after those that it needs."""
        read = [change for entry in self.entries if (change := self._change(entry)) is not None]
        read.sort(
            key=lambda change: change.action in _PLACED_ANEW
        )  # where the order is open, what stands first
        position = {change.place: number for number, change in enumerate(read)}
        needs = {change.place: [need for need in change.needs if need in position] for change in read}
        by_place = {change.place: change for change in read}
        if cycles(needs, position):
            self._say("configuration", SHAPE, "its resources refer to each other in a circle.")
            return ()
        changes = tuple(by_place[place] for place in ordered(needs, position))
        self._say_open_order([change for change in changes if change.action in _PLACED_ANEW])
        return changes

    def _say_open_order(self, made: Sequence[AzChange]) -> None:
        """Who comes first may take the better place: say once where Terraform leaves that open."""
        pairs = [
            f"{one.place} and {other.place}" for one, other in pairwise(made) if one.place not in other.needs
        ]
        if pairs:
            self._say(
                "",
                "creation-order-open",
                f"which of {first_of(pairs, 2)} is made first is open. Foretold in the order of addresses; "
                "depends_on settles it, large clusters first.",
                warns=True,
            )

    def _entry(self, number: int, one: Any) -> _Entry | None:
        """A resource change of one of the types that are read; what of it cannot be read is said: a gate
        that passes over a resource would let it through.
        """
        place = f"resource_changes[{number}]"
        wrong = _malformed(one)
        if wrong:
            self._say(text_at(one, "address") or place, SHAPE, wrong)
            return None
        return _entry_of(one) if one["type"] in _TYPES else None

    def _change(self, entry: _Entry) -> AzChange | None:
        """A planned resource as a change; None where its name or its cluster is not known yet."""
        action = entry.action
        if entry.block[1].startswith(_UPDATE):
            action = _UPDATES.get(action, action)
        arm_id = _known_id(entry)
        name = text_at(entry.values, "name") or arm_id.rpartition("/")[2]
        if not name:
            self._say(entry.address, "not-known-in-the-plan", "its name is known only after apply.")
            return None
        body, unknown = ({}, {}) if action is AzAction.REMOVE else self._body(entry)
        names: tuple[str, ...] = (name,)
        if entry.kind == POOLS and action is not AzAction.KEEP:
            owner = self._owner(entry, arm_id)
            if not owner:
                return None
            names = (owner, name)
        needs = tuple(one.address for one in self.entries if self._comes_after(entry, one))
        return AzChange(
            kind=entry.kind,
            names=names,
            action=action,
            place=entry.address,
            file=self.file,
            id=arm_id,
            body=body,
            unknown=unknown,
            needs=needs,
        )

    # --- bodies ---

    def _body(self, entry: _Entry) -> tuple[Mapping[str, Any], Mapping[Path, str]]:
        """The body, and why what is unknown in it is so, by path."""
        body, unknown = entry.values.get("body"), value_at(entry.change, "after_unknown", "body")
        if isinstance(body, str):
            try:
                body = json.loads(body)
            except ValueError:
                self._say(entry.address, SHAPE, "its body is a text that is not JSON.")
                return {}, {}
        if body is None:
            body = {}
        if not isinstance(body, Mapping):
            self._say(entry.address, SHAPE, "its body is no object.")
            return {}, {}
        location = entry.values.get("location")
        more = {"location": location} if location else {}
        return {**more, **body}, {path: _why_unknown(path) for path, leaf in leaves(unknown) if leaf is True}

    # --- the cluster of a pool ---

    def _owner(self, entry: _Entry, arm_id: str) -> str:
        """The name of a pool's cluster; "" where that cannot be told, which is said."""
        if not arm_id:
            return self._cluster_name(entry)
        segments = arm_id.split("/")
        if len(segments) > 2 and segments[-3]:
            return segments[-3]
        self._say(entry.address, SHAPE, f'its id "{arm_id}" is not that of an agent pool.')
        return ""

    def _cluster_name(self, entry: _Entry) -> str:
        """The name of the cluster that a pool's `parent_id` refers to, "" where that cannot be told."""
        blocks = self.references.blocks(entry.block, "parent_id")
        clusters = [one for one in self.entries if one.kind == CLUSTERS and one.block in blocks]
        nearest = max((_shared(one.modules, entry.modules) for one in clusters), default=0)
        clusters = [one for one in clusters if _shared(one.modules, entry.modules) == nearest]
        if len(clusters) > 1:
            clusters = [one for one in clusters if one.index == entry.index] or clusters
        names = {str(one.values.get("name")) for one in clusters if one.values.get("name")}
        if len(names) == 1:
            return names.pop()
        candidates = first_of(sorted(one.address for one in clusters), 3)
        why = (
            f"it may be any of {candidates}" if clusters else "its references lead to no cluster of this plan"
        )
        self._say(
            entry.address,
            "cluster-of-pool-not-told",
            f"its parent_id is known only after apply, and {why}. Let parent_id refer to the cluster itself, "
            "for example azapi_resource.NAME.id.",
        )
        return ""

    def _comes_after(self, entry: _Entry, other: _Entry) -> bool:
        """Whether the configuration makes the one after the other; in modules, that of the same instance."""
        if entry.block == other.block or other.block not in self.references.needs(entry.block):
            return False
        # In the module that both stand in, instances with different keys have nothing to do with each other.
        shared = _shared(entry.modules, other.modules)
        return _shared(entry.block[0], other.block[0]) == shared

    def _say(self, address: str, kind: str, detail: str, *, warns: bool = False) -> None:
        severity = Severity.WARNING if warns else Severity.ERROR
        self.findings.append(Problem((address,) if address else (), kind, detail, severity, file=self.file))


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """How many module instances two have in common, from the root on."""
    return next(
        (depth for depth, (mine, its) in enumerate(zip(one, other, strict=False)) if mine != its),
        min(len(one), len(other)),
    )


def _deferred_addresses(deferred: Any) -> list[str]:
    """The resources of Azure that are deferred: those that change, then those whose change cannot be read."""
    changes = [mapping_at(one, "resource_change") for one in mappings_at(deferred)]
    of_azure = [one for one in changes if one.get("type") in _TYPES]
    entries = [_entry_of(one) for one in of_azure if not _malformed(one)]
    addresses = [one.address for one in entries if one is not None and one.action is not AzAction.KEEP]
    return addresses + [str(one.get("address")) for one in of_azure if _malformed(one)]


def _malformed(one: Any) -> str:
    """Why a resource change cannot be read; "" for one that can, and for one of another provider."""
    if not isinstance(one, Mapping):
        return f"an object is needed here, not {kind_of(one)}."
    if not isinstance(one.get("type"), str):
        return _needs("type", "a string", one.get("type"))
    if one["type"] not in _TYPES:
        return ""
    if not isinstance(one.get("address"), str) or not one["address"]:
        return _needs("address", "the address of the resource", one.get("address"))
    if not isinstance(one.get("module_address") or "", str):
        return _needs("module_address", "a string", one["module_address"])
    change = one.get("change")
    if not isinstance(change, Mapping):
        return _needs("change", "an object", change)
    actions = change.get("actions")
    if _action_of(actions) is None:
        shown = json.dumps(actions) if isinstance(actions, list) and actions else ""
        return _needs("change.actions", 'what Terraform does, such as ["create"],', actions, shown)
    return _malformed_sides(change, goes=actions in (["delete"], ["forget"]))


def _malformed_sides(change: Mapping[str, Any], *, goes: bool) -> str:
    """What is wrong with what a resource was and will be."""
    for name in ("before", "after"):
        side = change.get(name)
        if isinstance(side, Mapping) and not isinstance(side.get("type"), str):
            return _needs(f"change.{name}.type", "a resource type with its API version", side.get("type"))
        if not isinstance(side, Mapping) and (side is not None or goes == (name == "before")):
            return _needs(f"change.{name}", "an object", side)
    if not isinstance(change.get("after_unknown") or {}, Mapping | bool):
        return _needs("change.after_unknown", "an object", change["after_unknown"])
    return ""


def _needs(name: str, needed: str, got: Any, shown: str = "") -> str:
    return f'its "{name}" must be {needed} and is {shown or ("missing" if got is None else kind_of(got))}.'


def _action_of(actions: Any) -> AzAction | None:
    """What becomes of a resource; None for what no plan says."""
    if not isinstance(actions, list) or not all(isinstance(one, str) for one in actions):
        return None
    key = tuple(actions)
    return AzAction.KEEP if key in _UNTOUCHED else _ACTIONS.get(key)


def _entry_of(one: Mapping[str, Any]) -> _Entry | None:
    """A resource change of a type of Operator Nexus."""
    change = one["change"]
    written = (change.get("after") or change["before"])["type"]
    kind = KIND_OF.get(written.partition("@")[0].lower())
    action = _action_of(change["actions"])
    if kind is None or action is None:
        return None
    modules = tuple(_STEP.findall(one.get("module_address") or ""))
    names = tuple(_INDEX.sub("", step).removeprefix("module.") for step in modules)
    block = (names, f"{one['type']}.{one.get('name')}")
    deposed = one.get("deposed")  # of an earlier create-before-destroy: it stands beside the current one
    address = f"{one['address']} (deposed {deposed})" if deposed else one["address"]
    return _Entry(
        address=address,
        kind=kind,
        block=block,
        modules=modules,
        index=json.dumps(one.get("index")),
        action=action,
        change=change,
    )


def _known_id(entry: _Entry) -> str:
    """The ARM id where the plan knows it. What is made may come beside another one that stood there."""
    before = "" if entry.action is AzAction.MAKE else text_at(entry.change, "before", "id")
    known = before or text_at(entry.values, "resource_id")
    if known:
        return known
    parent, name = text_at(entry.values, "parent_id"), text_at(entry.values, "name")
    if not name or not parent.strip("/"):
        return ""
    if entry.kind == POOLS:
        return f"{id_key(parent)}/agentPools/{name}"
    return f"{id_key(parent)}/providers/{TYPE_OF_KIND[entry.kind]}/{name}"


def _why_unknown(path: Path) -> str:
    if path not in ((), ("properties",)):
        return "this is known only after apply"
    return (
        "the whole body is known only after apply (what jsonencode() writes is unknown as soon as one part "
        "of it is; the body of azapi 2 is an object, and its other parts stay known)"
    )


class _References:
    """What the resource blocks of a configuration refer to, across modules."""

    def __init__(self, configuration: Any) -> None:
        self.malformed: list[tuple[str, str]] = []
        root = value_at(configuration, "root_module")
        self._modules: dict[tuple[str, ...], Mapping[str, Any]] = {}
        self._calls: dict[tuple[str, ...], Mapping[str, Any]] = {}
        self._walk((), self._part("root_module", root, Mapping, {}))
        self._memory: dict[Block, frozenset[Block]] = {}

    def _walk(self, path: tuple[str, ...], module: Mapping[str, Any]) -> None:
        """Note the resources, outputs and calls of a module and of those that it calls."""
        within = ".".join(["root_module", *path])
        self._modules[path] = {
            "resources": self._part(f"{within}.resources", module.get("resources"), list, []),
            "outputs": self._part(f"{within}.outputs", module.get("outputs"), Mapping, {}),
        }
        calls = self._part(f"{within}.module_calls", module.get("module_calls"), Mapping, {})
        for name, written in calls.items():
            call = self._part(f"{within}.module_calls.{name}", written, Mapping, {})
            inner = self._part(f"{within}.module_calls.{name}.module", call.get("module"), Mapping, {})
            self._calls[(*path, name)] = call
            self._walk((*path, name), inner)

    def _part(self, path: str, part: Any, kind: type, without: Any) -> Any:
        """A part that is of its kind; what is not is noted, since the order of creation follows from it."""
        if part is None or isinstance(part, kind):
            return part or without
        needed = "a list" if kind is list else "an object"
        self.malformed.append((path, f"{needed} is needed here, not {kind_of(part)}."))
        return without

    @cached_property
    def _blocks(self) -> dict[Block, Mapping[str, Any]]:
        blocks: dict[Block, Mapping[str, Any]] = {}
        for path, module in self._modules.items():
            for resource in module["resources"]:
                if isinstance(resource, Mapping):
                    blocks[path, str(resource.get("address"))] = resource
        return blocks

    def blocks(self, block: Block, argument: str) -> set[Block]:
        """The blocks that an argument of a block refers to."""
        resource = self._blocks.get(block, {})
        expression = value_at(resource, "expressions", argument)
        names = [*_references_in(expression), *_references_in(resource.get("for_each_expression"))]
        return self._resolved(block[0], names)

    def needs(self, block: Block) -> frozenset[Block]:
        """All blocks that come before a block."""
        known = self._memory.get(block)
        if known is None:
            known = frozenset(reached([block], self._direct) - {block})
            self._memory[block] = known
        return known

    def _direct(self, block: Block) -> set[Block]:
        """The blocks that a block names in its expressions and in depends_on, its modules' among them."""
        path, _ = block
        resource = self._blocks.get(block, {})
        parts = [resource.get(name) for name in ("expressions", "for_each_expression", "count_expression")]
        names = [name for part in parts for name in _references_in(part)]
        blocks = self._resolved(path, [*names, *texts_at(resource, "depends_on")])
        for depth in range(len(path), 0, -1):
            call = self._calls.get(path[:depth], {})
            blocks |= self._resolved(path[: depth - 1], texts_at(call, "depends_on"))
        return blocks

    def _resolved(self, path: tuple[str, ...], names: Iterable[str]) -> set[Block]:
        """The blocks that references lead to, seen from a module."""
        blocks: set[Block] = set()
        seen: set[tuple[tuple[str, ...], str]] = set()
        stack = [(path, name) for name in names]
        while stack:
            here = stack.pop()
            if here in seen:
                continue
            seen.add(here)
            within, name = here
            steps = _INDEX.sub("", name).split(".")
            if steps[0] == "var" and within and len(steps) > 1:
                expression = value_at(self._calls.get(within), "expressions", steps[1])
                stack += [(within[:-1], one) for one in _references_in(expression)]
            elif steps[0] == "module" and len(steps) > 1:
                stack += self._of_call((*within, steps[1]), steps[2] if len(steps) > 2 else "")
            else:
                size = 3 if steps[0] == "data" else 2
                blocks.add((within, ".".join(steps[:size])))
        return blocks

    def _of_call(self, path: tuple[str, ...], output: str) -> list[tuple[tuple[str, ...], str]]:
        """What an output of a module refers to; without one, all resources in the module."""
        module = self._modules.get(path)
        declared = module["outputs"].get(output) if module is not None else None
        if isinstance(declared, Mapping):
            names = _references_in(declared.get("expression"))
            return [(path, name) for name in [*names, *texts_at(declared, "depends_on")]]
        return [(within, name) for within, name in self._blocks if within[: len(path)] == path]


def _references_in(part: Any) -> Iterator[str]:
    """Every reference below an expression or a block of them."""
    if isinstance(part, Mapping):
        for name, inner in part.items():
            if name == "references":
                yield from texts_at(inner)
            else:
                yield from _references_in(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _references_in(inner)
