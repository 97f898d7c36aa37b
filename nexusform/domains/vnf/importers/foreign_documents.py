"""Detection of documents other than VNFDs and HOT files, to name them in errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from nexusform.documents.field_shapes import get_mapping

_Document = Mapping[str, Any]


def describe_foreign_kind(documents: Iterable[Any]) -> str:
    """Return the kind of the documents (plain data) with advice; "" if unknown."""
    for document in documents:
        if not isinstance(document, dict):
            continue
        keys = {str(key).rpartition(":")[2]: value for key, value in document.items()}
        for is_kind, description in _KINDS:
            if is_kind(keys):
                return description
    return ""


def _create_key_check(*names: str) -> Callable[[_Document], bool]:
    """Return a check for all of these top-level keys, ignoring module prefixes."""
    return lambda document: all(name in document for name in names)


def _create_version_check(start: str) -> Callable[[_Document], bool]:
    return lambda document: str(document.get("tosca_definitions_version", "")).startswith(start)


def _create_node_check(start: str) -> Callable[[_Document], bool]:
    def check(document: _Document) -> bool:
        bodies = get_mapping(document, "topology_template", "node_templates").values()
        return any(str(get_mapping(body).get("type", "")).startswith(start) for body in bodies)

    return check


_SUPPORTED_TEXT: Final = "SOL001, SOL006 and HOT are read"
_NOT_VNF_TEXT: Final = "not a VNF: give the VNFDs that it names"
_KINDS: Final[tuple[tuple[Callable[[_Document], bool], str], ...]] = (
    (
        _create_key_check("vnfd-catalog"),
        "a descriptor of OSM from before SOL006 (vnfd-catalog): osm package-translate it",
    ),
    (_create_key_check("nsd-catalog"), f"a network service of OSM (nsd-catalog), {_NOT_VNF_TEXT}"),
    (_create_key_check("nsd"), f"a network service descriptor (NSD), {_NOT_VNF_TEXT}"),
    (_create_node_check("tosca.nodes.nfv.NS"), f"a network service in TOSCA, {_NOT_VNF_TEXT}"),
    (_create_version_check("cloudify_dsl"), f"a blueprint of Cloudify; {_SUPPORTED_TEXT}"),
    (_create_node_check("cloudify."), f"a blueprint of Cloudify; {_SUPPORTED_TEXT}"),
    (_create_node_check("org.openecomp."), "a service model of ONAP's SDC: give the VNFD or HOT behind it"),
    (_create_key_check("AWSTemplateFormatVersion"), f"a template of AWS CloudFormation; {_SUPPORTED_TEXT}"),
    (
        _create_key_check("$schema", "contentVersion"),
        f"a template of Azure Resource Manager; {_SUPPORTED_TEXT}",
    ),
    (_create_key_check("apiVersion", "kind"), "a Kubernetes manifest: a fleet_hub_manifest brings its pods"),
    (
        _create_key_check("apiVersion", "name", "version"),
        "a chart of Helm: a fleet_hub_manifest brings what it renders",
    ),
)
