"""Deployments, ReplicaSets and other workloads of a live cluster.

They show the pod templates and the fields of other managers. An apply of a manifest without such a
field keeps the live value. Source: managedFields of the API server (server-side apply), and the
three-way merge of `kubectl apply`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.documents.scalars import parse_integer
from nexusform.domains.pods.importers.kubernetes_pod_spec import parse_containers
from nexusform.domains.pods.importers.manifest_parser import Fields, Manifest
from nexusform.domains.pods.scheduling.cluster_records import NEWEST_REVISION
from nexusform.json_data.plain_data import (
    get_list,
    get_mapping,
    get_text,
    get_value_at_path,
    list_mappings,
)

LIVE_KINDS: Final = (
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "ReplicationController",
)
# Steps of a path are keys of mappings, or the identifying fields of a list's item.
FieldPath = tuple[str | tuple[tuple[str, Any], ...], ...]
REPLICAS_PATH: Final[FieldPath] = ("replicas",)
# Managers that apply whole manifests: what a manifest no longer sets, they remove.
_APPLIERS: Final = ("nexusform", "work-api-agent")
# It applies whole manifests, too.
_KUBECTL: Final = "kubectl-client-side-apply"
_AUTOSCALER: Final = ("kube-controller-manager", "scale")
_DEPLOYMENT: Final = "deployment.kubernetes.io/"
_APPLIED_PREFIXES: Final = ("kubectl.kubernetes.io", "kubernetes-fleet.io")
# Fields of a pod template that affect placement; all others are never read.
_TEMPLATE_FIELDS: Final = (
    *(
        "containers",
        "initContainers",
        "nodeSelector",
        "affinity",
        "tolerations",
        "topologySpreadConstraints",
    ),
    *(
        "priorityClassName",
        "runtimeClassName",
        "schedulerName",
        "preemptionPolicy",
        "schedulingGates",
        "nodeName",
    ),
    *("hostNetwork", "volumes", "resources", "resourceClaims"),
)
# Labels added by the API server and by controllers to the templates of Jobs, ReplicaSets and pods.
_ADDED_LABELS: Final = (
    "pod-template-hash",
    "controller-revision-hash",
    "job-name",
    "controller-uid",
)
_CONTAINER_SECTIONS: Final = ("containers", "initContainers")
_CONTAINER_FIELDS: Final = ("name", "image", "resources", "restartPolicy", "ports")
_CLAIM_NAME: Final = ("persistentVolumeClaim", "claimName")
# Values set by the API server.
_DEFAULTS: Final = (
    *(
        ("type", "RollingUpdate"),
        ("maxSurge", "25%"),
        ("maxUnavailable", "25%"),
        ("maxUnavailable", 1),
    ),
    *(("parallelism", 1), ("completions", 1), ("schedulerName", "default-scheduler")),
)
# The last two precede the others, while pods of the Job terminate.
_JOB_END_CONDITIONS: Final = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")
_SPEC_FIELDS: Final = (
    "replicas",
    "parallelism",
    "completions",
    "suspend",
    "paused",
    "strategy",
    "updateStrategy",
)


class LiveWorkload(Struct, frozen=True):
    """Workload as it exists: fields set by other managers, and its revision label.

    The fields below `spec` have path, value, and whether kubectl apply set them. `has_managers` is
    True if the object names its managers.

    `owner` is the key of a ReplicaSet's Deployment, `owners` are all its owner references (`Kind
    name`). `template` are the fields of its pod template with an effect on placement.
    `desired_pods` and `max_pods` are those of the Deployment at the last sync of an active
    ReplicaSet (0: unknown). `remaining_pods` are those left to run by a Job, None if unlimited.
    `scaled_replicas` were set by a HorizontalPodAutoscaler, None without one.
    """

    key: str
    foreign_fields: tuple[tuple[FieldPath, Any, bool], ...] = ()
    has_managers: bool = False
    template: Mapping[str, Any] = field(default_factory=dict)
    revision: str = ""
    owner: str = ""
    desired_pods: int = 0
    max_pods: int = 0
    remaining_pods: int | None = None
    scaled_replicas: int | None = None
    replicas: int | None = None
    owners: tuple[str, ...] = ()


def reduce_live_workload(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a live workload as plain data for `build_live_workload`.

    Environments of containers are left out.
    """
    metadata = get_mapping(body, "metadata")
    spec = get_mapping(body, "spec")
    managers = list_mappings(metadata, "managedFields")
    is_scaled = _AUTOSCALER in [(item.get("manager"), item.get("subresource")) for item in managers]
    if managers:
        foreign_fields = list(_list_fields_of_other_managers(managers, spec))
    else:
        # The managers are unknown: take the fields not set by the last applied manifest.
        applied = _read_applied_spec(metadata)
        scalars = _list_leaf_values(_select_spec(spec))
        unset_fields = [
            (path, value) for path, value in scalars if _find_value_at_path(applied, path) is None
        ]
        # False: not owned by kubectl.
        foreign_fields = [(path, value, False) for path, value in unset_fields]
    pod_counts: dict[str, int] = {}
    # A ReplicaSet without pods is not synced: its counts do not hold.
    if spec.get("replicas"):
        pod_counts = _read_pod_counts(get_mapping(metadata, "annotations"))
    owner = get_controller_reference(metadata)
    status = get_mapping(body, "status")
    namespace = metadata.get("namespace", "default")
    revision = get_text(metadata, "labels", "pod-template-hash") or get_text(
        status, "updateRevision"
    )
    return {
        "key": f"{namespace}/{body['kind']}/{metadata['name']}",
        "fields": foreign_fields,
        "managed": bool(managers),
        "scaled": spec.get("replicas") if is_scaled else None,
        "template": _select_pod_template_fields(get_mapping(spec, "template")),
        "revision": revision,
        "owner": f"{namespace}/Deployment/{owner.get('name')}"
        if owner.get("kind") == "Deployment"
        else "",
        **pod_counts,
        "remaining": _count_remaining_pods(spec, status) if body["kind"] == "Job" else None,
        "replicas": spec.get("replicas"),
        "owners": [
            f"{item.get('kind')} {item.get('name')}"
            for item in list_mappings(metadata, "ownerReferences")
        ],
    }


def get_controller_reference(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the reference to the controller of an object; {} without one."""
    return next(
        (owner for owner in list_mappings(metadata, "ownerReferences") if owner.get("controller")),
        {},
    )


def _list_fields_of_other_managers(
    managers: Iterable[Mapping[str, Any]], spec: Mapping[str, Any]
) -> Iterator[tuple[FieldPath, Any, bool]]:
    """Yield the fields of a live spec owned by other managers than nexusform and Fleet.

    A field has its path, its value, and whether kubectl owns it. A subresource (scale) always has
    another manager, such as an autoscaler.
    """
    for item in managers:
        name = item.get("manager")
        subresource = item.get("subresource")
        if name in _APPLIERS and not subresource:
            continue
        is_kubectl = name == _KUBECTL and not subresource
        owned_fields = get_mapping(item, "fieldsV1", "f:spec")
        for path, value in _list_owned_field_values(owned_fields, _select_spec(spec), path=()):
            yield path, value, is_kubectl


def _count_remaining_pods(spec: Mapping[str, Any], status: Mapping[str, Any]) -> int | None:
    """Return the number of pods left to run by a Job: 0 once it has ended, None if unlimited."""
    conditions = {
        (get_text(item, "type"), get_text(item, "status"))
        for item in list_mappings(status, "conditions")
    }
    if conditions & {(kind, "True") for kind in _JOB_END_CONDITIONS}:
        return 0
    succeeded = status.get("succeeded") or 0
    completions = spec.get("completions")
    if isinstance(completions, int):
        return max(0, completions - int(succeeded))
    if not succeeded:
        return None
    # A work queue (no completions) starts no pod after the first success.
    return int(status.get("active") or 0)


def _read_pod_counts(annotations: Mapping[str, Any]) -> dict[str, int]:
    """Return `desired_pods` and `max_pods` of a Deployment.

    They are annotations of its ReplicaSet.
    """
    counts: dict[str, int] = {}
    for name in ("desired", "max"):
        count = parse_integer(annotations.get(f"{_DEPLOYMENT}{name}-replicas"))
        if count is not None:
            counts[f"{name}_pods"] = count
    return counts


def build_live_workload(data: Mapping[str, Any]) -> LiveWorkload:
    """Build a live workload from the data of `reduce_live_workload`.

    The data may have made a round trip through JSON.
    """
    foreign_fields: list[tuple[FieldPath, Any, bool]] = []
    for steps, value, is_kubectl in data["fields"]:
        # A step is a key, or the identifying fields of a list's item. JSON turns their
        # tuples into lists.
        path = tuple(step if isinstance(step, str) else tuple(map(tuple, step)) for step in steps)
        foreign_fields.append((path, value, is_kubectl))
    return LiveWorkload(
        key=str(data["key"]),
        foreign_fields=tuple(foreign_fields),
        has_managers=data["managed"],
        template=select_placement_fields(data["template"])
        if get_mapping(data, "template", "spec")
        else {},
        revision=data["revision"],
        owner=data["owner"],
        desired_pods=data.get("desired_pods", 0),
        max_pods=data.get("max_pods", 0),
        remaining_pods=data.get("remaining"),
        scaled_replicas=data.get("scaled"),
        replicas=data.get("replicas"),
        owners=tuple(data.get("owners", ())),
    )


def find_current_revisions(
    template: Mapping[str, Any], live: LiveWorkload, replica_sets: Sequence[LiveWorkload]
) -> tuple[str, ...] | None:
    """Return the revision labels of the live pods with a template.

    The result is () if none has it, None if unknown. The template is compared with those of the
    ReplicaSets (of a Deployment), else with the one of the live workload. NEWEST_REVISION means the
    label of the newest pods.
    """
    if not replica_sets and not live.template:
        return None
    expected = select_placement_fields(template)
    if replica_sets:
        return tuple(
            replica_set.revision for replica_set in replica_sets if replica_set.template == expected
        )
    return (live.revision or NEWEST_REVISION,) if live.template == expected else ()


def select_placement_fields(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a pod template with an effect on placement, to compare templates."""
    # The values are metadata and spec.
    metadata, selected = _select_pod_template_fields(template).values()
    selected["labels"] = {
        key: text for key, text in metadata["labels"].items() if key not in _ADDED_LABELS
    }
    # The API server adds its default.
    selected.pop("schedulerName", None)
    # On the host's network, the containerPort is the default of a hostPort.
    host_port = "containerPort" if selected.get("hostNetwork") else "hostPort"
    # The sources of volumes without their defaults; emptyDir is the default source.
    selected["volumes"] = sorted(
        (
            get_text(item, "name"),
            sorted(item.keys() - {"name", "emptyDir"}),
            get_text(item, *_CLAIM_NAME),
        )
        for item in list_mappings(selected, "volumes")
    )
    # They are compared like those of one more container.
    pod_level = {"resources": selected.pop("resources", {})}
    for section in _CONTAINER_SECTIONS:
        containers = list_mappings(selected, section)
        body = {"containers": [*containers, pod_level]}
        manifest = Manifest(
            group="", version="v1", kind="Pod", namespace="", name="", labels={}, body=body, line=1
        )
        ports = [
            # With the defaults.
            {"protocol": "TCP", "hostPort": port.get(host_port), **port}
            for container in containers
            for port in list_mappings(container, "ports")
        ]
        selected[section] = parse_containers(Fields(manifest, [], manifest.body)), ports
    return selected


def merge_live_fields(
    manifest: Manifest, live: LiveWorkload, previous: Manifest | None
) -> tuple[Manifest, set[str]]:
    """Return a manifest with the live fields it leaves to other managers.

    An example is the replicas set by an autoscaler. The second result has the names of fields of
    unknown managers: they may stay or not.

    `previous` is the manifest applied before: the apply removes its fields, unless another manager
    than kubectl is known to own them.
    """
    unknown: set[str] = set()
    if not live.foreign_fields:
        # Also with an invalid spec, which is reported later.
        return manifest, unknown
    spec = get_mapping(manifest.body, "spec")
    previous_spec = get_mapping(previous.body, "spec") if previous is not None else {}
    for path, value, is_kubectl in live.foreign_fields:
        if _find_value_at_path(spec, path) is not None:
            # The manifest sets the field itself.
            continue
        was_applied = _find_value_at_path(previous_spec, path) is not None
        if was_applied and (is_kubectl or not live.has_managers):
            # The apply removes it.
            continue
        if live.has_managers or path == REPLICAS_PATH:
            spec = _set_value_at_path(spec, path, value)
        else:
            unknown.add(".".join(step for step in path if isinstance(step, str)))
    return replace(manifest, body={**manifest.body, "spec": spec}), unknown


def _read_applied_spec(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the spec applied last, by the annotation of kubectl, else by that of Fleet.

    The result is {} without a readable one.
    """
    texts = [
        get_text(metadata, "annotations", f"{prefix}/last-applied-configuration")
        for prefix in _APPLIED_PREFIXES
    ]
    try:
        return get_mapping(json.loads(next(filter(None, texts), "{}")), "spec")
    except ValueError:
        return {}


def _list_leaf_values(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the paths and values of the fields of a spec, without values set by the API server.

    `path` is where `value` is found. The items of container lists are identified by their name: the
    image of container web has the path (..., "containers", (("name", "web"),), "image"). Other
    lists are values as a whole.
    """
    if isinstance(value, dict):
        for name, part in value.items():
            if str(name).rpartition("/")[2] not in _ADDED_LABELS:
                yield from _list_leaf_values(part, (*path, str(name)))
    elif path[-1] in _CONTAINER_SECTIONS:
        for item in list_mappings(value):
            yield from _list_leaf_values(item, (*path, (("name", get_text(item, "name")),)))
    elif (value or path == REPLICAS_PATH) and (path[-1], value) not in _DEFAULTS:
        # 0 replicas are a value, too.
        yield path, value


def select_present_fields(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the fields with these names that are present and not null."""
    return {name: values[name] for name in names if values.get(name) is not None}


def _select_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a spec with an effect on pods: scale, strategy and the pod template."""
    fields = select_present_fields(spec, _SPEC_FIELDS)
    return {**fields, "template": _select_pod_template_fields(get_mapping(spec, "template"))}


def _select_pod_template_fields(template: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the fields of a pod template with an effect on placement.

    Its containers have no environment variables.
    """
    spec = get_mapping(template, "spec")
    selected = {name: spec[name] for name in _TEMPLATE_FIELDS if spec.get(name)}
    for section in _CONTAINER_SECTIONS:
        if section in selected:
            containers = list_mappings(selected[section])
            selected[section] = [
                select_present_fields(container, _CONTAINER_FIELDS) for container in containers
            ]
    return {
        "metadata": {"labels": dict(get_mapping(template, "metadata", "labels"))},
        "spec": selected,
    }


def _list_owned_field_values(
    tree: Mapping[str, Any], value: Any, path: FieldPath
) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the paths of a tree of fieldsV1, with their values in `value`.

    A tree is for example `{"f:replicas": {}}`. A value may be absent.
    """
    for key, subtree in tree.items():
        kind, _, name = key.partition(":")
        step: str | tuple[tuple[str, Any], ...] = name
        # A field by its name.
        if kind == "f":
            inner_value = get_value_at_path(value, name)
        elif kind == "k":
            # An item of a list, by the fields of its identity as JSON.
            identity = tuple(sorted(json.loads(name).items()))
            inner_value = _find_list_item(value, identity)
            step = identity
        else:
            # The item itself (`.`), or an item of a set.
            continue
        if inner_value is None:
            # Without an effect on placement, or removed.
            continue
        if subtree and isinstance(inner_value, dict | list):
            yield from _list_owned_field_values(subtree, inner_value, (*path, step))
        else:
            yield (*path, step), inner_value


def _find_list_item(value: Any, step: tuple[tuple[str, Any], ...]) -> Any:
    """Return the item of a list with these identifying fields.

    The result is None without one, or if the value is no list.
    """
    for item in list_mappings(value):
        # TCP is the default in the identity of a port.
        fields = {"protocol": "TCP", **item}
        if all(fields.get(name) == part for name, part in step):
            return item
    return None


def _find_value_at_path(value: Any, path: FieldPath) -> Any:
    """Return the value at a path of fields and list items.

    The result is None if a part of the path is missing.
    """
    for step in path:
        value = (
            get_value_at_path(value, step)
            if isinstance(step, str)
            else _find_list_item(value, step)
        )
    return value


def _set_value_at_path(value: Any, path: FieldPath, new_value: Any) -> Any:
    """Return a copy of `value` with `new_value` at a path; missing parts are created.

    A step of the path is the name of a field, or the identifying fields of an item in a list.
    """
    if not path:
        return new_value
    step, *rest = path
    if isinstance(step, str):
        mapping = get_mapping(value)
        return {**mapping, step: _set_value_at_path(mapping.get(step), tuple(rest), new_value)}
    items = [*get_list(value)]
    item = _find_list_item(items, step)
    if item is None:
        item = dict(step)
        items.append(item)
    changed = _set_value_at_path(item, tuple(rest), new_value)
    return [changed if each is item else each for each in items]
