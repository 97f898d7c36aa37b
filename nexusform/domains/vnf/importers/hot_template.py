"""Parsing of a HOT file with its nested templates: servers, their number, and server groups.

Tolerant, like tosca_vnfd.py: misplaced parts are read as intended, with a warning.
"""

import posixpath
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import has_errors, suggest_name
from nexusform.documents.yaml_documents import (
    DocumentFindings,
    Node,
    TextPosition,
    parse_whole_number,
)
from nexusform.domains.vnf.importers.hot_defaults import (
    PORT,
    QOS_POLICY,
    RESOURCE_GROUP,
    ZONE_OF_AGGREGATE,
    get_default,
)
from nexusform.domains.vnf.importers.hot_fields import (
    PROPERTIES,
    RESOURCE,
    TEMPLATE,
    TYPE_INFLUENCES,
    TYPES_WITHOUT_INFLUENCE,
    read_heat_schema,
)
from nexusform.domains.vnf.importers.hot_order import (
    find_awaited_vdus,
    find_missing_references,
    list_dependencies,
)
from nexusform.domains.vnf.importers.hot_servers import (
    ANTI_AFFINITY,
    HINTS,
    Hints,
    HotReading,
    ResourceRepetition,
    SchedulerHints,
    add_rejected_properties,
    add_server_vdu,
    add_unresolved_fact,
    build_placement_rules,
    build_scaling_aspects,
    check_sriov_port,
    compute_group_repetition,
    get_resource_properties,
    parse_existing_group,
    parse_server_group,
)
from nexusform.domains.vnf.importers.hot_values import (
    ResourceReference,
    Template,
    UnresolvedValue,
    find_vdu_name,
    get_declared_type,
    resolve_condition,
)
from nexusform.domains.vnf.importers.vnf_records import (
    CORRECTED,
    IGNORED,
    INVALID_DOCUMENT,
    NOT_GIVEN,
    Vdu,
    Vnf,
)
from nexusform.domains.vnf.importers.vnf_text import (
    describe_foreign_kind,
    find_first_field,
    parse_documents,
)
from nexusform.doubts.doubt import Influence

# Read by nexusform alone.
_REJECTED: Final = "rejected-by-heat"
BASE_HOT: Final = "base_hot"
# Groups that repeat a resource.
_REPEATED_TYPES: Final = (
    "OS::Heat::AutoScalingGroup",
    "OS::Heat::InstanceGroup",
    "AWS::AutoScaling::AutoScalingGroup",
    "OS::Heat::ResourceGroup",
)
_SERVER_GROUP: Final = "OS::Nova::ServerGroup"
_SERVERS: Final = ("OS::Nova::Server", "AWS::EC2::Instance")
_NETWORKS: Final = ("OS::Neutron::Net", "OS::Neutron::ProviderNet")
_MAX_DEPTH: Final = 8
# Maximum number of resources; nested templates count on each use.
_MAX_RESOURCES: Final = 20_000


class HotVnf(Struct, frozen=True):
    """VNF of a HOT file, with the notes about each document."""

    vnf: Vnf
    notes: tuple[DocumentFindings, ...]


def parse_hot(
    text: str,
    nested: Mapping[str, str],
    parameters: Mapping[str, Any],
    known_vdus: Mapping[str, bool],
) -> HotVnf:
    """Parse the VNF of a HOT file and its nested templates.

    `known_vdus` are the VDUs of the VNFD (True: with a number).
    """
    reading = HotReading(nested, known_vdus)
    notes = reading.notes[BASE_HOT] = DocumentFindings(BASE_HOT)
    documents = parse_documents(text, notes)
    if documents:
        document = documents[0]
        is_vnfd = not document.get_node("tosca_definitions_version").is_absent
        foreign_kind = (
            "a VNFD: set it as vnfd" if is_vnfd else describe_foreign_kind([document.data])
        )
        if foreign_kind:
            notes.add_error(document, INVALID_DOCUMENT, f"this is {foreign_kind}.")
        else:
            if find_first_field(
                document, "heat_template_version", "HeatTemplateFormatVersion"
            ).is_absent:
                notes.add_warning(
                    document,
                    _REJECTED,
                    "heat_template_version is missing; Heat rejects the template.",
                )
            _add_unread_version(document, notes)
            _add_template(
                reading,
                _ResourceContext(Template(notes, document, parameters), ResourceRepetition()),
            )
    rules = build_placement_rules(reading.groups, reading.hints_by_vdu)
    separated_vdus = {name for rule in rules if rule.label == ANTI_AFFINITY for name in rule.vdus}
    awaited = find_awaited_vdus(reading.paths, reading.dependencies)
    parsed_vdus = [_forget_created_zone(vdu, reading) for vdu in reading.vdus.values()]
    vdus = tuple(
        replace(
            vdu, has_anti_affinity=vdu.name in separated_vdus, awaited=awaited.get(vdu.name, ())
        )
        for vdu in parsed_vdus
    )
    return HotVnf(Vnf(vdus, rules, build_scaling_aspects(reading)), tuple(reading.notes.values()))


