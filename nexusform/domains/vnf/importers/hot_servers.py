"""Servers of a HOT file: their number, their size, and the rules of their server groups."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import suggest_name
from nexusform.documents.field_validation import FieldKind
from nexusform.documents.yaml_documents import (
    DocumentFindings,
    Node,
    describe_kind,
    parse_whole_number,
)
from nexusform.domains.vnf.importers.hot_defaults import (
    FLAVOR,
    PORT,
    RESOURCE_GROUP,
    SERVER_GROUP,
    get_default,
)
from nexusform.domains.vnf.importers.hot_devices import read_block_devices
from nexusform.domains.vnf.importers.hot_fields import NETWORK, PROPERTIES, get_property_kind
from nexusform.domains.vnf.importers.hot_order import ResourceId
from nexusform.domains.vnf.importers.hot_values import (
    ResourceReference,
    Template,
    UnresolvedValue,
    get_declared_type,
)
from nexusform.domains.vnf.importers.vnf_records import (
    CORRECTED,
    IGNORED,
    INVALID_DOCUMENT,
    MACHINE,
    MAX_INSTANCES,
    WITHOUT_A_NUMBER,
    Origin,
    PlacementRule,
    ScalingAspect,
    Vdu,
    VduScaleSteps,
    VduSize,
    is_valid_vdu_name,
)
from nexusform.domains.vnf.importers.vnf_text import find_first_field
from nexusform.doubts.doubt import Doubt, Influence
from nexusform.json_data.plain_data import get_mapping, get_text
from nexusform.scheduling.racks.vms import MIB_PER_GIB, convert_to_gib

ANTI_AFFINITY: Final = "anti-affinity"
# Whether each policy is affinity, and whether it is hard.
_POLICIES: Final[Mapping[str, tuple[bool, bool]]] = {
    ANTI_AFFINITY: (False, True),
    "affinity": (True, True),
    "soft-anti-affinity": (False, False),
    "soft-affinity": (True, False),
}
_MAX_PER_HOST_RULE: Final = "max_server_per_host"


class ServerGroup(Struct, frozen=True):
    """Server group; `policy` is "" without a known one.

    `title` is its name in the cloud.
    """

    name: str
    title: str
    policy: str
    max_per_host: int
    node: Node
    notes: DocumentFindings
    is_repeated: bool


def parse_server_group(name: str, body: Node, template: Template) -> ServerGroup:
    """Return the group of an OS::Nova::ServerGroup."""
    properties = body.get_node("properties")
    notes = template.notes
    title = template.resolve_value(properties.get_node("name"))
    policy = _parse_server_group_policy(name, properties, template)
    max_per_host = _parse_max_per_host(name, policy, properties, template)
    return ServerGroup(
        name, get_text(title), policy, max_per_host, body, notes, template.is_repeated
    )


def parse_existing_group(name: str, body: Node, template: Template) -> ServerGroup:
    """Return the group of an OS::Nova::ServerGroup with an external_id.

    It exists in the cloud: its policy and its members are unread.
    """
    template.notes.add_unread_fact(
        body.get_node("external_id"),
        ("server group", name),
        "external_id",
        Influence.PLACEMENT,
        reason="the policy and the members of an existing server group are unknown",
    )
    return ServerGroup(name, "", "", 1, body, template.notes, template.is_repeated)


def _parse_server_group_policy(name: str, properties: Node, template: Template) -> str:
    """Return the policy of a server group.

    For several policies report an error, and return the first. Without a known policy add a
    warning, and return "".
    """
    notes = template.notes
    policy_node = find_first_field(properties, "policies", "policy")
    value = template.resolve_value(policy_node)
    if value is None:
        value = get_default(SERVER_GROUP, "policies")
    policies = value if isinstance(value, list) else [value]
    unresolved = next(
        (part for part in (value, *policies) if isinstance(part, UnresolvedValue)), None
    )
    if unresolved is not None:
        add_unresolved_fact(policy_node, ("server group", name), "policies", unresolved, notes)
        return ""
    if not policies:
        notes.add_warning(
            policy_node, IGNORED, f'the server group "{name}" has no policy; it is ignored.'
        )
        return ""
    if len(policies) > 1:
        detail = f'the server group "{name}" has {len(policies)} policies; Nova supports one.'
        notes.add_error(policy_node, INVALID_DOCUMENT, detail)
    policy = str(policies[0])
    if policy not in _POLICIES:
        notes.add_unread_fact(
            policy_node,
            ("server group", name),
            "policies",
            Influence.PLACEMENT,
            reason=f'"{policy[:40]}" is unknown.{suggest_name(policy, _POLICIES)}',
        )
        return ""
    return policy


def add_unresolved_fact(
    node: Node,
    subject: tuple[str, str],
    field_name: str,
    value: UnresolvedValue,
    notes: DocumentFindings,
    influence: Influence = Influence.PLACEMENT,
    pool: str = "",
) -> None:
    """Add the unread fact of a field whose value only the cloud or a missing parameter has."""
    reason = f"it needs a value for {value.description}; {value.advice}"
    notes.add_unread_fact(node, subject, field_name, influence, reason=reason, pool=pool)


def _parse_max_per_host(name: str, policy: str, properties: Node, template: Template) -> int:
    """Return the maximum servers of an anti-affinity group per host.

    It is max_server_per_host, else 1.
    """
    rule = properties.get_node("rules", _MAX_PER_HOST_RULE)
    if rule.is_absent:
        return 1
    value = template.resolve_value(rule)
    number = parse_whole_number(value)
    if isinstance(value, UnresolvedValue):
        add_unresolved_fact(rule, ("server group", name), "rules", value, template.notes)
    elif policy not in ("", ANTI_AFFINITY):
        detail = f"{_MAX_PER_HOST_RULE} is for the policy anti-affinity only; Nova refuses it."
        template.notes.add_error(rule, INVALID_DOCUMENT, detail)
    elif number is not None and 1 <= number <= MAX_INSTANCES:
        return number
    else:
        detail = f"{_MAX_PER_HOST_RULE} must be a whole number above 0; Nova refuses it."
        template.notes.add_error(rule, INVALID_DOCUMENT, detail)
    return 1


class SchedulerHints(Struct, frozen=True):
    """Resolved scheduler_hints of a server, or of a resource around it.

    The value is a mapping, or only the server group.
    """

    value: Any
    node: Node
    notes: DocumentFindings

    def add_warning(self, detail: str) -> None:
        """Add a warning at the hints."""
        self.notes.add_warning(self.node, IGNORED, detail)

    def add_unread_fact(self, field_name: str, vdu: str, reason: str = "") -> None:
        """Add a hint of the servers of a VDU that is not read."""
        hint = field_name.partition(".")[2]
        self.notes.add_unread_fact(
            self.node.get_node(hint),
            ("server", vdu),
            field_name,
            Influence.PLACEMENT,
            reason=reason,
            pool=vdu,
            reading_platform=NOVA if hint in _HINTS_OF_DISABLED_FILTERS else "",
        )


def build_placement_rules(
    groups: Mapping[ResourceReference, ServerGroup], hints_by_vdu: Mapping[str, SchedulerHints]
) -> tuple[PlacementRule, ...]:
    """Return one rule for each server group with VDUs.

    Warn about groups without VDUs, and hints at unknown groups.
    """
    # None: in no group.
    vdus_by_group: dict[ResourceReference | None, list[str]] = {}
    for vdu, hints in hints_by_vdu.items():
        vdus_by_group.setdefault(_find_group(vdu, hints, groups), []).append(vdu)
    rules = []
    for reference, group in groups.items():
        vdus = vdus_by_group.get(reference, [])
        if not vdus:
            group.notes.add_warning(
                group.node, IGNORED, f'the server group "{group.name}" has no member.'
            )
        elif group.is_repeated:
            detail = (
                f'the server group "{group.name}" is created for every member of its scaling '
                "group, so it "
                "has no effect across members."
            )
            group.notes.add_warning(group.node, IGNORED, detail)
        elif group.policy:
            # An invalid one ("") was reported.
            is_affinity, is_hard = _POLICIES[group.policy]
            rules.append(
                PlacementRule(
                    name=group.name,
                    is_affinity=is_affinity,
                    is_hard=is_hard,
                    scope=MACHINE,
                    vdus=tuple(vdus),
                    origin=Origin(group.notes.file, group.node.line),
                    max_per_location=group.max_per_host,
                    label=group.policy,
                )
            )
    return tuple(rules)


def _find_group(
    vdu: str, hints: SchedulerHints, groups: Mapping[ResourceReference, ServerGroup]
) -> ResourceReference | None:
    """Return the group requested by the scheduler hints of a VDU.

    Hints name a group by a reference to its resource, or by its name in the template or in the
    cloud. Return None without a request, or for an unknown group, with a warning.
    """
    requested = hints.value
    if isinstance(requested, dict):
        for hint in requested:
            if hint != "group":
                hints.add_unread_fact(f"{HINTS}.{hint}", vdu)
        requested = requested.get("group")
    if requested in (None, "", []):
        # No group is requested.
        return None
    if isinstance(requested, ResourceReference):
        if requested in groups:
            return requested
        suggestion = suggest_name(requested.name, [group.name for group in groups.values()])
        hints.add_warning(
            f'"{vdu}" references "{requested.name}", which is not a server group.{suggestion}'
        )
        return None
    if isinstance(requested, str):
        matches = [
            reference
            for reference, group in groups.items()
            if requested in {group.title, group.name}
        ]
        # An ambiguous name is reported below, as an unknown one.
        if len(matches) == 1:
            (group,) = matches
            reason = (
                "it is the name of a server group, and Nova accepts only the id; write "
                f"{{ get_resource: {group.name} }}"
            )
            hints.add_unread_fact(f"{HINTS}.group", vdu, reason)
            return group
    description = (
        requested.description
        if isinstance(requested, UnresolvedValue)
        else f'"{str(requested)[:40]}"'
    )
    reason = f"these documents do not define the server group {description}"
    hints.add_unread_fact(f"{HINTS}.group", vdu, reason)
    return None


HINTS: Final = "scheduler_hints"


class UnknownCount(Struct, frozen=True):
    """Number without a value: the missing value, how to make it known, and its location."""

    description: str
    advice: str
    node: Node
    notes: DocumentFindings


class ResourceRepetition(Struct, frozen=True):
    """Repetition of the resources being parsed.

    The repetition has the minimum, maximum and initial number, and their scaling group.
    `unknown_count` is a number left to a missing value.
    """

    minimum: int = 1
    maximum: int | None = 1
    members: int = 1
    group: str = ""
    is_explicit: bool = False
    unknown_count: UnknownCount | None = None


# Values of scheduler_hints of the resources around a server, the nearest last.
Hints: TypeAlias = tuple[SchedulerHints, ...]


class HotReading(Struct):
    """Results from all templates so far."""

    nested: Mapping[str, str]
    known_vdus: Mapping[str, bool] = field(default_factory=dict)
    notes: dict[str, DocumentFindings] = field(default_factory=dict)
    parsed_templates: dict[str, Node] = field(default_factory=dict)
    vdus: dict[str, Vdu] = field(default_factory=dict)
    scaling_groups: dict[str, str] = field(default_factory=dict)
    groups: dict[ResourceReference, ServerGroup] = field(default_factory=dict)
    hints_by_vdu: dict[str, SchedulerHints] = field(default_factory=dict)
    policies: dict[str, tuple[str, int]] = field(default_factory=dict)
    dependencies: dict[ResourceId, tuple[ResourceId, ...]] = field(default_factory=dict)
    # The resources around the servers of a VDU, the outermost first.
    paths: dict[str, tuple[ResourceId, ...]] = field(default_factory=dict)
    # Zones of host aggregates in the templates, "" for one without a known name.
    created_zones: set[str] = field(default_factory=set)
    resource_count: int = 0


def get_resource_properties(body: Node) -> Node:
    """Return the properties of a resource."""
    return find_first_field(body, "properties", "Properties")


class _ScalingGroupSizes(NamedTuple):
    """Minimum, maximum (None: no limit) and initial number of members.

    Whether the last is explicit, and its node.
    """

    minimum: int
    maximum: int | None
    members: int
    is_explicit: bool
    node: Node


def compute_group_repetition(
    template: Template, resource: tuple[str, Node], outer: ResourceRepetition
) -> ResourceRepetition:
    """Return how often the resource of a group is created.

    The number is the sizes of the group times those of the groups around it. With `is_explicit`,
    the template gives the number in all these groups.
    """
    name, body = resource
    if body.get_node("type").text == "OS::Heat::ResourceGroup":
        count_node = get_resource_properties(body).get_node("count")
        count = _parse_count(template, count_node)
        number = get_default(RESOURCE_GROUP, "count") if count is None else count
        # An absent count means 1.
        is_explicit = count is not None or count_node.is_absent
        sizes = _ScalingGroupSizes(
            number, number, members=number, is_explicit=is_explicit, node=count_node
        )
    else:
        sizes = _parse_scaled_sizes(template, resource)
    # None: no limit.
    limit = sizes.maximum
    outer_limit = outer.maximum
    unknown_count = outer.unknown_count
    value = template.resolve_value(sizes.node)
    if isinstance(value, UnresolvedValue):
        description = f'the number of servers of "{name}" needs a value for {value.description}'
        unknown_count = UnknownCount(description, value.advice, sizes.node, template.notes)
    elif not (sizes.is_explicit or sizes.node.is_absent):
        description = f'the number of servers of "{name}" is not a whole number'
        unknown_count = UnknownCount(description, "correct it", sizes.node, template.notes)
    return ResourceRepetition(
        minimum=min(sizes.minimum * outer.minimum, MAX_INSTANCES),
        maximum=None
        if limit is None or outer_limit is None
        else min(limit * outer_limit, MAX_INSTANCES),
        members=min(sizes.members * outer.members, MAX_INSTANCES),
        group=name,
        # "": no group around it.
        is_explicit=sizes.is_explicit and (outer.is_explicit or not outer.group),
        unknown_count=unknown_count,
    )


def _parse_scaled_sizes(template: Template, resource: tuple[str, Node]) -> _ScalingGroupSizes:
    """Return the sizes of a scaling group.

    The initial one is the desired capacity, else the minimum, else one.
    """
    name, body = resource
    properties = get_resource_properties(body)
    min_node = find_first_field(properties, "min_size", "MinSize")
    min_size = _parse_count(template, min_node)
    maximum = _parse_count(template, find_first_field(properties, "max_size", "MaxSize"))
    desired_node = find_first_field(properties, "desired_capacity", "DesiredCapacity", "size")
    desired = _parse_count(template, desired_node)
    minimum = min_size or 0
    initial = next(size for size in (desired, min_size, 1) if size is not None)
    for contradiction in _describe_contradictions(initial, minimum, maximum):
        template.notes.add_error(
            properties, INVALID_DOCUMENT, f'the group "{name}" {contradiction}.'
        )
    # An invalid desired capacity leaves the initial number unknown.
    is_explicit = desired is not None or (desired_node.is_absent and min_size is not None)
    # Node of the initial number.
    node = min_node if desired_node.is_absent else desired_node
    return _ScalingGroupSizes(minimum, maximum, initial, is_explicit, node)


def _describe_contradictions(members: int, minimum: int, maximum: int | None) -> Iterator[str]:
    """Yield the contradiction between the sizes of a group, if any."""
    # No size is above MAX_INSTANCES.
    upper_bound = MAX_INSTANCES if maximum is None else maximum
    if upper_bound < minimum:
        yield f"has a max_size of {maximum}, below its min_size of {minimum}"
    elif members > upper_bound:
        yield f"requests {members} members, more than its max_size of {maximum}"
    elif members < minimum:
        yield f"requests {members} members, less than its min_size of {minimum}"


def _parse_count(template: Template, node: Node, maximum: int = MAX_INSTANCES) -> int | None:
    """Return a number of servers, or a size.

    Return None if it is absent, not known yet, or invalid (a warning).
    """
    if node.is_absent:
        return None
    value = template.resolve_value(node)
    number = parse_whole_number(value)
    # `None in range(...)` compares every number of the range.
    if number is not None and 0 <= number <= maximum:
        return number
    if not isinstance(value, UnresolvedValue):
        detail = f"this must be a whole number from 0 to {maximum:,}; it is ignored."
        template.notes.add_warning(node, IGNORED, detail)
    return None


_CONTAINER_KINDS: Final = (FieldKind.LIST, FieldKind.OBJECT)
_VNIC_TYPE: Final = "binding:vnic_type"
_ZONE: Final = "availability_zone"
# The platform that reads zones and hints of servers.
NOVA: Final = "Nova"
# Hints for filters that Nova does not enable by default. They make the hosts of
# an openstack_site uncertain.
_HINTS_OF_DISABLED_FILTERS: Final = frozenset(
    {"different_host", "same_host", "build_near_host_ip", "cidr"}
)


def add_server_vdu(
    reading: HotReading,
    template: Template,
    name: str,
    body: Node,
    repeat: ResourceRepetition,
    hints: Hints,
    missing_template: str = "",
) -> None:
    """Add a server of a template as a VDU (kind of VM), with its scheduler hints.

    `missing_template` is the nested template for which it stands.

    It has the name of the server, or of a group around it if the VNFD has a VDU of this name
    only. A name in use is extended, with a warning. Report an invalid name, and a missing
    number of servers.
    """
    notes = template.notes
    kind = get_declared_type(body)
    properties = get_resource_properties(body)
    # The resource around it, "": none.
    outer_name = template.scope.rpartition("/")[2] or repeat.group
    vdu_name = name
    # The VNFD may have named the VDU after a group.
    if name not in reading.known_vdus:
        unused_vdus = reading.known_vdus.keys() - reading.vdus.keys()
        vdu_name = next(
            (group for group in (outer_name, repeat.group) if group in unused_vdus), name
        )
    # The resource around the server extends the name, else its line.
    if vdu_name in reading.vdus:
        vdu_name = (
            f"{name}-{properties.line}" if outer_name in {"", name} else f"{outer_name}-{name}"
        )
        if vdu_name in reading.vdus:
            notes.add_unread_fact(
                properties,
                ("server", vdu_name),
                "properties",
                Influence.EXISTENCE,
                reason="another server has this name",
            )
            return
        detail = f'a second server is called "{name}"; it is read as the VDU "{vdu_name}".'
        notes.add_warning(properties, CORRECTED, detail)
    if not is_valid_vdu_name(vdu_name):
        notes.add_error(
            properties,
            INVALID_DOCUMENT,
            f'the server "{vdu_name}" needs a name without "|" and "/".',
        )
        return
    zone, host = _parse_availability_zone(vdu_name, properties, template)
    flavor_node = properties.get_node("flavor")
    flavor = template.resolve_value(flavor_node)
    image_node = properties.get_node("image")
    image = template.resolve_value(image_node)
    # Heat reads null as an empty text, which counts as a second boot device. An `if` without a
    # second value leaves the property out.
    is_null = isinstance(properties.data, dict) and properties.data.get("image", "") is None
    has_image = image is not None or is_null
    devices = read_block_devices(vdu_name, properties, template, has_image=has_image)
    from_volume = devices.boot_node is not None
    if devices.boot_node is not None and image is None:
        # Nova reads the properties of the image from the volume.
        image_node, image = devices.boot_node, devices.boot_image
    own_hints = properties.get_node(HINTS)
    # Tacker's driver reads only the hints passed by the top template, never a nested one.
    has_hints = bool(hints) or (not own_hints.is_absent and not template.chain)
    reading.vdus[vdu_name] = Vdu(
        name=vdu_name,
        origin=Origin(notes.file, properties.line),
        size=_parse_flavor_size(vdu_name, template, flavor, boots_from_volume=from_volume),
        minimum=repeat.minimum,
        maximum=repeat.maximum,
        initial=repeat.members,
        has_count=repeat.is_explicit,
        has_bounds=repeat.is_explicit,
        has_scheduler_hints=has_hints,
        flavor=get_text(flavor),
        image=get_text(image),
        availability_zone=zone,
        host=host,
        boots_from_volume=from_volume,
        local_disks=(devices.ephemeral_gib, devices.swap_mib),
        missing_template=missing_template,
        is_count_fixed=repeat.unknown_count is None and not missing_template,
        # The size and the requests of a flavor in the template are read, or unread there.
        unknown_flavor=None
        if isinstance(flavor, ResourceReference)
        else _build_unknown_request(flavor_node, vdu_name, flavor, notes),
        unknown_image=_build_unknown_request(image_node, vdu_name, image, notes),
    )
    reading.scaling_groups[vdu_name] = repeat.group
    _add_unread_properties(vdu_name, kind, properties, template)
    # Without a number in the VNFD.
    if repeat.unknown_count is not None and not reading.known_vdus.get(vdu_name):
        text = (
            f"{repeat.unknown_count.description}; {repeat.unknown_count.advice}. Until then, the "
            "minimum (or 1) is used."
        )
        repeat.unknown_count.notes.add_warning(repeat.unknown_count.node, WITHOUT_A_NUMBER, text)
        repeat.unknown_count.notes.add_unread_fact(
            repeat.unknown_count.node,
            ("server", vdu_name),
            "count",
            Influence.EXISTENCE,
            reason=repeat.unknown_count.description,
            pool=vdu_name,
        )
    _record_scheduler_hints(reading, template, vdu_name, properties, hints)


def _build_unknown_request(
    node: Node, vdu_name: str, value: Any, notes: DocumentFindings
) -> Doubt | None:
    """Return the fact of a requested flavor or image without a known name, or None."""
    match value:
        case None | str():
            return None
        case UnresolvedValue():
            reason = _explain_unresolved(value)
        case ResourceReference():
            reason = f"the stack creates it as the resource {value.name}"
        case _:
            reason = f"it is {describe_kind(value)}, not a text"
    return Doubt("server", vdu_name, node.name, notes.file, node.line, reason=reason, pool=vdu_name)


def _explain_unresolved(value: UnresolvedValue) -> str:
    return f"it needs a value for {value.description}; {value.advice}"


def _add_unread_properties(vdu_name: str, kind: str, properties: Node, template: Template) -> None:
    """Add the unread properties of a server to the notes, and those of its networks."""
    subject = ("server", vdu_name)
    if kind in PROPERTIES:
        template.notes.add_unread_fields(properties, PROPERTIES[kind], subject, pool=vdu_name)
        add_rejected_properties(kind, properties, template)
    for item in properties.get_node("networks").list_items():
        template.notes.add_unread_fields(item, NETWORK, ("server network", vdu_name), pool=vdu_name)
        _check_existing_port(vdu_name, item.get_node("port"), template)


def add_rejected_properties(kind: str, properties: Node, template: Template) -> None:
    """Add the read properties of a resource with a value that Heat's schema does not allow."""
    for name, node in properties.list_fields():
        value = template.resolve_value(node)
        expected = FieldKind(get_property_kind(kind, name))
        # Heat reads numbers and booleans in texts; other values are known only in the cloud.
        is_scalar_text = isinstance(value, str) and expected not in _CONTAINER_KINDS
        is_plain = isinstance(value, str | int | float | list | dict)
        is_checked = name in PROPERTIES[kind].read and is_plain and not is_scalar_text
        if is_checked and not expected.is_valid(value):
            template.notes.reads.add_read(node, expected.value, is_kind=False)


