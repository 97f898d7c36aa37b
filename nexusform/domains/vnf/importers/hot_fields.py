"""Closed lists of the fields of HOT files, and of Heat's resource types.

Names and kinds of properties are those of Heat (assets/heat_fields.json, written by
packaging/heat_fields.py). The lists below say which of them nexusform reads, and which have no
influence on the host of a server. Sources: the resource classes of Heat 27.0, nova/scheduler of
Nova 34.0. A property in neither list is unread.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from nexusform.documents.field_lists import FieldList, build_field_list
from nexusform.doubts.doubt import Influence

TEMPLATE: Final = build_field_list(
    "heat_template_version parameters resources conditions "
    "AWSTemplateFormatVersion HeatTemplateFormatVersion Parameters Resources Conditions",
    {
        "text for users": "description parameter_groups Description",
        "values for users, after the creation": "outputs Outputs",
        "merging of environments, before the template is read": "parameter_merge_strategies",
        "receivers of events": "event_sinks",
        "read through Fn::FindInMap only, which is unread where it is used": "Mappings",
    },
)

# Fields of a resource besides its properties.
RESOURCE: Final = build_field_list(
    "type properties Type Properties condition Condition external_id depends_on DependsOn",
    {"a label of the resource": "metadata Metadata description Description"},
    {
        Influence.ORDER: "update_policy UpdatePolicy",
        Influence.EXISTENCE: "deletion_policy DeletionPolicy",
    },
)

_LATER: Final = "later updates of the server"
_SERVER: Final = build_field_list(
    "flavor image scheduler_hints networks availability_zone block_device_mapping "
    "block_device_mapping_v2",
    {
        "the guest, after Nova chose the host": (
            "admin_pass admin_user config_drive deployment_swift_data diskConfig key_name metadata "
            "personality software_config_transport user_data user_data_format"
        ),
        "a label of the server": "name tags reservation_id",
        "rules of packets": "security_groups",
        _LATER: "flavor_update_policy image_update_policy user_data_update_policy",
    },
)
# One item of `networks` of a server.
NETWORK: Final = build_field_list(
    "port",
    {
        "an address or a label in a network": (
            "network uuid subnet fixed_ip floating_ip tag allocate_network"
        )
    },
)

PROPERTIES: Final[Mapping[str, FieldList]] = {
    "OS::Nova::Server": _SERVER,
    "AWS::EC2::Instance": build_field_list(
        "flavor image scheduler_hints",
        {
            "the guest, after Nova chose the host": "KeyName UserData Monitoring",
            "a label of the server": "Tags DisableApiTermination",
            "rules of packets": "SecurityGroupIds SecurityGroups SourceDestCheck",
            "an address in a network": "NetworkInterfaces PrivateIpAddress SubnetId",
            "volumes attached to the running server": "Volumes",
        },
    ),
    "OS::Nova::ServerGroup": build_field_list("name policies policy rules", {}),
    "OS::Nova::Flavor": build_field_list(
        "ram vcpus disk ephemeral swap",
        {
            "a label of the flavor": "name flavorid",
            "projects with access": "is_public tenants",
            "not used by Nova's scheduler": "rxtx_factor",
        },
    ),
    "OS::Neutron::Port": build_field_list(
        # `check_sriov_port` reads it.
        "binding:vnic_type",
        {
            "addresses and packets of the port": (
                "admin_state_up allowed_address_pairs fixed_ips mac_address no_fixed_ips "
                "port_security_enabled propagate_uplink_status security_groups"
            ),
            "a label of the port": "device_id device_owner dns_name name tags",
            "its network, which all hosts can reach": "network network_id",
            "later updates of the port": "replacement_policy",
        },
    ),
    "OS::Heat::ResourceGroup": build_field_list(
        "count index_var resource_def resource scheduler_hints", {}
    ),
    "OS::Heat::AutoScalingGroup": build_field_list(
        "min_size max_size desired_capacity size resource resource_def scheduler_hints",
        {"time between scalings": "cooldown"},
        {Influence.ORDER: "rolling_updates"},
    ),
    "OS::Heat::InstanceGroup": build_field_list(
        "Size size resource resource_def scheduler_hints",
        {"a label of the servers": "Tags", "a load balancer": "LoadBalancerNames"},
    ),
    "AWS::AutoScaling::AutoScalingGroup": build_field_list(
        "MinSize MaxSize DesiredCapacity resource resource_def scheduler_hints",
        {
            "a label of the servers": "Tags",
            "a load balancer": "LoadBalancerNames",
            "time between scalings": "Cooldown",
            "checks of running servers": "HealthCheckGracePeriod HealthCheckType",
            "subnets of the servers": "VPCZoneIdentifier",
        },
    ),
    "OS::Heat::ScalingPolicy": build_field_list(
        "auto_scaling_group_id scaling_adjustment adjustment_type",
        {"time between scalings": "cooldown"},
        {Influence.EXISTENCE: "min_adjustment_step"},
    ),
    "AWS::AutoScaling::ScalingPolicy": build_field_list(
        "AutoScalingGroupName ScalingAdjustment AdjustmentType",
        {"time between scalings": "Cooldown"},
        {Influence.EXISTENCE: "MinAdjustmentStep"},
    ),
}

_TYPES_WITHOUT_INFLUENCE: Final[Mapping[str, str]] = {
    "networks, addresses and rules of packets": (
        "AWS::EC2::EIP AWS::EC2::EIPAssociation AWS::EC2::InternetGateway "
        "AWS::EC2::NetworkInterface AWS::EC2::RouteTable AWS::EC2::SecurityGroup AWS::EC2::Subnet "
        "AWS::EC2::SubnetRouteTableAssociation AWS::EC2::VPC AWS::EC2::VPCGatewayAttachment "
        "OS::Neutron::AddressScope OS::Neutron::ExtraRoute OS::Neutron::ExtraRouteSet "
        "OS::Neutron::Firewall OS::Neutron::FirewallPolicy OS::Neutron::FirewallRule "
        "OS::Neutron::FloatingIP OS::Neutron::FloatingIPAssociation "
        "OS::Neutron::FloatingIPPortForward OS::Neutron::FlowClassifier OS::Neutron::IKEPolicy "
        "OS::Neutron::IPsecPolicy OS::Neutron::IPsecSiteConnection OS::Neutron::L2Gateway "
        "OS::Neutron::L2GatewayConnection OS::Neutron::MeteringLabel OS::Neutron::MeteringRule "
        "OS::Neutron::Net OS::Neutron::NetworkGateway OS::Neutron::PortChain OS::Neutron::PortPair "
        "OS::Neutron::PortPairGroup OS::Neutron::ProviderNet OS::Neutron::QoSBandwidthLimitRule "
        "OS::Neutron::QoSDscpMarkingRule OS::Neutron::QoSPolicy OS::Neutron::RBACPolicy "
        "OS::Neutron::Router OS::Neutron::RouterGateway OS::Neutron::RouterInterface "
        "OS::Neutron::SecurityGroup OS::Neutron::SecurityGroupRule OS::Neutron::Subnet "
        "OS::Neutron::SubnetPool OS::Neutron::TaaS::TapFlow OS::Neutron::TaaS::TapService "
        "OS::Neutron::Trunk OS::Neutron::VPNService OS::Nova::FloatingIP "
        "OS::Nova::FloatingIPAssociation"
    ),
    "parts of a load balancer, without servers of their own": (
        "OS::Neutron::HealthMonitor OS::Neutron::LBaaS::HealthMonitor OS::Neutron::LBaaS::L7Policy "
        "OS::Neutron::LBaaS::L7Rule OS::Neutron::LBaaS::Listener OS::Neutron::LBaaS::Pool "
        "OS::Neutron::LBaaS::PoolMember OS::Neutron::Pool OS::Neutron::PoolMember "
        "OS::Octavia::AvailabilityZone OS::Octavia::AvailabilityZoneProfile OS::Octavia::Flavor "
        "OS::Octavia::FlavorProfile OS::Octavia::HealthMonitor OS::Octavia::L7Policy "
        "OS::Octavia::L7Rule OS::Octavia::Listener OS::Octavia::Pool OS::Octavia::PoolMember "
        "OS::Octavia::Quota"
    ),
    "volumes and shares, on hosts of their own service": (
        "AWS::EC2::Volume AWS::EC2::VolumeAttachment OS::Cinder::EncryptedVolumeType "
        "OS::Cinder::QoSAssociation OS::Cinder::QoSSpecs OS::Cinder::Quota OS::Cinder::Volume "
        "OS::Cinder::VolumeAttachment OS::Cinder::VolumeType OS::Manila::SecurityService "
        "OS::Manila::Share OS::Manila::ShareNetwork OS::Manila::ShareType OS::Swift::Container "
        "AWS::S3::Bucket"
    ),
    "software inside of a running server": (
        "OS::Heat::CloudConfig OS::Heat::MultipartMime OS::Heat::SoftwareComponent "
        "OS::Heat::SoftwareConfig OS::Heat::SoftwareDeployment OS::Heat::SoftwareDeploymentGroup "
        "OS::Heat::SoftwareDeployments OS::Heat::StructuredConfig OS::Heat::StructuredDeployment "
        "OS::Heat::StructuredDeploymentGroup OS::Heat::StructuredDeployments "
        "OS::Heat::DeployedServer"
    ),
    "values, waits and signals inside of Heat": (
        "AWS::CloudFormation::WaitCondition AWS::CloudFormation::WaitConditionHandle "
        "OS::Heat::AccessPolicy OS::Heat::Delay OS::Heat::None OS::Heat::RandomString "
        "OS::Heat::SwiftSignal OS::Heat::SwiftSignalHandle OS::Heat::TestResource "
        "OS::Heat::UpdateWaitConditionHandle OS::Heat::Value OS::Heat::WaitCondition "
        "OS::Heat::WaitConditionHandle"
    ),
    "alarms and messages": (
        "OS::Aodh::Alarm OS::Aodh::CombinationAlarm OS::Aodh::CompositeAlarm OS::Aodh::EventAlarm "
        "OS::Aodh::GnocchiAggregationByMetricsAlarm OS::Aodh::GnocchiAggregationByResourcesAlarm "
        "OS::Aodh::GnocchiResourcesAlarm OS::Aodh::LBMemberHealthAlarm OS::Aodh::PrometheusAlarm "
        "OS::Monasca::AlarmDefinition OS::Monasca::Notification OS::Vitrage::Template "
        "OS::Zaqar::Queue OS::Zaqar::SignedQueueURL OS::Zaqar::Subscription"
    ),
    "keys, users and names": (
        "AWS::IAM::AccessKey AWS::IAM::User OS::Barbican::CertificateContainer "
        "OS::Barbican::GenericContainer OS::Barbican::Order OS::Barbican::RSAContainer "
        "OS::Barbican::Secret OS::Designate::Domain OS::Designate::Record "
        "OS::Designate::RecordSet OS::Designate::Zone OS::Keystone::Domain "
        "OS::Keystone::Endpoint OS::Keystone::Group OS::Keystone::GroupRoleAssignment "
        "OS::Keystone::Project OS::Keystone::Region OS::Keystone::Role OS::Keystone::Service "
        "OS::Keystone::User OS::Keystone::UserRoleAssignment OS::Nova::KeyPair"
    ),
    "templates that create nothing by themselves": (
        "OS::Magnum::BayModel OS::Magnum::ClusterTemplate OS::Sahara::ClusterTemplate "
        "OS::Sahara::DataSource OS::Sahara::ImageRegistry OS::Sahara::Job OS::Sahara::JobBinary "
        "OS::Sahara::NodeGroupTemplate OS::Senlin::Policy OS::Senlin::Profile "
        "OS::Senlin::Receiver OS::Glance::Image OS::Glance::WebImage"
    ),
}
# Resource types that nexusform does not read, with the reason why they do not influence servers.
TYPES_WITHOUT_INFLUENCE: Final[Mapping[str, str]] = {
    name: reason for reason, names in _TYPES_WITHOUT_INFLUENCE.items() for name in names.split()
}
# What other unread types may change; they may create servers otherwise.
TYPE_INFLUENCES: Final[Mapping[str, Influence]] = dict.fromkeys(
    (
        "OS::Blazar::Host",
        "OS::Blazar::Lease",
        "OS::Neutron::QoSMinimumBandwidthRule",
        "OS::Neutron::QoSMinimumPacketRateRule",
        "OS::Neutron::Segment",
        "OS::Nova::HostAggregate",
    ),
    Influence.PLACEMENT,
)


@cache
def read_heat_schema() -> Mapping[str, Any]:
    """Read assets/heat_fields.json: Heat's types, template versions and properties."""
    path = resources.files("nexusform.domains.vnf.importers").joinpath("assets", "heat_fields.json")
    schema: Mapping[str, Any] = json.loads(path.read_bytes())
    return schema


def get_property_kind(resource_type: str, name: str) -> str:
    """Return the kind of value of a property in words, "anything" for an unknown one."""
    properties = read_heat_schema()["properties"].get(resource_type, {})
    return str(properties.get(name, "anything"))