def _add_unread_version(document: Node, notes: DocumentFindings) -> None:
    """Add a template version unknown to the Heat that nexusform follows to the notes."""
    version = document.get_node("heat_template_version")
    schema = read_heat_schema()
    if not version.is_absent and str(version.data) not in schema["versions"]:
        notes.add_unread_fact(
            version,
            ("template", ""),
            "heat_template_version",
            Influence.EXISTENCE,
            reason=f'"{str(version.data)[:40]}" is unknown to Heat {schema["heat"]}',
        )


class _ResourceContext(Struct, frozen=True):
    """Context of a resource.

    It has its template, the repetition and scheduler hints around it, and the nesting depth.
    """

    template: Template
    repetition: ResourceRepetition
    hints: Hints = ()
    depth: int = 0


def _add_template(reading: HotReading, context: _ResourceContext) -> None:
    """Parse the resources of a template, up to a maximum over all templates."""
    template = context.template
    template.notes.add_unread_fields(template.root, TEMPLATE, ("template", ""))
    resources = find_first_field(template.root, "resources", "Resources")
    # An error says more.
    if not isinstance(resources.data, dict) and not has_errors(template.notes.findings):
        template.notes.add_warning(template.root, IGNORED, "the template has no resources.")
    reading.dependencies.update(list_dependencies(template))
    for body, name, missing in find_missing_references(template):
        suggestion = suggest_name(missing, resources.data)
        template.notes.add_unread_fact(
            body,
            ("resource", name),
            "reference",
            Influence.EXISTENCE,
            reason=f'no resource is called "{missing}", so Heat refuses the template.{suggestion}',
        )
    for name, body in resources.list_fields():
        reading.resource_count += 1
        if reading.resource_count > _MAX_RESOURCES:
            detail = f"the nested templates expand to more than {_MAX_RESOURCES:,} resources."
            template.notes.add_error(body, INVALID_DOCUMENT, detail)
            return
        vdu_count = len(reading.vdus)
        _add_resource(reading, context, name, body)
        for vdu in islice(reversed(reading.vdus), len(reading.vdus) - vdu_count):
            reading.paths[vdu] = ((template.scope, name), *reading.paths.get(vdu, ()))


def _add_resource(reading: HotReading, context: _ResourceContext, name: str, body: Node) -> None:
    """Add a resource of a template to the reading.

    Types with an effect on placement are servers, resource groups, ports (only checked), server
    groups, scaling policies and nested templates. Others have no influence, or are unread.
    """
    template = context.template
    kind = get_declared_type(body)
    reference = ResourceReference(template.scope, name)
    if not _is_created(template, name, body):
        if kind == _SERVER_GROUP and not body.get_node("external_id").is_absent:
            reading.groups[reference] = parse_existing_group(name, body, template)
        return
    properties = get_resource_properties(body)
    _add_unread_facts(reading, template, name, body)
    if kind in _SERVERS:
        add_server_vdu(reading, template, name, body, context.repetition, context.hints)
    elif kind in _REPEATED_TYPES:
        _add_scaling_group(reading, context, name, body)
    elif kind in (PORT, *_NETWORKS):
        _check_network_resource(name, kind, properties, template)
    elif kind == ZONE_OF_AGGREGATE.resource_type:
        zone = template.resolve_value(properties.get_node(ZONE_OF_AGGREGATE.property))
        reading.created_zones.add(zone if isinstance(zone, str) else "")
    elif kind == _SERVER_GROUP:
        reading.groups[reference] = parse_server_group(name, body, template)
    elif kind in {"OS::Heat::ScalingPolicy", "AWS::AutoScaling::ScalingPolicy"}:
        _add_scaling_policy(reading, template, name, properties)
    elif _is_template_type(kind, reading.nested):
        _add_nested_template(reading, context, name, body, kind)


def _check_network_resource(name: str, kind: str, properties: Node, template: Template) -> None:
    """Report a port that may need a PCI device, or the QoS policy of a network.

    Ports without a policy inherit that of their network, which may request bandwidth of a host.
    """
    if kind == PORT:
        check_sriov_port(name, properties, template)
        return
    node = properties.get_node(QOS_POLICY.property)
    if node.is_absent or template.resolve_value(node) is None:
        return
    reason = "ports of the network inherit it, and it may request bandwidth of a host"
    template.notes.add_unread_fact(
        node, ("network", name), QOS_POLICY.property, Influence.PLACEMENT, reason=reason
    )


