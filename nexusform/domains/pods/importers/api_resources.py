"""Kinds served by an API server: their versions and scopes.

Built-in kinds are those of the table of Kubernetes, custom ones those of
CustomResourceDefinitions. Other kinds are unknown.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.diagnostic import find_nearest_name
from nexusform.diagnostics.phrases import format_list
from nexusform.domains.pods.importers.kubernetes_schemas import list_kind_names
from nexusform.domains.pods.importers.manifest_parser import (
    Manifest,
    is_cluster_scoped,
    is_fleet_group,
    select_custom_definitions,
)
from nexusform.json_data.plain_data import get_mapping, get_text, list_objects

# Kinds with beta or alpha versions that a supported Kubernetes may serve.
_BETA_KINDS: Final = frozenset(
    {
        "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding", "ClusterTrustBundle", "PodCertificateRequest",
        "FlowSchema", "PriorityLevelConfiguration", "IPAddress", "ServiceCIDR", "DeviceClass",
        "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice",
        "VolumeAttributesClass", "StorageVersionMigration", "CSIStorageCapacity",
    }
)  # fmt: skip
# Group that no supported Kubernetes serves; its kinds are in other groups now.
_REMOVED_GROUP: Final = "extensions"
# Groups whose kinds are all in the table.
_COMPLETE_GROUPS: Final = ("", "apps", "batch", "autoscaling", "rbac.authorization.k8s.io")
_FURTHER_KINDS: Final = {
    ("apiextensions.k8s.io", "CustomResourceDefinition"): ("v1",),
    ("apiregistration.k8s.io", "APIService"): ("v1",),
}

_FURTHER_GROUPS: Final = frozenset(
    {
        "authentication.k8s.io", "authorization.k8s.io", "internal.apiserver.k8s.io",
        "metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io",
    }
)  # fmt: skip


class ApiKind(Struct, frozen=True):
    """Kind of an API group, with its served versions.

    `may_serve_more` means that other versions may be served, too.
    """

    versions: tuple[str, ...]
    is_namespaced: bool
    may_serve_more: bool = False


@cache
def _list_built_in_kinds() -> Mapping[tuple[str, str], ApiKind]:
    """Return the kinds of Kubernetes by group and name."""
    versions: dict[tuple[str, str], tuple[str, ...]] = dict(_FURTHER_KINDS)
    for api_version, kind in list_kind_names():
        group, _, version = api_version.rpartition("/")
        versions[group, kind] = (*versions.get((group, kind), ()), version)
    return {
        (group, kind): ApiKind(served, not is_cluster_scoped(group, kind), kind in _BETA_KINDS)
        for (group, kind), served in versions.items()
    }


def _list_moved_forms(kind: str) -> list[str]:
    """Return the API versions that serve a kind of the removed group `extensions`."""
    return [
        f"{group}/{version}"
        for (group, name), known in _list_built_in_kinds().items()
        if name == kind and group
        for version in known.versions
    ]


@cache
def _list_built_in_groups() -> frozenset[str]:
    """Return the groups of Kubernetes, those without kinds in the table included."""
    return _FURTHER_GROUPS.union(group for group, _ in _list_built_in_kinds())


class ApiKinds:
    """Built-in kinds, and those of the CustomResourceDefinitions among objects."""

    def __init__(self, manifests: Iterable[Manifest] = ()) -> None:
        custom_kinds: dict[tuple[str, str], ApiKind] = {}
        for definition in select_custom_definitions(manifests):
            spec = get_mapping(definition.body, "spec")
            served = tuple(
                get_text(version, "name")
                for version in list_objects(spec, "versions")
                if version.get("served") is not False
            )
            name = (get_text(spec, "group"), get_text(get_mapping(spec, "names"), "kind"))
            custom_kinds[name] = ApiKind(served, get_text(spec, "scope") == "Namespaced")
        self.custom_kinds: Mapping[tuple[str, str], ApiKind] = custom_kinds

    def find_kind(self, group: str, kind: str) -> ApiKind | None:
        """Return a kind; None if it is unknown."""
        return self.custom_kinds.get((group, kind)) or _list_built_in_kinds().get((group, kind))

    def has_group(self, group: str) -> bool:
        """Return whether Kubernetes itself serves a group."""
        return group in _list_built_in_groups()

    def explain_unserved_kind(self, group: str, version: str, kind: str) -> str:
        """Return why no API server serves a kind in a version, with the right form.

        The result is "" if it is served or unknown.
        """
        reason = self.explain_unserved_version(group, version, kind)
        if not reason and self.find_kind(group, kind) is None:
            return self._explain_unknown_kind(group, kind)
        return reason

    def explain_unserved_version(self, group: str, version: str, kind: str) -> str:
        """Return why no API server serves a version of a kind, with the right form.

        The result is "" if it is served, or if the group may have other kinds.
        """
        known = self.find_kind(group, kind)
        name = f"{group}/{version}" if group else version
        if known is None:
            forms = _list_moved_forms(kind) if group == _REMOVED_GROUP else []
        elif version in known.versions or known.may_serve_more:
            return ""
        else:
            forms = [f"{group}/{item}" if group else item for item in known.versions]
        if not forms:
            return ""
        return f"{kind} is not served as {name}; write {format_list(forms, conjunction='or')}"

    def _explain_unknown_kind(self, group: str, kind: str) -> str:
        """Return that a group has no such kind, "" if it may have one."""
        names = sorted(
            name
            for known_group, name in (*self.custom_kinds, *_list_built_in_kinds())
            if known_group == group
        )
        has_other_case = kind.casefold() in (name.casefold() for name in names)
        if not has_other_case and (group not in _COMPLETE_GROUPS or is_fleet_group(group)):
            return ""
        place = f"API group {group}" if group else "core API group"
        nearest_name = find_nearest_name(kind, names)
        hint = f"; write {nearest_name}" if nearest_name else ""
        return f"the {place} has no kind {kind}{hint}"
