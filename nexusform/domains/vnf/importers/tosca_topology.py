"""The shape of a TOSCA document: topology, types and inputs, also where people write it by mistake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.documents.yaml_text import Node, Notes
from nexusform.domains.vnf.importers.vnf_model import CORRECTED, IGNORED, INVALID_DOCUMENT, MOST_INSTANCES

_PARTS: Final = ("node_templates", "node_template", "groups", "policies")
_BODY: Final = ("type", "members", "targets", "properties", "description")
_DEEPEST_INPUT: Final = 20


class Topology(Struct, frozen=True):
    """Nodes, groups and policies of one or more documents, by name in source order.

    `parents` maps declared types to what they are derived from; `inputs` are values by name.
    """

    nodes: tuple[tuple[str, Node], ...]
    groups: tuple[tuple[str, Node], ...]
    policies: tuple[tuple[str, Node], ...]
    parents: Mapping[str, str]
    inputs: Mapping[str, Any]

    def kind(self, node: Node) -> str:
        """What a node, group or policy is: the last word of the first type on its line of descent that is
        one of TOSCA's ("Compute" of "tosca.nodes.nfv.Vdu.Compute"), else of its own type.
        """
        standard = self._standard_type(node)
        chosen = standard if standard.startswith("tosca.") else node.at("type").text
        return chosen.rpartition(".")[2]

    def full_type(self, node: Node) -> str:
        """The first of TOSCA's own types on its line of descent, in lower case; else its own type."""
        return self._standard_type(node).lower()

    def _standard_type(self, node: Node) -> str:
        """The first of TOSCA's own types on a node's line of descent; without one the last of the line."""
        name = node.at("type").text
        for _ in range(_DEEPEST_INPUT):
            if name.startswith("tosca.") or name not in self.parents:
                break
            name = self.parents[name]
        return name

    def value(self, node: Node) -> Node:
        """The node with `get_input` replaced by the input's value (absent when it has none)."""
        for _ in range(_DEEPEST_INPUT):
            if not (isinstance(node.data, dict) and list(node.data) == ["get_input"]):
                return node
            name = node.data["get_input"]
            path = name if isinstance(name, list) else [name]
            data: Any = self.inputs
            for step in path:
                data = data.get(step) if isinstance(data, Mapping) and isinstance(step, str) else None
            node = Node(data, node.place)
        return Node(None, node.place)


def read_topology(
    documents: Sequence[Node], parameters: Mapping[str, Any], flavour_id: str, notes: Notes
) -> Topology:
    """The topology of all documents together, or of those of the flavour where several are described."""
    chosen = _of_flavour(documents, flavour_id, notes)
    parents: dict[str, str] = {}
    for document in documents:
        for section in ("node_types", "group_types", "policy_types"):
            for name, body in document.at(section).fields():
                parents[name] = body.at("derived_from").text
    inputs: dict[str, Any] = {}
    nodes: list[tuple[str, Node]] = []
    groups: list[tuple[str, Node]] = []
    policies: list[tuple[str, Node]] = []
    for document in chosen:
        topology = _topology_of(document, notes)
        for name, body in topology.at("inputs").fields():
            inputs[name] = parameters.get(name, body.at("default").data)
        nodes += _node_templates(topology, notes)
        groups += _named(topology.at("groups"), "group", notes)
        policies += _policies(topology.at("policies"), notes)
    return Topology(tuple(nodes), tuple(groups), tuple(policies), parents, {**inputs, **parameters})


def _topology_of(document: Node, notes: Notes) -> Node:
    """The topology template of a document, wherever it stands in it."""
    topology = document.at("topology_template")
    if isinstance(topology.data, dict):
        return topology
    for wrapper in ("service_template", "vnfd"):
        inner = document.at(wrapper, "topology_template")
        if isinstance(inner.data, dict):
            return inner
    present = [name for name in _PARTS if name in (document.data if isinstance(document.data, dict) else ())]
    if present:
        verb = "stands" if len(present) == 1 else "stand"
        notes.warn(
            document.at(present[0]),
            CORRECTED,
            f"{', '.join(present)} {verb} at the top of the document; TOSCA wants "
            f"{'it' if len(present) == 1 else 'them'} under topology_template. Read as if so.",
        )
        return document
    return Node(None, document.place)


