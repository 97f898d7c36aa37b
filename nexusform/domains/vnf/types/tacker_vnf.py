"""Resource type tacker_vnf: a VNF with VMs from a TOSCA VNFD, a HOT file, or both."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Problem, Severity, has_errors
from nexusform.diagnostics.phrases import enclose, format_list, select_word_form
from nexusform.domains.vnf.importers.vnf_records import (
    SITE,
    PlacementRule,
    UnmetRule,
    Vdu,
    Vnf,
    build_dropped_rule_warnings,
    compute_maximum_counts,
    compute_vdu_counts,
    find_unmet_rules,
    list_size_problems,
)
from nexusform.domains.vnf.types.vnf_documents import (
    CONTROL_PLANE_ROLE,
    PARAMETERS,
    REQUEST,
    REQUEST_FIELDS,
    VDU_BLOCK,
    VIM_CONNECTIONS,
    VIM_CONNECTIONS_VERSION,
    WORKER,
    build_document_problems,
    check_vim_connections,
    compute_target_levels,
    find_flavor_sku,
    find_request_secrets,
    format_sku,
    get_document_path,
    get_flavor,
    get_vm_role,
    has_known_documents,
    has_standard_user_data,
    list_block_problems,
    list_block_sizes,
    list_vdu_problems,
    read_documents,
    read_package_and_request,
    resolve_vdu_sku,
)
from nexusform.doubts.doubt import Doubt
from nexusform.interfaces.plugins import ResourceContext, ResourceType, UnplacedVms, VmHandlers
from nexusform.json_data.plain_data import (
    get_mapping,
    get_text,
    get_value_at_path,
    has_unknown_part,
    list_mappings,
)
from nexusform.json_data.secret_paths import SECRET_FIELDS
from nexusform.kubernetes.matching import Taint, select_weaker_taints
from nexusform.placements.consequences import LOSS_WITH_UNKNOWN_DATA, ConsequenceTable, ObjectChange
from nexusform.placements.node_properties import CONTROL_PLANE_TAINT, NodeProperties
from nexusform.placements.vm_demands import PlacedVm, PlacementGroupRule, PoolDemand, VmDemand
from nexusform.resource_types.kubelet_block import KUBELET_BLOCK, build_kubelet, check_kubelet
from nexusform.resource_types.machine_facts import add_vfs_to_sku
from nexusform.resource_types.shared_arguments import (
    build_id_attribute,
    build_name_attribute,
    build_parent_attribute,
    check_even_control_plane,
    check_skus,
    get_known_blocks,
    is_set_and_known,
    join_id_parts,
)
from nexusform.resources.address import Address
from nexusform.scheduling.kubelet import Platform
from nexusform.scheduling.racks.vms import Placement, PlacementConstraints
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import DYNAMIC, NUMBER, STRING, ListType, MapType, ObjectType
from nexusform.values.typed_value import UNKNOWN

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
DECIDED: Final = "decided"
CIS_NODE_LABEL: Final = "CIS-node"
MACHINE_LABEL: Final = "kubernetes.io/zone"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
SPECIFICATION: Final = "specification"
MGMT_DRIVER: Final = "mgmt_driver"
INSTANTIATED: Final = "instantiated"
SCALED: Final = "scaled"
HEALED: Final = "healed"
# Operation that created a VNFC, by the trigger of its placement or a recorded operation. Any other
# re-creation of an existing VM is healing in Tacker's terms.
_OPERATION_BY_TRIGGER: Final = {
    "": INSTANTIATED,
    "new": INSTANTIATED,
    "cluster_replaced": INSTANTIATED,
    "requested": INSTANTIATED,
    "scale_out": SCALED,
    SCALED: SCALED,
}

VNFC: Final = ObjectType.create(
    {
        "vdu": STRING,
        "number": NUMBER,
        "machine": STRING,
        "rack": STRING,
        "availability_zone": STRING,
        "numa_cells": ListType(NUMBER),
        "labels": MapType(STRING),
        "operation": STRING,
        "provenance": STRING,
    }
)


def _build_argument_schema(kind: Any, description: str, **more: Any) -> AttributeSchema:
    return AttributeSchema(kind, description, optional=True, decides_placement=True, **more)


_SCHEMA: Final = BlockSchema(
    {
        "id": build_id_attribute("<site>/<name>"),
        "site_id": build_parent_attribute("nexus_site", " or openstack_site", ("openstack_site",)),
        "name": build_name_attribute("VNF"),
        "vnfd": _build_argument_schema(
            STRING, "Text of the VNFD (ETSI SOL001). Required: vnfd or base_hot."
        ),
        "base_hot": _build_argument_schema(STRING, "Text of the HOT file with the VMs."),
        "nested": _build_argument_schema(
            MapType(STRING), "Texts of the nested HOT templates, by file name."
        ),
        "csar": _build_argument_schema(
            STRING,
            "VNF package (CSAR), a directory or zip file, instead of vnfd, base_hot and nested. "
            "TOSCA-"
            "Metadata and flavour_id locate the files.",
        ),
        REQUEST: _build_argument_schema(
            STRING,
            "Text of the instantiate request (ETSI SOL003, JSON). Its flavourId, "
            "instantiationLevelId and additionalParams replace flavour_id, instantiation_level and "
            "parameters. The text and these parameters are sensitive.",
            allows_sensitive=True,
            displayed_in=tuple(REQUEST_FIELDS.values()),
            # The whole text.
            secret_fields=re.compile(REQUEST),
        ),
        VIM_CONNECTIONS: AttributeSchema(
            DYNAMIC,
            "vimConnectionInfo of the instantiate request: a map of connections by id. Write-only: "
            "in no plan, state or journal.",
            optional=True,
            write_only=True,
        ),
        VIM_CONNECTIONS_VERSION: AttributeSchema(
            NUMBER,
            f"Number of the content of {VIM_CONNECTIONS}. A change sends it again.",
            optional=True,
        ),
        PARAMETERS: _build_argument_schema(
            DYNAMIC,
            "Parameters of the HOT file and inputs of the VNFD. Passwords, keys and user data in "
            "them are sensitive.",
            allows_sensitive=True,
            secret_fields=SECRET_FIELDS,
        ),
        "flavour_id": _build_argument_schema(
            STRING, "Deployment flavour, if the VNFD has several.", allows_sensitive=True
        ),
        "instantiation_level": _build_argument_schema(
            STRING,
            "Instantiation level of the VNFD. Default: its default level, else the initial deltas.",
            allows_sensitive=True,
        ),
        "scale_levels": _build_argument_schema(MapType(NUMBER), "Scale level by scaling aspect."),
        "labels": _build_argument_schema(MapType(STRING), "Extra labels of worker nodes."),
        "label_source": AttributeSchema(
            STRING,
            f'Source of hardware labels. "{SPECIFICATION}": every worker gets {CIS_NODE_LABEL}, '
            f'{MACHINE_LABEL} and {ZONE_LABEL}. "{MGMT_DRIVER}": as Tacker\'s management driver, '
            f"{CIS_NODE_LABEL} only. At instantiation it needs a server group with exactly the "
            "policy anti-affinity; at scale-out and healing a scaling group that passes "
            "scheduler_hints.",
            optional=True,
            choices=(SPECIFICATION, MGMT_DRIVER),
            decides_placement=True,
        ),
        "grant_zone": _build_argument_schema(
            STRING,
            f'Zone id in the grants of the NFVO. Only with label_source = "{MGMT_DRIVER}"; the '
            f"same workers then get {MACHINE_LABEL}.",
        ),
        "taints": _build_argument_schema(
            DYNAMIC, "Taints of worker nodes: a list of { key, value, effect }; value is optional."
        ),
        "vnfcs": AttributeSchema(
            MapType(VNFC),
            "VMs by name, with machine and NUMA cells.",
            computed=True,
            predicted=True,
            earlier_keys={"came": "operation"},
        ),
        "vnf_instance_id": AttributeSchema(
            STRING,
            "Id of the VNF instance in Tacker, with provider tacker.",
            computed=True,
            observed=True,
        ),
        "vnfc_ids": AttributeSchema(
            MapType(STRING),
            "Ids of the VNFCs in Tacker by name, with provider tacker.",
            computed=True,
            predicted=True,
        ),
    },
    {"vdu": VDU_BLOCK, "kubelet": KUBELET_BLOCK},
    "A VNF from a TOSCA VNFD or a HOT file, placed by its affinity rules.",
)


# Lost rules that a sentence names.
_MAX_RULES: Final = 3


def build_id(attributes: Mapping[str, Any]) -> str:
    """Return the id: `<site>/<name>`."""
    return join_id_parts(attributes.get("site_id"), attributes.get("name"))


def check_arguments(attributes: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the arguments and of the documents."""
    blocks = get_known_blocks(attributes, "vdu")
    problems = list(list_block_problems(blocks))
    if all(attributes.get(name) is None for name in ("vnfd", "base_hot", "csar")):
        detail = (
            'A tacker_vnf needs "vnfd", "base_hot", or both, for example vnfd = file("vnfd.yaml"), '
            'or "csar", the path of a package.'
        )
        problems.append(Problem((), "missing-required-argument", detail))
    problems += check_kubelet(attributes.get("kubelet"), ("kubelet",))
    problems += _list_taint_problems(attributes.get("taints"))
    if attributes.get("grant_zone") is not None and attributes.get("label_source") in (
        None,
        SPECIFICATION,
    ):
        detail = (
            f'grant_zone requires label_source = "{MGMT_DRIVER}". Set it, or remove grant_zone.'
        )
        problems.append(Problem(("grant_zone",), "conflicting-arguments", detail))
    parameters = attributes.get("parameters")
    if is_set_and_known(parameters) and not isinstance(parameters, dict):
        detail = "parameters must be a map of values by name."
        problems.append(Problem(("parameters",), "incorrect-attribute-value-type", detail))
    if not has_known_documents(attributes):
        # The documents are checked when known.
        return problems
    reading = read_documents(attributes)
    problems += build_document_problems(reading.findings)
    if not has_errors(reading.findings):
        problems += list_vdu_problems(reading.vnf, blocks)
        problems += _list_size_problems(reading.vnf, attributes)
    return problems


