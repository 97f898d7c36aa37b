"""Our own API server of a hub: objects with versions, field owners, dry runs, finalizers and pages.

It has a configurable controller. Its reference is the recorded answers of a real one.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nexusform.documents.field_validation import FieldKind
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS, FieldShape
from tests.domains.hub.hub_front import (
    PATH,
    PLURALS,
    WEBHOOK,
    Body,
    Front,
    RequestRejection,
    Rule,
    build_forbidden,
    copy_body,
    get_group,
    merge_patch,
)
from tests.domains.hub.hub_watches import EventLog, is_selected, watch_events


class HubServer(Front):
    """The server.

    `happened` is the source of watch events.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str, str], Body] = {}
        self.version = 1
        self.happened = EventLog()
        self._rule: Rule = lambda *_: None
        self._fill_in: Callable[[Body], None] = lambda _: None
        self.powerless = {"bob-token"}
        # Objects and controller at the last time without work left.
        self._at_rest: Any = None
        super().__init__()
        self.put(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}, "setup"
        )
        self.log.clear()

    # --- for tests and the controller -------------------------------------------------------------

    def all(self, kind: str, namespace: str = "") -> list[Body]:
        group = get_group(kind)
        found = [
            (key, body)
            for key, body in self.objects.items()
            if key[:2] == (group, kind) and (not namespace or key[2] == namespace)
        ]
        return [body for _, body in sorted(found)]

    def get(self, kind: str, name: str, namespace: str = "") -> Body | None:
        group = get_group(kind)
        return self.objects.get((group, kind, namespace, name))

    def put(self, body: Body, manager: str = "hubagent") -> Body:
        key = _get_key(body)
        with self.lock:
            before = self.objects.get(key)
            after = merge_patch(copy_body(before), body) if before else copy_body(body)
            for path in _list_owned_paths(body):
                _add_owner(after, manager, "Update", path)
            return self._store(key, before, after)

    def remove(self, body: Body) -> None:
        with self.lock:
            if self.objects.pop(_get_key(body), None) is not None:
                self.version += 1
                self.happened.note(self.version, "DELETED", body)

    def act(self) -> None:
        """Let the controller do its pending work, if anything changed since it had none."""
        with self.lock:
            for _ in range(6):
                before = self._compute_activity_mark()
                if before == self._at_rest:
                    return
                self.controller(self)
                after = self._compute_activity_mark()
                if after == before:
                    self._at_rest = after
                if after[0] == before[0]:
                    return

    def _compute_activity_mark(self) -> tuple[int, Any, str]:
        """Return a value that changes with the objects, the controller and its settings."""
        return self.version, self.controller, repr(getattr(self.controller, "__dict__", ""))

    def _store(self, key: tuple[str, str, str, str], before: Body | None, after: Body) -> Body:
        metadata = after.setdefault("metadata", {})
        if before is None:
            metadata.setdefault("uid", str(uuid.uuid4()))
            metadata["generation"] = 1
            metadata["creationTimestamp"] = "2026-11-21T02:11:18Z"
        elif _is_equal_without_versions(before, after):
            return before
        elif before.get("spec") != after.get("spec") or _is_deletion_start(before, after):
            metadata["generation"] = before["metadata"]["generation"] + 1
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        self.objects[key] = after
        what = "ADDED" if before is None else "MODIFIED"
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self.objects.pop(key)
            what = "DELETED"
        self.happened.note(self.version, what, copy_body(after))
        return after

    def hold(self, body: Body) -> None:
        names = {name: body[name] for name in ("apiVersion", "kind")}
        metadata = {
            name: body["metadata"][name]
            for name in ("name", "namespace")
            if name in body["metadata"]
        }
        self.put({**names, "metadata": {**metadata, "deletionTimestamp": "now"}})

    # --- requests --------------------------------------------------------------------------------

    def respond(
        self, method: str, path: str, query: dict[str, str], token: str, content: bytes
    ) -> tuple[int, Any]:
        sent = json.loads(content) if content else {}
        body = _find_served_resources(path) or self._answer(method, path, query, token, sent)
        return 201 if body.pop("#new", False) else 200, body

    def events(self, path: str, query: dict[str, str], token: str) -> Iterator[Body]:
        del token
        match = PATH.fullmatch(path)
        assert match is not None
        group = match["group"] or ""
        return watch_events(
            self, group, PLURALS[group, match["plural"]][0], match["namespace"] or "", query
        )

    def _answer(
        self, method: str, path: str, query: Mapping[str, str], token: str, sent: Body
    ) -> Any:
        match = PATH.fullmatch(path)
        if match is None or (match["group"] or "", match["plural"]) not in PLURALS:
            raise _build_page_not_found()
        group = match["group"] or ""
        plural = match["plural"]
        name = match["name"] or ""
        kind, namespaced = PLURALS[group, plural]
        namespace = match["namespace"] or ""
        resource = f"{plural}.{group}" if group else plural
        if token in self.powerless and method != "GET":
            raise build_forbidden(method, group, plural, namespace, name)
        if not name:
            return self._list(group, kind, namespace, query)
        key = (group, kind, namespace, name)
        before = self.objects.get(key)
        if before is None and method in ("GET", "DELETE"):
            raise RequestRejection(404, f'{resource} "{name}" not found')
        if method == "GET":
            assert before is not None
            return copy_body(before)
        if method == "DELETE":
            assert before is not None
            return self._delete(key, before, query, sent, resource)
        if namespaced and ("", "Namespace", "", namespace) not in self.objects:
            raise RequestRejection(404, f'namespaces "{namespace}" not found')
        _check_version(before, sent, resource, name)
        after = self._changed(before, sent, query, (resource, name, match["sub"] or ""))
        _set_defaults(kind, after)
        _validate(kind, resource, before, after)
        self._fill_in(after)
        self._rule(token.removesuffix("-token"), before, after)
        if "dryRun" not in query:
            after = copy_body(self._store(key, before, after))
        return {**after, "#new": before is None}

    def judge(self, deny: Callable[[Body], str] | None) -> None:
        def rule(_user: str, _before: Body | None, after: Body) -> None:
            of_fleet = get_group(after["kind"]).endswith("kubernetes-fleet.io")
            if deny is None and of_fleet:
                raise RequestRejection(
                    500, f'Internal error occurred: failed calling webhook "{WEBHOOK}": refused'
                )
            denied = deny(after) if deny is not None and of_fleet else ""
            if denied:
                raise RequestRejection(
                    403, f'admission webhook "{WEBHOOK}" denied the request: {denied}'
                )

        self._rule = rule

    def admit(self, rule: Rule, fill_in: Callable[[Body], None]) -> None:
        self._rule = rule
        self._fill_in = fill_in

    def forget(self) -> None:
        self.happened.forget()
        self.happened.oldest += 10**6

    def _changed(
        self, before: Body | None, sent: Body, query: Mapping[str, str], named: tuple[str, str, str]
    ) -> Body:
        """Return an object after a patch."""
        resource, name, sub = named
        sent["metadata"] = {
            field: value
            for field, value in (sent.get("metadata") or {}).items()
            if field not in ("uid", "resourceVersion")
        }
        after = copy_body(before or {})
        if sub == "status" and before is not None:
            after["status"] = {**(after.get("status") or {}), **(sent.get("status") or {})}
            return after
        if "apply" in query.get("#type", ""):
            return self._apply(before, sent, query, name)
        if before is None:
            raise RequestRejection(404, f'{resource} "{name}" not found')
        entries = sent["metadata"].pop("managedFields", None)
        after = merge_patch(after, sent)
        if entries is not None:
            after["metadata"]["managedFields"] = [_parse_entry(each) for each in entries if each]
        for path in _list_owned_paths(sent):
            _add_owner(after, query.get("fieldManager", "unknown"), "Update", path)
        return after

    def _list(self, group: str, kind: str, namespace: str, query: Mapping[str, str]) -> Body:
        offset, _, version = query.get("continue", "0").partition("@")
        if not offset.isdecimal():
            raise RequestRejection(
                410, "The provided continue parameter is too old to display a consistent list."
            )
        if {"continue", "resourceVersionMatch"} <= query.keys():
            raise RequestRejection(
                422, "resourceVersionMatch is forbidden when continue is provided"
            )
        # Of the first page.
        if version:
            query = {**query, "resourceVersion": version, "resourceVersionMatch": "Exact"}
        wanted = [each for each in query.get("labelSelector", "").split(",") if each]
        items = [
            {name: value for name, value in body.items() if name not in ("apiVersion", "kind")}
            for (g, k, ns, _), body in sorted(self._objects_at(query).items())
            if (g, k) == (group, kind)
            and (not namespace or ns == namespace)
            and is_selected(wanted, body)
        ]
        begin = int(offset)
        limit = int(query.get("limit", "500"))
        metadata = {"resourceVersion": query.get("resourceVersion") or str(self.version)}
        if begin + limit < len(items):
            metadata["continue"] = f"{begin + limit}@{metadata['resourceVersion']}"
            if not wanted:
                metadata["remainingItemCount"] = len(items) - begin - limit
        api_version = f"{group}/v1beta1" if group.endswith(".io") else f"{group}/v1".lstrip("/")
        page = copy_body(items[begin : begin + limit])
        return {
            "apiVersion": api_version,
            "kind": f"{kind}List",
            "metadata": metadata,
            "items": page,
        }

    def _objects_at(self, query: Mapping[str, str]) -> dict[tuple[str, str, str, str], Body]:
        """Return all current objects, or those at the exact version requested by a list."""
        if query.get("resourceVersionMatch") != "Exact":
            return self.objects
        version = int(query["resourceVersion"])
        if version < self.happened.oldest:
            raise RequestRejection(410, "The resourceVersion for the provided list is too old.")
        return {_get_key(body): body for body in self.happened.list_objects_at(version)}

    def _delete(
        self,
        key: tuple[str, str, str, str],
        before: Body,
        query: Mapping[str, str],
        sent: Body,
        resource: str,
    ) -> Body:
        preconditions = sent.get("preconditions") or {}
        for name, title in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            wanted, current = preconditions.get(name), before["metadata"][name]
            if wanted and wanted != current:
                raise RequestRejection(
                    409,
                    f'Operation cannot be fulfilled on {resource} "{key[3]}": the {title} in the '
                    f"precondition ({wanted}) does not match the {title} in record ({current}). "
                    "The object might have been modified",
                )
        # As in a real API server, options in the body take precedence, and the query is ignored.
        if not (sent.get("dryRun") if sent else "dryRun" in query):
            after = copy_body(before)
            after["metadata"]["deletionTimestamp"] = "2026-11-21T02:12:00Z"
            self._store(key, before, after)
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def _apply(self, before: Body | None, sent: Body, query: Mapping[str, str], name: str) -> Body:
        manager = query["fieldManager"]
        force = query.get("force") == "true"
        _validate_schema(sent, name)
        after = (
            copy_body(before)
            if before
            else {"apiVersion": sent["apiVersion"], "kind": sent["kind"]}
        )
        owners = _get_owners(after)
        ours = set(_list_owned_paths(sent))
        if not force:
            _reject_conflicts(after, sent, manager)
        for path in owners.get((manager, "Apply"), set()) - ours:
            if not any(path in paths for who, paths in owners.items() if who != (manager, "Apply")):
                _remove_path(after, path)
        after = merge_patch(after, sent)
        # They are owned, but not kept.
        for field in ("annotations", "labels"):
            if after["metadata"].get(field) == {}:
                del after["metadata"][field]
        entries = [
            e
            for e in _get_managed_fields(after)
            if (e["manager"], e["operation"]) != (manager, "Apply")
        ]
        after["metadata"]["managedFields"] = entries
        for path in ours:
            _add_owner(after, manager, "Apply", path)
        if force:
            for entry in after["metadata"]["managedFields"]:
                if entry["manager"] != manager:
                    entry["#paths"] = [p for p in entry["#paths"] if tuple(p) not in ours]
        return after


