"""Parsing of a VNFD in ETSI SOL006 (YANG as YAML), the form of OSM packages.

The parser reads VDUs, sizes, deployment flavours, levels, scaling, affinity and anti-affinity.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import ceil
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.diagnostic import suggest_name
from nexusform.documents.yaml_documents import DocumentFindings, Node
from nexusform.domains.vnf.importers.sol006_fields import add_unread_facts
from nexusform.domains.vnf.importers.tosca_topology import (
    parse_count_or_default,
    parse_instance_count,
    parse_rule_scope,
)
from nexusform.domains.vnf.importers.vnf_records import (
    IGNORED,
    INVALID_DOCUMENT,
    MACHINE,
    RACK,
    SITE,
    InstantiationLevel,
    Origin,
    PlacementRule,
    ScalingAspect,
    Vdu,
    VduScaleSteps,
    VduSize,
    Vnf,
    is_valid_vdu_name,
)
from nexusform.domains.vnf.importers.vnf_text import find_first_field, list_bodies
from nexusform.json_data.plain_data import list_mappings
from nexusform.scheduling.racks.vms import convert_to_gib

_DESCRIPTOR: Final = "vnfd"
_FLAVOUR: Final = "df"
_GROUP: Final = "affinity-or-anti-affinity-group"
# The fields with the groups of a VDU: since v2.8.1, and before.
_GROUPS_OF_VDU: Final = ("affinity-or-anti-affinity-group-id", _GROUP)
# The fields with type and scope of a group: since v3.5.1, and before.
_GROUP_FIELDS: Final = (("affinityorAntiaffinity", "type"), ("scope",))
# The fields with type and scope of a VDU's own rule: since v2.7.1, and before.
_LOCAL_RULE_FIELDS: Final = (("type", "affinity-type"), ("scope", "affinity-scope"))
# The YANG default of these numbers: virtual CPUs, GB of memory, minimum and maximum of instances.
_DEFAULT: Final = 1
# Types of storage that are no disk on the host of the VM.
_REMOTE_STORAGE: Final = ("object", "file")
_SCOPES: Final[Mapping[str, str]] = {
    "nfvi-node": MACHINE,
    "zone": RACK,
    "zone-group": SITE,
    "nfvi-pop": SITE,
}
_MAX_SIZE: Final = 10**6


class _DescriptorContext(Struct, frozen=True):
    """Names of the VDUs of a descriptor, and its notes."""

    vdus: Sequence[str]
    notes: DocumentFindings

    def find_vdu(self, node: Node, used_by: str) -> str:
        """Return the VDU named by a node.

        Return "" if it does not exist, with a warning about its user, `used_by`.
        """
        name = _get_name(node)
        if name in self.vdus:
            return name
        hint = suggest_name(name, self.vdus)
        self.notes.add_warning(
            node, IGNORED, f'{used_by} references the undefined VDU "{name}".{hint}'
        )
        return ""


def find_descriptor(document: Node) -> Node | None:
    """Return the descriptor in a document, None for a document of another kind.

    The document has it under the key "vnfd", or in a mapping "nfv"; both keys may have
    a YANG prefix.
    """
    wrappers = [document, *_list_fields_named(document, "nfv")]
    for part in chain.from_iterable(
        _list_fields_named(wrapper, _DESCRIPTOR) for wrapper in wrappers
    ):
        # The first of a list, or the only one.
        descriptor = next(part.list_items(), part)
        if not all(descriptor.get_node(name).is_absent for name in (_FLAVOUR, "vdu", "kdu")):
            return descriptor
    return None


def _list_fields_named(node: Node, name: str) -> list[Node]:
    """Return the fields of a mapping with this key, with or without a YANG prefix."""
    return [part for key, part in node.list_fields() if _strip_yang_prefix(key) == name]


def list_flavours(document: Mapping[str, Any]) -> list[str]:
    """Return the deployment flavours in a document (plain data); none for another kind."""
    ids: list[str] = []
    for key, descriptor in document.items():
        if _strip_yang_prefix(str(key)) == _DESCRIPTOR:
            ids += [
                str(body["id"])
                for body in list_mappings(descriptor, _FLAVOUR)
                if body.get("id") is not None
            ]
    return ids


def parse_sol006(descriptor: Node, flavour_id: str, notes: DocumentFindings) -> Vnf:
    """Parse the VNF of a descriptor in a flavour; a missing flavour gives an empty VNF.

    Add findings to `notes`.
    """
    bodies = _collect_by_id(descriptor.get_node("vdu"), "VDU", notes)
    flavour = _select_flavour(descriptor, flavour_id, notes)
    for unit in descriptor.get_node("kdu").list_items():
        name = _get_name(unit.get_node("name")) or _get_name(unit.get_node("id"))
        detail = (
            f'the KDU "{name}" is a chart or bundle for a cluster, not a VM; its pods are not '
            "placed here."
        )
        notes.add_warning(unit, IGNORED, detail)
    if flavour is None:
        return Vnf()
    add_unread_facts(descriptor, flavour, notes)
    context = _DescriptorContext(tuple(bodies), notes)
    profiles: dict[str, Node] = {}
    for profile in flavour.get_node("vdu-profile").list_items():
        name = context.find_vdu(profile.get_node("id"), "a vdu-profile")
        if name:
            # The first one counts.
            profiles.setdefault(name, profile)
    levels = tuple(_list_instantiation_levels(flavour, context))
    default_level = _select_default_level(flavour, levels, notes)
    vdus = tuple(
        _build_vdu(
            name,
            body,
            descriptor,
            profiles.get(name),
            # Numbers of VMs by level.
            {level.name: level.sizes[name] for level in levels if name in level.sizes},
            default_level,
            notes,
        )
        for name, body in bodies.items()
    )
    return Vnf(
        vdus=vdus,
        rules=tuple(_list_rules(flavour, profiles, context)),
        aspects=tuple(_list_scaling_aspects(flavour, context)),
        levels=levels,
        default_level=default_level,
    )


def _strip_yang_prefix(key: str) -> str:
    """Return a key without its YANG module prefix (`etsi-nfv-descriptors:vnfd`)."""
    return key.rpartition(":")[2]


def _list_values(node: Node) -> list[Node]:
    """Return the entries of a leaf-list: the items of a list, or a single value in its place."""
    if node.is_absent or isinstance(node.data, list):
        return list(node.list_items())
    return [node]


def _get_name(node: Node) -> str:
    """Return a name: a text, or a number in its place."""
    is_number = isinstance(node.data, int | float) and not isinstance(node.data, bool)
    return str(node.data) if is_number else node.text


def _collect_by_id(section: Node, noun: str, notes: DocumentFindings) -> dict[str, Node]:
    """Return the entries of a list by id; report invalid and repeated ids, and leave these out."""
    entries: dict[str, Node] = {}
    for body in list_bodies(section):
        name = _get_name(body.get_node("id"))
        if not is_valid_vdu_name(name):
            notes.add_error(body, INVALID_DOCUMENT, f'a {noun} needs an id without "|" and "/".')
        elif name in entries:
            notes.add_error(body, INVALID_DOCUMENT, f'the {noun} "{name}" is defined twice.')
        else:
            entries[name] = body
    return entries


def _select_flavour(descriptor: Node, flavour_id: str, notes: DocumentFindings) -> Node | None:
    """Return the requested deployment flavour, or without a request the only one.

    Otherwise return None, with an error.
    """
    flavours = _collect_by_id(descriptor.get_node(_FLAVOUR), "deployment flavour (df)", notes)
    if not flavours:
        detail = "the descriptor has no deployment flavour (df), so the number of VMs is unknown."
        notes.add_error(descriptor, INVALID_DOCUMENT, detail)
        return None
    selected_id = next(iter(flavours)) if len(flavours) == 1 and not flavour_id else flavour_id
    if selected_id not in flavours:
        names_text = ", ".join(f'"{name}"' for name in flavours)
        request_text = f'is "{flavour_id}"' if flavour_id else "selects none of them"
        hint = suggest_name(flavour_id, flavours)
        detail = (
            f"the descriptor has the deployment flavours {names_text}, but flavour_id "
            f"{request_text}.{hint}"
        )
        notes.add_error(descriptor.get_node(_FLAVOUR), INVALID_DOCUMENT, detail)
    return flavours.get(selected_id)


def _build_vdu(
    name: str,
    body: Node,
    descriptor: Node,
    profile: Node | None,
    level_counts: Mapping[str, int],
    default_level: str,
    notes: DocumentFindings,
) -> Vdu:
    """Return a VDU with its size and numbers of VMs.

    `level_counts` has its number at each instantiation level that contains the VDU.
    """
    default_count = level_counts.get(default_level)
    minimum = 0
    maximum = None  # no limits
    if profile is None:
        notes.add_error(
            body, INVALID_DOCUMENT, f'the VDU "{name}" has no vdu-profile in the flavour.'
        )
    else:
        minimum = parse_count_or_default(
            profile.get_node("min-number-of-instances"), notes, default=_DEFAULT
        )
        maximum_node = profile.get_node("max-number-of-instances")
        maximum = _DEFAULT if maximum_node.is_absent else parse_instance_count(maximum_node, notes)
        required = max(minimum, *level_counts.values(), 0)
        if maximum_node.is_absent and required > _DEFAULT:
            detail = (
                f'the VDU "{name}" has no max-number-of-instances, which is {_DEFAULT} by default, '
                f"but the flavour requires {required} instances. Set max-number-of-instances."
            )
            notes.add_error(profile, INVALID_DOCUMENT, detail)
        elif maximum is not None and maximum < minimum:
            detail = f'the VDU "{name}" has at most {maximum} instances, but at least {minimum}.'
            notes.add_error(profile, INVALID_DOCUMENT, detail)
    return Vdu(
        name=name,
        origin=Origin(notes.file, body.line),
        size=_parse_vdu_size(name, body, descriptor, notes),
        minimum=minimum,
        maximum=maximum,
        initial=max(minimum, 1 if default_count is None else default_count),
        has_count=default_count is not None,
        has_bounds=profile is not None,
    )


def _parse_vdu_size(name: str, body: Node, descriptor: Node, notes: DocumentFindings) -> VduSize:
    """Return the processors, memory and disk of a VDU, None for unknown ones.

    The VDU names its descriptions in the descriptor. Absent processors and memory are those of the
    YANG default. Only local disks count: persistent storage, objects and files are elsewhere.
    """
    computes = _collect_by_id(
        descriptor.get_node("virtual-compute-desc"), "virtual-compute-desc", notes
    )
    compute_reference = body.get_node("virtual-compute-desc")
    compute_name = _get_name(compute_reference)
    if compute_name not in computes:
        hint = suggest_name(compute_name, computes)
        detail = f'the VDU "{name}" has no defined virtual-compute-desc; its size is unknown.{hint}'
        notes.add_warning(compute_reference, IGNORED, detail)
    compute = computes.get(compute_name, Node(data=None, position=body.position))
    # 0: unknown.
    default = _DEFAULT if compute_name in computes else 0
    cpus = _parse_positive_number(
        compute.get_node("virtual-cpu", "num-virtual-cpu"), notes, default
    )
    memory_gib = _parse_positive_number(compute.get_node("virtual-memory", "size"), notes, default)
    disks = [
        disk.get_node("size-of-storage") for disk in list_bodies(compute.get_node("virtual-disk"))
    ]
    storage_bodies = descriptor.get_node("virtual-storage-desc").list_items()
    storages = {
        _get_name(storage_body.get_node("id")): storage_body for storage_body in storage_bodies
    }
    for node in _list_values(body.get_node("virtual-storage-desc")):
        storage_name = _get_name(node)
        if storage_name not in storages:
            hint = suggest_name(storage_name, storages)
            notes.add_warning(
                node, IGNORED, f'the virtual-storage-desc "{storage_name}" is not defined.{hint}'
            )
            continue
        storage = storages[storage_name]
        kind = _strip_yang_prefix(storage.get_node("type-of-storage").text)
        if "persistent" not in kind and kind not in _REMOTE_STORAGE:
            # The size is in block-storage-data since v2.8.1.
            size = storage.get_node("block-storage-data", "size-of-storage")
            disks.append(storage.get_node("size-of-storage") if size.is_absent else size)
    disk_gib = sum(ceil(_parse_positive_number(size, notes)) for size in disks)
    # Up to whole MiB.
    memory_mib = ceil(memory_gib * 1024)
    return VduSize(ceil(cpus) or None, convert_to_gib(memory_mib) or None, disk_gib or None)


def _parse_positive_number(node: Node, notes: DocumentFindings, default: float = 0.0) -> float:
    """Return a number above 0, also from a text.

    Return the default if it is absent, or 0 with a warning if it is unusable.
    """
    if node.is_absent:
        return default
    try:
        number = float(str(node.data))
    except ValueError:
        number = 0.0
    if 0 < number <= _MAX_SIZE:
        return number
    notes.add_warning(
        node, IGNORED, f'"{str(node.data)[:40]}" is not a number above 0; it is ignored.'
    )
    return 0.0


def _list_instantiation_levels(
    flavour: Node, context: _DescriptorContext
) -> Iterator[InstantiationLevel]:
    """Yield the instantiation levels of the flavour.

    A level has the numbers of VMs by VDU, and the scale levels by aspect.
    """
    bodies = _collect_by_id(
        flavour.get_node("instantiation-level"), "instantiation-level", context.notes
    )
    for name, body in bodies.items():
        numbers: dict[str, int] = {}
        for part in body.get_node("vdu-level").list_items():
            vdu = context.find_vdu(part.get_node("vdu-id"), f'the instantiation-level "{name}"')
            number = parse_count_or_default(
                part.get_node("number-of-instances"), context.notes, default=1
            )
            # An unknown VDU ("") is reported.
            if vdu:
                numbers[vdu] = number
        scale_levels: dict[str, int] = {}
        for part in body.get_node("scaling-info").list_items():
            level = parse_count_or_default(part.get_node("scale-level"), context.notes, default=0)
            scale_levels[_get_name(part.get_node("scaling-aspect-id"))] = level
        yield InstantiationLevel(name, scale_levels, numbers, Origin(context.notes.file, body.line))


def _select_default_level(
    flavour: Node, levels: Sequence[InstantiationLevel], notes: DocumentFindings
) -> str:
    """Return the default level, else the first or "".

    An unknown name, or none for several levels, is an error.
    """
    default_node = flavour.get_node("default-instantiation-level")
    names = [level.name for level in levels]
    default_name = _get_name(default_node)
    if default_name in names:
        return default_name
    if not default_node.is_absent:
        hint = suggest_name(default_name, names)
        detail = f'the instantiation-level "{default_name}" does not exist.{hint}'
        notes.add_error(default_node, INVALID_DOCUMENT, detail)
    elif len(names) > 1:
        detail = "no default-instantiation-level is set, and several instantiation-levels exist."
        notes.add_error(flavour.get_node("instantiation-level"), INVALID_DOCUMENT, detail)
    return next(iter(names), "")


def _list_scaling_aspects(flavour: Node, context: _DescriptorContext) -> Iterator[ScalingAspect]:
    """Yield the scaling aspects of the flavour, with the VMs added by each step.

    These are VMs of each VDU, for each of the steps of the aspect. `step-deltas` names the delta of
    each step; the last one repeats. Without it, every delta is a step, in their order.
    """
    for name, body in _collect_by_id(
        flavour.get_node("scaling-aspect"), "scaling-aspect", context.notes
    ).items():
        details = body.get_node("aspect-delta-details")
        deltas = {
            _get_name(delta.get_node("id")): delta
            for delta in details.get_node("deltas").list_items()
        }
        step_names = details.get_node("step-deltas")
        if step_names.is_absent:
            # The place in some descriptors; no published model has it.
            step_names = body.get_node("step-deltas")
        named_steps = [(_get_name(node), node) for node in _list_values(step_names)]
        for step, node in named_steps:
            if step not in deltas:
                detail = (
                    f'the scaling-aspect "{name}" names the delta "{step}", which does not exist.'
                )
                context.notes.add_error(
                    node, INVALID_DOCUMENT, f"{detail}{suggest_name(step, deltas)}"
                )
        order = [step for step, _ in named_steps] or list(deltas)
        # By VDU: the VMs added by each step.
        increments: dict[str, list[int]] = {}
        for position, step in enumerate(order):
            for part in (
                deltas.get(step, Node(data=None, position=body.position))
                .get_node("vdu-delta")
                .list_items()
            ):
                vdu = context.find_vdu(part.get_node("id"), f'the scaling-aspect "{name}"')
                number = parse_count_or_default(
                    part.get_node("number-of-instances"), context.notes, default=1
                )
                # An unknown one ("") is reported.
                if vdu:
                    numbers = increments.setdefault(vdu, [0] * len(order))
                    numbers[position] = number
        steps = tuple(VduScaleSteps(vdu, tuple(numbers)) for vdu, numbers in increments.items())
        maximum = parse_instance_count(body.get_node("max-scale-level"), context.notes)
        if maximum is None:
            context.notes.add_error(
                body, INVALID_DOCUMENT, f'the scaling-aspect "{name}" has no max-scale-level.'
            )
        yield ScalingAspect(name, maximum or 0, steps, Origin(context.notes.file, body.line))


def _list_rules(
    flavour: Node, profiles: Mapping[str, Node], context: _DescriptorContext
) -> Iterator[PlacementRule]:
    """Yield the rules of the flavour's groups, then those of its profiles (`profiles`, by VDU).

    A group has one rule for all its VDUs; the profile of a VDU names its groups. A rule in a
    profile is for the VMs of this VDU alone.
    """
    groups = _collect_by_id(flavour.get_node(_GROUP), _GROUP, context.notes)
    # VDUs by group, in order.
    members: dict[str, dict[str, None]] = {name: {} for name in groups}
    for vdu, profile in profiles.items():
        for entry in chain.from_iterable(
            _list_values(profile.get_node(field)) for field in _GROUPS_OF_VDU
        ):
            node = entry.get_node("id") if isinstance(entry.data, dict) else entry
            group = _get_name(node)
            if group in members:
                members[group][vdu] = None
            else:
                hint = suggest_name(group, groups)
                detail = (
                    f'the group "{group}" of the VDU "{vdu}" is not defined in the flavour.{hint}'
                )
                context.notes.add_warning(node, IGNORED, detail)
    for name, body in groups.items():
        if not members[name]:
            context.notes.add_warning(
                body, IGNORED, f'the group "{name}" has no VDU; it is ignored.'
            )
            continue
        yield from _build_placement_rule(
            name, body, _GROUP_FIELDS, tuple(members[name]), context.notes
        )
    for vdu, profile in profiles.items():
        for number, body in enumerate(
            profile.get_node("local-affinity-or-anti-affinity-rule").list_items(), 1
        ):
            name = f"{vdu}-{number}"
            yield from _build_placement_rule(name, body, _LOCAL_RULE_FIELDS, (vdu,), context.notes)


def _build_placement_rule(
    name: str,
    body: Node,
    keys: tuple[Sequence[str], Sequence[str]],
    vdus: tuple[str, ...],
    notes: DocumentFindings,
) -> Iterator[PlacementRule]:
    """Yield the rule, or report its type or scope as unsupported.

    `keys` are the fields with its type and scope, in each the newest first.
    """
    kind, scope_node = (find_first_field(body, *names) for names in keys)
    is_affinity = {"affinity": True, "anti-affinity": False}.get(
        _strip_yang_prefix(_get_name(kind))
    )
    if is_affinity is None:
        detail = (
            f'the rule "{name}" is neither affinity nor anti-affinity ({kind.name}); it is ignored.'
        )
        notes.add_warning(kind, IGNORED, detail)
        return
    label = _strip_yang_prefix(_get_name(scope_node)).replace("_", "-")
    scope = parse_rule_scope((name, body), (label, scope_node), _SCOPES, notes)
    if scope:
        # SOL006 has no soft rules.
        is_hard = True
        origin = Origin(notes.file, body.line)
        yield PlacementRule(name, is_affinity, is_hard, scope, vdus, origin, label=label)
