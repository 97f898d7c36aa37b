"""Tests of -confine: paths and addresses from configuration are limited.

Paths must be below one directory, and the operator must allow addresses.
"""

from __future__ import annotations

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
from nexusform.files.regular_files import UNCONFINED, Confinement, OutsideConfinement
from nexusform.workflow.opening.command_context import CommandContext, parse_confinement
from tests.contracts.http_state_server import run_state_server
from tests.kill_points import long_case, scale_count
from tests.programs import can_trace_calls
from tests.trust.hostile import CANARY, ENVIRONMENT_SECRET

CASES = int(os.environ.get("NEXUSFORM_HOSTILE_CASES") or scale_count(160))
TOP = Path(nexusform.__file__).parent.parent


# --- paths -------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    for name in ("work/sub/deep", "work/.git", "work/.nexusform", "outside"):
        (tmp_path / name).mkdir(parents=True)
    for name in (
        "work/a",
        "work/sub/b",
        "work/.git/config",
        "work/.nexusform/backend.json",
        "outside/secret",
    ):
        (tmp_path / name).write_text("x")
    (root / "in").symlink_to("sub/b")
    (root / "out").symlink_to("../outside/secret")
    (root / "git").symlink_to(".git")
    (root / "loop").symlink_to("loop")
    (root / "up").symlink_to("..")
    (root / "hard").hardlink_to(tmp_path / "outside/secret")
    (root / "second").hardlink_to(root / "a")
    return root


INSIDE = [
    "a",
    # As the state and its backup while it is written.
    "second",
    "./a",
    "sub/b",
    "in",
    "sub/../a",
    "absent",
    "sub/absent/b",
    ".",
    "up/work/a",
    ".gitignore",
    ".github/x",
]
OUTSIDE = [
    "out",
    "hard",
    "..",
    "../outside/secret",
    "up/outside/secret",
    "/etc/passwd",
    "/proc/self/environ",
    "/dev/zero",
    ".git",
    ".git/config",
    ".GIT/config",
    "sub/.git/config",
    "git/config",
    "git",
    ".nexusform/backend.json",
    "sub/../../outside/secret",
    "up",
]


@pytest.mark.parametrize("path", INSIDE)
def test_path_inside_is_resolved_to_its_real_name(
    path: str, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree)
    gate = parse_confinement("true", {})
    assert gate.root == str(tree.resolve())
    assert gate.resolve(path) == os.path.realpath(path)
    assert gate.resolve(tree / path) == os.path.realpath(path)


@pytest.mark.parametrize("path", OUTSIDE)
def test_path_outside_is_rejected(path: str, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    gate = parse_confinement("true", {})
    with pytest.raises(OutsideConfinement):
        gate.resolve(path)
    assert UNCONFINED.resolve(path) == path


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/dev/null", "/sys/kernel", "/x/.git/config"]
)
def test_system_paths_are_always_rejected(path: str) -> None:
    with pytest.raises(OutsideConfinement):
        Confinement("/").resolve(path)


def test_operator_path_is_free_unless_it_passes_through_the_work_tree(tree: Path) -> None:
    gate = Confinement(str(tree.resolve()))
    outside = tree.parent / "outside" / "secret"
    assert gate.resolve_path_of_operator(outside) == str(outside)
    with pytest.raises(OutsideConfinement):
        gate.resolve_path_of_operator(tree / "out")


def test_alias_of_the_work_tree_is_confined_too(tree: Path) -> None:
    """The contents of a link to the checkout still belong to the pull request.

    The operator names the link.
    """
    gate = Confinement(str(tree.resolve()))
    alias = tree.parent / "alias"
    alias.symlink_to(tree)
    assert gate.resolve_path_of_operator(alias / "a") == str(tree / "a")
    with pytest.raises(OutsideConfinement):
        gate.resolve_path_of_operator(alias / "out")


def test_default_directory_is_the_top_of_the_work_tree(tree: Path) -> None:
    assert parse_confinement("1", {}, str(tree / "sub")).root == str(tree)
    assert parse_confinement(str(tree / "sub"), {}, str(tree)).root == str(tree / "sub")
    assert (
        parse_confinement("", {})
        == parse_confinement("false", {})
        == parse_confinement("0", {})
        == UNCONFINED
    )
    with pytest.raises(ValueError, match="no directory"):
        parse_confinement(str(tree / "absent"), {})