def _check_existing_port(vdu_name: str, node: Node, template: Template) -> None:
    """Report a port that no template creates: it may need a PCI device or a bandwidth."""
    port = template.resolve_value(node)
    # An attribute is one of a resource in the template, such as a trunk of its ports.
    is_created = isinstance(port, ResourceReference) or "get_attr" in get_mapping(node.data)
    if node.is_absent or port is None or is_created:
        return
    reason = "no template creates it, and its vnic_type and its QoS policy are unknown"
    template.notes.add_unread_fact(
        node, ("server", vdu_name), "port", Influence.PLACEMENT, reason=reason, pool=vdu_name
    )


def check_sriov_port(name: str, properties: Node, template: Template) -> None:
    """Report a port of a vnic_type that may need a PCI device, such as "direct"."""
    node = properties.get_node(_VNIC_TYPE)
    vnic_type = template.resolve_value(node)
    if node.is_absent or vnic_type == get_default(PORT, _VNIC_TYPE):
        return
    reason = (
        f"it needs a value for {vnic_type.description}"
        if isinstance(vnic_type, UnresolvedValue)
        else f"{vnic_type} may need a PCI device; on Nexus, set sriov_vfs"
    )
    template.notes.add_unread_fact(
        node, ("port", name), _VNIC_TYPE, Influence.PLACEMENT, reason=reason
    )


