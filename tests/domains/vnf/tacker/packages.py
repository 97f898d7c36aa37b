"""VNF packages for Tacker: a VNFD, a HOT file per user data class, and the instantiate request."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import yaml

STANDARD = {
    "lcm-operation-user-data": "./UserData/userdata_standard.py",
    "lcm-operation-user-data-class": "StandardUserData",
}


@dataclass
class VduSpec:
    """VMs at level 0, VMs per scaling step (0: no aspect) and the highest level."""

    initial: int = 1
    step: int = 0
    levels: int = 0


@dataclass
class PackageSpec:
    name: str
    vdus: Mapping[str, VduSpec]
    # Type, scope, VDUs.
    rules: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    is_standard: bool = True
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def descriptor_id(self) -> str:
        return str(uuid5(NAMESPACE_DNS, self.name))


def build_vnfd(spec: PackageSpec) -> dict[str, Any]:
    nodes: dict[str, Any] = {
        "VNF": {
            "type": "company.VNF",
            "properties": {"flavour_id": "simple", "descriptor_id": spec.descriptor_id},
        }
    }
    policies: list[dict[str, Any]] = []
    aspects = {}
    for name, vdu in spec.vdus.items():
        nodes[name] = {
            "type": "tosca.nodes.nfv.Vdu.Compute",
            "properties": {
                "name": name,
                "description": name,
                "vdu_profile": {
                    "min_number_of_instances": vdu.initial,
                    "max_number_of_instances": vdu.initial + vdu.step * vdu.levels,
                },
            },
            "capabilities": {
                "virtual_compute": {
                    "properties": {
                        "requested_additional_capabilities": {
                            "properties": {"requested_additional_capability_name": "small"}
                        },
                        "virtual_memory": {"virtual_mem_size": "2 GiB"},
                        "virtual_cpu": {"num_virtual_cpu": 1},
                    }
                }
            },
        }
        initial = {"initial_delta": {"number_of_instances": vdu.initial}}
        policies.append({f"{name}_initial": _build_policy("VduInitialDelta", [name], initial)})
        levels = {"levels": {"first": {"number_of_instances": vdu.initial}}}
        policies.append({f"{name}_levels": _build_policy("VduInstantiationLevels", [name], levels)})
        if vdu.step:
            aspects[f"{name}_scale"] = {
                "name": f"{name}_scale",
                "description": name,
                "max_scale_level": vdu.levels,
                "step_deltas": ["delta_1"],
            }
            deltas = {
                "aspect": f"{name}_scale",
                "deltas": {"delta_1": {"number_of_instances": vdu.step}},
            }
            policies.append(
                {f"{name}_deltas": _build_policy("VduScalingAspectDeltas", [name], deltas)}
            )
    if aspects:
        policies.append({"aspects": _build_policy("ScalingAspects", None, {"aspects": aspects})})
    scale_info = {name: {"scale_level": 0} for name in aspects}
    first = {
        "levels": {"first": {"description": "first", "scale_info": scale_info}},
        "default_level": "first",
    }
    policies.append({"levels": _build_policy("InstantiationLevels", None, first)})
    for number, (kind, scope, vdus) in enumerate(spec.rules):
        policies.append({f"rule{number}": _build_policy(kind, list(vdus), {"scope": scope})})
    return {
        "tosca_definitions_version": "tosca_simple_yaml_1_2",
        "topology_template": {
            "substitution_mappings": {
                "node_type": "company.VNF",
                "properties": {"flavour_id": "simple"},
            },
            "node_templates": nodes,
            "policies": policies,
        },
    }


def _build_policy(
    kind: str, targets: list[str] | None, properties: dict[str, Any]
) -> dict[str, Any]:
    more = {"targets": targets} if targets is not None else {}
    return {"type": f"tosca.policies.nfv.{kind}", **more, "properties": properties}


def build_hot(spec: PackageSpec) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the HOT file and the nested files."""
    resources: dict[str, Any] = {}
    nested: dict[str, Any] = {}
    for name in spec.vdus:
        properties = {
            "flavor": {"get_param": ["nfv", "VDU", name, "computeFlavourId"]},
            "zone": {"get_param": ["nfv", "VDU", name, "locationConstraints"]},
        }
        member = {"type": f"{name}.yaml", "properties": properties}
        resources[name] = member
        if not spec.is_standard:
            del resources[name]
            resources[f"{name}_group"] = {
                "type": "OS::Heat::AutoScalingGroup",
                "properties": {
                    "min_size": 0,
                    "max_size": 20,
                    "desired_capacity": {"get_param": ["nfv", "VDU", name, "desired_capacity"]},
                    "resource": member,
                },
            }
        server = {
            "type": "OS::Nova::Server",
            "properties": {
                "flavor": {"get_param": "flavor"},
                "availability_zone": {"get_param": "zone"},
            },
        }
        nested[f"{name}.yaml"] = {
            "heat_template_version": "2013-05-23",
            "parameters": {"flavor": {"type": "string"}, "zone": {"type": "string"}},
            "resources": {name: server},
        }
    hot = {
        "heat_template_version": "2013-05-23",
        "parameters": {"nfv": {"type": "json"}},
        "resources": resources,
    }
    return hot, nested


def write_package(spec: PackageSpec, directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{spec.name}.csar"
    hot, nested = build_hot(spec)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "TOSCA-Metadata/TOSCA.meta",
            "TOSCA-Meta-File-Version: 1.0\nCSAR-Version: 1.1\nCreated-By: tests\n"
            "Entry-Definitions: Definitions/vnfd.yaml\n",
        )
        archive.writestr("Definitions/vnfd.yaml", yaml.safe_dump(build_vnfd(spec), sort_keys=False))
        archive.writestr("BaseHOT/simple/base.yaml", yaml.safe_dump(hot, sort_keys=False))
        for name, content in nested.items():
            archive.writestr(
                f"BaseHOT/simple/nested/{name}", yaml.safe_dump(content, sort_keys=False)
            )
        archive.writestr(
            "UserData/userdata_standard.py",
            "from tacker.sol_refactored.infra_drivers.openstack import userdata_standard\n"
            "StandardUserData = userdata_standard.StandardUserData\n",
        )
    return path


def build_request(spec: PackageSpec) -> str:
    request: dict[str, Any] = {"flavourId": "simple", "instantiationLevelId": "first"}
    if spec.is_standard:
        request["additionalParams"] = STANDARD
    return json.dumps(request)
