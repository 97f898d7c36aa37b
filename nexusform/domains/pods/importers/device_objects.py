"""Devices (ResourceSlices), classes and claims of a cluster, and the claims of a pod.

Facts without evaluation are named, and their pods are not certain.
Source: kubernetes staging/src/k8s.io/api/resource/v1/types.go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Severity
from nexusform.domains.pods.importers.kubernetes_pod_spec import (
    DEVICE_CLAIMS,
    parse_node_term,
    parse_taints,
)
from nexusform.domains.pods.importers.kubernetes_volumes import PodVolumes
from nexusform.domains.pods.importers.manifest_parser import (
    Fields,
    Manifest,
    get_integer,
    select_manifests,
)
from nexusform.domains.pods.scheduling.cel_device_selectors import (
    find_selector_problem,
    shorten_expression,
)
from nexusform.domains.pods.scheduling.cel_engine import parse_device_quantity
from nexusform.domains.pods.scheduling.cluster_records import (
    ALL_DEVICES,
    AllocatedDevice,
    Attribute,
    ClaimedUses,
    Device,
    DeviceClaim,
    DeviceInventory,
    DeviceMatchConstraint,
    DeviceRequest,
    DeviceSubRequest,
    PodSpec,
    ResourceSlice,
)
from nexusform.json_data.plain_data import (
    get_list,
    get_mapping,
    get_text,
    get_value_at_path,
    list_mappings,
)
from nexusform.kubernetes.matching import EQUAL, IN, NodeSelectorTerm, Requirement, Toleration

_GROUP: Final = "resource.k8s.io"
_VERSION: Final = "v1"
_SLICE: Final = "ResourceSlice"
_CLAIM: Final = "ResourceClaim"
_TEMPLATE: Final = "ResourceClaimTemplate"
_CLASS: Final = "DeviceClass"
_ATTRIBUTE_KINDS: Final = ("string", "int", "bool", "version")
# Fields of features that are not evaluated.
_DEVICE_FEATURES: Final = (
    *(
        "allowMultipleAllocations",
        "bindsToNode",
        "bindingConditions",
        "nodeAllocatableResourceMappings",
    ),
    *("compatibilityGroups", "derivedAttributes"),
)
_REQUEST_FEATURES: Final = ("capacity", "derivedAttributes")


class DeviceObjects(Struct, frozen=True):
    """Objects about devices by name (claims and templates by `namespace/name`).

    `problems` are facts about slices that this program does not evaluate. Without any slice the
    devices are unknown.
    """

    classes: Mapping[str, Manifest] = field(default_factory=dict)
    claims: Mapping[str, Manifest] = field(default_factory=dict)
    templates: Mapping[str, Manifest] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    has_slices: bool = False


class PodDeviceClaims(Struct, frozen=True):
    """Claims of a pod.

    (), with `is_unknown`, if this program does not evaluate some facts about them.
    """

    claims: tuple[DeviceClaim, ...] = ()
    is_unknown: bool = False


def add_claims(pod: PodSpec, volumes: PodVolumes, devices: PodDeviceClaims) -> PodSpec:
    """Return the spec of a pod with its volumes and devices."""
    return replace(
        pod,
        volumes=volumes.needs,
        claims=volumes.claims,
        exclusive_claims=volumes.exclusive_claims,
        disks=volumes.disks,
        claim_count=volumes.claim_count,
        bound_claims=volumes.bound_claims,
        single_node_claims=volumes.single_node_claims,
        device_claims=devices.claims,
        has_unknown_rules=pod.has_unknown_rules or devices.is_unknown,
    )


def collect_device_objects(manifests: Iterable[Manifest]) -> DeviceObjects:
    """Return the objects of resource.k8s.io by full name.

    The first of several objects with the same name counts.
    """
    by_kind: dict[str, dict[str, Manifest]] = {
        kind: {} for kind in (_SLICE, _CLAIM, _TEMPLATE, _CLASS)
    }
    for manifest in manifests:
        if manifest.group == _GROUP and manifest.kind in by_kind:
            by_kind[manifest.kind].setdefault(_get_full_name(manifest), manifest)
    problems = chain.from_iterable(map(_list_slice_problems, by_kind[_SLICE].values()))
    return DeviceObjects(
        classes=by_kind[_CLASS],
        claims=by_kind[_CLAIM],
        templates=by_kind[_TEMPLATE],
        problems=tuple(problems),
        has_slices=bool(by_kind[_SLICE]),
    )


def _get_full_name(manifest: Manifest) -> str:
    return f"{manifest.namespace}/{manifest.name}" if manifest.namespace else manifest.name


def _list_slice_problems(manifest: Manifest) -> Iterator[str]:
    """Yield as texts the features of a ResourceSlice not evaluated by this program."""
    if manifest.version != _VERSION:
        yield f"{manifest.title} has version {manifest.version}, not {_VERSION}"
    for device in list_mappings(manifest.body, "spec", "devices"):
        yield from _list_used_features(manifest.title, device, _DEVICE_FEATURES)
        if None in map(_parse_attribute, get_mapping(device, "attributes").values()):
            yield f"{manifest.title} has attributes of an unknown type"


def _list_used_features(
    title: str, fields: Mapping[str, Any], features: Iterable[str]
) -> list[str]:
    """Return as texts the features used in these fields."""
    return [f"{title} uses {name}" for name in features if fields.get(name)]


def collect_device_inventory(
    manifests: Iterable[Manifest], observed_objects: Iterable[Manifest] = ()
) -> DeviceInventory:
    """Return the devices of the ResourceSlices in `manifests`, and the allocated ones.

    ResourceClaims show the allocation.
    """
    slices = {item.name: item for item in select_manifests(manifests, _GROUP, _SLICE)}
    allocations = {
        _get_full_name(item): _list_allocated_devices(item.body)
        for item in select_manifests(observed_objects, _GROUP, _CLAIM)
        if get_value_at_path(item.body, "status", "allocation") is not None
    }
    return DeviceInventory(tuple(map(_parse_slice, slices.values())), allocations)


def _list_allocated_devices(body: Mapping[str, Any]) -> tuple[AllocatedDevice, ...]:
    """Return the devices of an allocated claim."""
    return tuple(
        AllocatedDevice(
            (str(result.get("driver")), str(result.get("pool")), str(result.get("device"))),
            has_admin_access=result.get("adminAccess") is True,
        )
        for result in list_mappings(body, "status", "allocation", "devices", "results")
    )


def list_allocated_claims(names: Iterable[str], objects: DeviceObjects) -> ClaimedUses:
    """Return the allocated claims among these (`namespace/name`) with their devices."""
    uses: list[tuple[str, tuple[AllocatedDevice, ...]]] = []
    for name in names:
        claim = objects.claims.get(name)
        if claim is not None and get_value_at_path(claim.body, "status", "allocation") is not None:
            uses.append((name, _list_allocated_devices(claim.body)))
    return tuple(uses)


def _parse_slice(manifest: Manifest) -> ResourceSlice:
    """Return a ResourceSlice: devices of one pool.

    Its `counters` are amounts shared by them, by counter set.
    """
    spec = get_mapping(manifest.body, "spec")
    pool = get_mapping(spec, "pool")
    return ResourceSlice(
        name=manifest.name,
        driver=get_text(spec, "driver"),
        pool=get_text(pool, "name"),
        generation=get_integer(pool, "generation", 0),
        slice_count=get_integer(pool, "resourceSliceCount", 1),
        devices=tuple(_parse_device(manifest, device) for device in list_mappings(spec, "devices")),
        # The nodes with access to all of its devices.
        terms=_parse_slice_nodes(manifest, spec),
        has_own_nodes=spec.get("perDeviceNodeSelection") is True,
        counters=_parse_counters(spec, "sharedCounters", "name"),
    )


def _parse_device(manifest: Manifest, device: Mapping[str, Any]) -> Device:
    """Return a device of a slice (`manifest`).

    Attributes of an unknown type and taints of effect None are omitted.
    """
    attributes: dict[str, Attribute] = {}
    for name, value in get_mapping(device, "attributes").items():
        attribute = _parse_attribute(value)
        if attribute is not None:
            attributes[name] = attribute
    return Device(
        name=get_text(device, "name"),
        attributes=attributes,
        capacity={
            name: _parse_amount(amount) for name, amount in get_mapping(device, "capacity").items()
        },
        taints=tuple(taint for taint in parse_taints(device) if taint.effect != "None"),
        counters=_parse_counters(device, "consumesCounters", "counterSet"),
        terms=_parse_slice_nodes(manifest, device),
    )


def _parse_counters(
    fields: Mapping[str, Any], key: str, name_key: str
) -> dict[tuple[str, str], int]:
    """Return the amounts by counter set and counter.

    The sets are listed under `key`, their names under `name_key`.
    """
    return {
        (str(counter_set.get(name_key)), name): _parse_amount(counter)
        for counter_set in list_mappings(fields, key)
        for name, counter in get_mapping(counter_set, "counters").items()
    }


def _parse_attribute(value: Any) -> Attribute | None:
    """Return type and value of a device attribute, such as ("string", "a100").

    The result is None if its type is unknown.
    """
    fields = get_mapping(value)
    return next(
        (
            (kind, fields[kind])
            for kind in _ATTRIBUTE_KINDS
            if isinstance(fields.get(kind), (str, int))
        ),
        None,
    )


def _parse_amount(value: Any) -> int:
    """Return the amount of `{"value": "10Gi"}` in thousandths; 0 if it is absent or invalid."""
    try:
        return parse_device_quantity(str(get_value_at_path(value, "value")))
    except ValueError:
        return 0


def _parse_slice_nodes(
    manifest: Manifest, fields: Mapping[str, Any]
) -> tuple[NodeSelectorTerm, ...] | None:
    """Return the terms of the nodes with access to a slice or device.

    The result is None for all nodes, () for none.
    """
    if fields.get("nodeName"):
        return (
            NodeSelectorTerm(
                fields=(Requirement("metadata.name", IN, (str(fields["nodeName"]),)),)
            ),
        )
    if fields.get("allNodes") is True:
        return None
    terms = list_mappings(fields, "nodeSelector", "nodeSelectorTerms")
    return tuple(parse_node_term(Fields(manifest, [], dict(term))) for term in terms)


def parse_device_claims(
    namespace: str, spec: Fields, objects: DeviceObjects, *, is_complete: bool = True
) -> PodDeviceClaims:
    """Return the ResourceClaims of a pod.

    Warn about claims with an error: their pods get no node. Facts not evaluated by this program
    make all claims unknown (a warning). `is_complete` means that objects missing in `objects`
    do not exist.
    """
    references = tuple(spec.list_mappings("resourceClaims"))
    if not references:
        return PodDeviceClaims()
    # Without slices, claims and classes may be missing in the files as well.
    reader = _DeviceClaimReader(objects, is_complete=is_complete and objects.has_slices)
    claims = tuple(reader.parse_reference(namespace, reference) for reference in references)
    problems = list(objects.problems) if objects.has_slices else ["no ResourceSlice is known"]
    # Those about the claims.
    problems += reader.problems
    for claim in claims:
        if claim.error:
            spec.report(
                "resourceClaims",
                f"get no devices: {claim.error}.",
                Severity.WARNING,
                id=DEVICE_CLAIMS,
            )
    for text in dict.fromkeys(reader.invalid_selectors):
        spec.report("resourceClaims", f"get no devices: {text}.")
    problems += reader.invalid_selectors
    if problems and not reader.invalid_selectors:
        text = "; ".join(dict.fromkeys(problems))
        detail = (
            f"requests devices (DRA), which are not counted: {text}. The pods may stay Pending or "
            "run elsewhere."
        )
        spec.report("resourceClaims", detail, Severity.WARNING, id=DEVICE_CLAIMS)
    if problems:
        return PodDeviceClaims(is_unknown=True)
    return PodDeviceClaims(claims)


class _DeviceClaimReader:
    def __init__(self, objects: DeviceObjects, *, is_complete: bool) -> None:
        self._objects = objects
        # All objects of the cluster are known: a missing one does not exist.
        self._is_complete = is_complete
        self.problems: list[str] = []
        self.invalid_selectors: list[str] = []

    def parse_reference(self, namespace: str, reference: Fields) -> DeviceClaim:
        """Return the claim for an entry of a pod's resourceClaims.

        The entry names a claim, or the template of the pod's own claim.
        """
        name = reference.get_text("resourceClaimName")
        is_own = not name
        kind = "resourceclaim"
        objects = self._objects.claims
        spec_path = ["spec"]
        if is_own:
            name = reference.get_text("resourceClaimTemplateName")
            kind = "resourceclaimtemplate"
            objects = self._objects.templates
            spec_path = ["spec", "spec"]
        key = f"{namespace}/{name}"
        # An own claim has a name within the pod only.
        claim_name = reference.get_text("name") if is_own else key
        if key not in objects:
            error = f'{kind}.resource.k8s.io "{name}" not found'
            # The object may exist: the claim is not evaluated, and has no error.
            if not self._is_complete:
                self.problems.append(error)
                error = ""
            return DeviceClaim(claim_name, is_own, error=error)
        spec = get_mapping(objects[key].body, *spec_path)
        return self._parse_claim(claim_name, objects[key], spec, is_own=is_own)

    def _parse_claim(
        self, name: str, manifest: Manifest, spec: Mapping[str, Any], *, is_own: bool
    ) -> DeviceClaim:
        """Return the claim of an object or template (`manifest`) with its first error.

        With `is_own`, each pod gets its own claim. Facts that this program does not evaluate are
        added to `self.problems`.
        """
        if manifest.version != _VERSION:
            self.problems.append(f"{manifest.title} has version {manifest.version}, not {_VERSION}")
        # With complete objects, an empty spec is valid.
        if not spec and not self._is_complete:
            self.problems.append(f"{manifest.title} has no spec")
        errors: list[str] = []
        request_bodies = list_mappings(spec, "devices", "requests")
        requests = [self._parse_request(manifest.title, body, errors) for body in request_bodies]
        constraints: list[DeviceMatchConstraint] = []
        for item in list_mappings(spec, "devices", "constraints"):
            if item.get("matchAttribute"):
                requests_of_constraint = tuple(map(str, get_list(item, "requests")))
                constraints.append(
                    DeviceMatchConstraint(str(item["matchAttribute"]), requests_of_constraint)
                )
            else:
                self.problems.append(f"{manifest.title} has a constraint other than matchAttribute")
        first_error = next(iter(errors), "")
        return DeviceClaim(name, is_own, tuple(requests), tuple(constraints), error=first_error)

    def _parse_request(
        self, title: str, request: Mapping[str, Any], errors: list[str]
    ) -> DeviceRequest:
        """Return a request of a claim, and add its errors to `errors`.

        Its alternatives are those of firstAvailable, else the one of exactly.
        """
        name = get_text(request, "name")
        first_available = list_mappings(request, "firstAvailable")
        alternatives: list[DeviceSubRequest] = []
        for fields in first_available or [get_mapping(request, "exactly")]:
            full_name = f"{name}/{fields.get('name')}" if first_available else name
            alternatives.append(self._parse_alternative(title, full_name, fields, errors))
        if any(alternative.count == ALL_DEVICES for alternative in alternatives[1:]):
            self.problems.append(f"{title} has allocationMode All after the first alternative")
        return DeviceRequest(name, tuple(alternatives), is_prioritized=bool(first_available))

    def _parse_alternative(
        self, title: str, full_name: str, fields: Mapping[str, Any], errors: list[str]
    ) -> DeviceSubRequest:
        """Return an alternative of a device request from its `fields`.

        `title` names the claim in messages, `full_name` is `request` or `request/alternative`.
        `errors` collects the reasons for pods to stay Pending, `self.problems` the facts not
        evaluated by this program.
        """
        class_name = get_text(fields, "deviceClassName")
        device_class = self._objects.classes.get(class_name)
        class_selectors: Sequence[str] = ()
        if device_class is not None:
            class_selectors = self._list_selectors(
                device_class.title, device_class.body, "spec", "selectors"
            )
        else:
            # Without any class, they are not listed.
            is_missing = self._is_complete and self._objects.classes
            findings = errors if is_missing else self.problems
            findings.append(f"request {full_name}: device class {class_name} does not exist")
        self.problems += _list_used_features(title, fields, _REQUEST_FEATURES)
        selectors = (*class_selectors, *self._list_selectors(title, fields, "selectors"))
        mode = fields.get("allocationMode") or "ExactCount"
        if mode not in ("ExactCount", "All"):
            self.problems.append(f"{title} has allocationMode {mode}")
        return DeviceSubRequest(
            name=full_name.rpartition("/")[2],
            selectors=selectors,
            count=ALL_DEVICES if mode == "All" else get_integer(fields, "count", 1),
            has_admin_access=fields.get("adminAccess") is True,
            tolerations=tuple(
                Toleration(
                    get_text(item, "key"),
                    str(item.get("operator") or EQUAL),
                    get_text(item, "value"),
                    get_text(item, "effect"),
                )
                for item in list_mappings(fields, "tolerations")
            ),
        )

    def _list_selectors(self, title: str, fields: Mapping[str, Any], *path: str) -> Sequence[str]:
        """Return the CEL expressions of a list of selectors of an object.

        Record those not evaluated in `self.problems`, and others in `self.invalid_selectors`.
        """
        expressions: list[str] = []
        for selector in list_mappings(fields, *path):
            expression = get_text(selector, "cel", "expression")
            problem = find_selector_problem(expression)
            if problem is None:
                expressions.append(expression)
                continue
            text = f'selector "{shorten_expression(expression)}": {problem.text}'
            if problem.is_invalid:
                self.invalid_selectors.append(f"{title} has an invalid {text}")
            else:
                self.problems.append(text)
        return expressions


def find_claim_names(body: Mapping[str, Any]) -> list[str]:
    """Return the names of a live pod's ResourceClaims.

    They include those from templates and for extended resources.
    """
    # A reference to a template has no claim name.
    references = [*list_mappings(body, "spec", "resourceClaims")]
    references += list_mappings(body, "status", "resourceClaimStatuses")
    names = [reference.get("resourceClaimName") for reference in references]
    names.append(
        get_value_at_path(body, "status", "extendedResourceClaimStatus", "resourceClaimName")
    )
    return sorted({str(name) for name in names if name})