def _record_scheduler_hints(
    reading: HotReading, template: Template, vdu_name: str, properties: Node, hints: Hints
) -> None:
    """Record the scheduler hints of a server.

    Its own, else the nearest around it (the last of `hints`).
    """
    notes = template.notes
    own_hints = properties.get_node(HINTS)
    if not own_hints.is_absent:
        reading.hints_by_vdu[vdu_name] = SchedulerHints(
            template.resolve_value(own_hints), own_hints, notes
        )
    elif hints:
        nearest_hints = reading.hints_by_vdu[vdu_name] = hints[-1]
        # A nested template must use its parameter.
        if nearest_hints.notes is not notes:
            detail = (
                f'scheduler_hints is passed on, but the server "{vdu_name}" does not use it '
                f"({notes.file})."
            )
            nearest_hints.notes.add_error(nearest_hints.node, INVALID_DOCUMENT, detail)


def _parse_availability_zone(
    vdu_name: str, properties: Node, template: Template
) -> tuple[str, str]:
    """Return the requested zone and host of a server: `zone`, `zone:host` or `zone:host:node`.

    Both are "" without a request. Only Nova knows them, so they are unread on other sites.
    """
    node = properties.get_node(_ZONE)
    value = template.resolve_value(node)
    if node.is_absent or value is None:
        return "", ""
    subject = ("server", vdu_name)
    notes = template.notes
    if isinstance(value, UnresolvedValue):
        add_unresolved_fact(node, subject, _ZONE, value, notes, pool=vdu_name)
        return "", ""
    if not isinstance(value, str):
        reason = "it must be a text"
        notes.add_unread_fact(
            node, subject, _ZONE, Influence.PLACEMENT, reason=reason, pool=vdu_name
        )
        return "", ""
    notes.add_unread_fact(
        node, subject, _ZONE, Influence.PLACEMENT, pool=vdu_name, reading_platform=NOVA
    )
    zone, _, host = value.partition(":")
    return zone, host.partition(":")[0]


