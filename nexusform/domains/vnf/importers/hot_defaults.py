"""Values that Heat and Neutron fill in where a HOT file has none.

Heat has two kinds of defaults: those of its property schemas (assets/heat_fields.json), and those
of its code. `SCHEMA_DEFAULTS` sorts the first ones: a test fails for a default of Heat that is in
no list. `CODE_DEFAULTS` has the others with their source.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.domains.vnf.importers.hot_fields import read_heat_schema

SERVER: Final = "OS::Nova::Server"
SERVER_GROUP: Final = "OS::Nova::ServerGroup"
FLAVOR: Final = "OS::Nova::Flavor"
RESOURCE_GROUP: Final = "OS::Heat::ResourceGroup"
PORT: Final = "OS::Neutron::Port"

# Defaults of Heat's property schemas: those with a reader, and the reason why others have none.
_READ: Final = "read"
_GUEST: Final = "the guest, after Nova chose the host"
_LATER: Final = "later updates"
_NETWORK: Final = "addresses and packets"
_UNREAD: Final = "the property around it is unread"
SCHEMA_DEFAULTS: Final[Mapping[str, Mapping[str, str]]] = {
    "AWS::AutoScaling::AutoScalingGroup": {},
    "AWS::AutoScaling::ScalingPolicy": {},
    "AWS::EC2::Instance": {
        "BlockDeviceMappings.*.Ebs.DeleteOnTermination": _UNREAD,
        "Volumes": "volumes attached to the running server",
    },
    "OS::Heat::AutoScalingGroup": {
        "rolling_updates": _LATER,
        "rolling_updates.max_batch_size": _LATER,
        "rolling_updates.min_in_service": _LATER,
        "rolling_updates.pause_time": _LATER,
    },
    "OS::Heat::InstanceGroup": {},
    RESOURCE_GROUP: {
        "count": _READ,
        "index_var": _READ,
        "removal_policies": _UNREAD,
        "removal_policies.*.resource_list": _UNREAD,
        "removal_policies_mode": _UNREAD,
    },
    "OS::Heat::ScalingPolicy": {},
    PORT: {
        "admin_state_up": _NETWORK,
        "binding:vnic_type": _READ,
        "device_id": "a label of the port",
        "device_owner": "a label of the port",
        "no_fixed_ips": _NETWORK,
        "replacement_policy": _LATER,
        "value_specs": _UNREAD,
    },
    FLAVOR: {
        "disk": _READ,
        "ephemeral": _READ,
        "swap": _READ,
        "is_public": "projects with access",
        "tenants": "projects with access",
        "rxtx_factor": "not used by Nova's scheduler",
    },
    SERVER: {
        "deployment_swift_data": _GUEST,
        "flavor_update_policy": _LATER,
        "image_update_policy": _LATER,
        "metadata": _GUEST,
        "networks.*.port_extra_properties.admin_state_up": _UNREAD,
        "networks.*.port_extra_properties.binding:vnic_type": _UNREAD,
        "networks.*.port_extra_properties.no_fixed_ips": _UNREAD,
        "networks.*.port_extra_properties.value_specs": _UNREAD,
        "personality": _GUEST,
        "security_groups": _NETWORK,
        "software_config_transport": _GUEST,
        "user_data": _GUEST,
        "user_data_format": _GUEST,
        "user_data_update_policy": _LATER,
    },
    SERVER_GROUP: {"policies": _READ},
}


class CodeDefault(Struct, frozen=True):
    """Value that the code of a target fills in.

    `values` are by the case. An empty mapping means that only the cloud has the value.
    """

    resource_type: str
    property: str
    source: str
    values: Mapping[str, int] = {}


# A device of block_device_mapping_v2, by its source, in the order of Heat's code.
BOOT_INDEX: Final = CodeDefault(
    SERVER,
    "block_device_mapping_v2.*.boot_index",
    "Heat 27.0.1, Server._build_block_device_mapping_v2",
    {
        "volume_id": 0,
        "snapshot_id": 0,
        "image": 0,
        "swap_size": -1,
        "ephemeral_size": -1,
        "ephemeral_format": -1,
    },
)
# Neutron gives a port the policy of its network.
QOS_POLICY: Final = CodeDefault(
    PORT, "qos_policy", "Neutron 27.0, neutron/plugins/ml2/extensions/qos.py"
)
# Nova makes a zone of an aggregate with this property.
ZONE_OF_AGGREGATE: Final = CodeDefault(
    "OS::Nova::HostAggregate", "availability_zone", "Nova 34.0, nova/availability_zones.py"
)
CODE_DEFAULTS: Final = (BOOT_INDEX, QOS_POLICY, ZONE_OF_AGGREGATE)


def get_default(resource_type: str, property_name: str) -> Any:
    """Return the default of a property in Heat's schema."""
    assert SCHEMA_DEFAULTS[resource_type][property_name] == _READ
    return read_heat_schema()["defaults"][resource_type][property_name]
