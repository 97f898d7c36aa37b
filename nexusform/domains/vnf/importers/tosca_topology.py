"""Structure of a TOSCA document: topology, types and inputs, including misplaced ones."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final

from msgspec import Struct

from nexusform.documents.yaml_documents import ELISION, DocumentFindings, Node, TextPosition
from nexusform.domains.vnf.importers.vnf_records import (
    CORRECTED,
    IGNORED,
    INVALID_DOCUMENT,
    MAX_INSTANCES,
)
from nexusform.domains.vnf.importers.vnf_text import list_bodies
from nexusform.json_data.plain_data import get_mapping, get_value_at_path

_MAX_DEPTH: Final = 20


class Topology(Struct, frozen=True):
    """Nodes, groups and policies of one or more documents, by name in source order.

    `parents` maps declared types to their parent types; `inputs` are values by name; `notes` are
    the findings about the documents. `templates` are the topology templates of the documents.
    """

    nodes: tuple[tuple[str, Node], ...]
    groups: tuple[tuple[str, Node], ...]
    policies: tuple[tuple[str, Node], ...]
    parents: Mapping[str, str]
    inputs: Mapping[str, Any]
    notes: DocumentFindings
    templates: tuple[Node, ...] = ()

    @property
    def node_names(self) -> list[str]:
        """Names of the node templates: VDUs, and nodes without a place, such as virtual links."""
        return [name for name, _ in self.nodes]

    def get_kind(self, node: Node) -> str:
        """Return the last part of the standard type, else of its own.

        For example, this is "Compute" for "tosca.nodes.nfv.Vdu.Compute".
        """
        standard = self._find_standard_type(node)
        type_name = standard if standard.startswith("tosca.") else node.get_node("type").text
        return type_name.rpartition(".")[2]

    def get_standard_type(self, node: Node) -> str:
        """Return the closest standard TOSCA type in lower case; else the own type."""
        return self._find_standard_type(node).lower()

    def _find_standard_type(self, node: Node) -> str:
        """Return the closest standard TOSCA type among a node's ancestors.

        Without one it is the last ancestor.
        """
        name = node.get_node("type").text
        for _ in range(_MAX_DEPTH):
            if name.startswith("tosca.") or name not in self.parents:
                break
            name = self.parents[name]
        return name

    def get_value(self, body: Node, *path: str) -> Node:
        """Return the resolved value at a path of a body."""
        return self.resolve_value(body.get_node(*path))

    def resolve_value(self, node: Node) -> Node:
        """Return the node with `get_input` replaced by the input's value (absent without one)."""
        # An input may refer to another one.
        for _ in range(_MAX_DEPTH):
            if get_mapping(node.data).keys() != {"get_input"}:
                return node
            name = node.data["get_input"]
            path = name if isinstance(name, list) else [name]
            node = Node(get_value_at_path(self.inputs, *map(str, path)), node.position)
        return Node(data=None, position=node.position)


def parse_topology(
    documents: Sequence[Node],
    parameters: Mapping[str, Any],
    flavour_id: str,
    notes: DocumentFindings,
) -> Topology:
    """Return the merged topology of the documents of the flavour.

    Without a request (`flavour_id` is ""), all documents are merged.
    """
    flavour_documents = _select_flavour_documents(documents, flavour_id, notes)
    # The `derived_from` of each type.
    parents: dict[str, str] = {}
    for document, section in product(documents, ("node_types", "group_types", "policy_types")):
        for name, body in document.get_node(section).list_fields():
            parents[name] = body.get_node("derived_from").text
    inputs: dict[str, Any] = {}
    nodes: list[tuple[str, Node]] = []
    groups: list[tuple[str, Node]] = []
    policies: list[tuple[str, Node]] = []
    templates: list[Node] = []
    for document in flavour_documents:
        topology = _find_topology(document, notes)
        if topology.data is not document.data:
            # Other fields of a document without a template are not of a topology.
            templates.append(topology)
        for name, body in topology.get_node("inputs").list_fields():
            inputs[name] = parameters.get(name, body.get_node("default").data)
        misspelt_section = topology.get_node("node_template")
        if misspelt_section.data is not None:
            notes.add_warning(
                misspelt_section, CORRECTED, '"node_template" is read as "node_templates".'
            )
        for nodes_section in (topology.get_node("node_templates"), misspelt_section):
            nodes += _list_definitions(nodes_section, "node template", notes)
        groups += _list_definitions(topology.get_node("groups"), "group", notes)
        policy_section = topology.get_node("policies")
        if get_mapping(policy_section.data):
            detail = (
                "policies is a map; TOSCA requires a list of one-key maps. Every key is read as a "
                "policy."
            )
            notes.add_warning(policy_section, CORRECTED, detail)
        policies += _list_definitions(policy_section, "policy", notes)
    return Topology(
        tuple(nodes),
        tuple(groups),
        tuple(policies),
        parents,
        {**inputs, **parameters},
        notes,
        tuple(templates),
    )


def _find_topology(document: Node, notes: DocumentFindings) -> Node:
    """Return the topology template of a document, at any of its usual positions.

    Return an absent node if the document has none.
    """
    for wrapper in (document, document.get_node("service_template"), document.get_node("vnfd")):
        topology = wrapper.get_node("topology_template")
        if isinstance(topology.data, dict):
            return topology
    parts = ("node_templates", "node_template", "groups", "policies")
    misplaced_parts = [name for name in parts if name in get_mapping(document.data)]
    if not misplaced_parts:
        return Node(data=None, position=document.position)
    verb, pronoun = ("is", "it") if len(misplaced_parts) == 1 else ("are", "them")
    detail = (
        f"{', '.join(misplaced_parts)} {verb} at the top level of the document. TOSCA requires "
        f"{pronoun} under topology_template; read as if so."
    )
    notes.add_warning(document.get_node(misplaced_parts[0]), CORRECTED, detail)
    return document


