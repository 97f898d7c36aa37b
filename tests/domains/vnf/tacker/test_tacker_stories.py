"""Tests of VNFs on a running Tacker: the result of an apply equals the plan."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.vnf.providers.tacker_client import TackerClient, TackerProblem
from tests.domains.vnf.tacker.packages import PackageSpec, VduSpec
from tests.domains.vnf.tacker.tacker_bed import MISSING, TACKER, Scenario, TackerBed
from tests.kill_points import long_case

pytestmark = [pytest.mark.of_domains("vnf"), pytest.mark.skipif(TACKER is None, reason=MISSING)]

EXAMPLE = Path(__file__).parents[4] / "examples" / "openstack-tacker"
# Without settings three scenarios run; the nightly check sets both.
RANDOM_STORIES = int(os.environ.get("NEXUSFORM_TACKER_STORIES", "1"))
FIRST_SEED = int(os.environ.get("NEXUSFORM_TACKER_FIRST_SEED", "0"))
MINUTES = float(os.environ.get("NEXUSFORM_TACKER_MINUTES", "30"))
ENDS_AT = time.monotonic() + 60 * MINUTES
# The nightly check runs all scenarios.
if "NEXUSFORM_TACKER_STORIES" not in os.environ:
    pytestmark.append(long_case)
nightly = pytest.mark.skipif(
    "NEXUSFORM_TACKER_STORIES" not in os.environ,
    reason="a story of the nightly check (NEXUSFORM_TACKER_STORIES=100)",
)
SPREAD = (("AntiAffinityRule", "nfvi_node", ("worker",)),)


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TackerBed]:
    bed = TackerBed(tmp_path_factory.mktemp("tacker"))
    yield bed
    bed.close()


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bed: TackerBed) -> Path:
    monkeypatch.chdir(tmp_path)
    # Of saved plans.
    monkeypatch.setenv("NF_ALLOW_REMOTE", bed.url)
    bed.heat.full.clear()
    bed.heat.failures.clear()
    bed.heat.is_held = False
    return tmp_path


def check_equal(story: Scenario, capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Check that the state has the VNFCs of Tacker on the hosts used by Heat.

    Return the VNF in the state.
    """
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
def test_complete_lifecycle_of_vnf(
    bed: TackerBed, capfd: pytest.CaptureFixture[str], *, is_standard: bool
) -> None:
    name = "standard" if is_standard else "default"
    spec = PackageSpec(name, {"worker": VduSpec(2, 1, 3)}, SPREAD, is_standard)
    story = Scenario(bed, spec)
    # Instantiation, then one step.
    assert story.run(worker_scale=1) == 0
    assert len(check_equal(story, capfd)["vnfcs"]) == 3
    assert story.run(worker_scale=2) == 0
    before = check_equal(story, capfd)
    assert story.run(f"-replace=tacker_vnf.v:{name}-worker-1", worker_scale=2) == 0
    healed = check_equal(story, capfd)
    changed = {
        vnfc for vnfc in before["vnfc_ids"] if before["vnfc_ids"][vnfc] != healed["vnfc_ids"][vnfc]
    }
    assert changed == {f"{name}-worker-1"}
    assert story.run(worker_scale=1) == 0
    after = check_equal(story, capfd)
    # Tacker removes the newest VNFC, here the healed one; with the standard user data it removes
    # the highest index.
    removed = healed["vnfcs"].keys() - after["vnfcs"].keys()
    assert removed == {f"{name}-worker-{3 if is_standard else 1}"}
    assert {vnfc: after["vnfc_ids"][vnfc] for vnfc in after["vnfcs"]} == {
        vnfc: healed["vnfc_ids"][vnfc] for vnfc in after["vnfcs"]
    }
    assert story.apply(story.plan("-destroy")) == 0
    assert [i for i in bed.list_instances() if i["vnfInstanceName"] == name] == []


