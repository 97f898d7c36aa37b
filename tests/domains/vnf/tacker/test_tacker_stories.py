"""VNFs on a running Tacker: what a plan says is what Tacker, asked by apply, makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.domains.vnf.tacker.packages import PackageSpec, VduSpec
from tests.domains.vnf.tacker.tacker_bed import MISSING, TACKER, Story, TackerBed

pytestmark = [pytest.mark.of_domains("vnf"), pytest.mark.skipif(TACKER is None, reason=MISSING)]

SPREAD = (("AntiAffinityRule", "nfvi_node", ("worker",)),)


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TackerBed]:
    bed = TackerBed(tmp_path_factory.mktemp("tacker"))
    yield bed
    bed.close()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bed: TackerBed) -> Path:
    monkeypatch.chdir(tmp_path)
    bed.heat.full.clear()
    bed.heat.failures.clear()
    return tmp_path


def check_equal(story: Story, capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The state has the VNFCs of Tacker, on the hosts that Heat used; return the VNF in the state."""
    vnf = story.read_vnf(capfd)
    (instance,) = [i for i in story.bed.list_instances() if i["vnfInstanceName"] == story.spec.name]
    assert vnf["vnf_instance_id"] == instance["id"]
    info = instance["instantiatedVnfInfo"]
    ids = {row["id"]: row["vnfcResourceInfoId"] for row in info["vnfcInfo"]}
    zones = {row["id"]: row.get("zoneId") for row in info["vnfcResourceInfo"]}
    assert sorted(vnf["vnfc_ids"].values()) == sorted(ids)
    assert vnf["vnfc_ids"].keys() == vnf["vnfcs"].keys()
    for name, vnfc in vnf["vnfcs"].items():
        zone = zones[ids[vnf["vnfc_ids"][name]]]
        expected = f"{vnfc['rack']}:{vnfc['machine']}" if story.spec.is_standard else vnfc["rack"]
        assert zone in (expected, None)
    stack = story.bed.heat.stacks[f"vnf-{instance['id']}"]
    assert {member.server_id for member in stack.members.values()} == set(zones)
    return vnf


@pytest.mark.parametrize("is_standard", [True, False], ids=["standard", "default"])
def test_the_whole_life_of_a_vnf(bed: TackerBed, capfd: pytest.CaptureFixture[str], *, is_standard: bool) -> None:
    name = "standard" if is_standard else "default"
    spec = PackageSpec(name, {"worker": VduSpec(2, 1, 3)}, SPREAD, is_standard)
    story = Story(bed, spec)
    assert story.run(worker_scale=1) == 0  # instantiation, then one step
    assert len(check_equal(story, capfd)["vnfcs"]) == 3
    assert story.run(worker_scale=2) == 0
    before = check_equal(story, capfd)
    assert story.run(f"-replace=tacker_vnf.v:{name}-worker-1", worker_scale=2) == 0
    healed = check_equal(story, capfd)
    changed = {vnfc for vnfc in before["vnfc_ids"] if before["vnfc_ids"][vnfc] != healed["vnfc_ids"][vnfc]}
    assert changed == {f"{name}-worker-1"}
    assert story.run(worker_scale=1) == 0
    after = check_equal(story, capfd)
    # Tacker removes the newest VNFC, the healed one; with the standard user data the one of the highest index.
    removed = healed["vnfcs"].keys() - after["vnfcs"].keys()
    assert removed == {f"{name}-worker-{3 if is_standard else 1}"}
    assert {vnfc: after["vnfc_ids"][vnfc] for vnfc in after["vnfcs"]} == {
        vnfc: healed["vnfc_ids"][vnfc] for vnfc in after["vnfcs"]
    }
    assert story.apply(story.plan("-destroy")) == 0
    assert [i for i in bed.list_instances() if i["vnfInstanceName"] == name] == []
