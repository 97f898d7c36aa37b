"""Tests of tacker_vnf: VNFCs placed under the rules of their documents.

They are scaled, healed, and rejected with a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.domains.vnf.serving.grant_requests import build_grant_requests
from nexusform.domains.vnf.types.vnf_documents import (
    format_sku,
    list_block_problems,
    read_documents,
    resolve_vdu_size,
)
from nexusform.placements.consequences import ObjectChange
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.site_capacity.occupancy import VmOwnerKind
from nexusform.resource_types.registry import RESOURCE_TYPES
from nexusform.resources.address import parse_address
from nexusform.state.journal import InstanceOutcome, encode_journal_record
from nexusform.state.objects import EMPTY, InstanceState, ObjectState, State
from nexusform.state.state_codec import decode_state, encode_state
from nexusform.values.typed_value import UNKNOWN
from nexusform.workflow.opening.journal_replay import replay_journal
from nexusform.workflow.opening.system_io import ConfinedFileAccess
from tests.kill_points import scale_count
from tests.planning.harness import (
    add_consequences,
    attributes,
    build_state_after,
    is_empty,
    list_errors,
    list_triggers,
    list_warnings,
    plan,
    require_success,
)
from tests.state.journal_replay import build_journal_line
from tests.worlds.small_worlds import get_site

CASES = Path(__file__).parents[1] / "importers" / "cases"
VNF = "tacker_vnf.v"
TYPE = RESOURCE_TYPES["tacker_vnf"]
SMALL = {"vm_sku_name": "NC_G2_8_v1"}


def read_document(case: str, name: str) -> str:
    return (CASES / case / name).read_text()


def build_site(racks: int, machines: int) -> dict[str, Any]:
    made = {
        f"r{n}": {"site_id": "${nexus_site.s.id}", "machine_count": machines, "name": f"r{n}"}
        for n in range(racks)
    }
    return {"nexus_site": {"s": {}}, "nexus_rack": made}


def build_configuration(
    vnf: Mapping[str, Any], racks: int = 2, machines: int = 4
) -> dict[str, Any]:
    """Return a site and one VNF, as JSON configuration."""
    body = {"site_id": "${nexus_site.s.id}", **vnf}
    output = {"labels": {"value": "${{for n, v in tacker_vnf.v.vnfcs : n => v.labels}}"}}
    return {
        "main.nf.json": {
            "resource": {**build_site(racks, machines), "tacker_vnf": {"v": body}},
            "output": output,
        }
    }


def plan_vnf(
    vnf: Mapping[str, Any], state: State = EMPTY, racks: int = 2, machines: int = 4, **more: Any
) -> PlanResult:
    return plan(build_configuration(vnf, racks, machines), state, **more)


def read_vnfcs(state: State) -> dict[str, dict[str, Any]]:
    return dict(attributes(state, VNF)["vnfcs"])


def read_machines(state: State) -> dict[str, str]:
    return {name: found["machine"] for name, found in read_vnfcs(state).items()}


def join_diagnostics(found: list[Diagnostic]) -> str:
    return "\n".join(f"{d.summary}: {d.detail}" for d in found)


SPECIFICATION_HOT = {
    "base_hot": read_document("specification-hot", "base_hot.yaml"),
    "vdu": {"masterNode": SMALL, "workerNode": SMALL},
}
SPECIFICATION_VNFD = {
    "vnfd": read_document("specification-vnfd", "vnfd.yaml"),
    "vdu": {"masterNode": SMALL, "workerNode": SMALL},
}
PODAFFINITY = {
    "vnfd": read_document("podaffinity", "vnfd.yaml"),
    "base_hot": read_document("podaffinity", "base_hot.yaml"),
    "nested": {
        "master.yaml": read_document("podaffinity", "nested.master.yaml"),
        "worker.yaml": read_document("podaffinity", "nested.worker.yaml"),
    },
}


class TestSpecification:
    def test_hot_snippet_is_planned_as_printed(self) -> None:
        result = require_success(plan_vnf(SPECIFICATION_HOT))
        found = read_vnfcs(build_state_after(result))
        assert list(found) == [
            f"v-{vdu}-{n}" for vdu in ("masterNode", "workerNode") for n in range(3)
        ]
        assert len({vm["machine"] for vm in found.values()}) == 6
        assert {vm["provenance"] for vm in found.values()} == {"decided"}
        assert {row.provenance for row in result.plan.placements} == {"decided"}
        for line in (1, 2, 15, 21, 22, 25, 31, 32):
            assert f"base_hot:{line}:" in join_diagnostics(list_warnings(result))

    def test_vnfd_snippet_is_planned_as_printed(self) -> None:
        result = require_success(plan_vnf(SPECIFICATION_VNFD))
        state = build_state_after(result)
        assert Counter(vm["vdu"] for vm in read_vnfcs(state).values()) == {
            "masterNode": 1,
            "workerNode": 3,
        }
        assert len(set(read_machines(state).values())) == 4
        for line in (1, 2, 3, 5, 16, 20, 52, 58):
            assert f"vnfd:{line}:" in join_diagnostics(list_warnings(result))
        assert is_empty(plan_vnf(SPECIFICATION_VNFD, state))

    def test_six_separated_vms_need_six_machines(self) -> None:
        (error,) = list_errors(plan_vnf(SPECIFICATION_HOT, racks=1, machines=5))
        assert error.summary == "Unsatisfiable anti-affinity"
        assert (
            'base_hot:9: "srvgroup" separates the VMs of "masterNode", "workerNode": 6 VMs'
            in error.detail
        )
        assert error.subject is not None

    def test_largest_scale_is_checked_too(self) -> None:
        result = require_success(plan_vnf(SPECIFICATION_HOT))
        assert "base_hot:9" in join_diagnostics(
            [d for d in list_warnings(result) if "at the largest scale" in d.summary]
        )
        assert "10 VMs at the largest scale, and the site has 8 machines" in join_diagnostics(
            list_warnings(result)
        )
        quiet = require_success(plan_vnf(SPECIFICATION_HOT, machines=5))
        assert not [d for d in list_warnings(quiet) if "scale" in d.summary]


class TestArguments:
    def test_labels_are_derived_for_workers_only(self) -> None:
        result = require_success(plan_vnf(SPECIFICATION_HOT))
        state = build_state_after(result)
        labels = state.outputs["labels"].value
        worker = read_vnfcs(state)["v-workerNode-0"]
        assert labels["v-masterNode-0"] == {}
        assert labels["v-workerNode-0"] == {
            "CIS-node": worker["machine"],
            "kubernetes.io/zone": worker["machine"],
            "topology.kubernetes.io/zone": worker["availability_zone"],
        }
        assert "labels" not in worker

    def test_configured_role(self) -> None:
        vdus = {
            "masterNode": {**SMALL, "role": "Worker"},
            "workerNode": {**SMALL, "role": "ControlPlane"},
        }
        labels = (
            build_state_after(require_success(plan_vnf({**SPECIFICATION_HOT, "vdu": vdus})))
            .outputs["labels"]
            .value
        )
        assert labels["v-masterNode-0"]
        assert labels["v-workerNode-0"] == {}

    def test_sizes_come_from_documents_or_blocks(self) -> None:
        result = require_success(plan_vnf(PODAFFINITY))
        assert {r.sku for r in result.plan.placements} == {"2 vCPU / 4 GiB", "8 vCPU / 16 GiB"}
        block = {"workerNode": {"vcpus": 12, "memory_gib": 24}}
        result = require_success(plan_vnf({**PODAFFINITY, "vdu": block}))
        assert {r.sku for r in result.plan.placements} == {"2 vCPU / 4 GiB", "12 vCPU / 24 GiB"}

    @pytest.mark.parametrize(
        ("change", "summary", "word"),
        [
            ({"base_hot": None}, "Missing required argument", "vnfd"),
            ({"vdu": {"masterNode": SMALL}}, "VDU without size", "base_hot:25"),
            (
                {"vdu": {**SPECIFICATION_HOT["vdu"], "workernode": SMALL}},
                "Unknown VDU",
                'mean "workerNode"',
            ),
            (
                {"vdu": {"masterNode": SMALL, "workerNode": {**SMALL, "vcpus": 2}}},
                "Conflicting arguments",
                "vcpus",
            ),
            (
                {"vdu": {"masterNode": SMALL, "workerNode": {"vm_sku_name": "NC_X"}}},
                "Unknown VM SKU",
                "NC_X",
            ),
            ({"scale_levels": {"workernode": 1}}, "Invalid scale level", 'mean "workerNode"'),
            ({"scale_levels": {"workerNode": 3}}, "Invalid scale level", "0 to 2"),
            ({"instantiation_level": "big"}, "Unknown VNF size", "none"),
            ({"parameters": ["a"]}, "Incorrect attribute value type", "map"),
            (
                {"base_hot": "resources: {s: {type: a.yaml}}", "nested": {"a.yaml": None}},
                "Null value in a collection",
                '"nested" holds a null value',
            ),
            ({"base_hot": "a: ["}, "Invalid YAML", "base_hot:2"),
            ({"base_hot": "resources: {}"}, "Invalid VNF document", "no VDU"),
            ({"site_id": "nowhere"}, "Unknown site", "nowhere"),
        ],
    )
    def test_invalid_arguments(self, change: dict[str, Any], summary: str, word: str) -> None:
        given = {k: v for k, v in {**SPECIFICATION_HOT, **change}.items() if v is not None}
        found = list_errors(plan_vnf(given))
        assert summary in {d.summary for d in found}
        assert word in join_diagnostics(found)

    def test_parameters_are_passed_to_documents(self) -> None:
        given = {
            "vnfd": read_document("zones-and-sizes", "vnfd.yaml").replace("zone_group", "zone"),
            "parameters": {"memory": "2 GiB", "workers": 1},
            "vdu": {"upf": {"vcpus": 16, "memory_gib": 64}},
        }
        result = require_success(plan_vnf(given))
        sizes = {row.object: row.sku for row in result.plan.placements}
        assert sizes == {
            "v-amf-0": "4 vCPU / 8 GiB",
            "v-smf-0": "2 vCPU / 2 GiB",
            "v-upf-0": "16 vCPU / 64 GiB",
        }
        found = read_vnfcs(build_state_after(result))
        assert found["v-amf-0"]["rack"] != found["v-smf-0"]["rack"]

    @pytest.mark.parametrize("per_host", [1, 2])
    def test_grant_request_names_new_and_existing_members_of_a_rule(self, per_host: int) -> None:
        hot = read_document("heat-groups", "base_hot.yaml").partition("  lb:\n")[0]
        vnf = {"base_hot": hot, "parameters": {"per_host": per_host}, "vdu": {"web": SMALL}}
        result = require_success(plan_vnf(vnf))
        unchanged = plan_vnf(vnf, build_state_after(result), includes_rejections=True).plan
        assert build_grant_requests(unchanged) == {}
        vnf["parameters"] = {"per_host": per_host, "size": {"web": {"count": 5}}}
        requests = build_grant_requests(plan_vnf(vnf, build_state_after(result)).plan)
        (constraint,) = requests[VNF]["placementConstraints"]
        members = [
            (resource["idType"], resource["resourceId"]) for resource in constraint["resource"]
        ]
        assert members == [
            ("GRANT", "v-web-4"),
            *(("RES_MGMT", f"v-web-{number}") for number in range(4)),
        ]

    def test_unknown_arguments_are_accepted(self) -> None:
        assert TYPE.check is not None
        assert TYPE.check({"base_hot": UNKNOWN, "vdu": UNKNOWN, "scale_levels": UNKNOWN}) == []
        known = {**SPECIFICATION_HOT, "scale_levels": UNKNOWN, "instantiation_level": UNKNOWN}
        unknown = {
            **known,
            "vdu": {"masterNode": {"vm_sku_name": UNKNOWN}, "workerNode": {"vcpus": UNKNOWN}},
        }
        assert {str(p.severity) for p in TYPE.check(unknown)} == {"warning"}

    def test_contradictory_documents(self) -> None:
        given = {
            "vnfd": read_document("soft-against-hard", "vnfd.yaml").replace("- dbs_apart", "- dbs"),
            "base_hot": read_document("soft-against-hard", "base_hot.yaml"),
            "vdu": dict.fromkeys(("worker", "db", "cache", "extra"), SMALL),
        }
        result = plan_vnf(given)
        (error,) = list_errors(result)
        assert error.summary == "Unsatisfiable anti-affinity"
        assert 'vnfd:21: "dbs"' in error.detail
        assert '"together" (base_hot:7) keeps 2 of them together' in error.detail
        assert "Both can be met for at most 1 of these VMs" in join_diagnostics(
            list_warnings(result)
        )

    def test_opposite_groups_of_one_vm_do_not_contradict(self) -> None:
        given = {
            "vnfd": read_document("one-vm-in-both", "vnfd.yaml"),
            "base_hot": read_document("one-vm-in-both", "base_hot.yaml"),
            "nested": {
                name: read_document("one-vm-in-both", f"nested.{name}")
                for name in ("front.yaml", "back.yaml")
            },
            "vdu": dict.fromkeys(("front", "back"), SMALL),
        }
        result = require_success(plan_vnf(given))
        assert len(set(read_machines(build_state_after(result)).values())) == 3
        assert not [
            found for found in list_warnings(result) if found.summary.startswith("Contradictory")
        ]


class TestLifecycle:
    def test_scale_out_and_in(self) -> None:
        small = build_state_after(require_success(plan_vnf(PODAFFINITY)))
        larger = require_success(
            plan_vnf({**PODAFFINITY, "scale_levels": {"worker_instance": 2}}, small)
        )
        assert list_triggers(larger) == {
            f"v-workerNode-{n}": ("place", "scale_out") for n in (2, 3)
        }
        state = build_state_after(larger, small)
        assert read_machines(small).items() <= read_machines(state).items()
        smaller = require_success(
            plan_vnf({**PODAFFINITY, "scale_levels": {"worker_instance": 1}}, state)
        )
        assert list_triggers(smaller) == {"v-workerNode-3": ("remove", "scale_in")}

    def test_instantiation_level(self) -> None:
        state = build_state_after(
            require_success(plan_vnf({**PODAFFINITY, "instantiation_level": "largest"}, machines=5))
        )
        assert Counter(vm["vdu"] for vm in read_vnfcs(state).values()) == {
            "masterNode": 5,
            "workerNode": 4,
        }

    def test_size_change_re_creates_only_its_vdu(self) -> None:
        state = build_state_after(require_success(plan_vnf(PODAFFINITY)))
        changed = {**PODAFFINITY, "vdu": {"workerNode": {"vcpus": 4, "memory_gib": 8}}}
        found = list_triggers(require_success(plan_vnf(changed, state)))
        assert found == {f"v-workerNode-{n}": ("move", "sku_changed") for n in range(2)}

    def test_changed_role_moves_no_vm(self) -> None:
        state = build_state_after(require_success(plan_vnf(PODAFFINITY)))
        changed = {**PODAFFINITY, "vdu": {"workerNode": {"role": "ControlPlane"}}}
        assert list_triggers(require_success(plan_vnf(changed, state))) == {}

    def test_heal_moves_one_vm_and_keeps_it_separate(self) -> None:
        state = build_state_after(require_success(plan_vnf(PODAFFINITY)))
        before = read_machines(state)
        result = require_success(plan_vnf(PODAFFINITY, state, replaces=(f"{VNF}:v-masterNode-1",)))
        assert list_triggers(result) == {"v-masterNode-1": ("move", "heal")}
        after = read_machines(build_state_after(result, state))
        assert after["v-masterNode-1"] not in {before[f"v-masterNode-{n}"] for n in range(3)}
        assert {n: m for n, m in after.items() if n != "v-masterNode-1"}.items() <= before.items()

    def test_healed_vm_returns_without_other_capacity(self) -> None:
        state = build_state_after(
            require_success(plan_vnf(PODAFFINITY, racks=1, machines=3)), EMPTY
        )
        result = require_success(
            plan_vnf(PODAFFINITY, state, racks=1, machines=3, replaces=(f"{VNF}:v-masterNode-1",))
        )
        assert read_machines(build_state_after(result, state)) == read_machines(state)

    def test_name_change_replaces_vnf(self) -> None:
        state = build_state_after(require_success(plan_vnf(PODAFFINITY)))
        result = require_success(plan_vnf({**PODAFFINITY, "name": "w"}, state))
        assert min(read_vnfcs(build_state_after(result, state))) == "w-masterNode-0"


# The group of workers passes its hints under the name expected by Tacker's driver.
DRIVER = {
    **PODAFFINITY,
    "label_source": "mgmt_driver",
    "base_hot": PODAFFINITY["base_hot"].replace(
        "group: { get_resource: workers", "scheduler_hints: { get_resource: workers"
    ),
    "nested": {
        name: text.replace("get_param: group", "get_param: scheduler_hints")
        for name, text in PODAFFINITY["nested"].items()
    },
}
SOFT_DRIVER = {
    **DRIVER,
    "base_hot": DRIVER["base_hot"].replace("'anti-affinity'", "'soft-anti-affinity'"),
}


def read_worker_labels(state: State) -> list[dict[str, str]]:
    labels = state.outputs["labels"].value
    return [labels[name] for name, vm in read_vnfcs(state).items() if vm["vdu"] == "workerNode"]


class TestLabelSource:
    def test_driver_labels_separated_workers_with_machine_only(self) -> None:
        state = build_state_after(require_success(plan_vnf(DRIVER)))
        workers = [vm for vm in read_vnfcs(state).values() if vm["vdu"] == "workerNode"]
        assert read_worker_labels(state) == [{"CIS-node": vm["machine"]} for vm in workers]

    def test_zone_is_taken_from_grant(self) -> None:
        state = build_state_after(
            require_success(plan_vnf({**DRIVER, "grant_zone": "az-1", "labels": {"a": "b"}}))
        )
        assert [labels["kubernetes.io/zone"] for labels in read_worker_labels(state)] == [
            "az-1",
            "az-1",
        ]
        assert {labels["a"] for labels in read_worker_labels(state)} == {"b"}

    def test_soft_group_members_are_labelled_after_scale_or_heal(self) -> None:
        state = build_state_after(require_success(plan_vnf(SOFT_DRIVER)))
        assert read_worker_labels(state) == [{}, {}]
        assert all("operation" not in vm for vm in read_vnfcs(state).values())
        larger = {**SOFT_DRIVER, "scale_levels": {"worker_instance": 1}}
        state = build_state_after(require_success(plan_vnf(larger, state)), state)
        assert [bool(labels) for labels in read_worker_labels(state)] == [False, False, True]
        result = require_success(plan_vnf(larger, state, replaces=(f"{VNF}:v-workerNode-0",)))
        state = build_state_after(result, state)
        assert [bool(labels) for labels in read_worker_labels(state)] == [True, False, True]
        assert read_vnfcs(state)["v-workerNode-0"]["operation"] == "healed"
        assert read_vnfcs(state)["v-workerNode-2"]["operation"] == "scaled"
        assert is_empty(plan_vnf(larger, state))

    def test_state_and_journal_of_earlier_version_are_read(self) -> None:
        # Earlier versions recorded the operation of a VNFC as "came".
        schemas = {"tacker_vnf": TYPE.schema}
        address = parse_address(VNF)
        vnfcs = {"v-workerNode-0": {"vdu": "workerNode", "number": 0, "operation": "healed"}}
        instance = InstanceState(ObjectState({"site_id": "s", "name": "v", "vnfcs": vnfcs}, 1))
        state = replace(EMPTY, lineage="l", serial=1, instances={address: instance})
        state = replace(state, last_creation=1)
        earlier = encode_state(state).replace(b'"operation":', b'"came":')
        assert earlier.count(b'"came":') == 1
        read, problems = decode_state(earlier, "state", schemas)
        assert (read, problems) == (state, [])
        outcome = InstanceOutcome(address, 1, instance)
        text = encode_journal_record(outcome).partition(b'"record":')[2].removesuffix(b"}")
        line = build_journal_line(text.replace(b'"operation":', b'"came":'))
        draft, _, problems = replay_journal(state, [line], "journal", schemas)
        assert problems == []
        assert draft is not None
        assert draft.build_state().instances == state.instances

    def test_hints_under_another_name_are_labelled_only_at_instantiation(self) -> None:
        hidden = {**PODAFFINITY, "label_source": "mgmt_driver"}
        state = build_state_after(require_success(plan_vnf(hidden)))
        state = build_state_after(
            require_success(plan_vnf({**hidden, "scale_levels": {"worker_instance": 1}}, state)),
            state,
        )
        assert [bool(labels) for labels in read_worker_labels(state)] == [True, True, False]

    def test_vnfd_rules_alone_are_labelled_like_their_translation(self) -> None:
        state = build_state_after(
            require_success(plan_vnf({**SPECIFICATION_VNFD, "label_source": "mgmt_driver"}))
        )
        assert all(set(labels) == {"CIS-node"} for labels in read_worker_labels(state))

    def test_invalid_label_source(self) -> None:
        found = list_errors(plan_vnf({**PODAFFINITY, "grant_zone": "az-1"}))
        assert 'label_source = "mgmt_driver"' in join_diagnostics(found)
        assert list_errors(plan_vnf({**PODAFFINITY, "label_source": "driver"}))


@pytest.mark.parametrize(("level", "workers"), [(0, 1), (1, 2), (3, 6)])
def test_scale_level_replaces_the_one_of_the_instantiation_level(level: int, workers: int) -> None:
    sizes = {"worker": SMALL, "store": SMALL}
    vnf = {"vnfd": read_document("levels", "vnfd.yaml"), "instantiation_level": "big", "vdu": sizes}
    found = read_vnfcs(
        build_state_after(
            require_success(plan_vnf({**vnf, "scale_levels": {"size": level}}, machines=9))
        )
    )
    assert Counter(vm["vdu"] for vm in found.values())["worker"] == workers


def test_missing_nested_template_is_to_be_given_before_its_servers_need_a_size() -> None:
    server = {"type": "OS::Nova::Server", "properties": {"flavor": "m1", "image": "i"}}
    agent = {"type": "agent.yaml", "properties": {}}
    server["properties"] |= {"user_data": {"get_attr": ["agent", "config"]}}
    hot = {"heat_template_version": "2018-08-31", "resources": {"agent": agent, "w": server}}
    vnf = {"base_hot": yaml.safe_dump(hot), "vdu": {"w": SMALL}}
    (error,) = list_errors(plan_vnf(vnf))
    assert error.summary == "VDU without size"
    assert 'The nested template "agent.yaml" of "agent" (base_hot:' in error.detail
    assert "Give the file with nested or csar." in error.detail
    config = {"heat_template_version": "2018-08-31", "outputs": {"config": {"value": "c"}}}
    result = require_success(plan_vnf({**vnf, "nested": {"agent.yaml": yaml.safe_dump(config)}}))
    assert {row.pool for row in result.plan.placements} == {"w"}


class TestFlavors:
    def test_vm_sku_named_like_flavor_sets_size(self) -> None:
        server = {"type": "OS::Nova::Server", "properties": {"flavor": {"get_param": "flavor"}}}
        hot = {"heat_template_version": "2018-08-31", "resources": {"w": server}}
        files = build_configuration(
            {"base_hot": yaml.safe_dump(hot), "parameters": {"flavor": "m1.tiny"}}
        )
        (error,) = list_errors(plan(files))
        assert error.summary == "Unknown VM SKU"
        assert 'has the flavor "m1.tiny", and neither a flavor of the site' in error.detail
        assert "CNF" not in error.detail
        vdu = {
            "type": "tosca.nodes.nfv.Vdu.Compute",
            "properties": {"name": "pods", "description": ""},
        }
        topology = {"node_templates": {"pods": vdu}}
        vnfd = {"tosca_definitions_version": "tosca_simple_yaml_1_2", "topology_template": topology}
        (error,) = list_errors(plan(build_configuration({"vnfd": yaml.safe_dump(vnfd)})))
        assert "If it is a container (CNF), plan its pods with fleet_hub_manifest." in error.detail
        sku = {"name": "m1.tiny", "vcpus": 2, "memory_gib": 4, "emulator_vcpus": 0, "numa_cells": 1}
        files["main.nf.json"]["resource"]["nexus_vm_sku"] = {"tiny": sku}
        result = require_success(plan(files))
        assert [row.sku for row in result.plan.placements] == ["m1.tiny"]
        assert is_empty(plan(files, build_state_after(result)))


REQUEST = """{
  "flavourId": "podaffinity",
  "instantiationLevelId": "largest",
  "additionalParams": {"nfv": {}, "worker_group_name": "w"},
  "vimConnectionInfo": [{"id": "v", "vimType": "openstack"}]
}"""


class TestRequest:
    def test_request_replaces_the_arguments(self) -> None:
        state = build_state_after(
            require_success(plan_vnf({**PODAFFINITY, "instantiate_request": REQUEST}, machines=5))
        )
        assert Counter(vm["vdu"] for vm in read_vnfcs(state).values()) == {
            "masterNode": 5,
            "workerNode": 4,
        }
        values = attributes(state, VNF)
        assert values["flavour_id"] == "podaffinity"
        assert values["parameters"] == {"nfv": {}, "worker_group_name": "w"}
        own = {"instantiate_request": REQUEST, "parameters": {"worker_group_name": "x"}}
        state = build_state_after(require_success(plan_vnf({**PODAFFINITY, **own}, machines=5)))
        assert attributes(state, VNF)["parameters"] == {"nfv": {}, "worker_group_name": "x"}

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"instantiate_request": "{\n a"}, "line 2, column 2"),
            ({"instantiate_request": "[]"}, "not a JSON object"),
            ({"instantiate_request": '{"a": NaN}'}, "NaN"),
            ({"instantiate_request": '{"flavourId": 1}'}, "flavourId is not a text"),
            (
                {"instantiate_request": '{"additionalParams": []}'},
                "additionalParams is not an object",
            ),
            (
                {"instantiate_request": REQUEST, "flavour_id": "x"},
                'flavourId of the request is "podaffinity"',
            ),
        ],
    )
    def test_invalid_requests(self, change: dict[str, Any], words: str) -> None:
        assert words in join_diagnostics(list_errors(plan_vnf({**PODAFFINITY, **change})))


class TestPackage:
    def test_directory_replaces_the_documents(self, tmp_path: Path) -> None:
        package = tmp_path / "package"
        (package / "BaseHOT" / "podaffinity" / "nested").mkdir(parents=True)
        (package / "vnfd.yaml").write_text(PODAFFINITY["vnfd"])
        (package / "BaseHOT" / "podaffinity" / "top.yaml").write_text(PODAFFINITY["base_hot"])
        for name, text in PODAFFINITY["nested"].items():
            (package / "BaseHOT" / "podaffinity" / "nested" / name).write_text(text)
        packaged = {"csar": str(package), "instantiate_request": REQUEST}
        state = build_state_after(
            require_success(plan_vnf(packaged, machines=5, files_there=ConfinedFileAccess()))
        )
        assert attributes(state, VNF)["nested"] == PODAFFINITY["nested"]
        assert is_empty(plan_vnf(packaged, state, machines=5, files_there=ConfinedFileAccess()))
        told = join_diagnostics(
            list_errors(plan_vnf({**packaged, "vnfd": "x"}, files_there=ConfinedFileAccess()))
        )
        assert "csar already contains vnfd" in told
        told = join_diagnostics(
            list_errors(
                plan_vnf({"csar": str(package / "absent")}, files_there=ConfinedFileAccess())
            )
        )
        assert "neither a zip file nor a directory" in told


def build_rule(kind: str, scope: str, vdus: list[str]) -> dict[str, Any]:
    return {
        "type": f"tosca.policies.nfv.{kind}Rule",
        "properties": {"scope": scope},
        "targets": vdus,
    }


def build_descriptor(numbers: list[int], rules: list[tuple[str, str, list[int]]]) -> str:
    """Return a VNFD with VDUs d0, d1, ... scaled together, and rules (kind, scope, VDUs)."""
    names = [f"d{n}" for n in range(len(numbers))]
    policies: list[dict[str, Any]] = [
        {f"rule{n}": build_rule(kind, scope, [names[v] for v in vdus])}
        for n, (kind, scope, vdus) in enumerate(rules)
    ]
    aspects = {name: {"max_scale_level": 1, "step_deltas": ["one"]} for name in names}
    policies.append(
        {
            "aspects": {
                "type": "tosca.policies.nfv.ScalingAspects",
                "properties": {"aspects": aspects},
            }
        }
    )
    for name, number in zip(names, numbers, strict=True):
        initial = {"initial_delta": {"number_of_instances": number}}
        policies.append(
            {
                f"{name}_i": {
                    "type": "tosca.policies.nfv.VduInitialDelta",
                    "properties": initial,
                    "targets": [name],
                }
            }
        )
        steps = {"aspect": name, "deltas": {"one": {"number_of_instances": 1}}}
        policies.append(
            {
                f"{name}_s": {
                    "type": "tosca.policies.nfv.VduScalingAspectDeltas",
                    "properties": steps,
                    "targets": [name],
                }
            }
        )
    vdu = {
        "type": "tosca.nodes.nfv.Vdu.Compute",
        "properties": {"vdu_profile": {"max_number_of_instances": 9}},
    }
    return yaml.safe_dump(
        {"topology_template": {"node_templates": dict.fromkeys(names, vdu), "policies": policies}}
    )


@st.composite
def vnf_cases(draw: st.DrawFn) -> tuple[list[int], list[tuple[str, str, list[int]]], int, int]:
    numbers = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    some = st.lists(st.integers(0, len(numbers) - 1), min_size=1, max_size=3, unique=True)
    kinds = st.tuples(
        st.sampled_from(["Affinity", "AntiAffinity", "AntiAffinity"]),
        st.sampled_from(["nfvi_node", "zone"]),
        some,
    )
    return (
        numbers,
        draw(st.lists(kinds, max_size=3)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
    )


def meets_rules(
    found: Mapping[str, Mapping[str, Any]], rules: list[tuple[str, str, list[int]]]
) -> bool:
    """Return whether the placement meets every rule."""
    for kind, scope, vdus in rules:
        key = "machine" if scope == "nfvi_node" else "rack"
        used = Counter(vm[key] for vm in found.values() if vm["vdu"] in {f"d{v}" for v in vdus})
        if (len(used) > 1) if kind == "Affinity" else any(count > 1 for count in used.values()):
            return False
    return True


@settings(max_examples=scale_count(120), deadline=None)
@given(vnf_cases(), st.data())
def test_rules_hold_through_lifecycle_of_vnf(
    world: tuple[list[int], list[tuple[str, str, list[int]]], int, int], data: st.DataObject
) -> None:
    numbers, rules, racks, machines = world
    vdus = {f"d{n}": SMALL for n in range(len(numbers))}
    vnf: dict[str, Any] = {"vnfd": build_descriptor(numbers, rules), "vdu": vdus}
    result = plan_vnf(vnf, racks=racks, machines=machines)
    if result.plan.errored:
        assert {d.summary for d in list_errors(result)} <= {
            "Unsatisfiable anti-affinity"
        } or "do not fit" in join_diagnostics(list_errors(result))
        assert rules
        return
    state = build_state_after(result)
    assert Counter(vm["vdu"] for vm in read_vnfcs(state).values()) == {
        f"d{n}": c for n, c in enumerate(numbers) if c
    }
    assert meets_rules(read_vnfcs(state), rules)
    which = data.draw(st.sampled_from(sorted(vdus)))
    out = plan_vnf({**vnf, "scale_levels": {which: 1}}, state, racks=racks, machines=machines)
    newest = f"v-{which}-{numbers[int(which[1:])]}"
    if not out.plan.errored:
        assert list_triggers(out) == {newest: ("place", "scale_out")}
        grown = build_state_after(out, state)
        assert meets_rules(read_vnfcs(grown), rules)
        back = require_success(plan_vnf(vnf, grown, racks=racks, machines=machines))
        assert list_triggers(back) == {newest: ("remove", "scale_in")}
        assert read_machines(build_state_after(back, grown)) == read_machines(state)
    if read_vnfcs(state):
        healed = data.draw(st.sampled_from(sorted(read_vnfcs(state))))
        result = require_success(
            plan_vnf(vnf, state, racks=racks, machines=machines, replaces=(f"{VNF}:{healed}",))
        )
        assert list_triggers(result) == {healed: ("move", "heal")}
        assert meets_rules(read_vnfcs(build_state_after(result, state)), rules)


@pytest.mark.of_domains("fleet")
def test_dependents_of_invalid_vnf_have_no_second_error() -> None:
    hot = {
        "heat_template_version": "2018-08-31",
        "resources": {
            "g": {"type": "OS::Nova::ServerGroup", "properties": {"policies": ["anti-affinity"]}},
            "w": {
                "type": "OS::Heat::ResourceGroup",
                "properties": {
                    "count": 3,
                    "resource_def": {
                        "type": "OS::Nova::Server",
                        "properties": {"scheduler_hints": {"group": {"get_resource": "g"}}},
                    },
                },
            },
        },
    }
    files = build_configuration(
        {"base_hot": yaml.safe_dump(hot), "vdu": {"w": SMALL}}, racks=1, machines=2
    )
    body = {
        "cluster_id": "${tacker_vnf.v.id}",
        "yaml_body": "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}",
    }
    files["main.nf.json"]["resource"]["fleet_hub_manifest"] = {"m": body}
    assert [d.summary for d in list_errors(plan(files))] == ["Unsatisfiable anti-affinity"]
    body["cluster_id"] = "${uuid()}"
    found = {d.summary for d in list_errors(plan(files))}
    assert found == {"Unsatisfiable anti-affinity", "Placement argument unknown"}


def test_new_group_for_vms_on_one_machine_names_vms_to_heal() -> None:
    def build_hot(*, apart: bool) -> str:
        hints = {"scheduler_hints": {"group": {"get_resource": "g"}}} if apart else {}
        group = {"type": "OS::Nova::ServerGroup", "properties": {"policies": ["anti-affinity"]}}
        server = {"type": "OS::Nova::Server", "properties": hints}
        workers = {
            "type": "OS::Heat::ResourceGroup",
            "properties": {"count": 3, "resource_def": server},
        }
        template = {"heat_template_version": "2018-08-31", "resources": {"g": group, "w": workers}}
        return str(yaml.safe_dump(template))

    def build_vnf(*, apart: bool) -> dict[str, Any]:
        return {"base_hot": build_hot(apart=apart), "vdu": {"w": SMALL}}

    state = build_state_after(
        require_success(plan_vnf(build_vnf(apart=False), racks=1, machines=1))
    )
    result = require_success(plan_vnf(build_vnf(apart=True), state, racks=1, machines=3))
    assert not list_triggers(result)
    (told,) = [w for w in list_warnings(result) if w.summary == "Placement group violation"]
    assert "g (base_hot:3)" in told.detail
    for name in ("v-w-1", "v-w-2"):
        assert f"-replace='{VNF}:{name}'" in told.detail
    assert "v-w-0" not in told.detail
    asked = (f"{VNF}:v-w-1", f"{VNF}:v-w-2")
    healed = require_success(
        plan_vnf(build_vnf(apart=True), state, racks=1, machines=3, replaces=asked)
    )
    assert not [w for w in list_warnings(healed) if w.summary == told.summary]
    assert len(set(read_machines(build_state_after(healed, state)).values())) == 3


def test_smaller_vnf_reports_no_lost_preference() -> None:
    hot = {
        "heat_template_version": "2018-08-31",
        "resources": {
            "w": {
                "type": "OS::Heat::AutoScalingGroup",
                "properties": {
                    "min_size": 1,
                    "max_size": 3,
                    "desired_capacity": 1,
                    "resource": {"type": "OS::Nova::Server"},
                },
            }
        },
    }
    vnf = {"base_hot": yaml.safe_dump(hot), "vdu": {"w": SMALL}}
    state = build_state_after(require_success(plan_vnf({**vnf, "scale_levels": {"w": 2}})))
    smaller = require_success(plan_vnf({**vnf, "scale_levels": {"w": 0}}, state))
    assert {found[0] for found in list_triggers(smaller).values()} == {"remove"}
    assert [table.minimum_remaining_on_rack for table in smaller.plan.figures.placement_tables] == [
        None
    ]


def test_memory_is_counted_in_mib() -> None:
    """A flavor with 512 MB counts as half a GiB, not as one GiB; whole figures stay integers."""
    for written, gib, label in (
        ("512 MB", 0.5, "0.5"),
        ("4 GB", 4, "4"),
        ("1500 MiB", 1500 / 1024, "1.46484"),
    ):
        text = (
            "tosca_definitions_version: tosca_simple_yaml_1_2\ntopology_template:\n  "
            "node_templates:\n"
            "    a:\n      type: tosca.nodes.nfv.Vdu.Compute\n      capabilities:\n        "
            "virtual_compute:\n"
            f"          properties: {{virtual_memory: {{virtual_mem_size: {written}}}, "
            "virtual_cpu: {num_virtual_cpu: 1}}\n"
        )
        (vdu,) = read_documents({"vnfd": text}).vnf.vdus
        assert resolve_vdu_size(vdu, {}) == (1, gib, 0)
        assert format_sku(vdu, {}) == f"1 vCPU / {label} GiB"
        assert resolve_vdu_size(vdu, {"memory_gib": Fraction(1, 3)})[1] == 342 / 1024
    (problem,) = list_block_problems({"a": {"memory_gib": 0}})
    assert problem.detail == '"memory_gib" must be above 0.'


def test_control_plane_of_vnf_is_found_by_role() -> None:
    site = get_site(build_state_after(plan_vnf(SPECIFICATION_HOT)))
    [vnf] = site.clusters
    assert (vnf.kind, [(p.name, p.is_control_plane, len(p.vms)) for p in vnf.pools]) == (
        VmOwnerKind.GROUP,
        [("masterNode", True, 3), ("workerNode", False, 3)],
    )


def build_rules_vnfd(*policies: tuple[str, list[str]]) -> str:
    """Return a VNFD with two VDUs and anti-affinity rules for them."""
    compute = {
        "capabilities": {
            "virtual_compute": {"properties": {"virtual_memory": {"virtual_mem_size": "4 GB"}}}
        }
    }
    nodes = {
        name: {
            "type": "tosca.nodes.nfv.Vdu.Compute",
            "properties": {
                "vdu_profile": {"min_number_of_instances": least, "max_number_of_instances": 4}
            },
            **compute,
        }
        for name, least in (("one", 1), ("three", 3))
    }
    listed = [
        {
            name: {
                "type": "tosca.policies.nfv.AntiAffinityRule",
                "targets": targets,
                "properties": {"scope": "nfvi_node"},
            }
        }
        for name, targets in policies
    ]
    return yaml.safe_dump(
        {"topology_template": {"node_templates": nodes, "policies": listed}}, sort_keys=False
    )


def build_vnf_with_rules(*policies: tuple[str, list[str]]) -> dict[str, Any]:
    blocks = dict.fromkeys(("one", "three"), SMALL)
    return {"vnfd": build_rules_vnfd(*policies), "vdu": blocks}


def test_rule_with_one_vm_makes_tacker_skip_later_rules() -> None:
    result = plan_vnf(build_vnf_with_rules(("alone", ["one"]), ("apart", ["three"])))
    [warning] = [found for found in list_warnings(result) if found.id == "rules-left-out-by-tacker"]
    assert '"alone" has fewer than 2 VMs' in warning.detail
    assert '"apart"' in warning.detail
    last = plan_vnf(build_vnf_with_rules(("apart", ["three"]), ("alone", ["one"])))
    assert "rules-left-out-by-tacker" not in {found.id for found in list_warnings(last)}


def test_separated_vdu_with_minimum_below_two_is_a_warning() -> None:
    found = [
        each
        for each in list_warnings(plan_vnf(build_vnf_with_rules(("apart", ["one", "three"]))))
        if "below-two" in each.id
    ]
    assert ["its min_number_of_instances is 1" in each.detail for each in found] == [True]


HOT = """heat_template_version: 2018-08-31
resources:
  worker:
    type: OS::Heat::ResourceGroup
    properties:
      count: 3
      resource_def: {type: OS::Nova::Server, properties: {flavor: small}}
