"""A placement of manifests as configuration, for a plan without the user writing it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.domains.pods.importers.manifest_parser import Manifest, is_fleet_group, is_reserved_namespace

NAME: Final = "simulated-placement"
FILE: Final = "simulated-placement.nf.json"  # of the generated configuration, never written
_NAMESPACE: Final = "Namespace"


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
    """Build the configuration of the placement and its manifests."""
    declared = {manifest.name for manifest in trial.manifests if manifest.kind == _NAMESPACE and not manifest.group}
    namespaces = sorted(declared | {manifest.namespace for manifest in trial.manifests if manifest.namespace})
    missing = [_build_namespace(name) for name in namespaces if name not in declared]
    text = "\n---\n".join([trial.text, *missing])
    selectors = [_build_selector("", "v1", _NAMESPACE, name) for name in namespaces]
    selectors += [
        _build_selector(manifest.group, manifest.version, manifest.kind, manifest.name)
        for manifest in trial.manifests
        if not manifest.namespace and manifest.kind != _NAMESPACE
    ]
    placement = {"name": NAME, "resource_selector": selectors, "policy": trial.policy}
    document = {
        "resource": {
            "fleet_hub_manifest": {NAME: {"yaml_body": text.replace("${", "$${").replace("%{", "%%{")}},
            "fleet_cluster_resource_placement": {NAME: placement},
        }
    }
    return SourceFile(FILE, json.dumps(document))


def _build_selector(group: str, version: str, kind: str, name: str) -> dict[str, str]:
    return {**({"group": group} if group else {}), "version": version, "kind": kind, "name": name}


def _build_namespace(name: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": _NAMESPACE, "metadata": {"name": name}})