def _build_page_not_found() -> RequestRejection:
    refused = RequestRejection(404, "")
    refused.body = "404 page not found\n"
    return refused


def _find_served_resources(path: str) -> Body | None:
    """Return the API groups, or the resources of one, if the path requests them."""
    if path == "/apis":
        return {"kind": "APIGroupList", "groups": _list_groups()}
    served = re.fullmatch(r"/(?:api|apis/([^/]+))/([^/]+)", path)
    return _list_resources(served[1] or "") if served is not None else None


def _list_groups() -> list[Body]:
    groups = dict.fromkeys(group for group, _ in PLURALS if group)
    versions = [
        f"{group}/v1beta1" if group.endswith("fleet.io") else f"{group}/v1" for group in groups
    ]
    return [{"preferredVersion": {"groupVersion": version}} for version in versions]


def _list_resources(group: str) -> Body:
    listed = [
        {"name": plural, "kind": kind, "namespaced": namespaced}
        for (of_group, plural), (kind, namespaced) in PLURALS.items()
        if of_group == group
    ]
    if not listed:
        raise _build_page_not_found()
    return {"kind": "APIResourceList", "resources": listed}


def _get_key(body: Mapping[str, Any]) -> tuple[str, str, str, str]:
    group = str(body["apiVersion"]).rpartition("/")[0]
    metadata = body["metadata"]
    return group, str(body["kind"]), str(metadata.get("namespace") or ""), str(metadata["name"])