def _forget_created_zone(vdu: Vdu, reading: HotReading) -> Vdu:
    """Return a VDU without a requested zone that the stack creates itself, and report it."""
    zone = vdu.availability_zone
    # "": a zone of the stack has an unknown name.
    if not zone or reading.created_zones.isdisjoint((zone, "")):
        return vdu
    reason = f'the stack creates the zone "{zone}", or may create it, and the hosts of it change'
    notes = next(item for item in reading.notes.values() if item.file == vdu.origin.file)
    notes.add_unread_fact(
        Node(data=None, position=TextPosition(vdu.origin.line, 1)),
        ("server", vdu.name),
        "availability_zone",
        Influence.PLACEMENT,
        reason=reason,
        pool=vdu.name,
    )
    return replace(vdu, availability_zone="")


def _is_created(template: Template, name: str, body: Node) -> bool:
    """Return whether Heat creates a resource.

    It does not if its condition is false, or if it has the id of an existing object. With an
    unknown condition it is read as created, and its existence is an unread fact.
    """
    if not body.get_node("external_id").is_absent:
        return False
    condition = resolve_condition(name, template)
    if not isinstance(condition, UnresolvedValue):
        return condition
    add_unresolved_fact(
        find_first_field(body, "condition", "Condition"),
        ("resource", name),
        "condition",
        condition,
        template.notes,
        Influence.EXISTENCE,
    )
    return True


def _add_unread_facts(reading: HotReading, template: Template, name: str, body: Node) -> None:
    """Add to the notes the unread fields of a resource, or its unread type.

    The properties of a server are added with its VDU, those of a nested template are parameters.
    """
    kind = get_declared_type(body)
    subject = ("resource", name)
    notes = template.notes
    is_placed = kind in (*_SERVERS, *_REPEATED_TYPES) or _is_template_type(kind, reading.nested)
    if is_placed:
        notes.add_unread_fields(body, RESOURCE, subject)
    if kind in PROPERTIES:
        if kind not in _SERVERS:
            properties = get_resource_properties(body)
            notes.add_unread_fields(properties, PROPERTIES[kind], subject)
            add_rejected_properties(kind, properties, template)
    elif not is_placed and kind not in TYPES_WITHOUT_INFLUENCE:
        influence = TYPE_INFLUENCES.get(kind, Influence.EXISTENCE)
        reason = f'"{kind}"' if kind else "it is missing"
        notes.add_unread_fact(body.get_node("type"), subject, "type", influence, reason=reason)


def _add_scaling_policy(
    reading: HotReading, template: Template, name: str, properties: Node
) -> None:
    """Add a scaling policy: the aspect of its group, and its step."""
    group = template.resolve_value(
        find_first_field(properties, "auto_scaling_group_id", "AutoScalingGroupName")
    )
    step_node = find_first_field(properties, "scaling_adjustment", "ScalingAdjustment")
    step = parse_whole_number(template.resolve_value(step_node))
    kind_node = find_first_field(properties, "adjustment_type", "AdjustmentType")
    adjustment = template.resolve_value(kind_node)
    if adjustment not in (None, "change_in_capacity", "ChangeInCapacity"):
        template.notes.add_unread_fact(
            kind_node,
            ("scaling policy", name),
            "adjustment_type",
            Influence.EXISTENCE,
            reason="a step is read as a number of VMs",
        )
    elif isinstance(group, ResourceReference) and step is not None and step > 0:
        # The aspect and its step.
        reading.policies[group.name] = (name.removesuffix("_scale_out"), step)


