"""Hostile repositories and configurations: nothing is run, and a sandboxed run stays local."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nexusform.configuration.remote_modules.module_lock import LOCK_FILE
from tests.git_repositories import run_git
from tests.programs import can_trace_calls
from tests.workflow.module_packages.module_server import (
    RACK,
    SITE,
    ModuleServer,
    build_zip,
    commit_files,
)
from tests.workflow.module_packages.ssh_server import run_sshd

Run = Callable[..., tuple[int, str]]
SOURCES = (
    "git::ext::sh -c 'touch ran'",
    "git::ext::sh%20-c%20touch%20ran",
    "ext::sh",
    "git::file:///tmp/repository",
    "git::fd::17/x",
    "file:///etc/passwd",
    "s3::https://s3.amazonaws.com/b/m.zip",
    "hg::https://example.com/m",
    "git::https://example.com/m?ref=--upload-pack=touch",
    "git::https://example.com/m?ref=-x",
    "git::https://example.com/m?ref=a:refs/heads/b",
    "git::https://example.com/m?ref=a..b",
    "git::https://example.com/m?ref=",
    "git::https://example.com/m?ref=a%0ab",
    "git::https://example.com/m?ref=a&ref=b",
    "git::https://example.com/m?sshkey=aaaa",
    "git::--upload-pack=touch",
    "git::ssh://-oProxyCommand=touch/x",
    "git::ssh://git@-oProxyCommand=touch/x",
    "git::ssh://-o@example.com/x",
    "git::ssh://git@example.com/-x",
    "git::http://example.com/m.git",
    "git::https://user:word@example.com/m.git",
    "https://example.com/../m.zip?checksum=sha256:" + "0" * 64,
    "git::https://example.com/m//../x",
    "git::https://example.com/m//a/.git",
    "github.com/team",
    "git::git://example.com/m",
    "git@example.com:-x",
    "..\\\\m",
    "a/b/c/d/e",
    "/etc",
)  # fmt: skip


def write_root(source: str) -> None:
    Path("main.nf.hcl").write_text(f'module "lab" {{\n  source = "{source}"\n}}\n')


@pytest.mark.parametrize("source", SOURCES)
def test_unsafe_source_is_rejected(nf: Run, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess.Popen, "__init__", None)
    write_root(source)
    for command in ("init", "validate", "plan"):
        code, text = nf(command)
        assert code == 1
        assert "Unsupported module source" in text
        # The source line shows it anyway; the message does not.
        assert "word@" not in text.partition("module source")[2].partition("}")[2]
    assert not Path("ran").exists()


def write_hostile_repository(server: ModuleServer) -> None:
    """Commit a module with hooks, attributes, settings, a submodule and a program."""
    repository = server.repositories / "hostile"
    files = {
        "main.nf.hcl": SITE.replace("SOURCE", "./rack"),
        "rack/main.nf.hcl": RACK.replace("COUNT", "2"),
        ".gitattributes": "* filter=evil diff=evil merge=evil export-subst\n",
        ".gitmodules": (
            '[submodule "evil"]\n  path = evil\n  url = ext::sh -c "touch /tmp/ran"\n'
            "  update = !touch ran\n"
        ),
        ".githooks/post-checkout": "#!/bin/sh\ntouch ran\n",
        "hooks/reference-transaction": "#!/bin/sh\ntouch ran\n",
        ".lfsconfig": "[lfs]\n  url = http://127.0.0.1:9/\n",
        "setup.sh": "#!/bin/sh\ntouch ran\n",
    }
    commit_files(repository, files)
    commit = run_git(repository, "rev-parse", "HEAD")
    run_git(repository, "update-index", "--add", "--cacheinfo", f"160000,{commit},evil")
    run_git(repository, "commit", "-q", "-m", "submodule")
    for path in (repository / ".git" / "hooks").glob("*"):
        path.unlink()


def write_operator_settings(home: Path) -> None:
    """Write settings of git that would run programs in an ordinary clone."""
    hooks = home / "hooks"
    hooks.mkdir()
    for name in ("post-checkout", "reference-transaction", "post-merge", "fsmonitor-watchman"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {home}/ran\n")
        (hooks / name).chmod(0o755)
    (home / ".gitconfig").write_text(
        f'[core]\n  hooksPath = {hooks}\n  fsmonitor = "touch {home}/ran"\n'
        f'[filter "evil"]\n  smudge = touch {home}/ran\n  process = touch {home}/ran\n'
        "[protocol]\n  allow = always\n[submodule]\n  recurse = true\n"
    )


def test_hostile_repository_runs_nothing(server: ModuleServer, nf: Run, tmp_path: Path) -> None:
    write_hostile_repository(server)
    write_operator_settings(tmp_path / "home")
    write_root(server.build_git_source("hostile"))
    code, text = nf("init")
    assert code == 0, text
    assert "Submodules are not downloaded: evil." in text
    assert nf("plan")[0] == 0
    assert not [*tmp_path.rglob("ran")]
    assert not Path("/tmp/ran").exists()
    installed = Path(".nexusform/modules/lab")
    assert not [
        path for path in installed.rglob("*") if os.access(path, os.X_OK) and path.is_file()
    ]


@pytest.mark.skipif(not can_trace_calls(), reason="no strace, or it may not trace")
@pytest.mark.parametrize("transport", ["http", "ssh"])
def test_kernel_reports_git_programs_only(
    server: ModuleServer,
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    transport: str,
) -> None:
    write_hostile_repository(server)
    write_operator_settings(tmp_path / "home")
    with run_transport(server, tmp_path, monkeypatch, transport) as source:
        write_root(source)
        programs = trace_programs(tmp_path / "calls", project)
    # git starts the program of the operator for ssh by a shell.
    transport_programs = {"git-remote-http"} if transport == "http" else {"sh", "ssh"}
    names = {Path(program).name for program in programs}
    assert names <= {Path(sys.executable).name, "git", "python3", *transport_programs}, names
    assert "git" in names
    assert transport_programs & names
    assert not [*tmp_path.rglob("ran")]
    assert not Path("/tmp/ran").exists()


@contextmanager
def run_transport(
    server: ModuleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: str
) -> Iterator[str]:
    """Yield the source of the hostile repository by http, or by a running sshd."""
    if transport == "http":
        yield server.build_git_source("hostile")
        return
    with run_sshd(tmp_path / "ssh") as ssh:
        monkeypatch.setenv("GIT_SSH_COMMAND", ssh.command)
        yield f"git::ssh://{ssh.address}{server.repositories}/hostile"


def trace_programs(log: Path, project: Path) -> list[str]:
    """Run `init` under strace; return the paths of all programs that were started."""
    calls = ["strace", "-f", "-qq", "-e", "trace=execve", "-e", "status=successful", "-o", str(log)]
    command = [*calls, sys.executable, "-m", "nexusform", "init"]
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    result = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    paths = [
        line.partition('execve("')[2].partition('"')[0] for line in log.read_text().splitlines()
    ]
    return [path for path in paths if path]


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../x", "sub/../../x", ".git/config"])
def test_link_out_of_a_repository_is_an_error(server: ModuleServer, nf: Run, target: str) -> None:
    repository = server.repositories / "links"
    commit_files(repository, {"main.nf.hcl": ""})
    (repository / "evil").symlink_to(target)
    commit_files(repository, {})
    write_root(server.build_git_source("links"))
    code, text = nf("init")
    assert code == 1
    assert "The link 'evil' leads" in text
    assert not Path(LOCK_FILE).exists()


def test_repository_of_the_work_tree_is_not_used(
    server: ModuleServer, nf: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_files(server.repositories / "m", {"main.nf.hcl": 'output "o" {\n  value = 1\n}\n'})
    run_git(Path(), "init", "-q")
    run_git(Path(), "config", "core.sshCommand", f"touch {tmp_path}/ran")
    run_git(Path(), "config", "url.http://127.0.0.1:9/.insteadOf", server.url)
    run_git(Path(), "config", "core.fsmonitor", f"touch {tmp_path}/ran")
    monkeypatch.setenv("GIT_DIR", str(Path(".git").absolute()))
    monkeypatch.setenv("GIT_WORK_TREE", str(Path().absolute()))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    write_root(server.build_git_source("m"))
    code, text = nf("init")
    assert code == 0, text
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "index").exists()


def test_rejected_redirect_names_its_reason(server: ModuleServer, nf: Run) -> None:
    """Archives of GitHub redirect to another server."""
    source = server.add_file("/org/a.zip", build_zip({"main.nf.hcl": ""}))
    write_root(source)
    other = "https://codeload.example/org/zip?token=secret-word"
    rejections = {
        other: "It is not followed: a sandboxed run downloads nothing from "
        "https://codeload.example/org/zip. Allow it with -allow-module=URL-PREFIX",
        # Also on the same server.
        "/other/a.zip": "It is not followed: a sandboxed run downloads nothing from "
        f"{server.url}/other/a.zip. Allow it with -allow-module=URL-PREFIX",
        f"http://localhost:{server.port}/a.zip": "It is not followed: http is not encrypted.",
        "ftp://example/a.zip": "It is not followed: only http and https addresses are.",
    }
    for target, reason in rejections.items():
        server.pages["/org/a.zip"] = (302, {"Location": target}, b"")
        code, text = nf("init", "-confine", f"-allow-module={server.url}/org")
        assert code == 1
        assert reason in text, text
        assert "secret-word" not in text
        assert "credentials" not in text


def test_sandboxed_run_downloads_only_allowed_modules(
    server: ModuleServer, nf: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_git(Path(), "init", "-q")
    files = {
        "main.nf.hcl": SITE.replace("SOURCE", "./rack"),
        "rack/main.nf.hcl": RACK.replace("COUNT", 'tonumber(file("${path.module}/t"))'),
        "rack/t": "2",
    }
    commit_files(server.repositories / "site", files)
    archive = server.add_file("/a.zip", build_zip({"main.nf.hcl": ""}))
    registry = f"127.0.0.1:{server.port}/team/site/nexus"
    server.add_registry_module("team/site/nexus", {"1.0.0": server.build_git_source("site")})
    allowed = f"{server.url}/git/site"
    for source in (server.build_git_source("site"), archive, registry):
        write_root(source)
        for flags in ((), ("-allow-module=https://127.0.0.1/",), (f"-allow-module={allowed}-x",)):
            requests = len(server.requests)
            code, text = nf("init", "-confine", *flags)
            assert code == 1
            assert "a sandboxed run downloads nothing from" in text
            assert "-allow-module=URL-PREFIX" in text
            assert len(server.requests) == requests
    # The registry is allowed, and the repository that it names is not.
    write_root(registry)
    code, text = nf("init", "-confine", f"-allow-module={server.url}/api",
                    f"-allow-module={server.url}/.well-known")  # fmt: skip
    assert code == 1
    assert f"downloads nothing from {allowed}" in text
    write_root(server.build_git_source("site"))
    monkeypatch.setenv("NF_IN_AUTOMATION", "1")
    assert nf("init")[0] == 1
    monkeypatch.setenv("NF_ALLOW_MODULE", f"{server.url}/other {allowed}")
    code, text = nf("init")
    assert code == 0, text
    monkeypatch.delenv("NF_ALLOW_MODULE")
    # Plan and apply read what is locked.
    requests = len(server.requests)
    code, text = nf("plan", "-out=p")
    assert code == 0, text
    code, text = nf("apply", "p")
    assert code == 0, text
    assert nf("init")[0] == 0
    assert len(server.requests) == requests


def test_sandboxed_run_reads_modules_of_a_data_directory_outside(
    server: ModuleServer, nf: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_git(Path(), "init", "-q")
    monkeypatch.setenv("NF_DATA_DIR", str(tmp_path / "data"))
    commit_files(server.repositories / "m", {"main.nf.hcl": 'output "o" {\n  value = 1\n}\n'})
    write_root(server.build_git_source("m"))
    assert nf("init")[0] == 0
    code, text = nf("plan", "-confine")
    assert code == 0, text
    # Other files of the data directory stay hidden.
    (tmp_path / "data" / "secret").write_text("word")
    with Path("main.nf.hcl").open("a") as file:
        file.write(f'output "s" {{\n  value = file("{tmp_path}/data/secret")\n}}\n')
    code, text = nf("plan", "-confine")
    assert code == 1
    assert "-confine does not allow it" in text


def test_link_in_place_of_the_modules_is_not_followed(
    server: ModuleServer, nf: Run, tmp_path: Path
) -> None:
    run_git(Path(), "init", "-q")
    commit_files(server.repositories / "m", {"main.nf.hcl": 'output "o" {\n  value = 1\n}\n'})
    write_root(server.build_git_source("m"))
    assert nf("init")[0] == 0
    shutil.move(".nexusform/modules", tmp_path / "elsewhere")
    Path(".nexusform/modules").symlink_to(tmp_path / "elsewhere")
    assert nf("plan")[0] == 0
    code, text = nf("plan", "-confine")
    assert code == 1
    assert "-confine does not allow it" in text
    # A link in place of one module.
    Path(".nexusform/modules").unlink()
    Path(".nexusform/modules").mkdir()
    Path(".nexusform/modules/lab").symlink_to(tmp_path / "elsewhere" / "lab")
    code, text = nf("plan", "-confine")
    assert code == 1
    code, text = nf("init")
    assert code == 0
    assert not Path(".nexusform/modules/lab").is_symlink()
    assert (tmp_path / "elsewhere" / "lab" / "main.nf.hcl").exists()


def test_missing_git_is_an_error(nf: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    write_root("github.com/team/site")
    code, text = nf("init")
    assert code == 1
    assert "the program git is not installed" in text


def test_large_repository_is_rejected(
    server: ModuleServer, nf: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = os.urandom(3 << 20).hex()
    commit_files(server.repositories / "m", {"main.nf.hcl": "", "noise": noise})
    write_root(server.build_git_source("m"))
    monkeypatch.setattr(
        "nexusform.files.file_trees.TreeLimits.__init__.__defaults__", (50, 1 << 20)
    )
    code, text = nf("init")
    assert code == 1
    assert "Its files have more than" in text
    for number in range(60):
        commit_files(server.repositories / "n", {f"f{number}": ""})
    write_root(server.build_git_source("n"))
    assert "It has more than 50 files" in nf("init")[1]


def test_git_gets_no_secret(
    server: ModuleServer, nf: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_hostile_repository(server)
    write_root(server.build_git_source("hostile"))
    programs = tmp_path / "programs"
    programs.mkdir()
    wrapper = programs / "git"
    # The server runs git, too, with the environment of this test.
    wrapper.write_text(
        f'#!/bin/sh\n[ -z "$GIT_ALLOW_PROTOCOL" ] || env >> {tmp_path}/environment\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    names = ("NF_TOKEN_REGISTRY", "NF_VAR_password", "GITHUB_TOKEN", "PGPASSWORD", "GIT_INDEX_FILE")
    for name in (*names, "SSH_AUTH_SOCK", "GIT_SSH_COMMAND", "GH_TOKEN"):
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("NF_PROGRAM_VARIABLES", "GH_TOKEN")
    code, text = nf("init")
    assert code == 0, text
    lines = (tmp_path / "environment").read_text().splitlines()
    assert {line for line in lines if "canary" in line} == {
        "SSH_AUTH_SOCK=canary",
        "GIT_SSH_COMMAND=canary",
        "GH_TOKEN=canary",
    }