def _list_taint_problems(taints: Any) -> Iterator[Problem]:
    """Yield the problems of the argument taints: a list of { key, value, effect }, of any type."""
    if not is_set_and_known(taints):
        # It is absent, or is checked when it is known.
        return
    if not isinstance(taints, list):
        yield Problem(
            ("taints",), "invalid-taint", "taints must be a list of { key, value, effect }."
        )
        return
    for index, taint in enumerate(taints):
        path = ("taints", index)
        if not is_set_and_known(get_value_at_path(taint, "key")):
            yield Problem(path, "invalid-taint", "A taint needs a key and an effect.")
        elif taint.get("effect") not in (*_EFFECTS, UNKNOWN) or not taint.keys() <= {
            "key",
            "value",
            "effect",
        }:
            text = (
                f"A taint is {{ key, value, effect }}; its effect is one of {', '.join(_EFFECTS)}."
            )
            yield Problem(path, "invalid-taint", text)


def _list_size_problems(vnf: Vnf, attributes: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of the requested size, and of numbers limited by the VNFD."""
    level = attributes.get("instantiation_level")
    if UNKNOWN in (level, attributes.get("scale_levels")):
        # It is checked when it is known.
        return
    integer_levels: dict[str, int] = {}
    has_invalid_number = False
    for name, value in get_mapping(attributes, "scale_levels").items():
        if isinstance(value, int):
            integer_levels[name] = value
        elif is_set_and_known(value):
            has_invalid_number = True
            detail = f'The level of "{name}" must be a whole number, not {value}.'
            yield Problem(("scale_levels", name), "invalid-number", detail)
    problems = list_size_problems(vnf, level, integer_levels)
    yield from problems
    if problems or has_invalid_number:
        # The numbers of an invalid size mean nothing.
        return
    for clamped in compute_vdu_counts(vnf, level, integer_levels).clamped_counts:
        vdu = vnf.find_vdu(clamped.vdu)
        assert vdu is not None
        bound = "least" if clamped.applied > clamped.requested else "most"
        detail = (
            f'{vdu.origin}: the requested size gives "{clamped.vdu}" {clamped.requested} VMs, but '
            f"its profile allows {bound} {clamped.applied}. The plan places {clamped.applied}."
        )
        yield Problem(
            get_document_path(vdu.origin.file), "vdu-size-bounds", detail, Severity.WARNING
        )


def _build_unmet_problem(unmet_rule: UnmetRule, kind: str, severity: Severity) -> Problem:
    """Build the problem of a rule.

    It is contradicted by another one, or has too few locations for its VMs.
    """
    rule = unmet_rule.rule
    other = unmet_rule.conflicting_rule
    path = get_document_path(rule.origin.file)
    vdus = ", ".join(f'"{name}"' for name in rule.vdus)
    # A server group's policy is no scope.
    scope = "" if rule.label == "anti-affinity" else f" (scope {rule.label})"
    subject = f'{rule.origin}: "{rule.name}" separates the VMs of {vdus}{scope}'
    if other is not None:
        detail = (
            f'{subject}, but "{other.name}" ({other.origin}) keeps {unmet_rule.vm_count} of them '
            f"together on one {other.scope}. Remove one of the rules, or remove VDUs from it."
        )
        return Problem(path, kind, detail, severity)
    limit = f" with up to {rule.max_per_location} on each" if rule.max_per_location > 1 else ""
    # `capacity` counts VMs.
    location_count = unmet_rule.capacity // rule.max_per_location
    capacity = f"the site has {location_count} {select_word_form(location_count, rule.scope)}"
    if rule.scope == SITE:
        capacity = "a VNF runs on one site"
    scale = "" if severity is Severity.ERROR else " at the largest scale"
    detail = (
        f"{subject}{limit}: {unmet_rule.vm_count} VMs{scale}, and {capacity}. Add machines "
        "or racks, reduce the number of VMs, or make the rule soft."
    )
    return Problem(path, kind, detail, severity)


def compute_demand(
    attributes: Mapping[str, Any], context: ResourceContext, _address: Address
) -> tuple[VmDemand | None, list[Problem]]:
    """Return a demand with one pool per VDU, and problems.

    The demand is None for unknown documents, or after an error.
    """
    if not has_known_documents(attributes):
        return None, []
    reading = read_documents(attributes)
    vnf = reading.vnf
    name = str(attributes["name"])
    blocks = get_mapping(attributes, "vdu")
    levels = compute_target_levels(attributes)
    # Numbers of VMs by VDU.
    numbers = compute_vdu_counts(vnf, attributes.get("instantiation_level"), levels).numbers
    site_id = str(attributes["site_id"])
    problems = list(_list_unmet_problems(vnf, numbers, attributes, context))
    problems += build_dropped_rule_warnings(vnf, numbers)
    pools = []
    for vdu in vnf.vdus:
        block = get_mapping(blocks, vdu.name)
        sku = resolve_vdu_sku(vdu, block, context, site_id)
        if isinstance(sku, Problem):
            # An error, so there is no demand at the end.
            problems.append(sku)
            continue
        vm_numbers = tuple(range(numbers[vdu.name]))
        sku = add_vfs_to_sku(sku, block)
        is_plane = get_vm_role(vdu.name, block) == CONTROL_PLANE_ROLE
        if is_plane:
            problems += check_even_control_plane(len(vm_numbers), ("vdu", vdu.name))
        flavor = get_flavor(vdu, block)
        if not flavor and find_flavor_sku(vdu, block, context, site_id) is not None:
            flavor = vdu.flavor
        # VMs are re-created if a value of the trigger changes. Without a configured SKU, their size
        # is part of it.
        size_figures = (
            (sku.vcpus, sku.memory_gib, sku.disk_gib) if not block.get("vm_sku_name") else ()
        )
        pools.append(
            PoolDemand(
                vdu.name,
                vm_numbers,
                tuple(f"{name}-{vdu.name}-{number}" for number in vm_numbers),
                sku,
                PlacementConstraints(
                    image=str(block.get("image") or vdu.image),
                    flavor=flavor,
                    platform_zone=vdu.availability_zone,
                    platform_host=vdu.host,
                    unknown_request=_find_unknown_request(
                        vdu,
                        block,
                        has_flavor=context.find_sku(vdu.flavor, site_id) is not None,
                        is_flavor=flavor == vdu.flavor,
                    ),
                    local_disks=vdu.local_disks,
                ),
                triggers=(
                    ("sku_changed", (sku.name, *size_figures)),
                    ("zones_changed", (vdu.availability_zone, vdu.host)),
                ),
                path=("vdu", vdu.name),
                groups=tuple(
                    _build_group_rule(rule) for rule in vnf.rules if vdu.name in rule.vdus
                ),
                is_control_plane=is_plane,
                # The standard user data removes the highest index, otherwise Tacker the newest VM.
                removes_newest=not has_standard_user_data(attributes),
                awaited=vdu.awaited,
            )
        )
    if has_errors(problems):
        return None, problems
    return VmDemand(
        site_id,
        f"vnf:{build_id(attributes)}",
        name,
        tuple(pools),
        provenance=DECIDED,
        unread=reading.unread,
    ), problems


def _find_unknown_request(
    vdu: Vdu, block: Mapping[str, Any], *, has_flavor: bool, is_flavor: bool
) -> Doubt | None:
    """Return the fact of a flavor or image without a known value that the block does not set.

    `has_flavor`: the site has the flavor of the VDU; `is_flavor`: it is its SKU.
    """
    if not block.get("vm_sku_name"):
        if vdu.unknown_flavor is not None:
            return vdu.unknown_flavor
        if vdu.flavor and not is_flavor:
            sizes = format_list(list_block_sizes(block))
            advice = (
                f'set vm_sku_name = "{vdu.flavor}" in vdu "{vdu.name}"'
                f"{enclose(' instead of ', sizes)}"
                if has_flavor
                else f'the site has no flavor "{vdu.flavor}": capture flavors.json with the '
                "flavors of all projects (--all)"
            )
            return Doubt(
                "server",
                vdu.name,
                "flavor",
                vdu.origin.file,
                vdu.origin.line,
                reason=f"its size is set elsewhere; {advice}",
                pool=vdu.name,
            )
    return None if block.get("image") or vdu.image else vdu.unknown_image


def _build_group_rule(rule: PlacementRule) -> PlacementGroupRule:
    """Return the rule for pools.

    A pool is a VDU, and the name describes the other VMs of the rule.
    """
    return PlacementGroupRule(
        name=f"the other VMs of {rule.name} ({rule.origin})",
        is_affinity=rule.is_affinity,
        is_hard=rule.is_hard,
        scope=rule.scope,
        pools=rule.vdus,
        max_vms=rule.max_per_location,
    )


def _list_unmet_problems(
    vnf: Vnf, numbers: Mapping[str, int], attributes: Mapping[str, Any], context: ResourceContext
) -> Iterator[Problem]:
    """Yield the rules violated by the numbers of VMs.

    A rule violated by the current number is an error, and one violated only at the maximum
    scale a warning.
    """
    # Most VNFs have none, and a site may have many machines.
    if not vnf.rules:
        return
    machines = context.list_machines(str(attributes["site_id"]))
    # A site without machines is an error of its own.
    if not machines:
        return
    racks = len({machine.rack for machine in machines})
    current_rules = find_unmet_rules(vnf, numbers, len(machines), racks)
    for unmet_rule in current_rules:
        yield _build_unmet_problem(unmet_rule, "unsatisfiable-anti-affinity", Severity.ERROR)
    known_rules = {unmet_rule.rule for unmet_rule in current_rules}
    maximum_numbers = compute_maximum_counts(vnf, attributes.get("instantiation_level")).numbers
    for unmet_rule in find_unmet_rules(vnf, maximum_numbers, len(machines), racks):
        if unmet_rule.rule not in known_rules:
            yield _build_unmet_problem(
                unmet_rule, "unsatisfiable-scaled-anti-affinity", Severity.WARNING
            )


def list_existing_vms(attributes: Mapping[str, Any]) -> tuple[PlacedVm, ...]:
    """Return the VMs of a prior object: its VNFCs with a known machine.

    Return () if its documents are unknown.
    """
    vnfcs = get_known_blocks(attributes, "vnfcs")
    ids = get_known_blocks(attributes, "vnfc_ids")
    if not has_known_documents(attributes):
        return ()
    blocks = get_mapping(attributes, "vdu")
    skus = {
        vdu.name: format_sku(vdu, get_mapping(blocks, vdu.name))
        for vdu in read_documents(attributes).vnf.vdus
    }
    return tuple(
        PlacedVm(
            pool=vnfc["vdu"],
            number=vnfc["number"],
            name=name,
            sku_name=skus.get(vnfc["vdu"], ""),
            placement=Placement(
                vnfc["machine"],
                vnfc["rack"],
                vnfc["availability_zone"],
                tuple(vnfc.get("numa_cells") or ()),
            ),
            provenance=vnfc.get("provenance") or DECIDED,
            # Its creating operation.
            trigger=get_text(vnfc, "operation"),
            has_recorded_sku=False,
            # Tacker's id of a VNFC is VDU-SERVER; its server has a name of Heat.
            platform_id=get_text(ids, name).removeprefix(f"{vnfc['vdu']}-"),
        )
        for name, vnfc in vnfcs.items()
        if vnfc.get("machine")  # placed
    )


def list_unplaced_vms(attributes: Mapping[str, Any]) -> UnplacedVms:
    """Return the VNFCs without a known machine, by VDU and number.

    Tacker selected another zone for them.
    """
    vnfcs = get_known_blocks(attributes, "vnfcs")
    return {
        (vnfc["vdu"], vnfc["number"]): {**vnfc, "name": name}
        for name, vnfc in vnfcs.items()
        if not vnfc.get("machine")
    }


def build_computed_attributes(
    attributes: Mapping[str, Any],
    _context: ResourceContext,
    placed_vms: Sequence[PlacedVm],
    unplaced: UnplacedVms,
) -> dict[str, Any]:
    """Return the attribute `vnfcs` (VMs by name), and `vnfc_ids` for those kept by Tacker.

    The field `operation` of a VNFC is its creating operation; it is absent for instantiation. VNFCs
    on unknown hosts (`unplaced`) stay as recorded.
    """
    # Unknown for a new VNF.
    known_ids = get_known_blocks(attributes, "vnfc_ids")
    unplaced_vnfcs = {
        record["name"]: {key: record[key] for key in record if key != "name"}
        for record in unplaced.values()
    }
    # A kept VNFC has its recorded operation as trigger; others get new ids.
    kept_vms = [vm.name for vm in placed_vms if vm.trigger in ("", SCALED, HEALED)]
    kept_ids = {name: known_ids[name] for name in (*kept_vms, *unplaced_vnfcs) if name in known_ids}
    ids = {"vnfc_ids": kept_ids} if known_ids else {}
    vnfcs: dict[str, Any] = {}
    for vm in placed_vms:
        operation = _OPERATION_BY_TRIGGER.get(vm.trigger, HEALED)
        vnfcs[vm.name] = {
            "vdu": vm.pool,
            "number": vm.number,
            "machine": vm.placement.machine,
            "rack": vm.placement.rack,
            "availability_zone": vm.placement.availability_zone,
            "numa_cells": list(vm.placement.cells) or None,
            "provenance": vm.provenance,
            **({"operation": operation} if operation != INSTANTIATED else {}),
        }
    return {**ids, "vnfcs": vnfcs | unplaced_vnfcs}


def _compute_node_labels(
    attributes: Mapping[str, Any], vdu_name: str, operation: str, machine: str, zone: str
) -> dict[str, str]:
    """Return the labels of the node of a worker VM.

    They are those of the user, and those about its machine and zone. With `label_source`
    "mgmt_driver" the latter are set by Tacker's management driver. It labels workers of an
    anti-affinity group at instantiation, and workers of any server group at later operations.
    """
    configured_labels = get_mapping(attributes, "labels")
    if attributes.get("label_source") != MGMT_DRIVER:
        return {
            **configured_labels,
            CIS_NODE_LABEL: machine,
            MACHINE_LABEL: machine,
            ZONE_LABEL: zone,
        }
    vdu = read_documents(attributes).vnf.find_vdu(vdu_name)
    if vdu is None or not (
        vdu.has_anti_affinity if operation == INSTANTIATED else vdu.has_scheduler_hints
    ):
        return dict(configured_labels)
    # The driver writes the zone id of the grant into the machine label (kubernetes.io/zone), and
    # sets no zone label.
    granted_label = (
        {MACHINE_LABEL: str(attributes["grant_zone"])} if attributes.get("grant_zone") else {}
    )
    return {**configured_labels, CIS_NODE_LABEL: machine, **granted_label}


def build_displayed_value(attributes: Mapping[str, Any], name: str) -> Any:
    """Return an attribute for display.

    `vnfcs` is returned with node labels and creating operations, any other attribute unchanged.
    """
    value = attributes.get(name)
    if name != "vnfcs" or not isinstance(value, Mapping):
        return value
    blocks = get_mapping(attributes, "vdu")
    displayed: dict[str, Any] = {}
    for vm_name, vnfc in value.items():
        vdu_name = vnfc["vdu"]
        operation = vnfc.get("operation") or INSTANTIATED
        labels: dict[str, str] = {}
        if get_vm_role(vdu_name, get_mapping(blocks, vdu_name)) == WORKER:
            machine = vnfc["machine"]
            zone = vnfc["availability_zone"]
            labels = _compute_node_labels(attributes, vdu_name, operation, machine, zone)
        displayed[vm_name] = {**vnfc, "operation": operation, "labels": labels}
    return displayed


def build_node_properties(
    attributes: Mapping[str, Any], vm: PlacedVm, _cluster: Mapping[str, Any]
) -> NodeProperties:
    """Return a VNFC (VM) as a node of the VNF's Kubernetes cluster: pods run on workers only."""
    block = get_mapping(attributes, "vdu", vm.pool)
    blocks = attributes.get("kubelet"), block.get("kubelet")
    kubelet = build_kubelet(Platform.KUBEADM, *blocks)
    if get_vm_role(vm.pool, block) != WORKER:
        return NodeProperties(labels={}, taints=(CONTROL_PLANE_TAINT,), kubelet=kubelet)
    operation = _OPERATION_BY_TRIGGER.get(vm.trigger, HEALED)
    machine = vm.placement.machine
    zone = vm.placement.availability_zone
    labels = _compute_node_labels(attributes, vm.pool, operation, machine, zone)
    return NodeProperties(labels, _read_taints(attributes), kubelet)


def _read_taints(attributes: Mapping[str, Any]) -> tuple[Taint, ...]:
    """Return the taints of worker nodes; invalid ones are reported by the checks."""
    return tuple(
        Taint(str(taint["key"]), get_text(taint, "value"), str(taint["effect"]))
        for taint in list_mappings(attributes, "taints")
        if taint.keys() >= {"key", "effect"}
    )


def find_unknown_skus(attributes: Mapping[str, Any], known_skus: Collection[str]) -> list[Problem]:
    """Return problems for unknown VM SKUs in vdu blocks."""
    vdus = get_known_blocks(attributes, "vdu").items()
    return check_skus(
        [(("vdu", name, "vm_sku_name"), block.get("vm_sku_name")) for name, block in vdus],
        known_skus,
    )


def find_lost_rules(change: ObjectChange) -> str:
    """Return `loses the anti-affinity of server group workers`; "" if no rule is lost.

    Of a rule that becomes weaker, a part is lost.
    """
    before, after = change.before, change.after
    has_documents = has_known_documents(before) and has_known_documents(after)
    if not has_documents or has_unknown_part(after.get("taints")):
        return ""
    remaining = {(rule.name, rule.is_affinity): rule for rule in read_documents(after).vnf.rules}
    weaker_taints = select_weaker_taints(_read_taints(before), _read_taints(after))
    lost = [f"taint {taint.title}" for taint in weaker_taints]
    for rule in read_documents(before).vnf.rules:
        after_rule = remaining.get((rule.name, rule.is_affinity))
        if _is_weaker(rule, after_rule):
            part = "part of " if after_rule is not None else ""
            kind = "affinity" if rule.is_affinity else "anti-affinity"
            noun = "policy" if rule.origin.file == "vnfd" else "server group"
            lost.append(f"{part}the {kind} of {noun} {rule.name}")
    return enclose("loses ", format_list(lost, _MAX_RULES))


def _is_weaker(before: PlacementRule, after: PlacementRule | None) -> bool:
    """Return whether a rule ends, becomes soft, allows more VMs per location, or loses a VDU."""
    if after is None:
        return True
    is_softer = before.is_hard and not after.is_hard
    is_wider = after.max_per_location > before.max_per_location
    return is_softer or is_wider or not set(before.vdus) <= set(after.vdus)


TACKER_VNF: Final = ResourceType(
    "tacker_vnf",
    4,
    _SCHEMA,
    build_id,
    check=check_arguments,
    unpack_arguments=read_package_and_request,
    list_secrets=find_request_secrets,
    split_write_only_body=check_vim_connections,
    vms=VmHandlers(
        compute_demand,
        list_existing_vms,
        build_computed_attributes,
        find_unknown_skus,
        build_node_properties,
        list_unplaced_vms,
    ),
    present=build_displayed_value,
    # Its volumes may be managed by others.
    consequences=ConsequenceTable(
        noun="VNF",
        delete=LOSS_WITH_UNKNOWN_DATA,
        replace=LOSS_WITH_UNKNOWN_DATA,
        recreate=LOSS_WITH_UNKNOWN_DATA,
        find_weakening=find_lost_rules,
    ),
)
