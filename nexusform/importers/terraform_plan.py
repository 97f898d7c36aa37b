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
from nexusform.graph import ordered, reached
from nexusform.importers.arm import id_key
from nexusform.importers.az_changes import CLUSTERS, KIND_OF, POOLS, TYPE_OF_KIND, AzAction, AzChange
from nexusform.importers.az_documents import parse_json
from nexusform.plain_data import Path
from nexusform.words import first_of

_UPDATE: Final = "azapi_update_resource"  # what it makes and removes is a change of what stands
_TYPES: Final = frozenset({"azapi_resource", _UPDATE})
_UPDATES: Final = {
    AzAction.MAKE: AzAction.CHANGE,
    AzAction.REPLACE: AzAction.CHANGE,
    AzAction.REMOVE: AzAction.KEEP,
}
_NOT_A_PLAN: Final = "not-a-terraform-plan"
_SHOW: Final = "Write it with `terraform show -json PLANFILE > plan.json`."
_ACTIONS: Final[Mapping[tuple[str, ...], AzAction]] = {
    ("create",): AzAction.MAKE,
    ("update",): AzAction.CHANGE,
    ("delete",): AzAction.REMOVE,
    ("delete", "create"): AzAction.REPLACE,
    ("create", "delete"): AzAction.REPLACE,
}
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
    if not isinstance(document, Mapping) or not isinstance(document.get("resource_changes", []), list):
        return (), [Problem((), _NOT_A_PLAN, f"this is no plan. {_SHOW}", file=file)]
    if "planned_values" not in document:
        what = "a state" if "values" in document else "no plan"
        return (), [Problem((), _NOT_A_PLAN, f"this is {what}. {_SHOW}", file=file)]
    reading = _Reading(file, document)
    return reading.changes(), reading.findings


class _Entry(Struct, frozen=True):
    """One resource change of interest: where it stands, its kind, its instance's modules and key."""

    address: str
    kind: str
    block: Block
    modules: tuple[str, ...]  # with their keys
    index: str
    change: Mapping[str, Any]

    @property
    def values(self) -> Mapping[str, Any]:
        """What it will be; of what goes, what it was."""
        after, before = self.change.get("after"), self.change.get("before")
        return after if isinstance(after, Mapping) else before if isinstance(before, Mapping) else {}


class _Reading:
    """One plan while it is read."""

    def __init__(self, file: str, document: Mapping[str, Any]) -> None:
        self.file = file
        self.findings: list[Problem] = []
        self.references = _References(document.get("configuration"))
        entries = [_entry(one) for one in document.get("resource_changes", []) if isinstance(one, Mapping)]
        self.entries = [entry for entry in entries if entry is not None]
        if document.get("errored") is True:
            self._say("", "unfinished-terraform-plan", "Terraform could not finish this plan.", warns=True)

    def changes(self) -> tuple[AzChange, ...]:
        """The changes, each after those that it needs."""
        read = [change for entry in self.entries if (change := self._change(entry)) is not None]
        position = {change.place: number for number, change in enumerate(read)}
        needs = {change.place: [need for need in change.needs if need in position] for change in read}
        by_place = {change.place: change for change in read}
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

    def _change(self, entry: _Entry) -> AzChange | None:
        actions = entry.change.get("actions")
        action = _ACTIONS.get(tuple(actions) if isinstance(actions, list) else (), AzAction.KEEP)
        if entry.block[1].startswith(_UPDATE):
            action = _UPDATES.get(action, action)
        name = entry.values.get("name")
        arm_id = _known_id(entry)
        if not isinstance(name, str) or not name:
            name = arm_id.rpartition("/")[2]
        if not name:
            self._say(entry.address, "not-known-in-the-plan", "its name is known only after apply.")
            return None
        body, unknown = ({}, {}) if action is AzAction.REMOVE else self._body(entry)
        names: tuple[str, ...] = (name,)
        if entry.kind == POOLS and action is not AzAction.KEEP:
            owner = arm_id.split("/")[-3] if arm_id else self._cluster_name(entry)
            if not owner:
                return None
            names = (owner, name)
        needs = tuple(one.address for one in self.entries if self._comes_after(entry, one))
        return AzChange(entry.kind, names, action, entry.address, self.file, arm_id, body, unknown, needs)

    # --- bodies ---

    def _body(self, entry: _Entry) -> tuple[Mapping[str, Any], Mapping[Path, str]]:
        """The body, and why what is unknown in it is so, by path."""
        body, after_unknown = entry.values.get("body"), entry.change.get("after_unknown")
        unknown = after_unknown.get("body") if isinstance(after_unknown, Mapping) else None
        if isinstance(body, str):
            try:
                body = json.loads(body)
            except ValueError:
                self._say(entry.address, "unexpected-shape", "its body is a text that is not JSON.")
                return {}, {}
        if body is None:
            body = {}
        if not isinstance(body, Mapping):
            self._say(entry.address, "unexpected-shape", "its body is no object.")
            return {}, {}
        location = entry.values.get("location")
        more = {"location": location} if location else {}
        return {**more, **body}, {path: _why_unknown(path) for path in _unknown_paths(unknown)}

    # --- the cluster of a pool ---

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