def test_data_directory_outside_the_work_tree_is_rejected(tree: Path) -> None:
    shutil.rmtree(tree / ".nexusform")
    (tree / ".nexusform").symlink_to("../outside")
    with pytest.raises(ValueError, match="to a path outside"):
        parse_confinement("true", {}, str(tree))
    assert parse_confinement(
        "true", {"NF_DATA_DIR": str(tree.parent / "outside")}, str(tree)
    ).root == str(tree)


# --- addresses ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("https://state.example/team", True),
        ("https://state.example/team/lab", True),
        ("https://STATE.example:443/team/lab", False),
        ("https://state.example/teamwork", False),
        ("https://state.example/", False),
        ("https://state.example/team/../other", False),
        ("https://state.example/team/%2e%2e/other", False),
        ("https://state.example.evil/team", False),
        ("https://state.example@evil/team", False),
        ("https://me:secret@state.example/team", False),
        ("http://state.example/team", False),
        ("https://state.example\\@evil/team", False),
        ("https://[state.example/team", False),
        ("", False),
    ],
)
def test_address_is_compared_part_by_part(address: str, allowed: bool) -> None:
    place = CommandContext(
        confinement=Confinement("/work"), allow_remote=("https://state.example/team",)
    )
    assert place.is_allowed(address) is allowed
    assert CommandContext().is_allowed(address)
    assert not CommandContext(
        confinement=Confinement("/work"), allow_remote=("", "https://")
    ).is_allowed(address)


OURS = ' storage_account_name = "ours"\n container_name = "c"\n key = "k"\n'
HTTP = 'nexusform {\n  backend "http" {\n    address = "http://127.0.0.1:9/state"\n  }\n}\n'


