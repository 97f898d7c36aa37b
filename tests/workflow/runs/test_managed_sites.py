"""Tests of the warning about sites that another workspace manages."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.backends.memory import MemoryBackend
from nexusform.cli.main import run_command_line
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.plans.plan import Action, Change, Plan
from nexusform.resources.address import Address
from nexusform.workflow.runs.managed_sites import list_managed_site_warnings

SITE = 'resource "nexus_site" "s" {\n  name = "NAME"\n}\n'


def read_output(capfd: pytest.CaptureFixture[str]) -> str:
    captured = capfd.readouterr()
    return " ".join((captured.out + captured.err).replace("│", " ").split())


def test_new_workspace_warns_about_a_managed_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(SITE.replace("NAME", "lab"))
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert "manages site" not in read_output(capfd)
    assert run_command_line(["workspace", "new", "staging"]) == 0
    assert run_command_line(["plan", "-details"]) == 0
    output = read_output(capfd)
    assert 'The workspace "default" manages site lab' in output
    assert "nexusform workspace select default" in output
    Path("main.nf.hcl").write_text(SITE.replace("NAME", "other"))
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert "manages site" not in read_output(capfd)


def damage_state(path: Path) -> None:
    path.write_text('{"version": 1, "lineage"')


def encrypt_state(path: Path) -> None:
    path.write_text('{"encryption": {}}')


def damage_journal(path: Path) -> None:
    path.with_name(path.name + ".journal").write_text("no record\nno record\n")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (damage_state, "state/nexusform.nfstate"),
        (encrypt_state, "encrypted"),
        (damage_journal, "journal of"),
    ],
)
def test_new_workspace_names_an_unreadable_one(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    damage: Callable[[Path], None],
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(SITE.replace("NAME", "lab"))
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert run_command_line(["workspace", "new", "other"]) == 0
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert run_command_line(["workspace", "new", "staging"]) == 0
    damage(tmp_path / "state/nexusform.nfstate")
    capfd.readouterr()
    assert run_command_line(["plan", "-details"]) == 0
    output = read_output(capfd)
    assert 'The workspace "default" cannot be read, and may manage site lab.' in output
    assert reason in output
    # A readable workspace is still compared.
    assert 'The workspace "other" manages site lab' in output


class UnlistedBackend(MemoryBackend):
    """Backend that cannot list its workspaces."""

    def list_workspaces(self) -> list[str]:
        raise BackendProblem("the server answered 403.")


def test_workspaces_that_cannot_be_listed_are_a_warning() -> None:
    address = Address((), "managed", "nexus_site", "s")
    change = Change(address, Action.CREATE, None, {"id": "lab"}, "simulated", 1, 0)
    plan = Plan(changes=(change,))
    (warning,) = list_managed_site_warnings(plan, UnlistedBackend(), "default")
    assert warning.id == "site-owner-unknown"
    assert "The other workspaces cannot be read, and may manage site lab." in warning.detail
    assert "the server answered 403." in warning.detail
