"""Opening of VNFD and HOT texts: YAML, also with "..." for omitted lines."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from nexusform.diagnostics.diagnostic import has_errors
from nexusform.documents.yaml_documents import (
    DocumentFindings,
    Node,
    ScalarRules,
    TextPosition,
    parse_yaml,
)
from nexusform.domains.vnf.importers.vnf_records import CORRECTED
from nexusform.json_data.plain_data import get_mapping

_ELIDED: Final = re.compile(r"[ \t]*\.\.\.[ \t]*\r?\Z")


def parse_documents(text: str, notes: DocumentFindings) -> list[Node]:
    """Return the documents of a text; problems are added to `notes`."""
    stream = parse_yaml(notes.file, text, ScalarRules.PYYAML)
    # The errors may be only about the "..." lines of an excerpt.
    if has_errors(stream.findings):
        lines = text.split("\n")
        elided_numbers = [number for number, line in enumerate(lines, 1) if _ELIDED.match(line)]
        for number in elided_numbers:
            lines[number - 1] = ""
        cleaned_stream = parse_yaml(notes.file, "\n".join(lines), ScalarRules.PYYAML)
        if not has_errors(cleaned_stream.findings):
            stream = cleaned_stream
            for number in elided_numbers:
                position = TextPosition(number, 1)
                notes.add_warning(
                    position, CORRECTED, 'the line "..." is a placeholder; it is ignored.'
                )
    for problem in stream.findings:
        notes.add_problem(problem)
    return [Node.create_document_node(document, notes.reads) for document in stream.documents]


def list_bodies(section: Node) -> list[Node]:
    """Return the items of a list; a mapping counts as a list of one item."""
    return [section] if isinstance(section.data, dict) else list(section.list_items())


def find_first_field(node: Node, *names: str) -> Node:
    """Return the first existing field of several names; the absent first one without any."""
    fields = list(map(node.get_node, names))
    return next((field for field in fields if not field.is_absent), fields[0])


_Document = Mapping[str, Any]


def describe_foreign_kind(documents: Iterable[Any]) -> str:
    """Return the format of documents unsupported as a VNFD, with advice; "" if unknown.

    The first known one counts.
    """
    for document in documents:
        # No YANG prefix.
        keys = {str(key).rpartition(":")[2]: value for key, value in get_mapping(document).items()}
        for is_kind, description in _KINDS:
            if is_kind(keys):
                return description
    return ""


def _create_key_check(*names: str) -> Callable[[_Document], bool]:
    """Return a check for all of these top-level keys, ignoring module prefixes."""
    return lambda document: document.keys() >= {*names}


def _is_cloudify_blueprint(document: _Document) -> bool:
    return str(document.get("tosca_definitions_version", "")).startswith("cloudify_dsl")


def _create_node_check(start: str) -> Callable[[_Document], bool]:
    """Return a check for a TOSCA node template of a type with this `start`."""

    def check(document: _Document) -> bool:
        bodies = get_mapping(document, "topology_template", "node_templates").values()
        return any(str(get_mapping(body).get("type", "")).startswith(start) for body in bodies)

    return check


_SUPPORTED_TEXT: Final = "use SOL001 or HOT"
_NOT_VNF_TEXT: Final = "not a VNF: use its VNFDs"
_KINDS: Final[tuple[tuple[Callable[[_Document], bool], str], ...]] = (
    (
        _create_key_check("vnfd-catalog"),
        f"an OSM descriptor (vnfd-catalog), which Tacker does not read; {_SUPPORTED_TEXT}",
    ),
    (
        _create_key_check("vnfd"),
        f"a VNFD of ETSI SOL006 (YANG), which Tacker does not read; {_SUPPORTED_TEXT}",
    ),
    (_create_key_check("nsd-catalog"), f"an OSM network service (nsd-catalog), {_NOT_VNF_TEXT}"),
    (_create_key_check("nsd"), f"a network service descriptor (NSD), {_NOT_VNF_TEXT}"),
    (_create_node_check("tosca.nodes.nfv.NS"), f"a network service in TOSCA, {_NOT_VNF_TEXT}"),
    (_is_cloudify_blueprint, f"a blueprint of Cloudify; {_SUPPORTED_TEXT}"),
    (_create_node_check("cloudify."), f"a blueprint of Cloudify; {_SUPPORTED_TEXT}"),
    (_create_node_check("org.openecomp."), "a service model of ONAP's SDC: use its VNFD or HOT"),
    (
        _create_key_check("AWSTemplateFormatVersion"),
        f"a template of AWS CloudFormation; {_SUPPORTED_TEXT}",
    ),
    (
        _create_key_check("$schema", "contentVersion"),
        f"a template of Azure Resource Manager; {_SUPPORTED_TEXT}",
    ),
    (_create_key_check("apiVersion", "kind"), "a Kubernetes manifest: use a fleet_hub_manifest"),
    (
        _create_key_check("apiVersion", "name", "version"),
        "a Helm chart: render it, and use a fleet_hub_manifest",
    ),
)