def _parse_flavor_size(
    vdu_name: str, template: Template, flavor: object, *, boots_from_volume: bool = False
) -> VduSize:
    """Return the size of a flavor defined in the template; a flavor name alone has no size.

    A disk without a known value is an unread fact. Missing processors or memory are an error
    of the VDU.
    """
    if not isinstance(flavor, ResourceReference) or flavor.scope != template.scope:
        return VduSize()
    flavor_properties = get_resource_properties(template.root.get_node("resources", flavor.name))
    for name in ("ephemeral", "swap") if boots_from_volume else ("disk", "ephemeral", "swap"):
        node = flavor_properties.get_node(name)
        value = template.resolve_value(node)
        if isinstance(value, UnresolvedValue):
            subject = ("flavor", flavor.name)
            reason = _explain_unresolved(value)
            template.notes.add_unread_fact(
                node, subject, name, Influence.PLACEMENT, reason=reason, pool=vdu_name
            )
    vcpus, ram, disk, ephemeral, swap = (
        get_default(FLAVOR, name)
        if name in ("disk", "ephemeral", "swap") and flavor_properties.get_node(name).is_absent
        else _parse_count(template, flavor_properties.get_node(name), maximum=10**9)
        for name in ("vcpus", "ram", "disk", "ephemeral", "swap")
    )
    if swap:
        reason = "Placement allocates it, and the weighers of Nova do not count it"
        template.notes.add_unread_fact(
            flavor_properties.get_node("swap"),
            ("flavor", flavor.name),
            "swap",
            Influence.PLACEMENT,
            reason=reason,
            pool=vdu_name,
        )
    # A volume replaces the root disk only. Swap is in MiB.
    root = 0 if boots_from_volume else disk
    local_disks = (ephemeral or 0) + -(-(swap or 0) // MIB_PER_GIB)
    total_disk = None if root is None and not local_disks else (root or 0) + local_disks
    # 0 is no size.
    return VduSize(vcpus or None, convert_to_gib(ram) if ram else None, total_disk)


def build_scaling_aspects(reading: HotReading) -> tuple[ScalingAspect, ...]:
    """Return the scaling aspects of the scaling groups with a maximum size above their initial one.

    A scaling policy names the aspect of its group, and the VMs added by a step. Without a
    policy the aspect has the name of the group, and a step adds one VM. All VDUs of an aspect
    can reach its levels.
    """
    aspects: dict[str, ScalingAspect] = {}
    for vdu_name, group in reading.scaling_groups.items():
        vdu = reading.vdus[vdu_name]
        if not group or vdu.maximum is None or vdu.maximum <= vdu.initial:
            # In no group, without a limit, or without room to grow.
            continue
        name, step = reading.policies.get(group, (group, 1))
        levels = (vdu.maximum - vdu.initial) // step
        aspect = aspects.get(name, ScalingAspect(name, levels, steps=(), origin=vdu.origin))
        steps = (*aspect.steps, VduScaleSteps(vdu_name, (step,)))
        aspects[name] = ScalingAspect(name, min(levels, aspect.max_level), steps, vdu.origin)
    return tuple(aspects.values())
