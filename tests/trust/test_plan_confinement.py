"""Tests of plan confinement.

A plan file is evaluated as confined as it was made, for any writer of the file.
"""

import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.whatif.workflow import simulation_input
from nexusform.plans.saved import plan_file
from nexusform.workflow.opening.command_context import intersect_prefixes
from nexusform.workflow.plan_files import saved_plans
from tests.certificates import create_signing_key
from tests.contracts.http_state_server import run_state_server

CANARY = "canary-3f1b9c"
SECRET = """resource "nexus_site" "lab" {{
  name = "lab"
}}
resource "nexus_rack" "r" {{
  site_id       = nexus_site.lab.id
  name          = "r1"
  machine_count = 1
  lifecycle {{
    precondition {{
      condition     = !strcontains(local.read, "canary")
      error_message = "read: ${{local.read}}"
    }}
  }}
}}
locals {{
  read = try(file("{path}"), "nothing")
}}
output "read" {{
  value = local.read
}}
"""


@pytest.fixture
def run_command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def run_and_capture(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run_command_line(list(words))
        said = capsys.readouterr()
        return code, said.out + said.err

    return run_and_capture


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work tree with a configuration printing files outside of it."""
    for name in ("NF_CONFINE", "NF_ALLOW_REMOTE", "NF_DATA_DIR", "NF_IN_AUTOMATION"):
        monkeypatch.delenv(name, raising=False)
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    (tmp_path / "secret").write_text(CANARY)
    (work / "main.nf.hcl").write_text(SECRET.format(path=tmp_path / "secret"))
    monkeypatch.chdir(work)
    return work


QUESTIONS = [
    ("explain", "nexus_rack.r", "-plan=p"),
    ("explain", "nexus_rack.r", "-plan=p", "-format=markdown"),
    ("apply", "-input=false", "p"),
    ("apply", "-input=false", "-verify=replan", "p"),
    ("show", "p"),
    ("show", "-json", "p"),
    ("advise", "-plan=p"),
    ("simulate", "capacity", "-plan=p"),
]


@pytest.mark.parametrize("where", ["there", "elsewhere"])
@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_confined_plan_stays_confined(
    question: tuple[str, ...],
    where: str,
    tree: Path,
    run_command: Callable[..., tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, said = run_command("plan", "-confine", "-out=p")
    assert code == 0
    if where == "elsewhere":
        other = tree.parent / "bot"
        other.mkdir()
        (tree / "p").rename(other / "p")
        monkeypatch.chdir(other)
    _, more = run_command(*question)
    assert CANARY not in said + more
    assert "Traceback" not in more


@pytest.mark.parametrize("record", ["no", ""])
@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_plan_claiming_to_be_unconfined_is_not_trusted(
    question: tuple[str, ...], record: str, tree: Path, run_command: Callable[..., tuple[int, str]]
) -> None:
    from msgspec.structs import replace

    assert run_command("plan", "-confine", "-out=p")[0] == 0
    saved, _ = plan_file.read_plan_file((tree / "p").read_bytes())
    assert saved is not None
    assert saved.plan.basis.evaluation is not None
    assert saved.plan.basis.evaluation.confined
    evaluation = replace(saved.plan.basis.evaluation, confined=False) if record else None
    forged = replace(
        saved.plan, basis=replace(saved.plan.basis, evaluation=evaluation, allowed_prefixes=())
    )
    (tree / "p").write_bytes(
        plan_file.write_plan_file(forged, saved.configuration_files, saved.prior_state)
    )
    _, said = run_command(*question)
    assert CANARY not in said


def test_operator_can_lift_confinement_of_a_plan(
    tree: Path, run_command: Callable[..., tuple[int, str]]
) -> None:
    (tree / "main.nf.hcl").write_text((tree / "main.nf.hcl").read_text().replace("!str", "str"))
    assert run_command("plan", "-out=p")[0] == 0
    code, said = run_command("apply", "-input=false", "p")
    assert code == 1
    assert "-confine=false" in said
    assert "A sandboxed run cannot read" in " ".join(said.replace("│", "").split())
    assert not (tree / "state").exists()
    code, said = run_command("apply", "-input=false", "-confine=false", "p")
    assert code == 0
    assert "was not compared" not in said


def create_key_pair(directory: Path) -> tuple[Path, Path]:
    private = directory / "plan.key"
    public = directory / "plan.pub"
    create_signing_key(private, public)
    return private, public


def test_verified_plan_is_evaluated_as_it_was_made(
    tree: Path, run_command: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "main.nf.hcl").write_text((tree / "main.nf.hcl").read_text().replace("!str", "str"))
    private, public = create_key_pair(tree.parent)
    assert run_command("plan", "-out=p", f"-sign={private}", "-confine=false")[0] == 0
    monkeypatch.setenv("NF_IN_AUTOMATION", "1")
    code, said = run_command("apply", "-input=false", f"-verify=key:{public}", "p")
    assert code == 0
    assert "was not compared" not in said


@pytest.mark.of_domains("remote_state")
def test_credentials_are_not_sent_to_addresses_from_a_plan(
    tree: Path, run_command: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NF_HTTP_USERNAME", "ci")
    monkeypatch.setenv("NF_HTTP_PASSWORD", CANARY)
    with run_state_server() as (address, store):
        block = f'nexusform {{\n  backend "http" {{\n    address = "{address}/s"\n  }}\n}}\n'
        (tree / "main.nf.hcl").write_text(
            block + 'resource "nexus_site" "lab" {\n  name = "lab"\n}\n'
        )
        assert run_command("plan", "-out=p")[0] == 0
        # Here the directory has the same address as the plan.
        assert run_command("apply", "-input=false", "p")[0] == 0
        bot = tree.parent / "bot"
        bot.mkdir()
        (bot / "p").write_bytes((tree / "p").read_bytes())
        monkeypatch.chdir(bot)
        store.requests.clear()
        for question in (
            ("apply", "-input=false", "p"),
            ("explain", "nexus_site.lab", "-plan=p"),
            ("show", "p"),
        ):
            run_command(*question)
        code, said = run_command("apply", "-input=false", "p")
        assert (code, store.requests) == (1, [])
        assert "-confine=false" in said
        assert "-backend-config" in said


@pytest.mark.usefixtures("tree")
def test_automation_is_confined_by_default(
    run_command: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NF_IN_AUTOMATION", "1")
    assert CANARY not in run_command("plan")[1]
    monkeypatch.setenv("NF_CONFINE", "false")
    assert CANARY in run_command("plan")[1]
    assert CANARY not in run_command("plan", "-confine=true")[1]
    monkeypatch.delenv("NF_CONFINE")
    assert CANARY in run_command("plan", "-confine=false")[1]


@pytest.mark.of_domains("remote_state")
def test_automation_rejects_configured_backend_with_suggested_fixes(
    tree: Path, run_command: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NF_IN_AUTOMATION", "1")
    with run_state_server() as (address, store):
        block = f'nexusform {{\n  backend "http" {{\n    address = "{address}/s"\n  }}\n}}\n'
        (tree / "main.nf.hcl").write_text(
            block + 'resource "nexus_site" "lab" {\n  name = "lab"\n}\n'
        )
        code, said = run_command("init", "-input=false")
        assert code == 1
        for way_out in (
            "-confine=false",
            "NF_CONFINE=false",
            "-backend-config=",
            "NF_ALLOW_REMOTE",
        ):
            assert way_out in " ".join(said.replace("│", "").split())
        assert store.requests == []
        monkeypatch.setenv("NF_ALLOW_REMOTE", address)
        assert run_command("plan")[0] == 0
        monkeypatch.delenv("NF_ALLOW_REMOTE")
        monkeypatch.setenv("NF_CONFINE", "false")
        assert run_command("init", "-input=false")[0] == 0
        assert run_command("plan")[0] == 0


def test_automation_rejects_outside_local_state_with_suggested_fixes(
    tree: Path, monkeypatch: pytest.MonkeyPatch, run_command: Callable[..., tuple[int, str]]
) -> None:
    monkeypatch.setenv("NF_IN_AUTOMATION", "1")
    where = tree.parent / "states" / "lab.nfstate"
    site = 'resource "nexus_site" "lab" {\n  name = "lab"\n}\n'
    (tree / "main.nf.hcl").write_text(
        f'nexusform {{\n  backend "local" {{\n    path = "{where}"\n  }}\n}}\n{site}'
    )
    for command in (("init",), ("plan",)):
        code, said = run_command(*command)
        said = " ".join(said.replace("│", " ").split())
        assert code == 1
        assert "-backend-config=path=PATH" in said
        assert "NF_CONFINE=false" in said
    code, said = run_command("apply", "-auto-approve", f"-backend-config=path={where}")
    assert code == 0, said
    assert where.exists()


@pytest.mark.usefixtures("tree")
def test_plan_keeps_its_allowed_addresses(run_command: Callable[..., tuple[int, str]]) -> None:
    assert (
        run_command(
            "plan", "-confine", "-allow-remote=https://b/x", "-allow-remote=https://a", "-out=p"
        )[0]
        == 0
    )
    saved, _ = plan_file.read_plan_file(Path("p").read_bytes())
    assert saved is not None
    assert saved.plan.basis.evaluation is not None
    assert saved.plan.basis.evaluation.confined
    assert saved.plan.basis.allowed_prefixes == ("https://a", "https://b/x")


def test_intersection_of_allowed_addresses_keeps_the_narrower() -> None:
    assert intersect_prefixes(("https://a/x", "https://b"), ("https://a", "https://c")) == (
        "https://a/x",
    )
    assert intersect_prefixes(("https://a",), ("https://a/x", "https://a/y")) == (
        "https://a/x",
        "https://a/y",
    )
    assert intersect_prefixes((), ("https://a",)) == ()


def try_undeclared_accesses(path: Path) -> set[str]:
    """Try to read a file, start a program and connect to a server; return the outcomes."""
    outcomes = set()
    for access in (
        path.read_text,
        lambda: subprocess.run(["/bin/true"], check=True),
        lambda: socket.create_connection(("127.0.0.1", 9), 1),
    ):
        try:
            access()
        except ConnectionRefusedError:
            outcomes.add("done")
        except OSError as problem:
            outcomes.add("rejected" if "-confine" in str(problem) else str(problem))
        else:
            outcomes.add("done")
    return outcomes


READERS = (
    (saved_plans, "create_project", ("apply", "-input=false", "-auto-approve", "p")),
    (saved_plans, "create_project", ("explain", "nexus_site.lab", "-plan=p")),
    (simulation_input, "read_prior_state", ("simulate", "capacity", "-plan=p")),
)


@pytest.mark.parametrize(("module", "reader", "question"), READERS)
@pytest.mark.parametrize("flag", ["", "-confine=false"])
def test_reader_of_a_plan_file_reaches_nothing_undeclared(
    module: ModuleType,
    reader: str,
    question: tuple[str, ...],
    flag: str,
    tree: Path,
    run_command: Callable[..., tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A reader that forgets its check stops at the wall, also in a run without -confine."""
    (tree / "main.nf.hcl").write_text('resource "nexus_site" "lab" {\n  name = "lab"\n}\n')
    assert run_command("plan", "-out=p", "-confine=false")[0] == 0
    outcomes: list[set[str]] = []
    read = getattr(module, reader)

    def read_carelessly(*arguments: Any) -> Any:
        outcomes.append(try_undeclared_accesses(tree.parent / "secret"))
        return read(*arguments)

    monkeypatch.setattr(module, reader, read_carelessly)
    text = run_command(*question, *filter(None, [flag]))[1]
    assert "Internal error" not in text
    assert outcomes[0] == {"done" if flag else "rejected"}
    # The wall ends with the command.
    assert try_undeclared_accesses(tree.parent / "secret") == {"done"}
