"""Tests of external files in a sandboxed run.

Every variable, default path and flag leading to a file.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nexusform
from nexusform.cli.main import run_command_line
from nexusform.files.external_files import EXTERNAL_FILES, AllowedWriter, PathValueForm
from tests.trust import untrusted_files
from tests.trust.untrusted_files import BACKEND_CASES, KUBECONFIG_CASES, build_environment

SOURCE = Path(nexusform.__file__).parent
PAGE = SOURCE.parent / "docs" / "security.md"
REJECTED = [entry for entry in EXTERNAL_FILES if entry.writer is AllowedWriter.OPERATOR]
FLAGS = [entry for entry in EXTERNAL_FILES if entry.form is PathValueForm.FLAG]
# Variables of the product without a file.
VALUES = (
    re.compile(
        r"NF_(INPUT|CLI_ARGS_?|LIMIT_|VAR_|LOG|CONFINE|ALLOW_REMOTE|ALLOW_MODULE|TOKEN_|IN_AUTOMATION|WORKSPACE|NET_DEADLINE)"
    ),
    re.compile(
        r"NF_(AZURE_ENDPOINT|AZURE_POLL_SECONDS|FLEET_CONTEXT|HTTP_USERNAME|HTTP_PASSWORD|LEASE_SECONDS|ENCRYPTION)?"
    ),
    re.compile(
        r"ARM_(ACCESS_KEY|SAS_TOKEN|CLIENT_ID|TENANT_ID|CLIENT_SECRET|USE_OIDC|USE_MSI|USE_CLI|OIDC_TOKEN)"
    ),
    # A prefix: the other fields of clouds.yaml.
    re.compile(r"OS_(CLOUD|AUTH_URL|NOVA_\w+)?"),
    re.compile(
        r"AZURE_SUBSCRIPTION_ID|KUBERNETES_(SERVICE_HOST|SERVICE_PORT|EXEC_INFO)|(GITHUB|CI|ACTIONS)_\w+"
    ),
)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(untrusted_files.write_tree(tmp_path / "work"))
    for name in [*os.environ]:
        if name.startswith(("NF_", "AWS_", "AZURE_", "ARM_", "PG", "KUBE", "CI", "OS_", "XDG_")):
            monkeypatch.delenv(name)
    return Path.cwd()


@pytest.mark.parametrize("entry", REJECTED, ids=[entry.name for entry in REJECTED])
def test_output_file_in_work_tree_is_rejected(
    entry: untrusted_files.ExternalFile,
    tree: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if entry.form is PathValueForm.FLAG:
        commands = {
            "-verify": ["apply", "-verify=key:evil", "reviewed.plan"],
            "-revocations": [
                *("apply", "-verify=key:../team.pub", "-revocations=evil", "reviewed.plan")
            ],
            "-key": ["sign", "-key=evil", "reviewed.plan"],
            "-sign": ["plan", "-out=new.plan", "-sign=evil"],
            "-tls-cert": ["serve", "sol003", "-plan=reviewed.plan", "-tls-cert=evil"],
            "-tls-key": ["serve", "sol003", "-plan=reviewed.plan", "-tls-key=evil"],
            "-check-with": ["plan", "-check-with=kube-scheduler=evil"],
            "-token-file": ["serve", "sol003", "-plan=reviewed.plan", "-token-file=evil"],
        }
        assert run_command_line(["plan", "-out=reviewed.plan"]) == 0
        assert run_command_line([*commands[entry.name], "-confine"]) == 1
    else:
        for name, value in build_environment(entry, tree).items():
            monkeypatch.setenv(name, value)
        assert run_command_line(["plan", "-confine"]) == 1
    text = " ".join(capsys.readouterr().err.replace("│", " ").split())
    message = (
        "not allowed in a sandboxed run"
        if entry.name == "-check-with"
        else "is in the work tree of a sandboxed run"
    )
    assert message in text
    if entry.form is not PathValueForm.FLAG:
        assert entry.name in text
        assert run_command_line(["plan"]) == 0


@pytest.mark.parametrize("case", KUBECONFIG_CASES)
def test_kubeconfig_in_work_tree_runs_and_reads_nothing(
    case: str, tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    untrusted_files.use_kubeconfig(case, tree, monkeypatch.setenv)
    assert run_command_line(["plan", "-confine"]) == 1
    assert not (tree / "ran").exists()
    text = " ".join(capsys.readouterr().err.split())
    assert "cannot be reached" not in text
    assert re.search(
        "sandboxed run|-confine does not allow it|sandboxed run|cannot be used", text
    ), text


NAMED = {
    "program": {"exec": {**untrusted_files.PLUG_IN, "command": "{tree}/bin/sign-in"}},
    "program of the PATH": {"exec": {**untrusted_files.PLUG_IN, "command": "sign-in"}},
    "argument": {"exec": {**untrusted_files.PLUG_IN, "args": ["{tree}/evil"]}},
    "tokenFile": {"tokenFile": "{tree}/evil"},
    "client-certificate": {"client-certificate": "{tree}/evil", "client-key": "/etc/hostname"},
    "client-key": {"client-certificate": "/etc/hostname", "client-key": "{tree}/evil"},
    "certificate-authority": {"certificate-authority": "{tree}/evil"},
}


@pytest.mark.of_domains("fleet", "hub")
@pytest.mark.parametrize("case", NAMED)
def test_kubeconfig_of_operator_may_not_name_work_tree_files(
    case: str,
    tree: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = tree / "bin" / "sign-in"
    program.write_text("#!/bin/sh\ntouch ran\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    fields = json.loads(json.dumps(NAMED[case]).replace("{tree}", str(tree)))
    kubeconfig = tmp_path / "kubeconfig"
    untrusted_files.write_kubeconfig(kubeconfig, fields, fields)
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(kubeconfig))
    (tree / "main.nf.hcl").write_text(untrusted_files.LIVE_HUB)
    assert run_command_line(["plan", "-confine"]) == 1
    assert not (tree / "ran").exists()
    text = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "is in the work tree of a sandboxed run (of a kubeconfig)" in text


@pytest.mark.of_domains("vnf")
def test_clouds_file_in_work_tree_is_not_read(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    auth = {"auth_url": untrusted_files.SERVER, "username": "u", "password": "p"}
    (tree / "clouds.yaml").write_text(json.dumps({"clouds": {"c": {"auth": auth}}}))
    monkeypatch.setenv("OS_CLOUD", "c")
    (tree / "main.nf.hcl").write_text(untrusted_files.LIVE_TACKER)
    assert run_command_line(["plan", "-confine", f"-allow-remote={untrusted_files.SERVER}"]) == 1
    assert "clouds.yaml" in capsys.readouterr().err


@pytest.mark.of_domains("vnf")
@pytest.mark.parametrize("verified", [True, False])
def test_unverified_openstack_is_named(
    verified: bool, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from contextlib import ExitStack

    from nexusform.domains.vnf.providers.tacker import make_provider

    auth = {"auth_url": untrusted_files.SERVER, "username": "u", "password": "p"}
    (tree / "clouds.yaml").write_text(
        json.dumps({"clouds": {"c": {"auth": auth, "verify": verified}}})
    )
    monkeypatch.setenv("OS_CLOUD", "c")
    settings = {
        "endpoint": untrusted_files.SERVER,
        "auth": "keystone",
        "timeout": "1m",
        "on_failure": "fail",
        "graceful": True,
    }
    with ExitStack() as stack:
        warnings = make_provider(settings, str(tree), stack).list_warnings()
    assert [problem.id for problem in warnings] == ([] if verified else ["unverified-server"])


@pytest.mark.of_domains("vnf")
@pytest.mark.parametrize("auth", ["keystone", "none"])
def test_endpoint_from_work_tree_needs_permission_of_the_operator(
    auth: str, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """This also holds without credentials.

    A connection may reach servers accessible only to the runner.
    """
    text = untrusted_files.LIVE_TACKER.replace("\n}", f'\n  auth = "{auth}"\n}}', 1)
    (tree / "main.nf.hcl").write_text(text)
    assert run_command_line(["plan", "-confine"]) == 1
    err = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert (
        f'The address "{untrusted_files.SERVER}" is set in the configuration, and -confine '
        "does not allow it"
    ) in err


@pytest.mark.of_domains("remote_state")
@pytest.mark.parametrize("case", BACKEND_CASES)
def test_settings_file_in_work_tree_has_no_effect(
    case: str, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = untrusted_files.use_backend_settings(case, tree)
    assert run_command_line(["plan", "-confine", *arguments]) == 1
    text = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert re.search('is a file of the work tree|needs "|-confine does not allow it', text), text


@pytest.mark.of_domains("fleet", "hub", "remote_state")
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_kernel_reports_no_program_file_or_connection(tmp_path: Path) -> None:
    log = tmp_path / "kernel.log"
    calls = ["strace", "-f", "-qq", "-e", "trace=open,openat,execve,connect", "-o", str(log)]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(SOURCE.parent),
        "HOME": str(tmp_path),
    }
    words = [*calls, sys.executable, "-m", "tests.trust.untrusted_files", str(tmp_path / "trees")]
    subprocess.run(
        words, env=environment, cwd=SOURCE.parent, check=True, timeout=300, capture_output=True
    )
    kernel = log.read_text(errors="replace")
    assert kernel.count("execve(") == 1
    assert "AF_INET" not in kernel
    opened = [line for line in kernel.splitlines() if "evil" in line and "O_WRONLY" not in line]
    assert opened == []
    assert kernel.count("main.nf.hcl") > len(KUBECONFIG_CASES)


def test_table_has_every_variable_and_flag_of_the_product() -> None:
    names = {entry.name for entry in EXTERNAL_FILES}
    texts = [
        path.read_text(encoding="utf-8")
        for path in SOURCE.rglob("*.py")
        if path.name != "external_files.py"
    ]
    variable = re.compile(r"(NF|ARM|AWS|AZURE|PG|KUBE\w*|SSL|ACTIONS|OS|XDG)_[A-Z_]+")
    constants = {
        node.value
        for text in texts
        if variable.search(text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    variables = {value for value in constants if variable.fullmatch(value)}
    assert {
        name for name in variables - names if not any(value.fullmatch(name) for value in VALUES)
    } == set()
    reading = (
        r"(\w+): [^=\n]+ = "
        r"declare_texts?\(\s*\"(?:Read|Use|Find|Serve)[^\"]*\",\s*metavar=\"\w*(?:FILE|DIR)\""
    )
    inputs = {name for text in texts for name in re.findall(reading, text)}
    assert {f"-{name.replace('_', '-')}" for name in inputs} - names == set()


def test_documentation_page_has_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for writer in AllowedWriter:
        section = page.partition(f"| {writer.value} | ")[2].partition("\n")[0]
        assert re.findall(r"`([^`]+)`", section) == [
            entry.name for entry in EXTERNAL_FILES if entry.writer is writer
        ]
