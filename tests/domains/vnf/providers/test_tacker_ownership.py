"""Tests of ownership: a VNF of another state, or of no state, is never taken over."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.vnf.providers import tacker_client
from tests.domains.vnf.providers.memory_tacker import VNFD, MemoryTacker

pytestmark = pytest.mark.of_domains("vnf")

Capture = pytest.CaptureFixture[str]


def write_configuration(level: int = 0, name: str = "v", block: str = "v", more: str = "") -> None:
    Path("vnfd.yaml").write_text(VNFD)
    Path("main.nf.hcl").write_text(
        f"""provider "tacker" {{
  endpoint = "http://127.0.0.1:1"
  auth     = "none"
}}
resource "nexus_site" "s" {{
  name = "s"
}}
resource "nexus_rack" "r" {{
  site_id       = nexus_site.s.id
  machine_count = 6
}}
resource "tacker_vnf" "{block}" {{
  provider     = tacker
  name         = "{name}"
  site_id      = nexus_site.s.id
  vnfd         = file("vnfd.yaml")
  flavour_id   = "simple"
  scale_levels = {{ worker_scale = {level} }}
  {more}
}}
"""
    )


@pytest.fixture(autouse=True)
def tacker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[MemoryTacker]]:
    monkeypatch.setattr(tacker_client, "TackerClient", MemoryTacker)
    monkeypatch.chdir(tmp_path)
    MemoryTacker.reset()
    write_configuration()
    yield MemoryTacker
    MemoryTacker.reset()


def apply(*flags: str) -> int:
    return run_command_line(["apply", "-auto-approve", *flags])


def read_output(capfd: Capture) -> str:
    captured = capfd.readouterr()
    return " ".join((captured.out + captured.err).replace("│", " ").split())


def open_workspace(_path: Path) -> None:
    assert run_command_line(["workspace", "new", "staging"]) == 0


def lose_state(path: Path) -> None:
    (path / "state/nexusform.nfstate").unlink()


@pytest.mark.parametrize("change", [open_workspace, lose_state])
@pytest.mark.parametrize("level", [0, 1])
def test_vnf_of_another_state_is_not_taken_over(
    tacker: type[MemoryTacker],
    tmp_path: Path,
    capfd: Capture,
    change: Callable[[Path], None],
    level: int,
) -> None:
    assert apply() == 0, read_output(capfd)
    before = {key: dict(row) for key, row in tacker.instances.items()}
    change(tmp_path)
    write_configuration(level)
    tacker.changes.clear()
    capfd.readouterr()
    assert apply() == 1
    output = read_output(capfd)
    assert "already exists" in output
    assert "nexusform import tacker_vnf.v s/v" in output
    assert run_command_line(["destroy", "-auto-approve"]) == 0
    assert tacker.changes == []
    assert tacker.instances == before


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(
    ("name", "block"), [("v", "v"), ("v", "other"), ("w", "v"), ("w", "other")]
)
def test_two_repositories_share_a_tacker(
    tacker: type[MemoryTacker],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: Capture,
    name: str,
    block: str,
    level: int,
) -> None:
    """The second one has other counts, addresses or names; it never touches the first one's VNF."""
    assert apply() == 0, read_output(capfd)
    before = copy.deepcopy(tacker.instances)
    (tmp_path / "second").mkdir()
    monkeypatch.chdir(tmp_path / "second")
    write_configuration(level, name, block)
    tacker.changes.clear()
    capfd.readouterr()
    assert apply() == int(name == "v")
    output = read_output(capfd)
    assert ("already exists" in output) is (name == "v"), output
    assert bool(tacker.changes) is (name != "v")
    assert run_command_line(["destroy", "-auto-approve"]) == 0
    assert not any(identifier in path for identifier in before for path in tacker.changes)
    assert tacker.instances == before
    # The first one is as applied.
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["plan", "-detailed-exitcode"]) == 0


@pytest.mark.parametrize(
    "metadata", [{}, {"nexusform": "s/v#1"}, {"nexusform": "s/v#3"}], ids=["none", "old", "older"]
)
@pytest.mark.parametrize("is_instantiated", [True, False])
def test_vnf_without_a_mark_of_this_state_is_not_taken_over(
    tacker: type[MemoryTacker], capfd: Capture, metadata: dict[str, str], *, is_instantiated: bool
) -> None:
    tacker.add_instance("v", metadata, is_instantiated=is_instantiated)
    assert apply() == 1
    output = read_output(capfd)
    assert "already exists" in output
    assert ("nexusform import" in output) is is_instantiated
    assert tacker.changes == []
    if is_instantiated:
        assert run_command_line(["import", "tacker_vnf.v", "s/v"]) == 0
        assert apply() == 0
        assert tacker.changes == []