def test_vnf_of_another_workspace_is_not_taken_over(
    bed: TackerBed, capfd: pytest.CaptureFixture[str]
) -> None:
    story = Scenario(bed, PackageSpec("shared", {"worker": VduSpec(1, 1, 3)}, SPREAD))
    assert story.run(worker_scale=0) == 0
    before = check_equal(story, capfd)
    assert run_command_line(["workspace", "new", "staging"]) == 0
    assert story.run(worker_scale=1) == 1
    captured = capfd.readouterr()
    assert "already exists in Tacker" in " ".join((captured.out + captured.err).split())
    assert story.apply(story.plan("-destroy")) == 0
    assert run_command_line(["workspace", "select", "default"]) == 0
    assert check_equal(story, capfd) == before
    assert story.apply(story.plan("-destroy")) == 0


def scale_by_another_client(story: Scenario, path: str) -> None:
    """Scale a VNF by one step, with the grant of a plan; return at the end of the operation."""
    bed = story.bed
    (instance,) = [i for i in bed.list_instances() if i["vnfInstanceName"] == story.spec.name]
    body = {"type": "SCALE_OUT", "aspectId": "worker_scale", "numberOfSteps": 1}
    with story.serve(path):
        bed.post(f"/vnf_instances/{instance['id']}/scale", body, seconds=60)
        bed.wait_for_operations()


# Level and flag of the plan of each kind of change.
RACED_CHANGES = {
    "scale": (3, ""),
    "heal": (1, "-replace=tacker_vnf.v:raced-heal-worker-0"),
    "terminate": (1, "-destroy"),
}


@pytest.mark.parametrize("operation", RACED_CHANGES)
def test_vnf_scaled_after_the_plan_is_not_changed(
    bed: TackerBed, capfd: pytest.CaptureFixture[str], operation: str
) -> None:
    """Another client scales the VNF between plan and apply: nothing is sent."""
    name = f"raced-{operation}"
    spec = PackageSpec(name, {"worker": VduSpec(1, 1, 4)}, SPREAD, is_standard=False)
    story = Scenario(bed, spec)
    level, flag = RACED_CHANGES[operation]
    assert story.run(worker_scale=1) == 0
    story.configure(worker_scale=2)
    plan_of_others = story.plan()
    story.configure(worker_scale=level)
    path = story.plan(*filter(None, [flag]))
    scale_by_another_client(story, plan_of_others)
    operations = bed.get("/vnf_lcm_op_occs")
    capfd.readouterr()
    assert story.apply(path) == 1
    captured = capfd.readouterr()
    sentence = f"{name} has level 2 of worker_scale in Tacker; the plan started from 1. Plan again."
    # The replay on the observed VNF stops first if the steps would remove more of it.
    output = " ".join((captured.out + captured.err).replace("│", "").split())
    assert sentence in output or "with more than the plan showed" in output
    assert bed.get("/vnf_lcm_op_occs") == operations
    # Plan again: the apply converges.
    assert story.run(worker_scale=level) == 0
    assert len(check_equal(story, capfd)["vnfcs"]) == level + 1
    assert story.apply(story.plan("-destroy")) == 0


@contextmanager
def lose_answer(monkeypatch: pytest.MonkeyPatch, *, is_sent: bool) -> Iterator[None]:
    """Lose the answer of the next creation of an instance, or the whole request."""
    send = TackerClient._send

    def fail(client: TackerClient, method: str, path: str, *rest: Any, **options: Any) -> Any:
        if (method, path) != ("POST", "/vnf_instances"):
            return send(client, method, path, *rest, **options)
        if is_sent:
            send(client, method, path, *rest, **options)
        raise TackerProblem("Tacker does not answer.", is_unreachable=True)

    with monkeypatch.context() as patch:
        patch.setattr(TackerClient, "_send", fail)
        yield


