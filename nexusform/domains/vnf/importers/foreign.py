"""Documents of other kinds than a VNFD or a HOT file, by what they are: so that a refusal can name them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from nexusform.documents.shapes import mapping_at

_Says = Mapping[str, Any]


def foreign_kind(documents: Iterable[Any]) -> str:
    """What the documents (plain data) are, and what to do with such; "" for what is not known."""
    for says in documents:
        if not isinstance(says, dict):
            continue
        keys = {str(key).rpartition(":")[2]: value for key, value in says.items()}
        for is_it, what in _KINDS:
            if is_it(keys):
                return what
    return ""


def _has(*names: str) -> Callable[[_Says], bool]:
    """Whether a document has all of these keys at its top, whatever module stands before them."""
    return lambda says: all(name in says for name in names)


def _version(start: str) -> Callable[[_Says], bool]:
    return lambda says: str(says.get("tosca_definitions_version", "")).startswith(start)


def _has_node_of(start: str) -> Callable[[_Says], bool]:
    def check(says: _Says) -> bool:
        bodies = mapping_at(says, "topology_template", "node_templates").values()
        return any(str(mapping_at(body).get("type", "")).startswith(start) for body in bodies)

    return check


_ARE_READ: Final = "SOL001, SOL006 and HOT are read"
_VNFDS: Final = "not a VNF: give the VNFDs that it names"
_KINDS: Final[tuple[tuple[Callable[[_Says], bool], str], ...]] = (
    (_has("vnfd-catalog"), "a descriptor of OSM from before SOL006 (vnfd-catalog): osm package-translate it"),
    (_has("nsd-catalog"), f"a network service of OSM (nsd-catalog), {_VNFDS}"),
    (_has("nsd"), f"a network service descriptor (NSD), {_VNFDS}"),
    (_has_node_of("tosca.nodes.nfv.NS"), f"a network service in TOSCA, {_VNFDS}"),
    (_version("cloudify_dsl"), f"a blueprint of Cloudify; {_ARE_READ}"),
    (_has_node_of("cloudify."), f"a blueprint of Cloudify; {_ARE_READ}"),
    (_has_node_of("org.openecomp."), "a service model of ONAP's SDC: give the VNFD or HOT behind it"),
    (_has("AWSTemplateFormatVersion"), f"a template of AWS CloudFormation; {_ARE_READ}"),
    (_has("$schema", "contentVersion"), f"a template of Azure Resource Manager; {_ARE_READ}"),
    (_has("apiVersion", "kind"), "a Kubernetes manifest: a fleet_hub_manifest brings its pods"),
    (_has("apiVersion", "name", "version"), "a chart of Helm: a fleet_hub_manifest brings what it renders"),
)
