"""Tests of the evaluation record of a plan: files, servers and programs."""

import os
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.files.access_record import get_recorded_accesses, start_access_record
from nexusform.plans.plan_checks import EvaluatedFile
from nexusform.plans.saved import plan_file
from tests.contracts.bad_answers import build_document, run_bad_server


@pytest.mark.parametrize("flag", ["-var-file=values.nfvars", ""])
def test_variable_files_are_recorded(
    flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree").mkdir()
    monkeypatch.chdir(tmp_path / "tree")
    Path("main.nf.hcl").write_text('variable "a" {}\noutput "a" {\n  value = var.a\n}\n')
    text = 'a = "b"\n'
    name = "values.nfvars" if flag else "values.auto.nfvars.hcl"
    Path(name).write_text(text)
    Path("../outside.nfvars").write_text(text)
    words = [
        "plan",
        "-confine=.",
        "-out=p",
        *([flag] if flag else []),
        f"-var-file={tmp_path}/outside.nfvars",
    ]
    assert run_command_line(words) == 0
    saved, _ = plan_file.read_plan_file(Path("p").read_bytes())
    assert saved is not None
    assert saved.plan.basis.evaluation is not None
    digest = sha256(text.encode()).hexdigest()
    files = [file for file in saved.plan.basis.evaluation.files if file.path != "main.nf.hcl"]
    assert files == [
        EvaluatedFile(f"{tmp_path}/outside.nfvars", digest, False),
        EvaluatedFile(name, digest, True),
    ]


def test_backend_settings_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(
        'nexusform {\n  backend "local" {}\n}\noutput "a" {\n  value = 1\n}\n'
    )
    Path("b.hcl").write_text('path = "s.nfstate"\n')
    assert run_command_line(["plan", "-out=p", "-backend-config=b.hcl"]) == 0
    saved, _ = plan_file.read_plan_file(Path("p").read_bytes())
    assert saved is not None
    assert saved.plan.basis.evaluation is not None
    assert "b.hcl" in [file.path for file in saved.plan.basis.evaluation.files]


def test_programs_are_recorded_for_every_way_of_starting_them(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    start_access_record()
    subprocess.run([program], check=True)
    assert get_recorded_accesses().programs == {"program"}
    start_access_record()
    os.waitpid(os.posix_spawn(program, [str(program)], {}), 0)
    assert get_recorded_accesses().programs == {"program"}
    start_access_record()
    os.system(f"SECRET=canary {program}")
    assert get_recorded_accesses().programs == {"sh"}


@pytest.mark.of_domains("remote_state")
def test_login_servers_are_recorded() -> None:
    import requests

    from nexusform.network.azure_identity import _request_token

    with run_bad_server(
        build_document(b'{"value": "token"}', "Content-Type: application/json")
    ) as server:
        start_access_record()
        assert _request_token(f"{server.address}/token?a=b", "bearer") == "token"
        assert get_recorded_accesses().origins == {server.address}
        start_access_record()
        requests.get(f"{server.address}/tenant/oauth2/token", timeout=10)  # like azure-identity
        assert get_recorded_accesses().origins == {server.address}