def _entry(one: Mapping[str, Any]) -> _Entry | None:
    """A resource change of one of the types that are read."""
    change, address = one.get("change"), one.get("address")
    if one.get("type") not in _TYPES or not isinstance(change, Mapping) or not isinstance(address, str):
        return None
    sides = [side for side in (change.get("after"), change.get("before")) if isinstance(side, Mapping)]
    written = next((side["type"] for side in sides if isinstance(side.get("type"), str)), "")
    kind = KIND_OF.get(written.partition("@")[0].lower())
    if kind is None:
        return None
    prefix = str(one.get("module_address") or "")
    modules = tuple(_STEP.findall(prefix))
    names = tuple(_INDEX.sub("", step).removeprefix("module.") for step in modules)
    return _Entry(
        address,
        kind,
        (names, f"{one.get('type')}.{one.get('name')}"),
        modules,
        json.dumps(one.get("index")),
        change,
    )


def _known_id(entry: _Entry) -> str:
    """The ARM id where the plan knows it."""
    before, values = entry.change.get("before"), entry.values
    for known in (
        (before or {}).get("id") if isinstance(before, Mapping) else None,
        values.get("resource_id"),
    ):
        if isinstance(known, str) and known:
            return known
    parent, name = values.get("parent_id"), values.get("name")
    if not isinstance(parent, str) or not isinstance(name, str) or not parent.strip("/"):
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


def _unknown_paths(unknown: Any, at: Path = ()) -> Iterator[Path]:
    """The paths that `after_unknown` marks."""
    if unknown is True:
        yield at
    elif isinstance(unknown, Mapping):
        for name, part in unknown.items():
            yield from _unknown_paths(part, (*at, name))
    elif isinstance(unknown, list):
        for index, part in enumerate(unknown):
            yield from _unknown_paths(part, (*at, index))


class _References:
    """What the resource blocks of a configuration refer to, across modules."""

    def __init__(self, configuration: Any) -> None:
        root = configuration.get("root_module") if isinstance(configuration, Mapping) else None
        self._modules: dict[tuple[str, ...], Mapping[str, Any]] = {}
        self._calls: dict[tuple[str, ...], Mapping[str, Any]] = {}
        self._walk((), root if isinstance(root, Mapping) else {})
        self._memory: dict[Block, frozenset[Block]] = {}

    def _walk(self, path: tuple[str, ...], module: Mapping[str, Any]) -> None:
        self._modules[path] = module
        for name, call in _items(module.get("module_calls")):
            inner = call.get("module")
            self._calls[(*path, name)] = call
            self._walk((*path, name), inner if isinstance(inner, Mapping) else {})

    @cached_property
    def _blocks(self) -> dict[Block, Mapping[str, Any]]:
        return {
            (path, str(resource.get("address"))): resource
            for path, module in self._modules.items()
            for resource in module.get("resources") or ()
            if isinstance(resource, Mapping)
        }

    def blocks(self, block: Block, argument: str) -> set[Block]:
        """The blocks that an argument of a block refers to."""
        resource = self._blocks.get(block, {})
        expressions = resource.get("expressions")
        expression = expressions.get(argument) if isinstance(expressions, Mapping) else None
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
        path, _ = block
        resource = self._blocks.get(block, {})
        parts = [resource.get(name) for name in ("expressions", "for_each_expression", "count_expression")]
        names = [name for part in parts for name in _references_in(part)]
        blocks = self._resolved(path, [*names, *_texts(resource.get("depends_on"))])
        for depth in range(len(path), 0, -1):
            call = self._calls[path[:depth]]
            blocks |= self._resolved(path[: depth - 1], _texts(call.get("depends_on")))
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
                passed = self._calls[within].get("expressions") or {}
                stack += [(within[:-1], one) for one in _references_in(passed.get(steps[1]))]
            elif steps[0] == "module" and len(steps) > 1:
                stack += self._of_call((*within, steps[1]), steps[2] if len(steps) > 2 else "")
            else:
                size = 3 if steps[0] == "data" else 2
                blocks.add((within, ".".join(steps[:size])))
        return blocks

    def _of_call(self, path: tuple[str, ...], output: str) -> list[tuple[tuple[str, ...], str]]:
        """What an output of a module refers to; without one, all resources in the module."""
        outputs = self._modules.get(path, {}).get("outputs") or {}
        if output in outputs:
            names = _references_in(outputs[output].get("expression"))
            return [(path, name) for name in [*names, *_texts(outputs[output].get("depends_on"))]]
        return [(within, name) for within, name in self._blocks if within[: len(path)] == path]


def _items(mapping: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, part in mapping.items() if isinstance(mapping, Mapping) else ():
        if isinstance(part, Mapping):
            yield name, part


def _references_in(part: Any) -> Iterator[str]:
    """Every reference below an expression or a block of them."""
    if isinstance(part, Mapping):
        for name, inner in part.items():
            if name == "references":
                yield from _texts(inner)
            else:
                yield from _references_in(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _references_in(inner)


def _texts(part: Any) -> list[str]:
    return [text for text in part if isinstance(text, str)] if isinstance(part, list) else []
