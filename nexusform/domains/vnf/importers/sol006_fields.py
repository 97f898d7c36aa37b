"""Closed lists of the fields of SOL006 descriptors, written by hand from ETSI GS NFV-SOL 006.

A field that is neither read nor without influence on the host of a VM is unread.
"""

from typing import Final

from nexusform.documents.field_tables import FieldTables, UnreadSubject
from nexusform.documents.unread_facts import Influence, build_field_list
from nexusform.documents.yaml_documents import DocumentFindings, Node

_LABELS: Final = "a label"
_GUEST: Final = "the guest, inside of its VM"
_NETWORK: Final = "networks and addresses"
_LATER: Final = "actions on running VMs"
_COUNT: Final = (Influence.EXISTENCE,)
_TABLES: Final = FieldTables(
    {
        "vnfd": build_field_list(
            "vdu df kdu virtual-compute-desc virtual-storage-desc",
            {
                _LABELS: (
                    "id name description provider product-name product-info-name "
                    "product-info-description software-version version vnfm-info "
                    "localization-language default-localization-language"
                ),
                _NETWORK: "mgmt-cp ext-cpd int-virtual-link-desc security-group-rule",
                _GUEST: "sw-image-desc configurable-properties modifiable-attributes",
                _LATER: "lifecycle-management-script vnf-indicator auto-scale",
            },
        ),
        "vdu": build_field_list(
            "id virtual-compute-desc virtual-storage-desc",
            {
                _LABELS: "name description",
                _NETWORK: "int-cpd",
                _GUEST: (
                    "sw-image-desc cloud-init cloud-init-file boot-order boot-data "
                    "supplemental-boot-data configurable-properties"
                ),
                _LATER: "monitoring-parameter",
            },
        ),
        "virtual-compute-desc": build_field_list("id virtual-cpu virtual-memory virtual-disk", {}),
        "virtual-disk": build_field_list("id size-of-storage", {_GUEST: "sw-image-desc"}),
        "virtual-cpu": build_field_list("num-virtual-cpu", {}),
        "virtual-memory": build_field_list("size", {}),
        "virtual-storage-desc": build_field_list(
            "id type-of-storage size-of-storage block-storage-data",
            {
                _GUEST: "sw-image-desc",
                _NETWORK: "object-storage-data file-storage-data",
                _LATER: "nfvi-maintenance-info",
            },
        ),
        "block-storage-data": build_field_list("size-of-storage", {_GUEST: "sw-image-desc"}),
        "df": build_field_list(
            "id default-instantiation-level instantiation-level vdu-profile scaling-aspect "
            "affinity-or-anti-affinity-group",
            {
                _LABELS: "description",
                _NETWORK: "virtual-link-profile",
                _LATER: (
                    "lcm-operations-configuration supported-operation supported-vnf-interface "
                    "monitoring-parameter vnf-indicator"
                ),
            },
        ),
        "vdu-profile": build_field_list(
            "id min-number-of-instances max-number-of-instances affinity-or-anti-affinity-group "
            "affinity-or-anti-affinity-group-id local-affinity-or-anti-affinity-rule",
            {_LATER: "nfvi-maintenance-info"},
        ),
        "rule": build_field_list(
            "type scope affinity-type affinity-scope", {_LATER: "nfvi-maintenance-info"}
        ),
        "group": build_field_list(
            "id type affinityorAntiaffinity scope", {_LATER: "nfvi-maintenance-info"}
        ),
        "instantiation-level": build_field_list(
            "id vdu-level scaling-info",
            {_LABELS: "description", _NETWORK: "virtual-link-bit-rate-level vip-cp-level"},
            default=_COUNT,
        ),
        "vdu-level": build_field_list("vdu-id number-of-instances", {}, default=_COUNT),
        "scaling-info": build_field_list("scaling-aspect-id scale-level", {}, default=_COUNT),
        "scaling-aspect": build_field_list(
            "id max-scale-level aspect-delta-details step-deltas",
            {_LABELS: "name description", _LATER: "scaling-policy"},
            default=_COUNT,
        ),
        "aspect-delta-details": build_field_list("deltas step-deltas", {}, default=_COUNT),
        "delta": build_field_list(
            "id vdu-delta", {_NETWORK: "virtual-link-bit-rate-delta vip-cp-delta"}, default=_COUNT
        ),
        "vdu-delta": build_field_list("id number-of-instances", {}, default=_COUNT),
    },
    {
        "virtual-compute-desc.virtual-cpu": "virtual-cpu",
        "virtual-compute-desc.virtual-memory": "virtual-memory",
        "virtual-compute-desc.virtual-disk": "[virtual-disk",
        "virtual-storage-desc.block-storage-data": "block-storage-data",
        "df.vdu-profile": "[vdu-profile",
        "df.affinity-or-anti-affinity-group": "[group",
        "df.instantiation-level": "[instantiation-level",
        "df.scaling-aspect": "[scaling-aspect",
        "vdu-profile.local-affinity-or-anti-affinity-rule": "[rule",
        "instantiation-level.vdu-level": "[vdu-level",
        "instantiation-level.scaling-info": "[scaling-info",
        "scaling-aspect.aspect-delta-details": "aspect-delta-details",
        "aspect-delta-details.deltas": "[delta",
        "delta.vdu-delta": "[vdu-delta",
    },
    {
        "virtual-cpu.cpu-architecture": ("x86", "x86_64", "x86-64"),
        # The YANG default: one storage per VM.
        "virtual-storage-desc.per-vnfc-instance": (True, "true"),
        "virtual-disk.rdma-enabled": (False, "false"),
        "block-storage-data.rdma-enabled": (False, "false"),
    },
)


def add_unread_facts(descriptor: Node, flavour: Node, notes: DocumentFindings) -> None:
    """Add the unread facts of a descriptor and of its flavour to the notes."""
    _TABLES.add_unread_fields(notes, descriptor, "vnfd", UnreadSubject("descriptor", ""))
    _TABLES.add_unread_fields(notes, flavour, "df", UnreadSubject("flavour", ""))
    for section, kind, noun in (
        ("vdu", "vdu", "VDU"),
        ("virtual-compute-desc", "virtual-compute-desc", "virtual-compute-desc"),
        ("virtual-storage-desc", "virtual-storage-desc", "virtual-storage-desc"),
    ):
        for body in descriptor.get_node(section).list_items():
            name = body.get_node("id").text
            # A description belongs to all VDUs that name it.
            subject = UnreadSubject(noun, name, name if section == "vdu" else "")
            _TABLES.add_unread_fields(notes, body, kind, subject)
