"""Tests of external files in a sandboxed run.

They cover every variable, default path and flag that leads to a file.
"""

from __future__ import annotations

import ast
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec import Struct

import nexusform
from nexusform.cli.arguments import declare_text_flag
from nexusform.cli.commands import define_command
from nexusform.cli.main import ROOT, run_command_line
from nexusform.files.external_files import EXTERNAL_FILES, AllowedWriter, PathValueForm
from tests.kill_points import select_cases
from tests.programs import can_trace_calls
from tests.trust import untrusted_files
from tests.trust.hostile_arguments import (
    SECRET,
    DeclaredArgument,
    list_arguments,
    list_declared_arguments,
    summarize_trace,
    trace_arguments,
)
from tests.trust.untrusted_files import BACKEND_CASES, KUBECONFIG_CASES, build_environment

SOURCE = Path(nexusform.__file__).parent
PAGE = SOURCE.parent / "docs" / "security.md"
PARTS = 16
REJECTED = [entry for entry in EXTERNAL_FILES if entry.writer is AllowedWriter.OPERATOR]
# Variables of the product without a file.
VALUES = (
    re.compile(
        r"NF_(INPUT|CLI_ARGS_?|LIMIT_|VAR_|LOG|CONFINE|ALLOW_REMOTE|ALLOW_MODULE|PROGRAM_VARIABLES|TOKEN_|IN_AUTOMATION|WORKSPACE|NET_DEADLINE)"
    ),
    re.compile(
        r"NF_(AZURE_ENDPOINT|AZURE_POLL_SECONDS|FLEET_CONTEXT|HTTP_USERNAME|HTTP_PASSWORD|LEASE_SECONDS|ENCRYPTION)?"
    ),
    re.compile(
        r"ARM_(ACCESS_KEY|SAS_TOKEN|CLIENT_ID|TENANT_ID|CLIENT_SECRET|USE_OIDC|USE_MSI|USE_CLI|OIDC_TOKEN)"
    ),
    # Addresses of the sign-in to a cloud.
    re.compile(
        r"AWS_(ENDPOINT_URL|CONTAINER_CREDENTIALS_FULL_URI|EC2_METADATA_SERVICE_ENDPOINT)"
        r"|AZURE_(POD_IDENTITY_)?AUTHORITY_HOST|AZURE_REGIONAL_AUTHORITY_NAME"
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
    for name, value in build_environment(entry, tree).items():
        monkeypatch.setenv(name, value)
    assert run_command_line(["plan", "-confine"]) == 1
    text = read_errors(capsys)
    assert "is in the work tree of a sandboxed run" in text
    assert entry.name in text
    assert run_command_line(["plan"]) == 0


def list_operator_arguments() -> list[tuple[str, DeclaredArgument]]:
    """List the arguments of commands that lead to a file or program of the operator."""
    return [
        (f"{argument.command} {argument.name}", argument)
        for argument in list_declared_arguments()
        if argument.file is not None
        and argument.file.writer is AllowedWriter.OPERATOR
        and argument.name != "-confine"
    ]


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    "argument", [pytest.param(argument, id=name) for name, argument in list_operator_arguments()]
)
def test_file_of_argument_in_work_tree_is_rejected(
    argument: DeclaredArgument, capsys: pytest.CaptureFixture[str]
) -> None:
    (Path.cwd() / "evil").chmod(0o755)
    values = {
        PathValueForm.KEY: "key:evil",
        PathValueForm.LOCATION: "kube-scheduler=evil",
        PathValueForm.COMMAND: "./evil",
    }
    assert argument.file is not None
    value = values.get(argument.file.form, "evil")
    assert run_command_line([*argument.build_words(value), "-confine"]) == 1
    assert re.search(
        "is in the work tree of a sandboxed run|not allowed in a sandboxed run", read_errors(capsys)
    )
    assert not Path("ran").exists()


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
@pytest.mark.skipif(not can_trace_calls(), reason="no strace, or it may not trace")
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


def test_table_has_every_variable_of_the_product() -> None:
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


def read_errors(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the messages on stderr as one line."""
    return " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    ("access", "reason"),
    [
        (lambda path: path.read_text(), "-confine does not allow it"),
        (lambda path: list(path.parent.iterdir()), "-confine does not allow it"),
        (lambda _path: subprocess.run(["true"], check=True), 'declares the program "true"'),
        (lambda _path: os.system("true"), "declares a shell"),
        (
            lambda _path: socket.create_connection(("127.0.0.1", 9), 1),
            "no client declared the server 127.0.0.1",
        ),
    ],
    ids=["file", "directory", "program", "shell", "server"],
)
def test_undeclared_access_of_a_command_is_rejected(
    access: Callable[[Path], object],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A new reader that checks nothing stops at the wall; without -confine it reads."""
    (tmp_path / "outside").mkdir()
    secret = tmp_path / "outside" / "secret"
    secret.write_text("canary")

    class PeekArguments(Struct, frozen=True, kw_only=True):
        file: str = declare_text_flag("Read a file", metavar="FILE")

    @define_command("peek", PeekArguments)
    def peek(arguments: PeekArguments) -> int:
        """Access what no argument declares."""
        with suppress(ConnectionRefusedError):
            access(Path(arguments.file))
        return 0

    monkeypatch.setattr(ROOT, "get_command", lambda _context, _name: peek)
    words = ["fmt", f"-file={secret}"]
    assert run_command_line(words) == 0
    assert run_command_line([*words, "-confine"]) == 1
    assert reason in read_errors(capsys)


@pytest.mark.of_domains("azure", "fleet", "hub", "sites", "testing", "vnf", "whatif")
@pytest.mark.skipif(not can_trace_calls(), reason="no strace, or it may not trace")
@pytest.mark.parametrize("part", select_cases(range(PARTS)))
def test_kernel_reports_nothing_outside_for_any_argument(part: int, tmp_path: Path) -> None:
    kernel = trace_arguments(tmp_path, tmp_path / "home", str(part), str(PARTS))
    rows = summarize_trace(kernel, tmp_path)
    expected = [item for item in list_arguments()[part::PARTS] if item.name != "-confine"]
    assert [row.argument for row in rows] == expected
    assert [row for row in rows if row.files or row.programs or row.connections] == []
    assert "AF_INET" not in kernel
    assert [line for line in kernel.splitlines() if f"/{SECRET}>" in line] == []


def test_trace_names_the_argument_of_each_access(tmp_path: Path) -> None:
    kernel = "\n".join(
        [
            '7 openat(AT_FDCWD, "/nonexistent/argument/3", O_RDONLY) = -1 ENOENT (No such file)',
            f'7 openat(AT_FDCWD, "a", O_RDONLY) = 3<{tmp_path}/trees/work/a>',
            f'7 openat(AT_FDCWD, "link", O_RDONLY) = 3<{tmp_path}/trees/{SECRET}>',
            '7 openat(AT_FDCWD, "/nonexistent/argument/5", O_RDONLY) = -1 ENOENT (No such file)',
            '8 execve("/bin/sh", ["sh"], 0x1 /* 3 vars */) = 0',
            "7 connect(3<socket:[1]>, {sa_family=AF_INET, sin_port=htons(80)}, 16) = 0",
        ]
    )
    first, second = summarize_trace(kernel, tmp_path)
    assert first.argument == list_arguments()[3]
    assert first.files == {f"{tmp_path}/trees/{SECRET}"}
    assert (first.programs, first.connections) == (set(), set())
    assert second.argument == list_arguments()[5]
    assert (second.files, second.programs) == (set(), {"/bin/sh"})
    assert len(second.connections) == 1


def test_documentation_page_has_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for writer in AllowedWriter:
        names = [entry.name for entry in EXTERNAL_FILES if entry.writer is writer]
        arguments = {
            argument.name if argument.name.startswith("-") else argument.usage
            for argument in list_declared_arguments()
            if argument.file is not None and argument.file.writer is writer
        }
        row = " ".join(f"`{name}`" for name in (*names, *sorted(arguments)))
        start = f"| {writer.value} | "
        before, _, rest = page.partition(start)
        assert rest, start
        _, _, after = rest.partition("\n")
        current_page = f"{before}{start}{row} |\n{after}"
        if os.environ.get("NEXUSFORM_REWRITE_GOLDEN"):
            PAGE.write_text(current_page, encoding="utf-8")
            page = current_page
        assert page == current_page