def test_imported_vnf_of_another_state_is_changed_only_on_request(
    tacker: type[MemoryTacker], capfd: Capture
) -> None:
    """Both states know it. The one without the mark says so."""
    foreign = "has the owner mark of another state"
    assert apply() == 0
    assert run_command_line(["plan"]) == 0
    assert foreign not in read_output(capfd)
    assert run_command_line(["workspace", "new", "staging"]) == 0
    # It creates the site only.
    assert apply() == 1
    assert run_command_line(["import", "tacker_vnf.v", "s/v"]) == 0
    capfd.readouterr()
    assert run_command_line(["plan"]) == 0
    assert foreign in read_output(capfd)
    write_configuration(level=1)
    tacker.changes.clear()
    assert apply() == 1
    assert foreign in read_output(capfd)
    assert tacker.changes == []
    assert apply("-take-ownership") == 0, read_output(capfd)
    assert [change.partition(" ")[0] for change in tacker.changes] == ["PATCH", "POST"]
    capfd.readouterr()
    assert run_command_line(["plan", "-detailed-exitcode"]) == 0
    assert foreign not in read_output(capfd)
    assert run_command_line(["workspace", "select", "default"]) == 0
    assert run_command_line(["plan"]) == 0
    assert foreign in read_output(capfd)


def test_vnf_of_another_site_or_name_is_no_obstacle(tacker: type[MemoryTacker]) -> None:
    tacker.add_instance("v", {"nexusform": "other/v#1"})
    tacker.add_instance("w", {})
    assert apply() == 0
    assert len(tacker.instances) == 3


def test_vnf_made_at_the_same_time_is_left_alone(
    tacker: type[MemoryTacker], capfd: Capture
) -> None:
    def add_rival(request: str) -> None:
        if request == "POST /vnf_instances":
            tacker.before_write.clear()
            rivals.append(tacker.add_instance("v", {}, is_instantiated=False))

    rivals: list[str] = []
    tacker.before_write.append(add_rival)
    assert apply() == 1
    assert "already exists" in read_output(capfd)
    assert list(tacker.instances) == rivals
    assert not any(rivals[0] in path or "instantiate" in path for path in tacker.changes)


def test_replacement_before_removal_is_no_conflict(tacker: type[MemoryTacker]) -> None:
    write_configuration(more="lifecycle {\n    create_before_destroy = true\n  }")
    assert apply() == 0
    (first,) = tacker.instances
    assert apply("-replace=tacker_vnf.v") == 0
    (second,) = tacker.instances
    assert first != second


def test_older_state_does_not_take_over_its_vnf(
    tacker: type[MemoryTacker], tmp_path: Path, capfd: Capture
) -> None:
    assert apply("-target=nexus_rack.r") == 0
    shutil.copy(tmp_path / "state/nexusform.nfstate", tmp_path / "old")
    assert apply() == 0
    shutil.copy(tmp_path / "old", tmp_path / "state/nexusform.nfstate")
    tacker.changes.clear()
    capfd.readouterr()
    assert apply() == 1
    assert "This state created it, but has no record of it" in read_output(capfd)
    assert tacker.changes == []


def terminate_as_another_client(tacker: type[MemoryTacker]) -> None:
    (instance,) = tacker.instances.values()
    instance["instantiationState"] = "NOT_INSTANTIATED"
    del instance["instantiatedVnfInfo"]


TERMINATED = "v is not instantiated in Tacker: another client terminated it"


def test_destroy_deletes_a_terminated_vnf(tacker: type[MemoryTacker], capfd: Capture) -> None:
    assert apply() == 0, read_output(capfd)
    terminate_as_another_client(tacker)
    capfd.readouterr()
    assert run_command_line(["destroy", "-auto-approve"]) == 0
    assert TERMINATED in read_output(capfd)
    assert tacker.instances == {}


def test_terminated_vnf_is_replaced(tacker: type[MemoryTacker], capfd: Capture) -> None:
    assert apply() == 0, read_output(capfd)
    terminate_as_another_client(tacker)
    capfd.readouterr()
    assert run_command_line(["plan"]) == 0
    output = read_output(capfd)
    assert TERMINATED in output
    assert "2 to place" in output
    # Its VMs ended before the plan.
    assert "Replaces:" not in output
    assert apply() == 0, read_output(capfd)
    (instance,) = tacker.instances.values()
    assert instance["instantiationState"] == "INSTANTIATED"
    capfd.readouterr()
    assert run_command_line(["plan", "-detailed-exitcode"]) == 0
    assert TERMINATED not in read_output(capfd)


def test_command_of_a_saved_plan_applies_it(tacker: type[MemoryTacker], capfd: Capture) -> None:
    """A saved plan is applied in a sandbox: it may contact Tacker with the printed flag only."""
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    output = read_output(capfd)
    flag = "-allow-remote=http://127.0.0.1:1"
    assert f'(nexusform apply {flag} "p.nfplan")' in output
    assert run_command_line(["apply", "p.nfplan"]) == 1
    assert tacker.instances == {}
    assert run_command_line(["apply", flag, "p.nfplan"]) == 0, read_output(capfd)
    assert len(tacker.instances) == 1


def test_offered_resume_continues_a_saved_plan(
    tacker: type[MemoryTacker], capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = "-allow-remote=http://127.0.0.1:1"
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0

    def fail(*_arguments: object, **_options: object) -> None:
        raise tacker_client.TackerProblem("Tacker does not answer.")

    with monkeypatch.context() as patch:
        patch.setattr(tacker, "write", fail)
        patch.setattr(tacker, "create_instance", fail)
        assert run_command_line(["apply", flag, "p.nfplan"]) == 1
    assert f"run `nexusform apply -resume {flag}`" in read_output(capfd)
    assert run_command_line(["apply", "-resume", flag]) == 0, read_output(capfd)
    assert len(tacker.instances) == 1