# --- field owners --------------------------------------------------------------------------------


def _list_owned_paths(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of values with owners of their own.

    A list counts as one value, and so does a label selector.
    """
    if isinstance(value, dict) and value and path[-1:] != ("labelSelector",):
        for name, each in value.items():
            skipped = not path and name in ("apiVersion", "kind", "status")
            if skipped or (path == ("metadata",) and name not in ("labels", "annotations")):
                continue
            yield from _list_owned_paths(each, (*path, name))
    elif path:
        yield path


def _check_version(before: Body | None, sent: Body, resource: str, name: str) -> None:
    """Reject a patch with another version than that of the object, as a real API server does.

    A missing object has no version, and is created by an apply without a uid.
    """
    metadata = sent.get("metadata") or {}
    if before is None:
        if metadata.get("uid"):
            raise RequestRejection(
                409,
                f'Operation cannot be fulfilled on {resource} "{name}": uid mismatch: the provided '
                f"object specified uid {metadata['uid']}, and no existing object was found",
            )
        return
    version = metadata.get("resourceVersion")
    if version not in (None, "", "0", before["metadata"]["resourceVersion"]):
        raise RequestRejection(
            409,
            f'Operation cannot be fulfilled on {resource} "{name}": the object has been modified; '
            "please apply your changes to the latest version and try again",
        )


def _get_managed_fields(body: Body) -> list[Body]:
    return body.setdefault("metadata", {}).setdefault("managedFields", [])


def _parse_entry(entry: Body) -> Body:
    """Return a sent entry of managedFields as it is kept here."""
    names = {name: entry[name] for name in ("manager", "operation")}
    return {**names, "#paths": [list(path) for path in _list_sent_fields(entry["fieldsV1"])]}


def _list_sent_fields(fields: Body, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if path and not fields:
        yield path
    for name, each in fields.items():
        yield from _list_sent_fields(each, (*path, name.removeprefix("f:")))


def _get_owners(body: Body) -> dict[tuple[str, str], set[tuple[str, ...]]]:
    return {
        (e["manager"], e["operation"]): {tuple(p) for p in e["#paths"]}
        for e in _get_managed_fields(body)
    }


def _add_owner(body: Body, manager: str, operation: str, path: tuple[str, ...]) -> None:
    for entry in _get_managed_fields(body):
        if (entry["manager"], entry["operation"]) == (manager, operation):
            if list(path) not in entry["#paths"]:
                entry["#paths"].append(list(path))
            return
    _get_managed_fields(body).append(
        {"manager": manager, "operation": operation, "#paths": [list(path)]}
    )


def _reject_conflicts(after: Body, sent: Body, manager: str) -> None:
    causes: list[Body] = []
    for (other, operation), paths in _get_owners(after).items():
        if (other, operation) == (manager, "Apply"):
            continue
        for path in sorted(set(_list_owned_paths(sent)) & paths):
            if _get_value(after, path) != _get_value(sent, path):
                field = "." + ".".join(path)
                words = f'conflict with "{other}"'
                causes.append({"reason": "FieldManagerConflict", "message": words, "field": field})
    if causes:
        raise RequestRejection(409, f"Apply failed with {len(causes)} conflict(s)", causes)


def _get_value(body: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        body = body.get(step) if isinstance(body, dict) else None
    return body


def _remove_path(body: Body, path: tuple[str, ...]) -> None:
    *above, last = path
    holder = _get_value(body, tuple(above))
    if isinstance(holder, dict):
        holder.pop(last, None)
        if not holder and above:
            _remove_path(body, tuple(above))


def _is_deletion_start(before: Body, after: Body) -> bool:
    """Return whether the deletion of an object starts now, held by its finalizers."""
    return (
        "deletionTimestamp" not in before["metadata"] and "deletionTimestamp" in after["metadata"]
    )


def _is_equal_without_versions(before: Body, after: Body) -> bool:
    versions = {"resourceVersion": None, "generation": None}
    metadata = before["metadata"] | versions
    new_metadata = after["metadata"] | versions
    return metadata == new_metadata and {**before, "metadata": metadata} == {
        **after,
        "metadata": metadata,
    }


# --- schema, defaults, rules ---------------------------------------------------------------------


def _validate_schema(sent: Body, name: str) -> None:
    """Reject an apply for its schema, before any other check."""
    api = API_KINDS.get(str(sent.get("kind")))
    if api is None or not isinstance(sent.get("spec"), dict):
        return
    wrong = next(_find_schema_errors(api.spec, sent["spec"], ".spec"), "")
    if wrong:
        title = f"/{name}; {sent['apiVersion']}, Kind={sent['kind']}"
        raise RequestRejection(500, f"failed to create typed patch object ({title}): {wrong}")


def _find_schema_errors(shape: FieldShape, value: Any, path: str) -> Iterator[str]:
    if shape.kind is FieldKind.OBJECT and isinstance(value, dict) and shape.fields:
        for name, each in value.items():
            if name not in shape.fields:
                yield f"{path}.{name}: field not declared in schema"
            else:
                yield from _find_schema_errors(shape.fields[name], each, f"{path}.{name}")
    elif shape.kind is FieldKind.LIST and shape.items is not None and isinstance(value, list):
        for number, each in enumerate(value):
            yield from _find_schema_errors(shape.items, each, f"{path}[{number}]")
    elif shape.kind is FieldKind.WHOLE and isinstance(value, str):
        yield f"{path}: expected numeric (int or float), got string"


def _set_defaults(kind: str, body: Body) -> None:
    if kind == "Secret":
        for name, text in (body.pop("stringData", None) or {}).items():
            encoded = base64.b64encode(text.encode()).decode()
            body.setdefault("data", {})[name] = encoded
    spec = body.get("spec")
    if kind not in ("ClusterResourcePlacement", "ResourcePlacement") or not isinstance(spec, dict):
        return
    for selector in spec.get("resourceSelectors") or ():
        selector.setdefault("selectionScope", "NamespaceWithResources")
    spec.setdefault("revisionHistoryLimit", 10)
    if kind == "ClusterResourcePlacement":
        spec.setdefault("statusReportingScope", "ClusterScopeOnly")
    if isinstance(spec.get("policy"), dict):
        spec["policy"].setdefault("placementType", "PickAll")


def _validate(kind: str, resource: str, before: Body | None, after: Body) -> None:
    name = after["metadata"]["name"]
    spec = after.get("spec") or {}
    title = f'{kind}.{resource.partition(".")[2]} "{name}" is invalid'

    def build_invalid(
        field: str, words: str, reason: str = "FieldValueInvalid"
    ) -> RequestRejection:
        return RequestRejection(
            422,
            f"{title}: {field}: {words}",
            [{"reason": reason, "message": words, "field": field}],
        )

    if kind == "MemberCluster" and not spec:
        raise build_invalid("spec", "Required value", "FieldValueRequired")
    if kind not in ("ClusterResourcePlacement", "ResourcePlacement"):
        return
    if not spec.get("resourceSelectors"):
        raise build_invalid("spec.resourceSelectors", "Required value", "FieldValueRequired")
    for number, selector in enumerate(spec["resourceSelectors"]):
        if "group" not in selector:
            raise build_invalid(
                f"spec.resourceSelectors[{number}].group", "Required value", "FieldValueRequired"
            )
    _validate_patterns(spec, build_invalid)
    policy = spec.get("policy") or {}
    if policy.get("placementType") not in (None, "PickAll", "PickN", "PickFixed"):
        words = f'Unsupported value: "{policy["placementType"]}"'
        raise build_invalid("spec.policy.placementType", words, "FieldValueNotSupported")
    if policy.get("placementType") == "PickAll" and "numberOfClusters" in policy:
        raise build_invalid(
            "spec.policy", "numberOfClusters cannot be set when placement type is PickAll"
        )
    if before is not None:
        _validate_immutable_fields(before.get("spec") or {}, spec, build_invalid)


def _validate_patterns(spec: Body, invalid: Callable[..., RequestRejection]) -> None:
    policy = spec.get("policy") or {}
    if any(
        not each.get("key") and each.get("operator") == "Equal"
        for each in policy.get("tolerations") or ()
    ):
        raise invalid("spec.policy.tolerations", "operator must be Exists when key is empty")
    share = ((spec.get("strategy") or {}).get("rollingUpdate") or {}).get("maxUnavailable")
    if isinstance(share, str) and not re.fullmatch(r"((100|[0-9]{1,2})%|[0-9]+)", share):
        raise invalid("spec.strategy.rollingUpdate.maxUnavailable", f'Invalid value: "{share}"')


def _validate_immutable_fields(
    earlier: Body, spec: Body, invalid: Callable[..., RequestRejection]
) -> None:
    """Reject changes of immutable fields of a placement."""
    policy = spec.get("policy") or {}
    if earlier.get("policy") and not policy:
        raise invalid("spec", 'Invalid value: "object": policy cannot be removed once set')
    was = (earlier.get("policy") or {}).get("placementType")
    if was and policy.get("placementType") != was:
        raise invalid("spec.policy", 'Invalid value: "object": placement type is immutable')
    strategy = (earlier.get("strategy") or {}).get("type")
    if strategy == "External" and (spec.get("strategy") or {}).get("type") != "External":
        words = "cannot change rollout strategy type from 'External' to other types"
        raise invalid("spec.strategy.type", words)
