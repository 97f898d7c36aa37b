"""Tests of exports of az networkcloud.

Both forms, joins, states, cells, and all kinds of invalid content.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.documents.times import parse_duration, parse_time
from nexusform.domains.azure.importers.arm_resources import extract_resource_group
from nexusform.domains.azure.importers.az_capture_commands import NOT_CAPTURED, VMS_NOT_CAPTURED
from nexusform.domains.azure.importers.az_documents import Documents, parse_json
from nexusform.domains.azure.importers.az_inventory import MAX_FINDINGS, read_inventory, read_sites
from nexusform.domains.azure.importers.az_machines import find_machine_sku, parse_machine_roles
from nexusform.domains.azure.importers.az_records import AzInventory
from nexusform.domains.azure.importers.azure_fields import read_azure_schema
from nexusform.doubts.doubt import Influence
from nexusform.resource_types.machine_facts import describe_unschedulable_reasons
from tests.kill_points import scale_count

GROUP = "/subscriptions/s/resourceGroups/Managed/providers/Microsoft.NetworkCloud"
POOLS = f"{GROUP}/kubernetesClusters/k/agentPools"
COMPUTE = "platform.afo-nc.microsoft.com/compute-plane=true"


def build_rack(name: str = "r1", **more: Any) -> dict[str, Any]:
    return {
        "id": f"{GROUP}/racks/{name}",
        "name": name,
        "availabilityZone": "1",
        "rackSkuId": "/providers/Microsoft.NetworkCloud/rackSkus/VNearEdge1_Compute_DellR750_4C2M",
        **more,
    }


def build_machine(
    name: str = "m1", slot: int = 1, rack_name: str = "r1", **more: Any
) -> dict[str, Any]:
    return {
        "id": f"{GROUP}/bareMetalMachines/{name}",
        "name": name,
        "rackId": f"{GROUP}/racks/{rack_name}",
        "rackSlot": slot,
        "machineSkuId": "AAAA",
        "machineRoles": [COMPUTE],
        "cordonStatus": "Uncordoned",
        "powerState": "On",
        "readyState": "True",
        "detailedStatus": "Provisioned",
        **more,
    }


def build_node(
    name: str, on: str | None, sku: str = "NC_P22_112_v1", pool: str | None = "np1"
) -> dict[str, Any]:
    return {
        "name": name,
        "agentPoolId": f"{GROUP}/kubernetesClusters/k/agentPools/{pool}" if pool else None,
        "bareMetalMachineId": f"{GROUP}/bareMetalMachines/{on}" if on else None,
        "vmSkuName": sku,
        "cpuCores": 22,
        "memorySizeGB": 112,
        "diskSizeGB": 300,
    }


def build_cluster(*nodes: dict[str, Any], name: str = "k") -> dict[str, Any]:
    return {"id": f"{GROUP}/kubernetesClusters/{name}", "name": name, "nodes": list(nodes)}


def build_vm(
    name: str, on: str | None, cores: int = 4, memory: int = 16, **more: Any
) -> dict[str, Any]:
    return {
        "id": f"{GROUP}/virtualMachines/{name}",
        "name": name,
        "cpuCores": cores,
        "provisioningState": "Succeeded",
        "detailedStatus": "Running",
        "powerState": "On",
        "memorySizeGB": memory,
        "bareMetalMachineId": f"{GROUP}/bareMetalMachines/{on}" if on else None,
        "storageProfile": {"osDisk": {"createOption": "Ephemeral", "diskSizeGB": 100}},
        **more,
    }


def build_documents(**kinds: Any) -> Documents:
    given_kinds = {"racks": [build_rack()], "bare_metal_machines": [build_machine()]} | kinds
    return {
        kind: [
            (
                f"{kind}.json",
                content if isinstance(content, bytes) else json.dumps(content).encode(),
            )
        ]
        for kind, content in given_kinds.items()
    }


def read_documents(**kinds: Any) -> tuple[AzInventory, tuple[Problem, ...]]:
    return remove_capture_findings(read_inventory(build_documents(**kinds)))


def remove_capture_findings(answer: Read) -> Read:
    """Return the result without findings about kinds missing in these small exports."""
    inventory, findings = answer
    lacking = {NOT_CAPTURED, VMS_NOT_CAPTURED, "missing-file", "derived-value"}
    return inventory, tuple(f for f in findings if f.id not in lacking)


def convert_to_rest(items: list[dict[str, Any]]) -> dict[str, Any]:
    outside = {"id", "name", "systemData"}
    return {
        "value": [
            {k: v for k, v in item.items() if k in outside}
            | {"properties": {k: v for k, v in item.items() if k not in outside}}
            for item in items
        ],
        "nextLink": None,
    }


class TestForms:
    def test_az_and_rest_forms_have_the_same_result(self) -> None:
        kinds: dict[str, list[dict[str, Any]]] = {
            "racks": [build_rack()],
            "bare_metal_machines": [build_machine(), build_machine("m2", 2)],
            "kubernetes_clusters": [build_cluster(build_node("n", "m1"))],
            "virtual_machines": [build_vm("v", "m2")],
        }
        flat, problems = read_documents(**kinds)
        rest, more = read_documents(
            **{kind: convert_to_rest(items) for kind, items in kinds.items()}
        )
        assert flat == rest
        assert problems == more == ()

    def test_arm_ids_are_joined_regardless_of_case(self) -> None:
        inventory, findings = read_documents(
            bare_metal_machines=[build_machine(rackId=f"{GROUP}/racks/r1".upper() + "/")],
            kubernetes_clusters=[
                build_cluster(
                    {**build_node("n", None), "bareMetalMachineId": f"{GROUP}/BAREMETALMACHINES/M1"}
                )
            ],
        )
        assert not findings
        assert inventory.machines[0].rack == "r1"
        placement = inventory.clusters[0].nodes[0].placement
        assert placement is not None
        assert (placement.machine, placement.rack, placement.availability_zone) == ("m1", "r1", "1")

    def test_single_resource_without_list(self) -> None:
        inventory, findings = read_documents(racks=build_rack())
        assert (len(inventory.racks), findings) == (1, ())

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
    def test_output_of_powershell(self, encoding: str) -> None:
        inventory, findings = read_documents(
            racks=json.dumps([build_rack("rück")]).encode(encoding)
        )
        assert [r.name for r in inventory.racks] == ["rück"]
        assert [f.id for f in findings] == ["unknown-rack"]

    @pytest.mark.parametrize("kind", ["racks", "virtual_machines"])
    def test_incomplete_list_is_an_error_for_required_kinds(self, kind: str) -> None:
        bodies = {"racks": [build_rack()], "virtual_machines": []}[kind]
        _, (finding,) = read_documents(
            **{kind: {"value": bodies, "nextLink": "https://example.test/2"}}
        )
        severity = Severity.ERROR if kind == "racks" else Severity.WARNING
        assert (finding.id, finding.severity) == ("incomplete-list", severity)


class TestRacksAndMachines:
    @pytest.mark.parametrize(
        ("rack_sku", "machine_sku"),
        [
            ("/x/rackSkus/VNearEdge1_Compute_DellR750_16C2M", "bom-1.7.3"),
            ("VNearEdge4_Compute_DellR760_8C2M", "bom-2.0"),
            ("vnearedge3_compute_11c3m", "bom-1.7.3"),
            ("SomethingElse", None),
            (None, None),
        ],
    )
    def test_hardware_is_derived_from_rack_sku(
        self, rack_sku: str | None, machine_sku: str | None
    ) -> None:
        assert find_machine_sku(rack_sku) == machine_sku

    def test_machine_sku_by_id_wins_regardless_of_case(self) -> None:
        inventory, _ = read_inventory(build_documents(), {"aaaa": "bom-2.0"})
        assert inventory.machines[0].machine_sku == "bom-2.0"

    def test_unknown_hardware_is_a_warning_with_advice(self) -> None:
        inventory, (finding,) = read_documents(racks=[build_rack(rackSkuId="Special")])
        assert inventory.machines[0].machine_sku is None
        assert finding.severity is Severity.WARNING
        assert 'machine_sku_by_id = { "AAAA"' in finding.detail
        assert "racksku list --output json > rack_skus.json" in finding.detail

    def test_roles_are_parsed_without_prefix_and_flag(self) -> None:
        labels = [COMPUTE, "platform.afo-nc.microsoft.com/management-plane=false", "control-plane"]
        assert parse_machine_roles(labels) == ("compute-plane", "control-plane")

    def test_states_are_kept(self) -> None:
        machines = [
            build_machine(cordonStatus="Cordoned"),
            build_machine("m2", 2, powerState="Off", readyState="False"),
        ]
        inventory, _ = read_documents(bare_metal_machines=machines)
        first, second = inventory.machines
        assert (first.facts["cordon_status"], first.facts["power_state"]) == ("Cordoned", "On")
        assert (second.facts["power_state"], second.facts["ready_state"]) == ("Off", "False")

    def test_absent_state_of_machine_is_unknown(self) -> None:
        inventory, (finding,) = read_documents(bare_metal_machines=[build_machine(powerState=None)])
        assert [inventory.machines[0].facts[name] for name in ("power_state", "ready_state")] == [
            "Unknown",
            "True",
        ]
        assert "powerState" in finding.detail

    def test_aggregator_racks_without_machines_are_omitted(self) -> None:
        aggregator = build_rack("agg", rackSkuId="/x/rackSkus/VNearEdge1_Aggregator_x70")
        inventory, findings = read_documents(racks=[build_rack(), aggregator])
        assert ([r.name for r in inventory.racks], findings) == (["r1"], ())

    def test_machine_in_unlisted_rack_is_an_error(self) -> None:
        _, (finding,) = read_documents(bare_metal_machines=[build_machine(rack_name="r9")])
        assert (finding.severity, finding.position_text) == (Severity.ERROR, "[0].rackId")
        assert '"r9"' in finding.detail

    def test_duplicate_machine_is_reported(self) -> None:
        inventory, findings = read_documents(
            bare_metal_machines=[build_machine(), build_machine(slot=2)]
        )
        assert len(inventory.machines) == 1
        assert [f.id for f in findings] == ["duplicate-machine"]


class TestWorkloads:
    def test_nodes_have_figures_of_sku_with_emulator_threads(self) -> None:
        inventory, _ = read_documents(kubernetes_clusters=[build_cluster(build_node("n", "m1"))])
        (found,) = inventory.clusters[0].nodes
        assert (found.shape.cpu_cores, found.shape.memory_gib, found.shape.disk_gib) == (
            24,
            112,
            300,
        )
        assert (found.pool, found.role) == ("np1", "Worker")

    def test_node_without_pool_belongs_to_control_plane(self) -> None:
        inventory, _ = read_documents(
            kubernetes_clusters=[build_cluster(build_node("n", "m1", pool=None))]
        )
        assert (inventory.clusters[0].nodes[0].pool, inventory.clusters[0].nodes[0].role) == (
            "control-plane",
            "ControlPlane",
        )

    def test_unknown_sku_has_the_figures_of_its_node(self) -> None:
        inventory, (finding,) = read_documents(
            kubernetes_clusters=[build_cluster(build_node("n", "m1", sku="NC_Z9"))]
        )
        assert inventory.clusters[0].nodes[0].shape.cpu_cores == 22
        assert finding.severity is Severity.WARNING

    def test_unscheduled_nodes_have_no_placement(self) -> None:
        inventory, findings = read_documents(
            kubernetes_clusters=[build_cluster(build_node("n", None))]
        )
        assert inventory.clusters[0].nodes[0].placement is None
        assert [(f.id, f.severity) for f in findings] == [("vms-without-machine", Severity.WARNING)]
        assert findings[0].detail.startswith("1 VM of the export is on no machine: n. ")

    def test_persistent_disks_do_not_count_on_the_machine(self) -> None:
        persistent = {"osDisk": {"createOption": "Persistent", "diskSizeGB": 100}}
        inventory, _ = read_documents(
            virtual_machines=[build_vm("a", "m1"), build_vm("b", "m1", storageProfile=persistent)]
        )
        assert [v.shape.disk_gib for v in inventory.virtual_machines] == [100, 0]

    @pytest.mark.parametrize(
        ("profile", "is_unread"),
        [
            (None, True),
            ({}, True),
            ({"osDisk": {"createOption": "Ephemeral"}}, True),
            ({"osDisk": {"createOption": "Persistent"}}, False),
            ({"osDisk": {"diskSizeGB": 100}}, False),
        ],
    )
    def test_disk_of_unknown_size_is_unread(self, profile: Any, *, is_unread: bool) -> None:
        inventory, _ = read_documents(
            virtual_machines=[build_vm("v", "m1", storageProfile=profile)]
        )
        facts = {(fact.subject, fact.field, fact.may_change.value) for fact in inventory.unread}
        subject = "OS disk of the VM v"
        expected = {(subject, "diskSizeGB", "placement"), (subject, "diskSizeGB", "capacity")}
        assert facts == (expected if is_unread else set())

    @pytest.mark.parametrize("field", ["provisioningState", "detailedStatus", "powerState"])
    @pytest.mark.parametrize("value", [None, ""])
    def test_vm_on_a_machine_without_a_state_is_unread(self, field: str, value: Any) -> None:
        """It may be off or leave its machine. A requested VM has no machine, and no state."""
        vms = [build_vm("v", "m1", **{field: value}), build_vm("new", None, **{field: value})]
        inventory, _ = read_documents(virtual_machines=vms)
        facts = {(fact.subject, fact.field, fact.may_change.value) for fact in inventory.unread}
        assert facts == {("VM v", field, "placement")}

    @pytest.mark.parametrize(("sku", "disk"), [("NC_P46_224_v9", 300), ("NC_Z9", 0)])
    def test_disk_of_a_node_of_an_unknown_sku(self, sku: str, disk: int) -> None:
        """It is that of published SKUs if the name has their form, else unknown."""
        node = {**build_node("n", "m1", sku=sku), "diskSizeGB": None}
        inventory, _ = read_documents(kubernetes_clusters=[build_cluster(node)])
        assert inventory.clusters[0].nodes[0].shape.disk_gib == disk
        assert {fact.subject for fact in inventory.unread} == (set() if disk else {"node n"})

    def test_pools_with_labels_taints_and_zones(self) -> None:
        pool = {
            "id": f"{GROUP}/kubernetesClusters/K/agentPools/np1",
            "name": "np1",
            "count": 2,
            "vmSkuName": "NC_P22_112_v1",
            "availabilityZones": ["2", "1"],
            "labels": [{"key": "a", "value": "b"}],
            "taints": [
                {"key": "k", "value": "true:NoSchedule"},
                {"key": "l", "value": "NoExecute"},
            ],
            "upgradeSettings": {"maxSurge": "33%", "drainTimeout": 600},
        }
        inventory, findings = read_documents(
            kubernetes_clusters=[build_cluster()], agent_pools=[pool]
        )
        assert not findings
        (found,) = inventory.clusters[0].pools
        assert found.availability_zones == ("1", "2")
        assert [(t.key, t.value, t.effect) for t in found.taints] == [
            ("k", "true", "NoSchedule"),
            ("l", "", "NoExecute"),
        ]
        assert (found.max_surge, found.drain_timeout, found.mode) == ("33%", 600, "User")

    def test_vm_larger_than_a_cell_spans_both(self) -> None:
        inventory, _ = read_documents(
            virtual_machines=[build_vm("big", "m1", cores=60, memory=100)]
        )
        (found,) = inventory.virtual_machines
        assert found.shape.numa_cells == 2

    def test_overcommitted_machine_is_reported_once(self) -> None:
        many = [build_node(f"n{i}", "m1") for i in range(6)]
        _, findings = read_documents(kubernetes_clusters=[build_cluster(*many)])
        assert [(f.id, f.severity) for f in findings] == [
            ("overcommitted-machine", Severity.WARNING)
        ]

    def test_hint_with_another_value_is_skipped_and_reported(self) -> None:
        hint = {
            "hintType": "Affinity",
            "resourceId": "/x/racks/r1",
            "schedulingExecution": "Hard",
            "scope": "Rack",
        }
        hints = [hint, {**hint, "scope": ""}, {**hint, "schedulingExecution": "Firm"}]
        inventory, findings = read_documents(
            virtual_machines=[build_vm("v", "m1", placementHints=hints)]
        )
        (vm,) = inventory.virtual_machines
        assert [kept.scope for kept in vm.hints] == ["Rack"]
        places = [(finding.severity, finding.path[-2:]) for finding in findings]
        assert places == [
            (Severity.WARNING, (1, "scope")),
            (Severity.WARNING, (2, "schedulingExecution")),
        ]

    def test_vm_on_unlisted_machine_is_a_warning(self) -> None:
        inventory, (finding,) = read_documents(virtual_machines=[build_vm("v", "m9")])
        assert inventory.virtual_machines[0].placement is None
        assert (finding.id, finding.severity) == ("unknown-machine", Severity.WARNING)


class TestAge:
    @pytest.mark.parametrize(
        ("text", "hours"),
        [("24h", 24), ("7d", 168), ("1h30m", 1.5), ("", None), ("1 h", None), ("h", None)],
    )
    def test_durations(self, text: str, hours: float | None) -> None:
        span = parse_duration(text)
        assert (span.total_seconds() / 3600 if span else None) == hours

    def test_times_with_seven_decimals(self) -> None:
        assert parse_time("2024-05-03T15:12:48.0934793Z") is not None
        assert parse_time("yesterday") is None

    def test_export_time_overrides_newest_change(self) -> None:
        old = build_rack(
            systemData={
                "createdAt": "2020-01-01T00:00:00Z",
                "lastModifiedAt": "2021-01-01T00:00:00Z",
            }
        )
        inventory, _ = read_documents(racks=[old])
        assert (inventory.exported_at, inventory.is_age_certain) == ("2021-01-01T00:00:00Z", False)
        stated = {
            **build_documents(racks=[old]),
            "exported_at": [("exported_at", b"2026-01-01T00:00:00Z\n")],
        }
        inventory, _ = read_inventory(stated)
        assert (inventory.exported_at, inventory.is_age_certain) == ("2026-01-01T00:00:00Z", True)

    def test_unreadable_time_is_a_warning(self) -> None:
        _, (finding,) = remove_capture_findings(
            read_inventory({**build_documents(), "exported_at": [("exported_at", b"now")]})
        )
        assert (finding.file, finding.severity) == ("exported_at", Severity.WARNING)


class TestInvalidExports:
    def test_invalid_json_is_reported_with_line_and_column(self) -> None:
        _, findings = read_documents(racks=b'[\n  {"name": "r1",}\n]')
        first = findings[0]
        assert (first.file, first.position_text) == ("racks.json", "line 2, column 16")
        assert str(first).startswith(
            "racks.json, line 2, column 16: Illegal trailing comma before end of object."
        )

    @pytest.mark.parametrize(
        "content",
        [b"", b"\xff\xfe\x00", b"\x80", b"[NaN]", b"[" * 100_000, b"[1" + b"0" * 5000 + b"]"],
    )
    def test_unreadable_content_is_one_finding(self, content: bytes) -> None:
        data, problem = parse_json("f.json", content)
        assert data is None
        assert problem is not None
        assert problem.position_text.startswith("line ")

    @pytest.mark.parametrize(
        ("item", "where"),
        [
            (build_machine(rackSlot="one"), "[0].rackSlot"),
            (build_machine(rackSlot=-1), "[0].rackSlot"),
            (build_machine(rackSlot=True), "[0].rackSlot"),
            (build_machine(name=7), "[0].name"),
            (build_machine(name="\ud800"), "[0].name"),
            (build_machine(machineRoles="x"), "[0].machineRoles"),
            (build_machine(properties=[]), "[0].properties"),
            (build_machine(properties={"rackSlot": {}}), "[0].properties.rackSlot"),
            ({"name": "m"}, "[0].rackId"),
        ],
    )
    def test_wrong_types_are_reported_with_json_path(
        self, item: dict[str, Any], where: str
    ) -> None:
        _, findings = read_documents(bare_metal_machines=[item])
        assert where in {f.position_text for f in findings}

    @pytest.mark.parametrize(
        ("kind", "type_name", "item"),
        [
            ("racks", "RackProperties", build_rack()),
            ("bare_metal_machines", "BareMetalMachineProperties", build_machine()),
            ("virtual_machines", "VirtualMachineProperties", build_vm("v", "m1")),
            ("kubernetes_clusters", "KubernetesClusterProperties", build_cluster()),
            ("agent_pools", "AgentPoolProperties", {"id": f"{POOLS}/np1", "name": "np1"}),
            ("clusters", "ClusterProperties", {"id": f"{GROUP}/clusters/c", "name": "c"}),
        ],
    )
    def test_null_in_any_list_is_reported_with_its_path(
        self, kind: str, type_name: str, item: dict[str, Any]
    ) -> None:
        """A null field is absent; in a list, null is no value of any kind."""
        for name, field_kind in read_azure_schema()["types"][type_name].items():
            for value in ([None], None):
                _, findings = read_documents(**{kind: [{**item, name: value}]})
                places = {finding.position_text for finding in findings}
                is_wrong = value is not None and field_kind.startswith("[")
                assert any(f"{name}[0]" in place for place in places) == is_wrong, (name, places)

    @pytest.mark.parametrize("content", [5, "x", None, True, {}, {"value": 3}, [1], [None]])
    def test_wrong_top_levels(self, content: Any) -> None:
        _, findings = read_documents(racks=content)
        assert any(f.id == "unexpected-shape" for f in findings)

    def test_nested_paths(self) -> None:
        broken = convert_to_rest([build_cluster(build_node("n", "m1"))])
        broken["value"][0]["properties"]["nodes"][0]["name"] = []
        _, findings = read_documents(kubernetes_clusters=broken)
        assert [f.position_text for f in findings] == ["value[0].properties.nodes[0].name"]

    def test_number_of_findings_is_limited(self) -> None:
        _, findings = read_documents(
            bare_metal_machines=[build_machine(f"m{i}", rack_name="no") for i in range(500)]
        )
        assert len(findings) == MAX_FINDINGS + 1
        assert "450 more" in findings[-1].detail


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=10,
)
KEYS = st.sampled_from(
    [
        *build_machine(),
        *build_rack(),
        *build_cluster(),
        *build_vm("v", "m1"),
        *build_node("n", "m1"),
        "properties",
        "systemData",
        "taints",
    ]
)
RESOURCE = st.dictionaries(
    KEYS, JSON | st.sampled_from([f"{GROUP}/racks/r1", "m1", "r1"]), max_size=12
)
DOCUMENT = (
    JSON
    | st.lists(RESOURCE | JSON, max_size=4)
    | st.fixed_dictionaries({"value": st.lists(RESOURCE)})
)
QUICK = settings(
    max_examples=scale_count(150),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)


Read = tuple[AzInventory, tuple[Problem, ...]]


def check_findings(answer: Read) -> Read:
    """Check the number of findings, and file, id and detail of each; return the result."""
    findings = answer[1]
    assert len(findings) <= MAX_FINDINGS + 1
    assert all((f.file or f.id == "ambiguous-site") and f.id and f.detail for f in findings)
    return answer


@QUICK
@given(
    st.fixed_dictionaries(
        dict.fromkeys(("racks", "bare_metal_machines", "virtual_machines"), DOCUMENT)
    )
)
def test_no_document_of_racks_or_machines_raises(content: dict[str, Any]) -> None:
    check_findings(
        remove_capture_findings(
            read_inventory({k: [(k, json.dumps(v).encode())] for k, v in content.items()})
        )
    )


@QUICK
@given(DOCUMENT, DOCUMENT, DOCUMENT)
def test_no_document_of_workloads_raises(clusters: Any, pools: Any, sites: Any) -> None:
    check_findings(read_documents(kubernetes_clusters=clusters, agent_pools=pools, clusters=sites))


@QUICK
@given(RESOURCE, RESOURCE, JSON)
def test_damaged_resources_never_raise(
    one: dict[str, Any], other: dict[str, Any], odd: Any
) -> None:
    found, _ = check_findings(
        read_documents(
            bare_metal_machines=[build_machine(), build_machine("m2", 2) | one],
            kubernetes_clusters=[
                build_cluster(build_node("n", "m1") | other, build_node("o", "m2"))
                | {"taints": odd}
            ],
            virtual_machines=[build_vm("v", "m1") | other | {"placementHints": [one]}],
        )
    )
    assert "m1" in {m.name for m in found.machines}, "what is whole is read beside what is damaged"


@QUICK
@given(st.binary(max_size=60))
def test_arbitrary_bytes_never_raise(content: bytes) -> None:
    check_findings(read_documents(racks=content, exported_at=content))


@QUICK
@given(st.permutations(["a", "b", "c", "d"]))
def test_order_of_a_list_does_not_matter(names: list[str]) -> None:
    ordered = sorted(names)
    one, _ = read_documents(
        kubernetes_clusters=[build_cluster(*[build_node(n, "m1") for n in names])]
    )
    two, _ = read_documents(
        kubernetes_clusters=[build_cluster(*[build_node(n, "m1") for n in ordered])]
    )
    assert one == two


def test_single_rack_of_a_planned_site_is_read_before_the_others() -> None:
    cluster = {
        "name": "lab",
        "id": f"{GROUP}/clusters/lab",
        "aggregatorOrSingleRackDefinition": {
            "rackSerialNumber": "single",
            "bareMetalMachineConfigurationData": [{"rackSlot": 1}],
        },
        "computeRackDefinitions": [
            {"bareMetalMachineConfigurationData": [{"rackSlot": 2, "machineName": "m2"}]}
        ],
    }
    inventory, findings = read_inventory(
        {"clusters": [("clusters.json", json.dumps([cluster]).encode())]}, None
    )
    assert [rack.name for rack in inventory.racks] == ["lab-rack1", "single"]
    assert [(machine.name, machine.rack) for machine in inventory.machines] == [
        ("m2", "lab-rack1"),
        ("single-slot01", "single"),
    ]
    assert [finding.id for finding in findings if finding.id != NOT_CAPTURED] == ["derived-value"]


def test_id_without_a_resource_group_is_read() -> None:
    assert extract_resource_group("/subscriptions/s/resourceGroups") == ""
    assert extract_resource_group("/subscriptions/s/resourcegroups/Lab/providers") == "Lab"


@pytest.mark.parametrize("name", ["powerState", "readyState", "cordonStatus", "detailedStatus"])
def test_unknown_status_of_a_machine_is_unknown_and_closes_it(name: str) -> None:
    machine = {**build_machine(), name: "Strange"}
    inventory, findings = read_documents(bare_metal_machines=[machine])
    assert {f.id for f in findings} == {"not-read-for-placement"}
    facts = inventory.machines[0].facts
    assert describe_unschedulable_reasons(facts) == "in an unknown state"
    assert "Strange" not in facts.values()
    assert {fact.field for fact in inventory.unread} == {name}


def test_machines_with_empty_roles_are_named() -> None:
    inventory, findings = read_documents(
        bare_metal_machines=[build_machine(), build_machine(name="m2", rackSlot=2, machineRoles=[])]
    )
    (finding,) = [item for item in findings if item.id == "machine-without-roles"]
    assert "1 machine has empty machineRoles: no VM is placed there." in finding.detail
    assert [len(machine.facts["roles"]) for machine in inventory.machines] == [1, 0]


def test_status_of_a_machine_in_another_case_is_the_same_status() -> None:
    statuses = {"powerState": "on", "readyState": "true", "detailedStatus": "PROVISIONED"}
    machine = {**build_machine(cordonStatus="uncordoned"), **statuses}
    read = read_documents(bare_metal_machines=[machine])
    assert read[0].machines[0].facts == read_documents()[0].machines[0].facts
    inventory, _ = read_documents(bare_metal_machines=[build_machine(cordonStatus="CORDONED")])
    assert describe_unschedulable_reasons(inventory.machines[0].facts) == "cordoned"


@pytest.mark.parametrize(
    ("kind", "field", "value", "is_final"),
    [
        ("kubernetes_clusters", "provisioningState", "Deleting", False),
        ("kubernetes_clusters", "provisioningState", "Updating", False),
        ("kubernetes_clusters", "provisioningState", "Succeeded", True),
        ("agent_pools", "provisioningState", "Accepted", False),
        ("agent_pools", "provisioningState", "Failed", True),
        ("virtual_machines", "provisioningState", "Provisioning", False),
        ("virtual_machines", "detailedStatus", "Terminating", False),
        ("virtual_machines", "detailedStatus", "Running", True),
    ],
)
def test_object_with_an_operation_in_progress_makes_hosts_uncertain(
    kind: str, field: str, value: str, *, is_final: bool
) -> None:
    pool = {"id": f"{POOLS}/np1", "name": "np1", "count": 1, "vmSkuName": "NC_P22_112_v1"}
    kinds = {
        "kubernetes_clusters": [build_cluster(build_node("n", "m1"))],
        "agent_pools": [pool],
        "virtual_machines": [build_vm("v", "m1")],
    }
    kinds[kind][0][field] = value
    inventory, _ = read_documents(**kinds)
    facts = [(fact.field, fact.may_change) for fact in inventory.unread]
    assert facts == ([] if is_final else [(field, Influence.PLACEMENT)])


def test_failed_rack_is_reported() -> None:
    _, findings = read_sites(build_documents(racks=[build_rack(provisioningState="Failed")]))
    assert any("1 rack of site is Failed (reported by Azure): r1" in f.detail for f in findings)


def test_agent_pool_listed_twice_is_an_error() -> None:
    pool = {"id": f"{POOLS}/np1", "name": "np1", "count": 1, "vmSkuName": "NC_P22_112_v1"}
    clusters = [build_cluster(build_node("n", "m1"))]
    second = {**pool, "id": f"{POOLS.upper()}/NP1", "count": 6}
    _, findings = read_documents(kubernetes_clusters=clusters, agent_pools=[pool, second])
    assert [(f.id, f.severity, f.position_text) for f in findings] == [
        ("duplicate-agent-pool", Severity.ERROR, "[1].name")
    ]
    assert 'the agent pool "K/NP1" is listed twice, with different values' in findings[0].detail


def test_vms_of_one_name_in_two_groups_are_named_by_their_ids() -> None:
    first = build_vm("v", "m1")
    second = {**first, "id": first["id"].replace("Managed", "Other")}
    _, findings = read_documents(virtual_machines=[first, second])
    assert [f.id for f in findings] == ["duplicate-vm"]
    assert f"{first['id']} and {second['id']}. Names must differ on a site" in findings[0].detail
    assert 'change the "name" of one (not its id) in a copy of the export' in findings[0].detail
    inventory, findings = read_documents(virtual_machines=[first, {**second, "name": "w"}])
    assert findings == ()
    assert [vm.name for vm in inventory.virtual_machines] == ["v", "w"]
