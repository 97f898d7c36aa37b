"""Identity of a hub: the uids of namespaces, as far as they may be read. A uid never changes, and no two
clusters share one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from nexusform.domains.hub.api.api_errors import ApiError
from nexusform.domains.hub.api.hub_client import HubClient
from nexusform.domains.hub.providers.hub_wait import read_hub_version
from nexusform.domains.hub.providers.object_access import get_uid
from nexusform.providers.identified_provider import IdentityComparison

SYSTEM_NAMESPACE: Final = "kube-system"
_TAG: Final = re.compile(r":v?(\d+\.\d+\.\d+[^:/@]*)(?:@.*)?$")
_UID_DIGITS: Final = 4
_FORBIDDEN: Final = 403
Values = Mapping[str, Any]


def read_identity(hub: HubClient, recorded: Values, objects: Sequence[Values]) -> dict[str, Any]:
    """Return `uids` by namespace, `url` and `version` of a hub. Raises ApiError and HubProblem."""
    namespaces = [SYSTEM_NAMESPACE, *(recorded.get("uids") or {}), *_find_first_namespace(objects)]
    uids = {name: uid for name in dict.fromkeys(namespaces) if (uid := _read_namespace_uid(hub, name))}
    tag = _TAG.search(read_hub_version(hub))
    return {"uids": uids, "url": hub.server, "version": tag[1] if tag is not None else ""}


def _find_first_namespace(objects: Sequence[Values]) -> list[str]:
    return next(([name] for attributes in objects for name in _list_namespaces(attributes)), [])


def _list_namespaces(attributes: Values) -> Iterator[str]:
    for entry in attributes.get("objects") or ():
        is_namespace = (entry.get("group"), entry.get("kind")) == ("", "Namespace")
        yield from filter(None, [entry.get("name") if is_namespace else entry.get("namespace")])
    if isinstance(attributes.get("namespace"), str) and attributes["namespace"]:
        yield attributes["namespace"]


def _read_namespace_uid(hub: HubClient, namespace: str) -> str:
    """Return the uid of a namespace; "" if it is missing or may not be read."""
    try:
        body = hub.get(f"/api/v1/namespaces/{namespace}")
    except ApiError as api_error:
        if api_error.status != _FORBIDDEN:
            raise
        return ""
    return get_uid(body) if body is not None else ""


def compare_identity(recorded: Values, observed: Values) -> IdentityComparison:
    """Compare two identities by kube-system, otherwise by another namespace."""
    recorded_uids, observed_uids = recorded.get("uids") or {}, observed["uids"]
    common = [name for name in (SYSTEM_NAMESPACE, *recorded_uids) if name in recorded_uids and name in observed_uids]
    if not common:
        return IdentityComparison(obstacle=_explain_uncomparable_hubs(recorded_uids, observed_uids))
    name = common[0]
    if recorded_uids[name] == observed_uids[name]:
        return IdentityComparison(is_known=True)
    difference = (
        f"namespace {name} has the uid {recorded_uids[name]} on {recorded.get('url')} in the state, and "
        f"{observed_uids[name]} on {observed['url']}"
    )
    return IdentityComparison(is_known=True, difference=difference, accepted_by=(observed_uids[name],))


def _explain_uncomparable_hubs(recorded_uids: Values, observed_uids: Values) -> str:
    if not recorded_uids:
        return "the state records no uid of its hub"
    if not observed_uids:
        return "no uid of a namespace may be read on this hub"
    return f"the state records the uid of {', '.join(recorded_uids)}, which this hub does not show"


def describe_identity(identity: Values, name: str) -> str:
    """Describe a hub: `hub prod-eu (uid 3f2c, read 15:02:11, KubeFleet 0.3.1)`."""
    uid = next(iter((identity.get("uids") or {}).values()), "")
    parts = [f"uid {uid[:_UID_DIGITS]}" if uid else "uid unknown", f"read {datetime.now(UTC):%H:%M:%S}"]
    parts += [f"KubeFleet {identity['version']}"] if identity.get("version") else []
    return f"hub {name} ({', '.join(parts)})"