def _select_flavour_documents(
    documents: Sequence[Node], flavour_id: str, notes: DocumentFindings
) -> list[Node]:
    """Return the documents of the requested flavour, and those without a flavour.

    The latter belong to each flavour. All documents are returned without a request (`flavour_id` is
    ""), and if none names a flavour. If other flavours are named, but not the requested one, all
    are returned as well, with an error in `notes`.
    """
    path = ("topology_template", "substitution_mappings", "properties", "flavour_id")
    flavour_nodes = [document.get_node(*path) for document in documents]
    flavours = {node.text: node for node in flavour_nodes if node.text}
    if flavour_id in flavours:
        selected = []
        for document, node in zip(documents, flavour_nodes, strict=True):
            # "": it names no flavour.
            if node.text in ("", flavour_id):
                selected.append(document)
        return selected
    if flavour_id and flavours:
        names = ", ".join(f'"{name}"' for name in flavours)
        detail = (
            f"the document describes the deployment flavour {names}, but flavour_id is "
            f'"{flavour_id}".'
        )
        notes.add_error(next(iter(flavours.values())), INVALID_DOCUMENT, detail)
    return list(documents)


def _list_definitions(
    section: Node, noun: str, notes: DocumentFindings
) -> Iterator[tuple[str, Node]]:
    """Yield names and bodies of a map, or of a list of maps."""
    # "...": an elision.
    if section.data not in (None, "...") and not isinstance(section.data, (dict, list)):
        notes.add_warning(
            section, IGNORED, f"expected {noun} definitions by name; this is ignored."
        )
    for part in list_bodies(section):
        yield from _list_definitions_in_map(part, noun, notes)


def _list_definitions_in_map(
    part: Node, noun: str, notes: DocumentFindings
) -> Iterator[tuple[str, Node]]:
    """Yield the names and bodies in a map, for example of node templates.

    `noun` is what they are, for warnings. A body may lack its indentation: its fields ("type",
    "properties") then look like names. It then belongs to the first name without a body. In {VDU1:
    , type: tosca.nodes.nfv.Vdu.Compute}, the type is of VDU1.
    """
    field_names = {"type", "members", "targets", "properties", "description"}
    # Of a body that is not indented.
    stray_fields = {
        key: body
        for key, body in part.list_fields()
        # A body under such a name has a type.
        if key in field_names and not (isinstance(body.data, dict) and body.get_node("type").text)
    }
    named_bodies = [(name, body) for name, body in part.list_fields() if name not in stray_fields]
    # The name that the stray fields belong to.
    owner = None
    if "type" in stray_fields:
        owner = next((name for name, body in named_bodies if body.is_absent), None)
    for name, body in named_bodies:
        if isinstance(body.data, dict):
            yield name, body
        elif name == owner:
            detail = (
                f'the body of the {noun} "{name}" is not indented under its name (line '
                f"{stray_fields['type'].line}); it is read as its body."
            )
            notes.add_warning(body, CORRECTED, detail)
            children: dict[str | int, TextPosition] = {
                key: field.position for key, field in stray_fields.items()
            }
            position = TextPosition(body.position.line, body.position.column, children)
            yield name, Node({key: field.data for key, field in stray_fields.items()}, position)
        elif body.data != ELISION:
            notes.add_warning(body, IGNORED, f'the {noun} "{name}" has no body; it is passed over.')


def parse_instance_count(node: Node, notes: DocumentFindings, subject: str = "this") -> int | None:
    """Return a number of instances, steps or levels.

    Return None if it is absent or invalid; the latter causes a warning.
    """
    if node.is_absent:
        return None
    number = node.number
    if number is None or not 0 <= number <= MAX_INSTANCES:
        detail = f"{subject} must be a whole number from 0 to {MAX_INSTANCES:,}; it is ignored."
        notes.add_warning(node, IGNORED, detail)
        return None
    return number


def parse_count_or_default(node: Node, notes: DocumentFindings, default: int) -> int:
    """Return a number of instances, steps or levels, or the default.

    If it is invalid, return the default with a warning.
    """
    number = parse_instance_count(node, notes)
    return default if number is None else number


def parse_rule_scope(
    rule: tuple[str, Node],
    scope: tuple[str, Node],
    scopes: Mapping[str, str],
    notes: DocumentFindings,
) -> str:
    """Return the scope of a rule: machine, rack or site.

    Return "", with a finding, if it is missing or not in `scopes`. `rule` is its name and body.
    `scope` is the configured scope, as a key of `scopes`, and its node.
    """
    name, body = rule
    scope_key, scope_node = scope
    if scope_node.is_absent:
        notes.add_error(
            body,
            INVALID_DOCUMENT,
            f'the rule "{name}" names no scope, such as {next(iter(scopes))}.',
        )
    elif scope_key not in scopes:
        detail = (
            f'the rule "{name}" has the unsupported scope "{str(scope_node.data)[:40]}" '
            f"(supported: {', '.join(scopes)}); it is ignored."
        )
        notes.add_warning(scope_node, IGNORED, detail)
    return scopes.get(scope_key, "")
