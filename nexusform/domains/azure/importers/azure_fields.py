"""Closed lists of the fields of Azure's resources.

Names, kinds of values and enumerations are those of Azure's SDK (assets/azure_fields.json, written
by packaging/azure_fields.py). The lists below say which fields nexusform reads, and which have no
influence on the machines of VMs. A field in neither list is unread. Sources: the descriptions of
azure-mgmt-networkcloud 3.0.0, and the recorded bodies of API versions from 2022-12 to 2025-02.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from nexusform.documents.field_lists import FieldList, build_field_list
from nexusform.doubts.doubt import Influence

_FAILURES: Final = "detailedStatus detailedStatusMessage provisioningState"
_LATER: Final = "maintenance that changes no machine"
_SECRETS: Final = "credentials and certificates"
_GUEST: Final = "the guest, inside of its VM"
_ADDRESS: Final = "addresses and names in a network"
_LINKS: Final = "links to other resources, which name their machines themselves"
_VOLUMES: Final = "volumes of the storage appliance, which all machines reach"
_STATE: Final = "progress of a resource that holds no VM"
_ARC: Final = "links of the site to Azure"
_MACHINE: Final = (Influence.PLACEMENT, Influence.CAPACITY)
_ORDER: Final = (Influence.ORDER,)
_CAPACITY: Final = (Influence.CAPACITY,)

# Fields of every resource besides its properties.
ENVELOPE: Final = build_field_list(
    "id name type properties extendedLocation systemData apiVersion",
    {
        "labels and the region of the resource in Azure": (
            "tags location etag kind resourceGroup subscriptionId tenantId managedBy sku plan"
        ),
        "the resource's own access to Azure": "identity",
        "deployment of a template, whose resources exist": "dependsOn comments scope metadata",
    },
    {Influence.EXISTENCE: "condition copy"},
)

_REACHABLE: Final = "networks that all compute machines reach"
_POOL_READ: Final = (
    "agentOptions availabilityZones count labels mode taints upgradeSettings vmSkuName"
)
_MACHINE_SKU_IGNORED: Final = {
    "the catalogue has the hardware of each model": (
        "cpuCores cpuSockets disks generation hardwareVersion memoryCapacityGB totalThreads vendor"
    ),
    "network cards, as on all machines": "networkInterfaces",
    "the installation of a machine": "bootstrapProtocol",
}
_NETWORK_LINKS: Final = (
    "associatedResourceIds hybridAksClustersAssociatedIds virtualMachinesAssociatedIds clusterId"
)
# By the SDK's name of the type.
FIELDS: Final[Mapping[str, FieldList]] = {
    "SystemData": build_field_list(
        "createdAt lastModifiedAt",
        {"authors of changes": "createdBy createdByType lastModifiedBy lastModifiedByType"},
        default=_ORDER,
    ),
    "ExtendedLocation": build_field_list("name", {"always CustomLocation": "type"}),
    "RackProperties": build_field_list(
        "availabilityZone rackSkuId clusterId",
        {
            "labels of the rack": "rackLocation rackSerialNumber",
            "progress of the rack, named by the plan; each machine has its own": _FAILURES,
        },
        default=_MACHINE,
    ),
    "BareMetalMachineProperties": build_field_list(
        "machineName machineSkuId rackId rackSlot cordonStatus machineRoles powerState readyState "
        f"clusterId machineClusterVersion {_FAILURES}",
        {
            _SECRETS: "bmcCredentials caCertificate secretRotationStatus",
            "addresses of the machine's own interfaces": (
                "bmcConnectionString bmcMacAddress bootMacAddress bmcIpv4Address bmcIpv6Address "
                "oamIpv4Address oamIpv6Address"
            ),
            "labels of the machine": "machineDetails serialNumber serviceTag kubernetesNodeName",
            "past and present actions; cordonStatus and readyState have their effect": (
                "actionStates"
            ),
            "a check before the machine joins; readyState has its effect": (
                "hardwareValidationStatus"
            ),
            "its network cards and text of the vendor; machineSkuId names its hardware": (
                "hardwareInventory"
            ),
            "software of the machine": (
                "kubernetesVersion osImage runtimeProtectionStatus monitoringConfigurationStatus"
            ),
            "deprecated links; VMs and nodes name their machine": (
                "associatedResourceIds hybridAksClustersAssociatedIds virtualMachinesAssociatedIds"
            ),
        },
        default=_MACHINE,
    ),
    "VirtualMachineProperties": build_field_list(
        "cpuCores memorySizeGB storageProfile placementHints networkAttachments "
        f"bareMetalMachineId clusterId powerState {_FAILURES}",
        {
            _GUEST: (
                "adminUsername bootMethod networkData networkDataContent sshPublicKeys userData "
                "userDataContent virtioInterface vmDeviceModel vmImage"
            ),
            _SECRETS: "vmImageRepositoryCredentials",
            "deprecated; Azure ignores it": "isolateEmulatorThread",
            "the network of the platform, on all machines": "cloudServicesNetworkAttachment",
            "the zone of its machine's rack": "availabilityZone",
            _ARC: "consoleExtendedLocation",
            _VOLUMES: "volumes",
        },
    ),
    "VirtualMachinePlacementHint": build_field_list(
        "hintType resourceId schedulingExecution scope", {}
    ),
    "StorageProfile": build_field_list("osDisk", {_VOLUMES: "volumeAttachments"}),
    "OsDisk": build_field_list(
        "createOption diskSizeGB", {"the deletion of the VM": "deleteOption"}
    ),
    "NetworkAttachment": build_field_list(
        "attachedNetworkId",
        {
            _ADDRESS: (
                "defaultGateway ipAllocationMethod ipv4Address ipv6Address macAddress "
                "networkAttachmentName"
            )
        },
    ),
    "KubernetesClusterProperties": build_field_list(
        "controlPlaneNodeConfiguration initialAgentPoolConfigurations kubernetesVersion "
        f"networkConfiguration availableUpgrades nodes clusterId {_FAILURES}",
        {
            _GUEST: "aadConfiguration administratorConfiguration featureStatuses",
            _ARC: "managedResourceGroupConfiguration connectedClusterId",
            _REACHABLE: "attachedNetworkIds",
            "the version of the control plane's software": "controlPlaneKubernetesVersion",
        },
    ),
    "ControlPlaneNodeConfiguration": build_field_list(
        "availabilityZones count vmSkuName", {_GUEST: "administratorConfiguration"}
    ),
    "InitialAgentPoolConfiguration": build_field_list(
        f"{_POOL_READ} name",
        {_GUEST: "administratorConfiguration", _REACHABLE: "attachedNetworkConfiguration"},
    ),
    "AgentPoolProperties": build_field_list(
        f"{_POOL_READ} name {_FAILURES}",
        {
            _GUEST: "administratorConfiguration kubernetesVersion",
            _REACHABLE: "attachedNetworkConfiguration",
        },
    ),
    "AgentOptions": build_field_list("hugepagesCount hugepagesSize", {}),
    "AgentPoolUpgradeSettings": build_field_list(
        "drainTimeout maxSurge maxUnavailable", {}, default=_ORDER
    ),
    "KubernetesLabel": build_field_list("key value", {}),
    "KubernetesClusterNode": build_field_list(
        "agentPoolId bareMetalMachineId cpuCores memorySizeGB diskSizeGB name role vmSkuName "
        "labels taints detailedStatus powerState",
        {
            "the zone of its machine's rack": "availabilityZone",
            _GUEST: "detailedStatusMessage image kubernetesVersion",
            "the mode of its pool": "mode",
            _REACHABLE: "networkAttachments",
        },
    ),
    "AvailableUpgrade": build_field_list(
        "version", {"the maturity of a version": "availabilityLifecycle"}, default=_ORDER
    ),
    "NetworkConfiguration": build_field_list(
        "cniNetworkId podCidrs bgpServiceLoadBalancerConfiguration "
        "l2ServiceLoadBalancerConfiguration",
        {
            _REACHABLE: ("attachedNetworkConfiguration cloudServicesNetworkId"),
            "addresses inside of the cluster": "dnsServiceIp serviceCidrs",
        },
    ),
    "BgpServiceLoadBalancerConfiguration": build_field_list(
        "ipAddressPools",
        {"routes to addresses": "bgpAdvertisements bgpPeers fabricPeeringEnabled"},
        default=_CAPACITY,
    ),
    "L2ServiceLoadBalancerConfiguration": build_field_list("ipAddressPools", {}, default=_CAPACITY),
    "IpAddressPool": build_field_list(
        "addresses name",
        {"the choice of an address for a service": "autoAssign onlyUseHostIps"},
        default=_CAPACITY,
    ),
    "ClusterProperties": build_field_list(
        "aggregatorOrSingleRackDefinition computeRackDefinitions clusterVersion "
        f"clusterExtendedLocation updateStrategy availableUpgradeVersions {_FAILURES}",
        {
            _SECRETS: (
                "clusterServicePrincipal managedCredentials secretArchive secretArchiveSettings"
            ),
            "logs and output of commands": (
                "analyticsOutputSettings analyticsWorkspaceId commandOutputSettings"
            ),
            "labels of the site": "clusterLocation clusterType supportExpiryDate",
            "machines needed at the first deployment": "computeDeploymentThreshold",
            _ARC: (
                "managedResourceGroupConfiguration networkFabricId clusterConnectionStatus "
                "clusterManagerConnectionStatus clusterManagerId hybridAksExtendedLocation"
            ),
            _LATER: (
                "runtimeProtectionConfiguration vulnerabilityScanningSettings actionStates "
                "lastSuccessfulVersionUpdateTime manualActionCount"
            ),
            "sums over machines and VMs, which are read one by one": "clusterCapacity",
            _LINKS: "workloadResourceIds",
        },
    ),
    "RackDefinition": build_field_list(
        "availabilityZone bareMetalMachineConfigurationData networkRackId rackSerialNumber "
        "rackSkuId",
        {
            "labels of the rack": "rackLocation",
            "storage, on no machine": "storageApplianceConfigurationData",
        },
        default=_MACHINE,
    ),
    "BareMetalMachineConfigurationData": build_field_list(
        "machineName rackSlot serialNumber",
        {
            _SECRETS: "bmcCredentials",
            "addresses of the machine's own interfaces": (
                "bmcConnectionString bmcMacAddress bootMacAddress"
            ),
            "labels of the machine": "machineDetails",
        },
        default=_MACHINE,
    ),
    "ClusterUpdateStrategy": build_field_list(
        "maxUnavailable strategyType thresholdType thresholdValue waitTimeMinutes",
        {},
        default=_ORDER,
    ),
    "ClusterAvailableUpgradeVersion": build_field_list(
        "expectedDuration impactDescription supportExpiryDate targetClusterVersion workloadImpact",
        {"the impact on the control plane": "controlImpact"},
        default=_ORDER,
    ),
    "RackSkuProperties": build_field_list(
        "computeMachines controllerMachines",
        {
            "labels of the rack SKU": "deploymentType description rackType supportedRackSkuIds",
            "the number of racks, which are listed": "maxClusterSlots",
            "storage, on no machine": "storageAppliances",
            _STATE: "provisioningState",
        },
        default=_MACHINE,
    ),
    # `az` prints the properties of a slot beside its number.
    "MachineSkuSlot": build_field_list(
        "properties rackSlot model", _MACHINE_SKU_IGNORED, default=_MACHINE
    ),
    "MachineSkuProperties": build_field_list("model", _MACHINE_SKU_IGNORED, default=_MACHINE),
    "L3NetworkProperties": build_field_list(
        f"ipv4ConnectedPrefix {_FAILURES}",
        {
            _ADDRESS: (
                "hybridAksIpamEnabled hybridAksPluginType interfaceName ipAllocationType "
                "ipv6ConnectedPrefix l3IsolationDomainId vlan"
            ),
            _LINKS: _NETWORK_LINKS,
        },
        default=_CAPACITY,
    ),
    "L2NetworkProperties": build_field_list(
        _FAILURES,
        {_ADDRESS: "hybridAksPluginType interfaceName l2IsolationDomainId", _LINKS: _NETWORK_LINKS},
        default=_CAPACITY,
    ),
    "TrunkedNetworkProperties": build_field_list(
        _FAILURES,
        {
            _ADDRESS: "hybridAksPluginType interfaceName isolationDomainIds vlans",
            _LINKS: _NETWORK_LINKS,
        },
        default=_CAPACITY,
    ),
    "StorageApplianceProperties": build_field_list(
        "capacity capacityUsed",
        {
            "labels and software of the appliance": (
                "rackId storageApplianceSkuId rackSlot serialNumber manufacturer model version "
                "monitoringConfigurationStatus remoteVendorManagementFeature "
                "remoteVendorManagementStatus managementIpv4Address clusterId expansionShelves"
            ),
            _SECRETS: "administratorCredentials caCertificate secretRotationStatus",
            _STATE: _FAILURES,
        },
        default=_CAPACITY,
    ),
    "VolumeProperties": build_field_list(
        "sizeMiB",
        {
            "its place on an appliance": (
                "storageApplianceId allocatedSizeMiB assignedStorageApplianceId attachedTo "
                "serialNumber"
            ),
            _STATE: _FAILURES,
        },
        default=_CAPACITY,
    ),
    "KubernetesVersionProperties": build_field_list(
        "values", {_STATE: "provisioningState"}, default=_ORDER
    ),
    "KubernetesVersionValue": build_field_list("description version", {}, default=_ORDER),
}

_FINAL_STATES: Final = frozenset({"Succeeded", "Failed", "Canceled"})
_RUNNING_STATUSES: Final = frozenset(
    {"Available", "Error", "Provisioning", "Running", "Scheduling", "Stopped", "Unknown"}
)
# Values whose effect nexusform knows, of fields with more values in the SDK.
KNOWN_VALUES: Final[Mapping[str, frozenset[str]]] = {
    "BareMetalMachineProperties.machineRoles": frozenset(
        f"{prefix}{role}{flag}"
        for prefix in ("", "platform.afo-nc.microsoft.com/")
        for role in ("compute-plane", "control-plane", "management-plane")
        for flag in ("", "=true", "=false")
    ),
    # An operation in progress may add, move or delete VMs.
    "KubernetesClusterProperties.provisioningState": _FINAL_STATES | {"Created"},
    "AgentPoolProperties.provisioningState": _FINAL_STATES,
    "VirtualMachineProperties.provisioningState": _FINAL_STATES,
    # A VM that ends leaves its machine.
    "VirtualMachineProperties.detailedStatus": _RUNNING_STATUSES,
    "KubernetesClusterNode.detailedStatus": _RUNNING_STATUSES,
    # A VM that is off may start on another machine.
    "VirtualMachineProperties.powerState": frozenset({"On"}),
    "KubernetesClusterNode.powerState": frozenset({"On"}),
}
# What the other values of these fields mean: any for `provisioningState`, else those of the SDK.
OTHER_VALUES: Final[Mapping[str, str]] = {
    "provisioningState": "an operation is in progress",
    "detailedStatus": "it leaves its machine",
    "powerState": "it may start on another machine",
}
# Fields of existing resources on which a decision rests, by kind of document.
NEEDED_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "clusters": ("detailedStatus",),
    "virtual_machines": ("provisioningState", "detailedStatus", "powerState"),
}
# API versions before those of the SDK, with bodies or change logs in public.
EARLIER_VERSIONS: Final = (
    "2022-12-12-preview 2023-05-01-preview 2023-07-01 2023-10-01-preview 2024-06-01-preview "
    "2024-07-01 2024-10-01-preview 2025-02-01 2025-07-01-preview 2025-09-01"
)
NAMESPACE: Final = "microsoft.networkcloud/"
# Types with effects on placement, not read from the plans of other tools.
_UNREAD_TYPES: Final = frozenset({"baremetalmachines", "clusters", "racks"})
_DEPLOYMENT: Final = "microsoft.resources/deployments"
# Nouns for the resources of each kind of document.
NOUNS: Final[Mapping[str, str]] = {
    "racks": "rack",
    "bare_metal_machines": "machine",
    "virtual_machines": "VM",
    "kubernetes_clusters": "cluster",
    "agent_pools": "agent pool",
    "clusters": "Nexus cluster",
    "rack_skus": "rack SKU",
    "l3_networks": "network",
    "l2_networks": "network",
    "trunked_networks": "network",
    "storage_appliances": "storage appliance",
    "volumes": "volume",
    "kubernetes_versions": "Kubernetes version",
}


@cache
def read_azure_schema() -> Mapping[str, Any]:
    """Read assets/azure_fields.json: Azure's types, fields, enumerations and API versions."""
    package = "nexusform.domains.azure.importers"
    path = resources.files(package).joinpath("assets", "azure_fields.json")
    schema: Mapping[str, Any] = json.loads(path.read_bytes())
    return schema


def has_unread_effects(type_name: str) -> bool:
    """Return whether another tool's change of a type may place VMs, and is not read.

    The type is in lower case. One of Operator Nexus that the SDK does not have may do so.
    """
    name = type_name.removeprefix(NAMESPACE)
    if name == type_name:
        return type_name == _DEPLOYMENT
    return name in _UNREAD_TYPES or name not in read_azure_schema()["resource_types"]


def read_enum(field_name: str) -> Mapping[str, str]:
    """Read the known values of a field such as `BareMetalMachineProperties.powerState`.

    The keys are the values without case.
    """
    type_name, _, name = field_name.partition(".")
    schema = read_azure_schema()
    values = schema["enums"].get(schema["types"][type_name].get(name), ())
    return {value.casefold(): value for value in values}


def normalize_value(field_name: str, value: str) -> str:
    """Return a value of a field in Azure's spelling, an unknown one as it is."""
    return read_enum(field_name).get(value.casefold(), value)