def _of_flavour(documents: Sequence[Node], flavour_id: str, notes: Notes) -> list[Node]:
    """The documents of a deployment flavour; all when none of them is of it."""
    described = {id(d): f for d in documents if (f := _flavour(d)).text}
    if not flavour_id or not described:
        return list(documents)
    if all(flavour.text != flavour_id for flavour in described.values()):
        names = ", ".join(f'"{flavour.text}"' for flavour in described.values())
        notes.error(
            next(iter(described.values())),
            INVALID_DOCUMENT,
            f'the document describes the deployment flavour {names}, and flavour_id is "{flavour_id}".',
        )
        return list(documents)
    return [d for d in documents if id(d) not in described or described[id(d)].text == flavour_id]


def _flavour(document: Node) -> Node:
    return document.at("topology_template", "substitution_mappings", "properties", "flavour_id")


def _node_templates(topology: Node, notes: Notes) -> Iterator[tuple[str, Node]]:
    proper = topology.at("node_templates")
    slip = topology.at("node_template")
    if slip.data is not None:
        notes.warn(slip, CORRECTED, '"node_template" should read "node_templates"; it is read as that.')
    for section in (proper, slip):
        yield from _named(section, "node template", notes)


def _policies(section: Node, notes: Notes) -> Iterator[tuple[str, Node]]:
    if isinstance(section.data, dict) and section.data:
        notes.warn(
            section,
            CORRECTED,
            "policies are written as a map; TOSCA wants a list of one-key maps. Every key is read as a "
            "policy.",
        )
    return _named(section, "policy", notes)


def _named(section: Node, what: str, notes: Notes) -> Iterator[tuple[str, Node]]:
    """Names and bodies of a map, or of a list of maps."""
    parts = [section] if isinstance(section.data, dict) else list(section.items())
    if section.data not in (None, "...") and not isinstance(section.data, (dict, list)):
        notes.warn(section, IGNORED, f"here should stand {what} definitions by name; it is passed over.")
    for part in parts:
        yield from _indented(part, what, notes)


def _indented(part: Node, what: str, notes: Notes) -> Iterator[tuple[str, Node]]:
    """The bodies of a map; a body that is not indented under its name is put there."""
    stray = {key: body for key, body in part.fields() if key in _BODY and not _is_definition(body)}
    taken = False
    for name, body in part.fields():
        if name in stray:
            continue
        if body.absent and "type" in stray and not taken:
            notes.warn(
                body,
                CORRECTED,
                f'the body of the {what} "{name}" is not indented under its name (line '
                f"{stray['type'].line}); it is read as its body.",
            )
            place = type(body.place)(
                body.place.line, body.place.column, {key: child.place for key, child in stray.items()}
            )
            yield name, Node({key: child.data for key, child in stray.items()}, place)
            taken = True
        elif isinstance(body.data, dict):
            yield name, body
        elif not body.absent:
            notes.warn(body, IGNORED, f'the {what} "{name}" has no body; it is passed over.')


def _is_definition(body: Node) -> bool:
    return isinstance(body.data, dict) and isinstance(body.data.get("type"), str)


def instance_count(node: Node, notes: Notes, what: str = "this") -> int | None:
    """A number of instances, steps or levels; None when it is absent or no such number, which is said."""
    if node.absent:
        return None
    number = node.number
    if number is None or not 0 <= number <= MOST_INSTANCES:
        detail = f"{what} must be a whole number from 0 to {MOST_INSTANCES:,}; it is ignored."
        notes.warn(node, IGNORED, detail)
        return None
    return number