def read_output(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    return " ".join((captured.out + captured.err).replace("│", " ").split())


@pytest.fixture
def work_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    for name in ("NF_CONFINE", "NF_ALLOW_REMOTE", "NF_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.of_domains("remote_state")
@pytest.mark.parametrize(
    "command",
    [
        ["plan"],
        ["state", "list"],
        ["init"],
        ["apply", "-auto-approve"],
        ["workspace", "list"],
        ["output"],
    ],
)
def test_address_in_configuration_is_rejected(
    command: list[str], work_tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (work_tree / "main.nf.hcl").write_text(HTTP)
    assert run_command_line([*command, "-confine"]) == 1
    text = read_output(capsys)
    assert 'The setting "address" of the backend "http" is set in the configuration' in text
    assert "-backend-config=NAME=VALUE" in text


@pytest.mark.of_domains("remote_state")
def test_address_of_operator_is_accepted(
    work_tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No server answers at the address, so the error is about the connection."""
    (work_tree / "main.nf.hcl").write_text(HTTP)
    refused = "is set in the configuration"
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    assert run_command_line(["plan", "-confine", "-allow-remote=http://127.0.0.1:9/"]) == 1
    assert refused not in read_output(capsys)
    assert run_command_line(["plan", "-confine", "-allow-remote=http://127.0.0.1:9/other"]) == 1
    assert refused in read_output(capsys)
    monkeypatch.setenv("NF_CONFINE", "true")
    monkeypatch.setenv("NF_ALLOW_REMOTE", "https://other http://127.0.0.1:9")
    assert run_command_line(["plan"]) == 1
    assert refused not in read_output(capsys)
    monkeypatch.delenv("NF_ALLOW_REMOTE")
    (work_tree / "main.nf.hcl").write_text('nexusform {\n  backend "http" {}\n}\n')
    assert run_command_line(["plan", "-backend-config=address=http://127.0.0.1:9/state"]) == 1
    assert refused not in read_output(capsys)


@pytest.mark.of_domains("remote_state")
def test_setting_is_never_read_as_a_file(
    work_tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pull request adds a file with the name of a setting of the job."""
    (work_tree / "main.nf.hcl").write_text('nexusform {\n  backend "http" {}\n}\n')
    (work_tree / "address=http:" / "127.0.0.1:9").mkdir(parents=True)
    (work_tree / "address=http:" / "127.0.0.1:9" / "s").write_text(
        'address = "http://127.0.0.1:1/stolen"\n'
    )
    assert (
        run_command_line(["plan", "-confine", "-backend-config=address=http://127.0.0.1:9/s"]) == 1
    )
    text = read_output(capsys)
    assert "127.0.0.1:9" in text
    assert "stolen" not in text


@pytest.mark.of_domains("remote_state")
def test_settings_file_in_work_tree_cannot_set_a_server(
    work_tree: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    (work_tree / "main.nf.hcl").write_text('nexusform {\n  backend "http" {}\n}\n')
    (work_tree / "prod.nfvars.hcl").write_text('address = "http://127.0.0.1:9/s"\n')
    command = ["plan", "-confine", "-backend-config=prod.nfvars.hcl"]
    assert run_command_line(command) == 1
    assert '"prod.nfvars.hcl" is a file of the work tree' in read_output(capsys)
    assert run_command_line([*command, "-allow-remote=http://127.0.0.1:9"]) == 1
    assert "is a file of the work tree" not in read_output(capsys)
    own = tmp_path_factory.mktemp("operator") / "own.nfvars.hcl"
    own.write_text('address = "http://127.0.0.1:9/s"\n')
    assert run_command_line(["plan", "-confine", f"-backend-config={own}"]) == 1
    assert "is a file of the work tree" not in read_output(capsys)


@pytest.mark.of_domains("remote_state")
@pytest.mark.parametrize(
    ("block", "setting"),
    [
        (
            (
                'backend "azurerm" {\n storage_account_name = "a"\n container_name = "c"\n key = '
                '"k"\n}'
            ),
            "storage",
        ),
        (
            f'backend "azurerm" {{\n{OURS} oidc_token_file_path = "/home/me/.token"\n}}',
            "oidc_token_file_path",
        ),
        ('backend "s3" {\n bucket = "b"\n key = "k"\n endpoint = "https://evil"\n}', "bucket"),
        ('backend "postgres" {\n conn_str = "postgres://evil/db"\n}', "conn_str"),
        (
            'backend "http" {\n address = "https://ours/x"\n skip_cert_verification = true\n}',
            "skip_cert",
        ),
        (
            'backend "http" {\n address = "https://ours/x"\n lock_address = "https://evil/x"\n}',
            "lock_address",
        ),
    ],
)
def test_settings_other_than_allowed_addresses_are_rejected(
    block: str, setting: str, work_tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (work_tree / "main.nf.hcl").write_text(f"nexusform {{\n{block}\n}}\n")
    allowed = ["-allow-remote=https://ours", "-allow-remote=https://ours.blob.core.windows.net"]
    assert run_command_line(["plan", "-confine", *allowed]) == 1
    text = read_output(capsys)
    assert 'The setting "' in text
    assert f'"{setting}' in text
    has_only_allowed_addresses = setting in ("oidc_token_file_path", "skip_cert")
    assert (
        "-allow-remote allows addresses only. Set it with" in text
    ) == has_only_allowed_addresses
    assert ("Allow it with -allow-remote" in text) != has_only_allowed_addresses


@pytest.mark.of_domains("remote_state")
@pytest.mark.parametrize(
    ("backend", "config"),
    [
        ("http", '{ address = "http://127.0.0.1:9/state" }'),
        ("postgres", '{ conn_str = "postgres://evil/db" }'),
        ("s3", '{ bucket = "b", key = "k", endpoint = "http://127.0.0.1:9" }'),
    ],
)
def test_remote_state_in_configuration_is_rejected(
    backend: str, config: str, work_tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        f'data "nexusform_remote_state" "r" {{\n  backend = "{backend}"\n  config  = {config}\n}}\n'
    )
    (work_tree / "main.nf.hcl").write_text(text)
    assert run_command_line(["plan", "-confine"]) == 1
    assert "is set in the configuration, and -confine does not allow it" in read_output(capsys)


def test_key_vault_in_configuration_is_rejected(
    work_tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (work_tree / "main.nf.hcl").write_text(
        """
nexusform {
  encryption {
    key_provider "azure_vault" "v" {
      vault_uri = "https://evil.vault.azure.net"
      key_name  = "k"
    }
    method "aes_gcm" "m" {
      keys = key_provider.azure_vault.v
    }
    state {
      method = method.aes_gcm.m
    }
  }
}
"""
    )
    assert run_command_line(["plan", "-confine"]) == 1
    assert (
        'The key vault "https://evil.vault.azure.net" is set in the configuration'
        in read_output(capsys)
    )


# --- paths of the operator ----------------------------------------------------------------------

# Each `link` is a name given by the operator, and a link placed there by the pull request.
NAMED = {
    "show": ["show", "link"],
    "apply": ["apply", "link"],
    "apply -verify": ["apply", "-verify=key:link", "p"],
    "plan -sign": ["plan", "-out=q", "-sign=link"],
    "plan -diff": ["plan", "-report=github-review:review.json", "-diff=link"],
    "plan -var-file": ["plan", "-var-file=link"],
    "plan -target-file": ["plan", "-target-file=link"],
    "plan -state": ["plan", "-state=link"],
    "init -backend-config": ["init", "-backend-config=link"],
    "graph": ["graph", "-plan=link"],
    "explain": ["explain", "-plan=link", "nexus_site.s"],
    "advise": ["advise", "-plan=link"],
    "export": ["export", "-format=az", "link"],
    "state push": ["state", "push", "link"],
    "state list": ["state", "list", "-state=link"],
    "import -from": ["import", "-from=folder", "-generate-config-out=x.nf.hcl"],
    "reconcile": ["reconcile", "-from=folder"],
    "inventory check": ["inventory", "check", "folder"],
    "inventory of links": ["inventory", "check", "inside"],
    "predict -terraform-plan": ["predict", "-terraform-plan=link", "-inventory=inside"],
    "predict -arm-what-if": ["predict", "-arm-what-if=link", "-inventory=inside"],
    "predict -inventory": ["predict", "-arm-what-if=w.json", "-inventory=folder"],
    "fmt": ["fmt", "-check", "link.nf.hcl"],
    "test": ["test", "-filter=link.nftest.hcl"],
}


@pytest.mark.parametrize("name", NAMED)
def test_link_in_work_tree_leads_no_command_outside(
    name: str,
    work_tree: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (work_tree / "main.nf.hcl").write_text('resource "nexus_site" "s" {}\n')
    assert run_command_line(["plan", "-out=p"]) == 0
    for file in ("secret", "racks.json", "bare_metal_machines.json"):
        (outside / file).write_text(CANARY)
    (work_tree / "folder").symlink_to(outside)
    (work_tree / "inside").mkdir()
    (work_tree / "w.json").write_text('{"status": "Succeeded", "changes": []}')
    for link in ("link", "link.nf.hcl", "link.nftest.hcl", "inside/racks.json"):
        (work_tree / link).symlink_to(outside / "secret")
    (work_tree / "inside" / "bare_metal_machines.json").symlink_to(outside / "secret")
    capsys.readouterr()
    assert run_command_line([*NAMED[name], "-confine"]) in (1, 2)
    text = read_output(capsys)
    assert "-confine does not allow it" in text or "is in the work tree of a sandboxed run" in text
    assert CANARY not in text
    run_command_line([*NAMED[name], "-confine=false"])
    assert "-confine" not in read_output(capsys)


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "-out=lk/f"],
        ["plan", "-report=json:lk/f"],
        ["plan", "-generate-config-out=lk/f.nf.hcl"],
        ["show", "p", "-report=json:lk/f"],
        ["export", "-format=az", "-out=lk/f", "p"],
        ["sites", "plan", "-out=lk/f"],
        ["sites", "plan", "-report=json:lk/f"],
        ["test", "-junit-xml=lk/f"],
        ["plan", "-out=hooks/f"],
    ],
    ids=" ".join,
)
def test_link_in_work_tree_leads_no_output_outside(
    words: list[str],
    work_tree: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (work_tree / "main.nf.hcl").write_text('resource "nexus_site" "s" {}\n')
    assert run_command_line(["plan", "-out=p"]) == 0
    (work_tree / "lk").symlink_to(outside)
    (work_tree / "hooks").symlink_to(".git")
    (outside / "f").write_text("older")
    capsys.readouterr()
    assert run_command_line([*words, "-confine"]) == 1
    text = read_output(capsys)
    assert "cannot be written" in text
    assert "-confine does not allow it" in text
    assert ([path.name for path in outside.iterdir()], (outside / "f").read_text()) == (
        ["f"],
        "older",
    )


def test_path_outside_is_allowed_for_the_operator(
    work_tree: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (work_tree / "main.nf.hcl").write_text('resource "nexus_site" "s" {}\n')
    state = outside / "site.nfstate"
    assert run_command_line(["apply", "-auto-approve", f"-state={state}", "-confine"]) == 0
    assert run_command_line(["plan", f"-out={outside}/p", f"-state={state}", "-confine"]) == 0
    assert run_command_line(["show", f"{outside}/p", "-confine"]) == 0
    (outside / "bare_metal_machines.json").symlink_to("machines")
    (outside / "machines").write_text("[]")
    (outside / "racks.json").write_text("[]")
    capsys.readouterr()
    run_command_line(["inventory", "check", str(outside), "-confine"])
    assert "-confine" not in read_output(capsys)


# --- data recorded in the work tree -------------------------------------------------------------


def test_recorded_init_and_workspace_of_work_tree_are_not_trusted(
    work_tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (work_tree / "main.nf.hcl").write_text('output "w" {\n  value = nexusform.workspace\n}\n')
    memory = {
        "type": "http",
        "settings": {"address": "http://evil"},
        "given": {"address": "http://evil"},
    }
    (work_tree / ".nexusform").mkdir()
    (work_tree / ".nexusform" / "backend.json").write_text(json.dumps(memory))
    (work_tree / ".nexusform" / "environment").write_text("production")
    assert run_command_line(["plan", "-confine"]) == 0
    text = read_output(capsys)
    assert '"default"' in text
    assert "production" not in text
    assert run_command_line(["plan"]) == 1


def test_init_recorded_outside_the_work_tree_is_used(
    work_tree: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NF_DATA_DIR", str(tmp_path_factory.mktemp("data")))
    monkeypatch.setenv("NF_CONFINE", str(work_tree))
    (work_tree / "main.nf.hcl").write_text('nexusform {\n  backend "local" {}\n}\n')
    assert run_command_line(["init", "-backend-config=path=elsewhere.nfstate"]) == 0
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert run_command_line(["plan", "-backend-config=path=elsewhere.nfstate"]) == 0


def test_message_has_the_path_as_configured(
    work_tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (work_tree / "l").symlink_to("/etc/hostname")
    (work_tree / "main.nf.hcl").write_text('output "o" {\n  value = file("l")\n}\n')
    assert run_command_line(["plan", "-confine"]) == 1
    text = read_output(capsys)
    assert '"l" cannot be read: -confine does not allow it' in text
    assert "hostname" not in text.replace('file("l")', "")
    assert run_command_line(["plan"]) == 0


def test_root_module_must_be_in_the_directory(
    work_tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (work_tree / "main.nf.hcl").write_text("")
    (work_tree / "sub").mkdir()
    assert run_command_line(["plan", "-confine=sub"]) == 1
    assert "-confine does not allow it" in read_output(capsys)


# --- hostile configurations ---------------------------------------------------------------------


def hostile_run(
    place: Path, number: int, *, confined: bool, before: tuple[str, ...] = ()
) -> tuple[str, list[str]]:
    """Return the output of all hostile work trees and the opened paths."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(TOP),
        "HOME": str(place / "home"),
        "NF_IN_AUTOMATION": "1",
        ENVIRONMENT_SECRET: CANARY,
        "NF_CONFINE": "true" if confined else "false",
    }
    words = [*before, sys.executable, "-m", "tests.trust.hostile", str(place), str(number), "14"]
    subprocess.run(
        words, env=environment, cwd=TOP, check=True, timeout=600, stdin=subprocess.DEVNULL
    )
    return (place / "said").read_text(), (place / "opened").read_text().splitlines()


def list_foreign_paths(opened: list[str], place: Path) -> list[str]:
    """Return the paths outside the work trees, the interpreter, the packages and the system."""
    ours = [str(place / "trees"), str(place / "said"), str(place / "opened"), str(TOP)]
    system = [sys.prefix, sys.base_prefix, "/usr", "/lib", "/etc", "/dev/null", "/dev/urandom"]
    # The C library reads the second one before it returns memory.
    kernel = ["/proc/sys/kernel/random/boot_id", "/proc/sys/vm/overcommit_memory"]
    allowed = (*ours, *system, *kernel)
    known = re.compile(
        r"/proc/(\d+|self)/(stat|maps|status|fd)|/sys/(devices/system|fs/cgroup).*|/proc/cpuinfo"
    )
    inside = [path for path in opened if re.search(r"/trees/\d+/(.*/)?\.git(/|$)", path)]
    return inside + [
        path for path in opened if not path.startswith(allowed) and not known.fullmatch(path)
    ]


@pytest.mark.of_domains("azure", "fleet", "remote_state", "vnf")
def test_hostile_configurations_open_no_outside_file_and_print_no_secret(tmp_path: Path) -> None:
    said, opened = hostile_run(tmp_path.resolve(), CASES, confined=True)
    assert CANARY not in said
    assert "Internal error" not in said
    assert list_foreign_paths(opened, tmp_path.resolve()) == []
    assert said.count("-confine does not allow it") > CASES


def test_hostile_configurations_succeed_without_confinement(tmp_path: Path) -> None:
    said, opened = hostile_run(tmp_path.resolve(), 40, confined=False)
    assert said.count(CANARY) > 10
    outside = str(tmp_path.resolve() / "outside")
    assert any(path.startswith(outside) for path in list_foreign_paths(opened, tmp_path.resolve()))


@pytest.mark.of_domains("azure", "fleet", "remote_state", "vnf")
@pytest.mark.skipif(not can_trace_calls(), reason="no strace, or it may not trace")
@long_case
def test_kernel_reports_no_outside_file_opened(tmp_path: Path) -> None:
    place = tmp_path.resolve()
    log = place.parent / f"{place.name}.strace"
    calls = (
        "strace",
        "-f",
        "-qq",
        "-y",
        "-e",
        "trace=open,openat,openat2,execve,connect",
        "-o",
        str(log),
    )
    said, _ = hostile_run(place, max(30, CASES // 10), confined=True, before=calls)
    assert CANARY not in said
    kernel = log.read_text(errors="replace")
    # Files written there are prepared by the process before its runs: secrets, trees and links.
    # Directories that are only passed are not read.
    ignored = ("O_WRONLY|O_CREAT", "O_PATH")
    lines = [line for line in kernel.splitlines() if not any(flag in line for flag in ignored)]
    opened = [
        match[1]
        for line in lines
        if (match := re.search(r"\bopen(?:at2?)?\(.* = \d+<([^>]+)>", line))
    ]
    assert len(opened) > 1000
    assert list_foreign_paths(opened, place) == []
    assert "AF_INET" not in kernel


BACKEND = """
nexusform {
  backend "http" {
    address = "ADDRESS/lon1"
  }
}
"""
RACK = """
resource "nexus_site" "lab" {}
resource "nexus_rack" "r" {
  site_id       = nexus_site.lab.id
  name          = "r"
  machine_count = 2
}
resource "nexus_virtual_machine" "v" {
  name       = "v"
  site_id    = nexus_site.lab.id
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 20
  depends_on = [nexus_rack.r]
}
"""


@pytest.mark.of_domains("editor", "remote_state")
def test_editor_confinement_follows_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The language server plans opened files for hints; it writes nothing."""
    from nexusform.domains.editor.placement_preview import build_saved_preview

    with run_state_server() as (address, store):
        (tmp_path / "main.nf.hcl").write_text(BACKEND.replace("ADDRESS", address) + RACK)
        monkeypatch.setenv("NF_CONFINE", "true")
        assert not build_saved_preview(str(tmp_path)).hints
        assert store.requests == []
        monkeypatch.setenv("NF_ALLOW_REMOTE", address)
        assert build_saved_preview(str(tmp_path)).hints
        assert {method for method, _ in store.requests} == {"GET"}
    assert [path.name for path in tmp_path.iterdir()] == ["main.nf.hcl"]
