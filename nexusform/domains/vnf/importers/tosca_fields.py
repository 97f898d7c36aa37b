"""Closed lists of the fields of TOSCA files, and the facts in them that are not read.

Names and kinds of properties are those of SOL001 as Tacker has it (assets/tosca_fields.json,
written by packaging/tosca_fields.py). The lists below say which fields nexusform reads, and which
have no influence on the host of a VM. A field in neither list is unread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nexusform.documents.field_lists import FieldList, build_field_list
from nexusform.documents.field_tables import FieldTables
from nexusform.documents.yaml_documents import Node
from nexusform.domains.vnf.importers.tosca_topology import Topology
from nexusform.doubts.doubt import Doubt, Influence

_LABELS: Final = "a label"
_GUEST: Final = "the guest, inside of its VM"
_NETWORK: Final = "networks and addresses"
_VOLUME: Final = "volumes, on hosts of their own service"
_LATER: Final = "actions on running VMs"
_COUNT: Final = (Influence.EXISTENCE,)

# By name; those of types of SOL001 are without "tosca.", in lower case.
FIELDS: Final[Mapping[str, FieldList]] = {
    "topology": build_field_list(
        "inputs node_templates node_template groups policies substitution_mappings",
        {
            _LABELS: "description",
            "values for users, after the creation": "outputs",
            _NETWORK: "relationship_templates",
        },
        default=_COUNT,
    ),
    "node": build_field_list(
        "type properties capabilities",
        {
            _LABELS: "description metadata attributes",
            "links between nodes": "requirements",
            "scripts and files of the lifecycle": "interfaces artifacts",
        },
        {Influence.EXISTENCE: "copy directives"},
    ),
    "group": build_field_list(
        "type members targets properties description", {_LABELS: "metadata attributes"}
    ),
    "policy": build_field_list(
        "type targets properties", {_LABELS: "description metadata", _LATER: "triggers"}
    ),
    "nodes.nfv.vdu.compute": build_field_list(
        "vdu_profile sw_image_data",
        {
            _LABELS: "name description",
            _GUEST: "boot_order boot_data configurable_properties",
            _LATER: "monitoring_parameters",
        },
    ),
    "nodes.nfv.vdu.tacker": build_field_list(
        "",
        {
            _LABELS: "name description vendor",
            _GUEST: "image config config_drive user_data user_data_format key_name mgmt_driver",
            "its flavor, which an inventory names by base_hot": "flavor",
            _LATER: "monitoring_policy maintenance service_type",
        },
    ),
    "nodes.nfv.vnf": build_field_list(
        "descriptor_id flavour_id",
        {
            _LABELS: (
                "descriptor_version provider product_name software_version product_info_name "
                "product_info_description vnfm_info flavour_description"
            ),
            _GUEST: "localization_languages default_localization_language",
            _LATER: (
                "lcm_operations_configuration monitoring_parameters configurable_properties "
                "modifiable_attributes vnf_profile"
            ),
        },
    ),
    "nodes.nfv.vducp": build_field_list(
        "",
        {
            _LABELS: "description role order",
            _NETWORK: "layer_protocols protocol trunk_mode allowed_address_data",
        },
    ),
    "capabilities": build_field_list(
        "virtual_compute nfv_compute", {_NETWORK: "virtual_binding monitoring_parameter"}
    ),
    "capability": build_field_list("properties", {_LABELS: "attributes"}),
    "capabilities.nfv.virtualcompute": build_field_list(
        "virtual_memory virtual_cpu virtual_local_storage", {}
    ),
    "nfv_compute": build_field_list("num_cpus mem_size disk_size", {}),
    "datatypes.nfv.virtualmemory": build_field_list("virtual_mem_size", {}),
    "datatypes.nfv.virtualcpu": build_field_list("num_virtual_cpu", {}),
    "virtual_local_storage": build_field_list("size_of_storage", {_LABELS: "type_of_storage"}),
    "datatypes.nfv.vduprofile": build_field_list(
        "min_number_of_instances max_number_of_instances", {}
    ),
    "datatypes.nfv.swimagedata": build_field_list(
        "name",
        {
            _LABELS: "version provider checksum operating_system",
            "the file of the image": "container_format disk_format size",
            "checks of the flavor's size by Glance": "min_disk min_ram",
        },
    ),
    "groups.nfv.placementgroup": build_field_list("description", {}),
    "policies.nfv.affinityrule": build_field_list("scope", {}),
    "policies.nfv.antiaffinityrule": build_field_list("scope", {}),
    "policies.nfv.instantiationlevels": build_field_list(
        "levels default_level", {}, default=_COUNT
    ),
    "datatypes.nfv.instantiationlevel": build_field_list(
        "scale_info", {_LABELS: "description"}, default=_COUNT
    ),
    "datatypes.nfv.scaleinfo": build_field_list("scale_level", {}, default=_COUNT),
    "policies.nfv.vduinstantiationlevels": build_field_list("levels", {}, default=_COUNT),
    "datatypes.nfv.vdulevel": build_field_list("number_of_instances", {}, default=_COUNT),
    "policies.nfv.scalingaspects": build_field_list("aspects", {}, default=_COUNT),
    "datatypes.nfv.scalingaspect": build_field_list(
        "max_scale_level step_deltas", {_LABELS: "name description"}, default=_COUNT
    ),
    "policies.nfv.vduscalingaspectdeltas": build_field_list("aspect deltas", {}, default=_COUNT),
    "policies.nfv.vduinitialdelta": build_field_list("initial_delta", {}, default=_COUNT),
}
# Lists of the parts of an object, by its list and field; `{` a mapping to it, `[` a list of it.
_PARTS: Final[Mapping[str, str]] = {
    "nodes.nfv.vdu.compute.vdu_profile": "datatypes.nfv.vduprofile",
    "nodes.nfv.vdu.compute.sw_image_data": "datatypes.nfv.swimagedata",
    "capabilities.nfv.virtualcompute.virtual_memory": "datatypes.nfv.virtualmemory",
    "capabilities.nfv.virtualcompute.virtual_cpu": "datatypes.nfv.virtualcpu",
    "capabilities.nfv.virtualcompute.virtual_local_storage": "[virtual_local_storage",
    "policies.nfv.instantiationlevels.levels": "{datatypes.nfv.instantiationlevel",
    "datatypes.nfv.instantiationlevel.scale_info": "{datatypes.nfv.scaleinfo",
    "policies.nfv.vduinstantiationlevels.levels": "{datatypes.nfv.vdulevel",
    "policies.nfv.scalingaspects.aspects": "{datatypes.nfv.scalingaspect",
    "policies.nfv.vduscalingaspectdeltas.deltas": "{datatypes.nfv.vdulevel",
    "policies.nfv.vduinitialdelta.initial_delta": "datatypes.nfv.vdulevel",
}
_TYPES_WITHOUT_INFLUENCE: Final[Mapping[str, str]] = {
    _NETWORK: (
        "nodes.nfv.vnfextcp nodes.nfv.vipcp nodes.nfv.cp nodes.nfv.cp.tacker nodes.nfv.vl "
        "nodes.nfv.vl.elan nodes.nfv.vl.eline nodes.nfv.vl.etree nodes.nfv.vnfvirtuallink "
        "nodes.network.network nodes.network.port nodes.nfv.fp nodes.nfv.fp.tacker "
        "nodes.nfv.fp.tackerv2 policies.nfv.virtuallinkinstantiationlevels "
        "policies.nfv.virtuallinkinitialdelta policies.nfv.virtuallinkscalingaspectdeltas "
        "policies.nfv.virtuallinkbitrateinitialdelta "
        "policies.nfv.virtuallinkbitratescalingaspectdeltas policies.nfv.securitygrouprule "
        "policies.nfv.abstract.securitygrouprule groups.nfv.vnffg"
    ),
    _VOLUME: (
        "nodes.nfv.vdu.virtualblockstorage nodes.nfv.vdu.virtualobjectstorage "
        "nodes.nfv.vdu.virtualfilestorage nodes.blockstorage nodes.blockstorage.tacker "
        "nodes.blockstorageattachment"
    ),
    "containers, which are reported as such": "nodes.nfv.vdu.oscontainerdeployableunit "
    "nodes.nfv.vdu.oscontainer nodes.nfv.mciop",
    _LATER: (
        "policies.nfv.supportedvnfinterface policies.nfv.previousflavour "
        "policies.nfv.vnfpackagechange policies.nfv.vnfindicator "
        "policies.nfv.lcmcoordinationaction policies.tacker.monitoring policies.tacker.alarming "
        "policies.tacker.failure.respawn policies.tacker.failure.log "
        "policies.tacker.failure.logandkill"
    ),
    "read as a whole, by the older rules of Tacker": (
        "policies.tacker.placement policies.tacker.scaling"
    ),
}
TYPES_WITHOUT_INFLUENCE: Final[Mapping[str, str]] = {
    name: reason for reason, names in _TYPES_WITHOUT_INFLUENCE.items() for name in names.split()
}
_VNF: Final = "nodes.nfv.vnf"
_VDUS: Final = ("nodes.nfv.vdu.compute", "nodes.nfv.vdu.tacker")
# Values of unread fields that change nothing: those of every host and port, or of no request.
_WITHOUT_INFLUENCE: Final[Mapping[str, tuple[str | bool, ...]]] = {
    "nodes.nfv.vducp.vnic_type": ("normal",),
    "datatypes.nfv.virtualcpu.cpu_architecture": ("x86", "x86_64"),
    "datatypes.nfv.virtualmemory.numa_enabled": (False,),
}


_TABLES: Final = FieldTables(FIELDS, _PARTS, _WITHOUT_INFLUENCE)


def add_unread_facts(topology: Topology) -> None:
    """Add the unread facts of a topology to its notes."""
    for template in topology.templates:
        _add_fields(topology, template, "topology", Doubt("template"))
    for name, body in topology.nodes:
        kind = _find_list_name(topology, body)
        is_vdu = kind in _VDUS
        subject = Doubt("VDU", name, pool=name) if is_vdu else Doubt("node", name)
        _add_definition(topology, body, ("node", kind), subject)
        if is_vdu:
            _add_capabilities(topology, body.get_node("capabilities"), subject)
    for noun, section in (("group", topology.groups), ("policy", topology.policies)):
        for name, body in section:
            kind = _find_list_name(topology, body)
            _add_definition(topology, body, (noun, kind), Doubt(noun, name))


def _add_capabilities(topology: Topology, capabilities: Node, subject: Doubt) -> None:
    """Add the unread facts of the capabilities of a VDU: its processors, memory and disks."""
    _add_fields(topology, capabilities, "capabilities", subject, "capabilities.")
    compute = capabilities.get_node("virtual_compute")
    # Some files leave `properties` out.
    if not compute.get_node("properties").is_absent:
        _add_fields(topology, compute, "capability", subject, "virtual_compute.")
        compute = compute.get_node("properties")
    _add_fields(topology, compute, "capabilities.nfv.virtualcompute", subject)
    legacy_compute = capabilities.get_node("nfv_compute", "properties")
    _add_fields(topology, legacy_compute, "nfv_compute", subject)


def _find_list_name(topology: Topology, body: Node) -> str:
    """Find the name of the list of a definition by its type.

    The type of a VNF is often defined in another file; its properties then tell.
    """
    name = topology.get_standard_type(body).removeprefix("tosca.")
    if name in FIELDS or name in TYPES_WITHOUT_INFLUENCE:
        return name
    properties = {key for key, _ in body.get_node("properties").list_fields()}
    fields = FIELDS[_VNF]
    return _VNF if properties & fields.read.union(fields.without_influence) else name


def _add_definition(topology: Topology, body: Node, lists: tuple[str, str], subject: Doubt) -> None:
    """Add the unread facts of a node, group or policy: its fields and properties, or its type."""
    noun, kind = lists
    if kind in TYPES_WITHOUT_INFLUENCE:
        return
    if kind not in FIELDS:
        # An unknown node may be VMs, an unknown policy may place them.
        influence = Influence.EXISTENCE if noun == "node" else Influence.PLACEMENT
        type_node = body.get_node("type")
        reason = f'"{type_node.text}"'
        topology.notes.add_unread_fact(
            type_node, (subject.kind, subject.name), "type", influence, reason=reason
        )
        return
    _add_fields(topology, body, noun, subject)
    _add_fields(topology, body.get_node("properties"), kind, subject)


def _add_fields(
    topology: Topology, node: Node, list_name: str, subject: Doubt, prefix: str = ""
) -> None:
    """Add the unread fields of an object, with the inputs of the topology."""
    _TABLES.add_unread_fields(
        topology.notes, node, list_name, subject, prefix, topology.resolve_value
    )