def test_lost_creation_does_not_take_over_the_vnf_of_another_workspace(
    bed: TackerBed, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other workspace makes the equal VNF while the creation of this one has no answer."""
    story = Scenario(bed, PackageSpec("lost", {"worker": VduSpec(1, 1, 3)}, SPREAD))
    with lose_answer(monkeypatch, is_sent=False):
        assert story.run(worker_scale=0) == 1
    assert run_command_line(["workspace", "new", "other"]) == 0
    assert story.run(worker_scale=0) == 0
    before = check_equal(story, capfd)
    operations = bed.get("/vnf_lcm_op_occs")
    assert run_command_line(["workspace", "select", "default"]) == 0
    assert story.apply(story.plan()) == 1
    captured = capfd.readouterr()
    assert "already exists in Tacker" in " ".join((captured.out + captured.err).split())
    assert story.apply(story.plan("-destroy")) == 0
    assert bed.get("/vnf_lcm_op_occs") == operations
    assert run_command_line(["workspace", "select", "other"]) == 0
    assert check_equal(story, capfd) == before
    assert story.apply(story.plan("-destroy")) == 0


def test_creation_without_an_answer_is_found_by_its_owner_alone(
    bed: TackerBed, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Scenario(bed, PackageSpec("sent", {"worker": VduSpec(1, 1, 3)}, SPREAD))
    with lose_answer(monkeypatch, is_sent=True):
        assert story.run(worker_scale=0) == 1
    (instance,) = [i for i in bed.list_instances() if i["vnfInstanceName"] == "sent"]
    assert run_command_line(["workspace", "new", "foreign"]) == 0
    assert story.run(worker_scale=0) == 1
    captured = capfd.readouterr()
    assert "already exists in Tacker" in " ".join((captured.out + captured.err).split())
    assert run_command_line(["workspace", "select", "default"]) == 0
    assert story.apply(story.plan()) == 0
    assert check_equal(story, capfd)["vnf_instance_id"] == instance["id"]
    assert story.apply(story.plan("-destroy")) == 0


def read_levels(story: Scenario, capfd: pytest.CaptureFixture[str]) -> Any:
    return story.read_vnf(capfd)["scale_levels"]


@nightly
def test_missing_valid_host_is_rolled_back_and_planned_again(
    bed: TackerBed, capfd: pytest.CaptureFixture[str]
) -> None:
    story = Scenario(bed, PackageSpec("full", {"worker": VduSpec(1, 1, 3)}, SPREAD))
    story.configure(worker_scale=0)
    bed.heat.failures.append("No valid host was found. ")
    assert story.apply(story.plan()) == 1
    output = " ".join(capfd.readouterr().out.split())
    assert "INSTANTIATE failed in Tacker" in output
    assert "No valid host was found" in output
    assert "It was rolled back" in output
    assert bed.heat.list_servers() == []
    assert story.run(worker_scale=0) == 0
    bed.heat.failures.append("No valid host was found. ")
    assert story.run(worker_scale=2) == 1
    assert "SCALE failed in Tacker" in capfd.readouterr().out
    assert len(check_equal(story, capfd)["vnfcs"]) == 1
    assert read_levels(story, capfd) == {"worker_scale": 0}
    assert story.run(worker_scale=2) == 0
    assert len(check_equal(story, capfd)["vnfcs"]) == 3
    assert story.apply(story.plan("-destroy")) == 0


@nightly
@pytest.mark.parametrize("on_failure", ["rollback", "fail"])
def test_failed_operation_is_resumed_as_planned(
    bed: TackerBed, capfd: pytest.CaptureFixture[str], on_failure: str
) -> None:
    """`apply -resume` repeats the operation under the same plan, after several failures.

    Other operations get no second grant.
    """
    spec = PackageSpec(f"resumed-{on_failure}", {"worker": VduSpec(2, 1, 3)}, SPREAD)
    story = Scenario(bed, spec, provider=f'on_failure = "{on_failure}"')
    story.configure(worker_scale=0)
    path = story.plan()
    with story.serve(path):
        bed.heat.failures += ["No valid host was found. "]
        assert run_command_line(["apply", path]) == 1
        output = " ".join("".join(capfd.readouterr()).replace("│", "").split())
        assert "run `nexusform apply -resume`" in output
        bed.heat.failures += ["No valid host was found. "]
        assert run_command_line(["apply", "-resume", "-auto-approve"]) == 1
        assert "No valid host was found" in capfd.readouterr().out
        assert run_command_line(["apply", "-resume", "-auto-approve"]) == 0
    assert len(check_equal(story, capfd)["vnfcs"]) == 2
    story.configure(worker_scale=2)
    path = story.plan()
    with story.serve(path) as server:
        bed.heat.failures += ["No valid host was found. "]
        assert run_command_line(["apply", path]) == 1
        assert run_command_line(["apply", "-resume", "-auto-approve"]) == 0
        assert len({record.number for record in server.journal.read_records()}) == 1
        (instance,) = [i for i in bed.list_instances() if i["vnfInstanceName"] == spec.name]
        body = {"type": "SCALE_OUT", "aspectId": "worker_scale", "numberOfSteps": 1}
        bed.post(f"/vnf_instances/{instance['id']}/scale", body)
        assert "was granted before" in bed.wait_for_failure()
    assert len(check_equal(story, capfd)["vnfcs"]) == 4
    assert story.apply(story.plan("-destroy")) == 0


@nightly
def test_temporary_failure_is_retried(bed: TackerBed, capfd: pytest.CaptureFixture[str]) -> None:
    story = Scenario(
        bed,
        PackageSpec("again", {"worker": VduSpec(1, 1, 3)}, SPREAD),
        provider='on_failure = "retry"',
    )
    bed.heat.failures += ["No valid host was found. "] * 2
    assert story.run(worker_scale=1) == 0
    assert len(check_equal(story, capfd)["vnfcs"]) == 2
    assert story.apply(story.plan("-destroy")) == 0


def test_different_tacker_endpoint_is_rejected(
    bed: TackerBed, capfd: pytest.CaptureFixture[str]
) -> None:
    story = Scenario(bed, PackageSpec("moved", {"worker": VduSpec(1, 1, 3)}, SPREAD))
    assert story.run(worker_scale=0) == 0
    before = Path("state/nexusform.nfstate").read_bytes()
    configuration = Path("main.nf.hcl").read_text()
    other = f"http://localhost:{bed.port}"
    Path("main.nf.hcl").write_text(configuration.replace(bed.url, other))
    for command in (
        ["plan"],
        ["destroy", "-auto-approve"],
        ["apply", "-refresh-only", "-auto-approve"],
    ):
        capfd.readouterr()
        assert run_command_line(command) == 1
        output = " ".join("".join(capfd.readouterr()).replace("│", "").split())
        assert f"endpoint is {bed.url} in the state, and {other} here" in output
        assert Path("state/nexusform.nfstate").read_bytes() == before
    assert run_command_line(["plan", f"-allow-other-hub={other}"]) == 0
    Path("main.nf.hcl").write_text(configuration)
    assert story.apply(story.plan("-destroy")) == 0


@nightly
def test_failed_instantiation_is_kept_for_next_apply(
    bed: TackerBed, capfd: pytest.CaptureFixture[str]
) -> None:
    story = Scenario(
        bed,
        PackageSpec("kept", {"worker": VduSpec(1, 1, 3)}, SPREAD),
        provider='on_failure = "fail"',
    )
    bed.heat.failures.append("No valid host was found. ")
    assert story.run(worker_scale=0) == 1
    assert "It was not rolled back" in " ".join(capfd.readouterr().out.split())
    assert story.run(worker_scale=0) == 0
    assert len(check_equal(story, capfd)["vnfcs"]) == 1
    assert len([i for i in bed.list_instances() if i["vnfInstanceName"] == "kept"]) == 1
    assert story.apply(story.plan("-destroy")) == 0


@nightly
def test_rejected_grant_changes_nothing(bed: TackerBed, capfd: pytest.CaptureFixture[str]) -> None:
    story = Scenario(bed, PackageSpec("refused", {"worker": VduSpec(1, 1, 3)}, SPREAD))
    assert story.run(worker_scale=0) == 0
    first = "p1.nfplan"
    story.configure(worker_scale=1)
    path = story.plan()
    # The NFVO still serves the previous plan.
    with story.serve(first):
        assert run_command_line(["apply", path]) == 1
    output = " ".join(capfd.readouterr().out.split())
    assert "The plan has no SCALE of this VNF" in output
    assert "It was rolled back" in output
    assert len(check_equal(story, capfd)["vnfcs"]) == 1
    assert story.run(worker_scale=1) == 0
    assert len(check_equal(story, capfd)["vnfcs"]) == 2
    # Without an NFVO.
    story.configure(worker_scale=2)
    assert run_command_line(["apply", story.plan()]) == 1
    assert "SCALE failed in Tacker" in capfd.readouterr().out
    assert len(check_equal(story, capfd)["vnfcs"]) == 2
    assert story.run(worker_scale=2) == 0
    assert story.apply(story.plan("-destroy")) == 0


@nightly
@pytest.mark.parametrize("operation", ["instantiate", "scale", "heal", "terminate"])
def test_tacker_killed_during_operation(
    bed: TackerBed, capfd: pytest.CaptureFixture[str], operation: str
) -> None:
    story = Scenario(bed, PackageSpec(f"killed-{operation}", {"worker": VduSpec(2, 1, 3)}, SPREAD))
    if operation != "instantiate":
        assert story.run(worker_scale=0) == 0
    story.provider = 'on_failure = "retry"\n  timeout = "1s"'
    story.configure(worker_scale=1 if operation == "scale" else 0)
    flags = {
        "heal": [f"-replace=tacker_vnf.v:{story.spec.name}-worker-1"],
        "terminate": ["-destroy"],
    }
    path = story.plan(*flags.get(operation, []))
    bed.heat.is_held = True
    servers = {member.server_id for member in bed.heat.list_servers()}
    with story.serve(path):
        # The operation stays in progress until the time limit of the step.
        assert run_command_line(["apply", path]) != 0
        output = " ".join(capfd.readouterr().out.split())
        assert "apply -resume" in output
        bed.kill()
        bed.heat.is_held = False
        bed.start()
        # On a busy host the operation takes longer than the time limit of the plan.
        assert any(run_command_line(["apply", "-resume", "-auto-approve"]) == 0 for _ in range(30))
    story.provider = ""
    if operation == "terminate":
        assert bed.list_instances() == []
        return
    vnf = check_equal(story, capfd)
    assert len(vnf["vnfcs"]) == (3 if operation == "scale" else 2)
    left = servers - {member.server_id for member in bed.heat.list_servers()}
    assert len(left) == (operation == "heal")
    assert story.apply(story.plan("-destroy")) == 0


def build_random_spec(seed: int) -> PackageSpec:
    draw = Random(seed)
    names = ["worker", "master", "proxy"][: draw.randint(1, 3)]
    vdus = {name: VduSpec(draw.randint(1, 3), draw.randint(1, 2), 3) for name in names}
    rules = [
        (
            kind,
            draw.choice(("nfvi_node", "zone")) if kind == "AffinityRule" else "nfvi_node",
            (name,),
        )
        for name in names
        for kind in draw.sample(("AntiAffinityRule", "AffinityRule", ""), 1)
        if kind
    ]
    return PackageSpec(f"random-{seed}", vdus, tuple(rules), is_standard=draw.random() < 0.6)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + RANDOM_STORIES))
def test_random_vnfds(bed: TackerBed, capfd: pytest.CaptureFixture[str], seed: int) -> None:
    if time.monotonic() > ENDS_AT:
        pytest.skip(f"the time of the random stories is over ({MINUTES} minutes)")
    draw = Random(seed)
    spec = build_random_spec(seed)
    story = Scenario(bed, spec, machines=24)
    levels = {f"{name}_scale": 0 for name in spec.vdus}
    apply_and_check_grants(story, capfd, levels)
    for _ in range(3):
        aspect = draw.choice(sorted(levels))
        levels = {
            **levels,
            aspect: draw.choice([level for level in range(4) if level != levels[aspect]]),
        }
        apply_and_check_grants(story, capfd, levels)
    healed = draw.choice(sorted(story.read_vnf(capfd)["vnfcs"]))
    apply_and_check_grants(story, capfd, levels, f"-replace=tacker_vnf.v:{healed}")
    levels = {name: max(level - 1, 0) for name, level in levels.items()}
    apply_and_check_grants(story, capfd, levels)
    assert story.apply(story.plan("-destroy")) == 0


def apply_and_check_grants(
    story: Scenario, capfd: pytest.CaptureFixture[str], levels: dict[str, int], *flags: str
) -> None:
    """Apply the plan; check the requests and the VNFCs in Tacker.

    There is exactly one request per planned grant, and the VNFCs are the planned ones.
    """
    story.configure(**levels)
    path = story.plan(*flags)
    with story.serve(path) as server:
        assert run_command_line(["apply", path]) == 0
    granted = [(record.address, record.number) for record in server.journal.read_records()]
    assert sorted(granted) == sorted(
        (grant.address, grant.number) for grant in server.planned.grants
    )
    vnf = check_equal(story, capfd)
    assert run_command_line(["show", "-json", path]) == 0
    changes = {
        row["address"]: row["change"]
        for row in json.loads(capfd.readouterr().out)["resource_changes"]
    }
    planned = (
        changes["tacker_vnf.v"]["after"]["vnfcs"] if "tacker_vnf.v" in changes else vnf["vnfcs"]
    )
    assert {name: vnfc["machine"] for name, vnfc in vnf["vnfcs"].items()} == {
        name: vnfc["machine"] for name, vnfc in planned.items()
    }


@nightly
def test_running_vnf_is_imported_with_its_ids(
    bed: TackerBed, capfd: pytest.CaptureFixture[str]
) -> None:
    story = Scenario(bed, PackageSpec("imported", {"worker": VduSpec(2, 1, 3)}, SPREAD))
    assert story.run(worker_scale=1) == 0
    before = check_equal(story, capfd)
    assert run_command_line(["state", "rm", "tacker_vnf.v"]) == 0
    assert run_command_line(["import", "tacker_vnf.v", "s/imported"]) == 0, capfd.readouterr()
    after = check_equal(story, capfd)
    assert sorted(after["vnfc_ids"].values()) == sorted(before["vnfc_ids"].values())
    assert after["vnf_instance_id"] == before["vnf_instance_id"]
    assert run_command_line(["plan", "-detailed-exitcode"]) == 0, capfd.readouterr()
    # Scaled by another client: the next plan shows it and scales back.
    assert story.apply(story.plan("-destroy")) == 0


@nightly
def test_token_comes_from_keystone(
    bed: TackerBed, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    story = Scenario(bed, PackageSpec("keystone", {"worker": VduSpec(1, 1, 3)}, SPREAD))
    story.configure(worker_scale=0)
    main = Path("main.nf.hcl")
    main.write_text(main.read_text().replace('auth     = "none"', ""))
    assert run_command_line(["plan"]) == 1
    assert "has no auth_url" in " ".join(capfd.readouterr().err.split())
    values = {
        "auth_url": f"{bed.heat.url}/v3",
        "username": "u",
        "password": "p",
        "project_name": "nfv",
    }
    Path("clouds.yaml").write_text(json.dumps({"clouds": {"lab": {"auth": values}}}))
    monkeypatch.setenv("OS_CLOUD", "lab")
    path = story.plan()
    with story.serve(path):
        assert run_command_line(["apply", "-confine=false", path]) == 0, capfd.readouterr()
    # VNFs of another project appear not to exist.
    Path("clouds.yaml").write_text(
        json.dumps({"clouds": {"lab": {"auth": {**values, "project_name": "other"}}}})
    )
    assert run_command_line(["plan"]) == 1
    assert "project is nfv in the state, and other here" in " ".join(
        capfd.readouterr().err.replace("│", "").split()
    )
    Path("clouds.yaml").write_text(json.dumps({"clouds": {"lab": {"auth": values}}}))
    assert story.apply(story.plan("-destroy"), "-confine=false") == 0


@nightly
def test_another_zone_is_used_after_missing_valid_host(
    tmp_path_factory: pytest.TempPathFactory,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bed = TackerBed(tmp_path_factory.mktemp("fallback"), "placement_fallback_best_effort=true")
    monkeypatch.setenv("NF_ALLOW_REMOTE", bed.url)
    try:
        bed.heat.zones = ("r", "other")
        story = Scenario(bed, PackageSpec("fallback", {"worker": VduSpec(1, 1, 3)}, SPREAD))
        story.configure(worker_scale=0)
        path = story.plan()
        with story.serve(path) as server:
            bed.heat.full = {*server.planned.grants[0].zones.values(), "r"}
            assert run_command_line(["apply", path]) == 0
        assert [member.zone for member in bed.heat.list_servers()] == ["other"]
        (vnfc,) = story.read_vnf(capfd)["vnfcs"].values()
        assert (vnfc["machine"], vnfc["availability_zone"], vnfc["provenance"]) == (
            "",
            "other",
            "observed",
        )
        assert run_command_line(["plan", "-detailed-exitcode"]) == 0, capfd.readouterr()
        assert story.apply(story.plan("-destroy")) == 0
    finally:
        bed.close()


@nightly
def test_example_from_package_to_pods(
    bed: TackerBed, capfd: pytest.CaptureFixture[str], working_directory: Path
) -> None:
    story = Scenario(bed, PackageSpec("unused", {"worker": VduSpec()}))
    shutil.copytree(EXAMPLE, working_directory, dirs_exist_ok=True)
    shutil.make_archive("packages/vnf-a", "zip", "vnf-a")
    main = working_directory / "main.nf.hcl"
    main.write_text(main.read_text().replace("http://127.0.0.1:9890", bed.url))
    path = story.plan()
    planned = read_hosts(capfd, path)
    assert (
        len(planned["host_of_each_worker"])
        == len(set(planned["host_of_each_worker"].values()))
        == 3
    )
    assert sorted(planned["host_of_each_replica"].values()) == sorted(
        planned["host_of_each_worker"].values()
    )
    assert story.apply(path) == 0
    hosts = {member.zone for member in bed.heat.list_servers() if member.vdu == "workerNode"}
    assert hosts == {f"nova:{host}" for host in planned["host_of_each_worker"].values()}
    assert story.apply(story.plan("-var", "workers=1")) == 0
    assert len([member for member in bed.heat.list_servers() if member.vdu == "workerNode"]) == 4
    heal = story.plan("-var", "workers=1", "-replace=tacker_vnf.a:vnf-a-workerNode-1")
    healed_host = read_hosts(capfd, heal)["host_of_each_worker"]["vnf-a-workerNode-1"]
    assert story.apply(heal) == 0
    assert f"nova:{healed_host}" in {member.zone for member in bed.heat.list_servers()}
    assert story.apply(story.plan("-destroy")) == 0
    assert bed.heat.list_servers() == []


def read_hosts(capfd: pytest.CaptureFixture[str], path: str) -> dict[str, dict[str, str]]:
    capfd.readouterr()
    assert run_command_line(["show", "-json", path]) == 0
    outputs = json.loads(capfd.readouterr().out)["output_changes"]
    return {name: output["after"] for name, output in outputs.items()}