"""


def build_sized_vnf(count: int) -> dict[str, Any]:
    return {"base_hot": HOT.replace("count: 3", f"count: {count}"), "vdu": {"worker": SMALL}}


def test_scale_in_after_heal_removes_healed_vm() -> None:
    """Tacker removes the VNFCs created last."""

    state = build_state_after(require_success(plan_vnf(build_sized_vnf(3))))
    healed = build_state_after(
        require_success(plan_vnf(build_sized_vnf(3), state, replaces=("tacker_vnf.v:v-worker-1",))),
        state,
    )
    smaller = build_state_after(require_success(plan_vnf(build_sized_vnf(2), healed)), healed)
    assert set(read_vnfcs(smaller)) == {"v-worker-0", "v-worker-2"}
    assert is_empty(plan_vnf(build_sized_vnf(2), smaller))
    larger = build_state_after(require_success(plan_vnf(build_sized_vnf(3), smaller)), smaller)
    assert set(read_vnfcs(larger)) == {"v-worker-0", "v-worker-1", "v-worker-2"}
    assert {name: each.get("operation") for name, each in read_vnfcs(larger).items()}[
        "v-worker-1"
    ] == "scaled"


@pytest.mark.parametrize(
    ("group", "ending"),
    [
        ("'anti-affinity'", ""),
        ("'soft-anti-affinity'", "loses part of the anti-affinity of server group "),
        ("", "loses the anti-affinity of server group "),
    ],
)
def test_removed_or_softer_server_group_is_a_lost_rule(group: str, ending: str) -> None:
    before = {**DRIVER, "name": "v", "site_id": "s"}
    base = DRIVER["base_hot"].replace("'anti-affinity'", group)
    assert (base == DRIVER["base_hot"]) is not bool(ending)
    change = ObjectChange(before, {**before, "base_hot": base})
    found = TYPE.consequences.find_weakening(change)
    assert found.startswith(ending)
    assert bool(found) is bool(ending)


def test_healed_vms_may_lose_the_data_of_their_local_disks() -> None:
    """The VNF stays, so nothing of it is destroyed; its volumes may be on other storage."""
    state = build_state_after(require_success(plan_vnf(build_sized_vnf(3))))
    healed = require_success(
        plan_vnf(build_sized_vnf(3), state, replaces=("tacker_vnf.v:v-worker-1",))
    )
    (record,) = [
        item for item in add_consequences(healed.plan).impact.consequences if item.is_lasting
    ]
    assert record.text == "VNF v: 1 VM is re-created; data of local disks may be lost"
    assert (record.kind, record.data, record.runs) == ("restarts", "unknown", {"vm": 1})


def test_removed_taint_of_workers_is_a_lost_rule() -> None:
    tainted = {**DRIVER, "taints": [{"key": "dedicated", "effect": "NoSchedule"}]}
    change = ObjectChange(tainted, {**tainted, "taints": []})
    assert TYPE.consequences.find_weakening(change) == "loses taint dedicated:NoSchedule"