def _add_scaling_group(
    reading: HotReading, context: _ResourceContext, name: str, body: Node
) -> None:
    """Add the repeated resource of a group: a server, a nested template or another group.

    Other resources are reported.
    """
    template = context.template
    hints = context.hints
    notes = template.notes
    properties = get_resource_properties(body)
    repetition = compute_group_repetition(template, (name, body), context.repetition)
    misplaced_hints = properties.get_node(HINTS)
    if not misplaced_hints.is_absent:
        detail = (
            f'scheduler_hints is set on the group "{name}", where Heat does not support it. Set it '
            "on the OS::Nova::Server of the group. It is read as if set there."
        )
        notes.add_warning(misplaced_hints, _REJECTED, detail)
        hints = (
            *hints,
            SchedulerHints(template.resolve_value(misplaced_hints), misplaced_hints, notes),
        )
    inner = find_first_field(properties, "resource", "resource_def")
    kind = get_declared_type(inner)
    inner_template = replace(
        template,
        is_repeated=True,
        index_variables=(*template.index_variables, *_list_index_variables(template, body)),
    )
    inner_context = _ResourceContext(inner_template, repetition, hints, context.depth)
    if kind in _SERVERS:
        vdu_name = find_vdu_name(inner.data) or name
        add_server_vdu(reading, inner_template, vdu_name, inner, repetition, hints)
    elif kind and _is_template_type(kind, reading.nested):
        _add_nested_template(reading, inner_context, name, inner, kind)
    elif kind in _REPEATED_TYPES and context.depth < _MAX_DEPTH:
        _add_scaling_group(reading, replace(inner_context, depth=context.depth + 1), name, inner)
    elif not kind:
        detail = f'the group "{name}" has no resource to repeat; each member counts as one server.'
        notes.add_warning(body, CORRECTED, detail)
        no_body = Node(data=None, position=body.position)
        add_server_vdu(reading, inner_template, name, no_body, repetition, hints)
    else:
        reason = "is in too many groups" if kind in _REPEATED_TYPES else "is not a server"
        notes.add_warning(
            inner, IGNORED, f'the group "{name}" repeats "{kind}", which {reason}; it is ignored.'
        )
        if kind not in TYPES_WITHOUT_INFLUENCE:
            notes.add_unread_fact(
                inner, ("resource", name), "type", Influence.EXISTENCE, reason=f'"{kind}"'
            )


def _list_index_variables(template: Template, body: Node) -> list[str]:
    """Return the text that a resource group replaces by the number of a member: `%index%`."""
    if get_declared_type(body) != RESOURCE_GROUP:
        return []
    value = template.resolve_value(get_resource_properties(body).get_node("index_var"))
    return [value if isinstance(value, str) else get_default(RESOURCE_GROUP, "index_var")]


def _is_template_type(kind: str, nested: Mapping[str, str]) -> bool:
    """Return whether a resource type is the file of a nested template, read or missing.

    A read template is a key of `nested`.
    """
    return kind in nested or kind.lower().endswith((".yaml", ".yml", ".template", ".hot"))


def _add_nested_template(
    reading: HotReading, context: _ResourceContext, name: str, body: Node, kind: str
) -> None:
    """Add the resources of a nested template for one resource.

    An unknown template counts as one server.
    """
    template = context.template
    repetition = context.repetition
    hints = context.hints
    notes = template.notes
    properties = get_resource_properties(body)
    passed_hints = properties.get_node(HINTS)
    if not passed_hints.is_absent:
        hints = (*hints, SchedulerHints(template.resolve_value(passed_hints), passed_hints, notes))
    base_name = posixpath.basename(kind)
    same_base_names = (path for path in reading.nested if posixpath.basename(path) == base_name)
    # The best match first.
    candidates = (kind, base_name, *same_base_names)
    file = next((path for path in candidates if path in reading.nested), "")
    if not file:
        detail = (
            f'the nested template "{kind}" is neither in "nested" nor in the package. "{name}" '
            "counts as one server each; its server groups, sizes and scaling are ignored."
        )
        notes.add_warning(body, NOT_GIVEN, detail)
        notes.add_unread_fact(
            body, ("resource", name), "type", Influence.EXISTENCE, reason=f'"{kind}" is not given'
        )
        server_name = find_vdu_name(body.data) or name
        add_server_vdu(
            reading,
            template,
            server_name,
            Node(data=None, position=body.position),
            repetition,
            hints,
            missing_template=kind,
        )
        return
    if file in template.chain or context.depth >= _MAX_DEPTH:
        detail = f'the nested template "{file}" includes itself, or is nested too deeply.'
        notes.add_error(body, INVALID_DOCUMENT, detail)
        return
    # Each file is parsed once.
    if file not in reading.parsed_templates:
        file_notes = reading.notes[file] = DocumentFindings(f'nested["{file}"]')
        documents = parse_documents(reading.nested[file], file_notes)
        reading.parsed_templates[file] = next(
            iter(documents), Node(data=None, position=TextPosition(1, 1))
        )
    values = {
        key: template.resolve_value(part) for key, part in properties.list_fields()
    }  # its parameters
    inner = Template(
        notes=reading.notes[file],
        root=reading.parsed_templates[file],
        values=values,
        scope=f"{template.scope}/{name}",
        is_repeated=template.is_repeated,
        chain=(*template.chain, file),
    )
    _add_template(reading, _ResourceContext(inner, repetition, hints, context.depth + 1))
