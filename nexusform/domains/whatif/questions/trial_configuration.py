"""Generated configuration of a trial: a placement of manifests; or evictions in their order, and taints as an override
file.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.configuration.declarations.configuration import Configuration, ResourceBlock
from nexusform.diagnostics.diagnostic import SourceFile, Span
from nexusform.domains.pods.importers.manifest_parser import Manifest, is_fleet_group, is_reserved_namespace
from nexusform.domains.whatif.questions.eviction_search import EvictionProposal
from nexusform.language.syntax.syntax_nodes import Body
from nexusform.rendering.notation.hcl_text import quote_string
from nexusform.rendering.notation.json_values import omit_empty

TAINT_KEY: Final = "nexusform-rebalance"
OVERRIDE_SUFFIX: Final = "_override.nf.hcl"
_TYPE: Final = "fleet_placement_eviction"
_MEMBER_TYPE: Final = "fleet_member_cluster"
NAME: Final = "simulated-placement"
FILE: Final = "simulated-placement.nf.json"  # of the generated configuration, never written
_NAMESPACE: Final = "Namespace"
_LITERAL: Final = re.compile(r'"([^"$%\\]*)"')


class MemberBlock(Struct, frozen=True):
    """Block of one member cluster: its name in the configuration and the text of its taints."""

    label: str
    taints: tuple[str, ...] = ()


def find_member_blocks(configuration: Configuration) -> dict[str, MemberBlock]:
    """Return the blocks of single members by cluster name: those of the root module, with a literal name."""
    blocks = {}
    for block in configuration.root.resources.values():
        if block.type != _MEMBER_TYPE or block.count or block.for_each or not isinstance(block.body, Body):
            continue  # several members, or not HCL syntax
        name = _find_literal_name(block, configuration)
        if name:
            taints = filter(_is_taint_block, block.body.blocks)
            texts = tuple(_get_source_text(configuration, taint.span) for taint in taints)
            blocks[name] = MemberBlock(block.name, texts)
    return blocks


def render_evictions(trial: EvictionProposal, members: Mapping[str, MemberBlock]) -> str:
    """Render the eviction blocks; each one depends on the previous one, the first one on the tainted members."""
    blocks = []
    dependencies = [f"{_MEMBER_TYPE}.{members[cluster].label}" for cluster in trial.tainted_clusters]
    for eviction in trial.evictions:
        name = eviction.name
        lines = [
            f'resource "{_TYPE}" {quote_string(name)} {{',
            *([f"  provider = {eviction.provider}"] if eviction.provider else []),
            f"  name = {quote_string(name)}",
            f"  placement_name = {quote_string(eviction.placement)}",
            f"  cluster_name = {quote_string(eviction.cluster)}",
            *([f"  depends_on = [{', '.join(dependencies)}]"] if dependencies else []),
            "}",
        ]
        blocks.append("\n".join(lines) + "\n")
        dependencies = [f"{_TYPE}.{name}"]
    return "\n".join(blocks)


def render_taints(trial: EvictionProposal, members: Mapping[str, MemberBlock]) -> str:
    """Render the override of the tainted members; "" without taints."""
    parts = []
    for cluster in trial.tainted_clusters:
        member = members[cluster]
        # An override file replaces all taint blocks, so the existing ones are repeated.
        taints = (*member.taints, f"taint {{\n    key = {quote_string(TAINT_KEY)}\n  }}")
        body = "".join(f"  {text}\n" for text in taints)
        parts.append(f'resource "{_MEMBER_TYPE}" {quote_string(member.label)} {{\n{body}}}\n')
    return "\n".join(parts)


def _is_taint_block(block: object) -> bool:
    """Return True for a block `taint` or `dynamic "taint"`."""
    labels = getattr(block, "labels", ())
    return getattr(block, "type", "") == "taint" or any(label.value == "taint" for label in labels)


def _find_literal_name(block: ResourceBlock, configuration: Configuration) -> str:
    """Return the name of a member if its block states it as text after `name =`; "" otherwise."""
    assert isinstance(block.body, Body)
    for attribute in block.body.attributes:
        if attribute.name == "name":
            _, _, expression = _get_source_text(configuration, attribute.span).partition("=")
            literal = _LITERAL.fullmatch(expression.strip())  # a quoted text without templates or escapes
            return literal[1] if literal is not None else ""
    return ""


def _get_source_text(configuration: Configuration, span: Span) -> str:
    text = configuration.files[span.filename].text
    return text.encode()[span.start.byte : span.end.byte].decode()


class SimulatedPlacement(Struct, frozen=True):
    """Requested placement: the text of the manifests, and their parsed form. `clusters` for PickFixed, `count`
    for PickN, neither for PickAll.
    """

    text: str
    manifests: Sequence[Manifest]
    count: int | None = None
    clusters: tuple[str, ...] = ()

    @property
    def policy(self) -> dict[str, Any]:
        """The policy block."""
        if self.clusters:
            return {"placement_type": "PickFixed", "cluster_names": list(self.clusters)}
        if self.count is not None:
            return {"placement_type": "PickN", "number_of_clusters": self.count}
        return {"placement_type": "PickAll"}


def list_unusable_manifests(manifests: Iterable[Manifest]) -> list[str]:
    """Return an error message per manifest unfit for a placement."""
    messages = []
    for manifest in manifests:
        if is_fleet_group(manifest.group):
            messages.append(f"{manifest.title} is an object of the hub. Leave it out, and use -pick or -clusters.")
        elif is_reserved_namespace(manifest.namespace):
            messages.append(f"{manifest.title} is in a reserved namespace. Set metadata.namespace to another one.")
    return messages


def build_trial_configuration(trial: SimulatedPlacement) -> SourceFile:
    """Build the configuration: a hub manifest with all objects and missing namespaces, and a placement of them."""
    declared = {manifest.name for manifest in trial.manifests if manifest.kind == _NAMESPACE and not manifest.group}
    namespaces = sorted(declared | {manifest.namespace for manifest in trial.manifests if manifest.namespace})
    namespace_manifests = [
        json.dumps({"apiVersion": "v1", "kind": _NAMESPACE, "metadata": {"name": name}})
        for name in namespaces
        if name not in declared
    ]
    text = "\n---\n".join([trial.text, *namespace_manifests])
    selectors = [_build_selector("", "v1", _NAMESPACE, name) for name in namespaces]
    selectors += [
        _build_selector(manifest.group, manifest.version, manifest.kind, manifest.name)
        for manifest in trial.manifests
        if not manifest.namespace and manifest.kind != _NAMESPACE  # a namespace brings its objects
    ]
    placement = {"name": NAME, "resource_selector": selectors, "policy": trial.policy}
    yaml_body = text.replace("${", "$${").replace("%{", "%%{")  # escapes: manifests are no templates
    document = {
        "resource": {
            "fleet_hub_manifest": {NAME: {"yaml_body": yaml_body}},
            "fleet_cluster_resource_placement": {NAME: placement},
        }
    }
    return SourceFile(FILE, json.dumps(document))


def _build_selector(group: str, version: str, kind: str, name: str) -> dict[str, str]:
    return {**omit_empty({"group": group}), "version": version, "kind": kind, "name": name}
