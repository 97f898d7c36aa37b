"""Tacker in memory: a client whose requests change instances of this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, ClassVar

from nexusform.domains.vnf.providers.tacker_client import (
    Credentials,
    PollTiming,
    TackerClient,
    TackerProblem,
)
from nexusform.network.http_client import WebResponse

VNFD = """tosca_definitions_version: tosca_simple_yaml_1_2
topology_template:
  substitution_mappings: {node_type: company.VNF, properties: {flavour_id: simple}}
  node_templates:
    VNF: {type: company.VNF, properties: {flavour_id: simple, descriptor_id: d}}
    worker:
      type: tosca.nodes.nfv.Vdu.Compute
      properties:
        name: worker
        vdu_profile: {min_number_of_instances: 2, max_number_of_instances: 6}
      capabilities:
        virtual_compute:
          properties:
            virtual_memory: {virtual_mem_size: 2 GiB}
            virtual_cpu: {num_virtual_cpu: 1}
  policies:
    - initial:
        type: tosca.policies.nfv.VduInitialDelta
        targets: [worker]
        properties: {initial_delta: {number_of_instances: 2}}
    - levels:
        type: tosca.policies.nfv.VduInstantiationLevels
        targets: [worker]
        properties: {levels: {first: {number_of_instances: 2}}}
    - deltas:
        type: tosca.policies.nfv.VduScalingAspectDeltas
        targets: [worker]
        properties: {aspect: worker_scale, deltas: {delta_1: {number_of_instances: 1}}}
    - aspects:
        type: tosca.policies.nfv.ScalingAspects
        properties:
          aspects:
            worker_scale:
              {name: worker_scale, description: w, max_scale_level: 4, step_deltas: [delta_1]}
    - instantiation:
        type: tosca.policies.nfv.InstantiationLevels
        properties:
          levels: {first: {description: f, scale_info: {worker_scale: {scale_level: 0}}}}
          default_level: first
"""


class MemoryTacker(TackerClient):
    """Client of a Tacker whose operations end at once.

    `changes` are the paths of all requests but reads. `before_write` is called before each.
    """

    instances: ClassVar[dict[str, dict[str, Any]]] = {}
    operations: ClassVar[dict[str, dict[str, Any]]] = {}
    changes: ClassVar[list[str]] = []
    before_write: ClassVar[list[Callable[[str], None]]] = []
    numbers: ClassVar[Any] = count(1)

    def __init__(self, endpoint: str = "http://127.0.0.1:1", *_arguments: Any) -> None:
        timing = PollTiming(sleep=lambda _seconds: None)
        super().__init__(endpoint, Credentials(), timing)

    @classmethod
    def reset(cls) -> None:
        for content in (cls.instances, cls.operations, cls.changes, cls.before_write):
            content.clear()

    @classmethod
    def add_instance(
        cls, name: str, metadata: Mapping[str, str], *, is_instantiated: bool = True
    ) -> str:
        """Add an instance and return its id."""
        identifier = f"instance-{next(cls.numbers)}"
        cls.instances[identifier] = {
            "id": identifier,
            "vnfInstanceName": name,
            "vnfdId": "d",
            "metadata": dict(metadata),
            "instantiationState": "NOT_INSTANTIATED",
        }
        if is_instantiated:
            cls._instantiate(cls.instances[identifier])
        return identifier

    @classmethod
    def _instantiate(cls, instance: dict[str, Any]) -> None:
        instance["instantiationState"] = "INSTANTIATED"
        info: dict[str, Any] = {"scaleStatus": [{"aspectId": "worker_scale", "scaleLevel": 0}]}
        info |= {"vnfcResourceInfo": [], "vnfcInfo": []}
        instance["instantiatedVnfInfo"] = info
        cls._add_vnfcs(info, 2)

    @classmethod
    def _add_vnfcs(cls, info: dict[str, Any], number: int) -> None:
        for _ in range(number):
            order = len(info["vnfcResourceInfo"])
            resource = f"resource-{next(cls.numbers)}"
            metadata = {"creation_time": f"2026-01-01T00:00:{order:02d}Z"}
            info["vnfcResourceInfo"].append(
                {"id": resource, "vduId": "worker", "metadata": metadata}
            )
            info["vnfcInfo"].append({"id": f"worker-{resource}", "vnfcResourceInfoId": resource})

    def read(self, path: str) -> Mapping[str, Any] | None:
        _, kind, identifier = path.split("/")
        rows = self.instances if kind == "vnf_instances" else self.operations
        return rows.get(identifier)

    def read_list(self, path: str, query: Mapping[str, str]) -> list[Mapping[str, Any]]:
        if path == "/vnf_instances":
            return list(self.instances.values())
        field, _, value = query["filter"].strip("()").removeprefix("eq,").partition(",")
        return [row for row in self.operations.values() if row.get(field) == value]

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, str],
        **_options: Any,
    ) -> WebResponse:
        assert not query
        for call in list(self.before_write):
            call(f"{method} {path}")
        self.changes.append(f"{method} {path}")
        if path == "/vnf_instances":
            assert body is not None
            identifier = self.add_instance(
                body["vnfInstanceName"], body.get("metadata", {}), is_instantiated=False
            )
            return WebResponse(201, {}, json.dumps(self.instances[identifier]).encode())
        _, _, identifier, *action = path.split("/")
        instance = self.instances.get(identifier)
        if instance is None:
            raise TackerProblem("no instance", status=404)
        if method == "PATCH":
            instance["metadata"] |= (body or {}).get("metadata", {})
            return self._start_operation(instance, "modify_info", body or {})
        is_instantiated = instance["instantiationState"] == "INSTANTIATED"
        if is_instantiated is (not action or action == ["instantiate"]):
            raise TackerProblem("not in this state", status=409)
        if not action:
            del self.instances[identifier]
            return WebResponse(204, {}, b"")
        return self._start_operation(instance, action[0], body or {})

    def _start_operation(
        self, instance: dict[str, Any], action: str, body: Mapping[str, Any]
    ) -> WebResponse:
        """Run an operation to its end."""
        if action == "instantiate":
            self._instantiate(instance)
        elif action == "scale":
            info = instance["instantiatedVnfInfo"]
            steps = body["numberOfSteps"]
            if body["type"] == "SCALE_OUT":
                self._add_vnfcs(info, steps)
            else:
                steps = -steps
                del info["vnfcResourceInfo"][steps:]
            info["scaleStatus"][0]["scaleLevel"] += steps
        elif action == "heal":
            for row in instance["instantiatedVnfInfo"]["vnfcInfo"]:
                if row["id"] in body["vnfcInstanceId"]:
                    row["id"] = f"{row['id']}-healed"
        elif action == "terminate":
            instance["instantiationState"] = "NOT_INSTANTIATED"
            del instance["instantiatedVnfInfo"]
        number = next(self.numbers)
        self.operations[f"o{number}"] = {
            "id": f"o{number}",
            "operation": action.upper(),
            "operationState": "COMPLETED",
            "vnfInstanceId": instance["id"],
            "startTime": f"2026-01-01T{number:08d}",
        }
        return WebResponse(202, {"location": f"http://t/vnf_lcm_op_occs/o{number}"}, b"")
