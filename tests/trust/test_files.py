"""Tests of an untrusted work tree: it cannot make `plan` write, read or wait for other files.

Each case prepares a trap with links and special files, in the work tree like a pull request or
beside it, and runs nexusform like a CI job.
"""

from __future__ import annotations

import io
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.resources.address import parse_address
from nexusform.state.journal import Intent, encode_journal_record

CONFIGURATION = """
provider "simulated" {
  reality = "site.json"
}
resource "nexus_site" "lab" {}
resource "nexus_rack" "r" {
  site_id       = nexus_site.lab.id
  name          = "r1"
  machine_count = 2
}
"""
PRECIOUS = "precious\n"
# A slower command counts as hanging; an apply waits for a possibly busy disk.
SECONDS = 300
# bytes; an endless file would take more.
MOST_MEMORY = 16 << 30


class CommandHangs(BaseException):
    """A BaseException, because an Exception would hide the cause.

    nexusform would report it as an Internal error.
    """


class WorkTree:
    """A work tree beside a file to be left unchanged, with its own home directory."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "work"
        self.home = directory / "home"
        self.victim = directory / "victim"
        self.root.mkdir()
        self.home.mkdir()
        self.victim.write_text(PRECIOUS)
        (self.root / "main.nf.hcl").write_text(CONFIGURATION)
        self.environment = {
            k: v for k, v in os.environ.items() if not k.startswith(("NF_", "XDG_"))
        }
        self.environment["HOME"] = str(self.home)

    def link(self, name: str, target: Path | str | None = None) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target or self.victim)
        return path

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(self, *arguments: str) -> tuple[int, str]:
        """Run a command; return its exit code and the output of both streams.

        Fail if it waits or reads forever.
        """
        said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        limits = resource.getrlimit(resource.RLIMIT_AS)
        before = Path.cwd()

        def raise_timeout(*_: object) -> None:
            raise CommandHangs(arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "environ", os.environ.copy())
            os.environ.clear()
            os.environ.update(self.environment)
            patch.setattr("sys.stdin", io.StringIO())
            for stream in ("stdout", "stderr"):
                patch.setattr(f"sys.{stream}", said)
            alarm = signal.signal(signal.SIGALRM, raise_timeout)
            os.chdir(self.root)
            signal.alarm(SECONDS)
            resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, limits[1]))
            try:
                code = run_command_line(arguments)
            finally:
                resource.setrlimit(resource.RLIMIT_AS, limits)
                signal.alarm(0)
                signal.signal(signal.SIGALRM, alarm)
                os.chdir(before)
        return code, said.detach().getvalue().decode()

    def run_alone(self, *arguments: str, before: str = "") -> tuple[int, str]:
        """Run a command in its own process, after the shell commands in `before`."""
        done = subprocess.run(
            [
                "bash",
                "-c",
                f'{before} exec "$@"',
                "bash",
                sys.executable,
                "-m",
                "nexusform",
                *arguments,
            ],
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout.decode()

    def files(self) -> dict[str, bytes]:
        """Return every file of the work tree, with links as links."""
        return {
            str(path.relative_to(self.root)): os.fsencode(path.readlink())
            if path.is_symlink()
            else path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_symlink() or path.is_file()
        }


@pytest.fixture
def tree(tmp_path: Path) -> WorkTree:
    return WorkTree(tmp_path)


def build_row(name: str) -> dict[str, object]:
    return {
        "type": "nexus_rack",
        "id": f"lab/{name}",
        "creation": 1,
        "attributes": {"id": f"lab/{name}"},
    }


def strip_box(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


def build_pending_line(name: str) -> str:
    return json.dumps(["nexus_rack", f"lab/{name}", 1, {"id": f"lab/{name}"}]) + "\n"


# --- writing -----------------------------------------------------------------------------------


def test_plan_leaves_the_work_tree_unchanged(tree: WorkTree) -> None:
    before = tree.files()
    code, text = tree.run("plan")
    assert code == 0, text
    assert tree.files() == before


def test_link_at_temporary_reality_file_is_not_followed(tree: WorkTree) -> None:
    tree.run("apply", "-auto-approve")
    tree.write("site.json.pending", build_pending_line("b"))
    tree.link(".site.json.tmp")
    tree.run("plan")
    assert tree.victim.read_text() == PRECIOUS
    tree.run("apply", "-auto-approve")
    assert tree.victim.read_text() == PRECIOUS


def test_plan_merges_no_pending_log_into_the_reality_file(tree: WorkTree) -> None:
    code, text = tree.run("apply", "-auto-approve")
    assert code == 0, text
    tree.write("site.json.pending", build_pending_line("b"))
    before = tree.files()
    code, text = tree.run("plan", "-refresh=true")
    assert code == 0, text
    assert tree.files() == before
    tree.write("more.nf.hcl", 'resource "nexus_site" "other" {}\n')
    code, text = tree.run("apply", "-auto-approve")
    assert code == 0, text
    assert "lab/b" in (tree.root / "site.json").read_text()
    assert not (tree.root / "site.json.pending").exists()


def test_plan_records_nothing_of_an_interrupted_apply(tree: WorkTree) -> None:
    """A proposal could bring its own providers with false reports about an earlier apply."""
    code, text = tree.run("apply", "-auto-approve")
    assert code == 0, text
    intent = Intent(parse_address("nexus_rack.r"), "delete", "nexus_rack", "lab/r1", 2)
    tree.write("state/nexusform.nfstate.journal", encode_journal_record(intent).decode() + "\n")
    real = (tree.root / "site.json").read_text()
    tree.write("site.json", "[]")
    before = tree.files()
    code, text = tree.run("plan", "-out=saved", "-detailed-exitcode")
    assert code == 2, text
    assert "Apply interrupted" in text
    assert "the next apply records them" in strip_box(text)
    code, text = tree.run("show", "-json", "saved")
    assert code == 0, text
    assert "lab/r1" not in json.dumps(json.loads(text)["prior_state"])
    (tree.root / "saved").unlink()
    assert tree.files() == before
    tree.write("site.json", real)
    code, text = tree.run("state", "rm", "nexus_rack.r")
    assert code == 1
    assert "nexusform apply -refresh-only" in strip_box(text)
    code, text = tree.run("apply", "-refresh-only", "-auto-approve")
    assert code == 0, text
    assert not (tree.root / "state/nexusform.nfstate.journal").exists()
    assert "lab/r1" in (tree.root / "state/nexusform.nfstate").read_text()


def test_pending_log_is_not_written_through_a_link(tree: WorkTree) -> None:
    tree.victim.write_text("")
    tree.link("site.json.pending")
    code, text = tree.run("apply", "-auto-approve")
    assert code == 1, text
    assert "not a regular file" in text
    assert tree.victim.read_text() == ""


def test_journal_is_not_written_through_a_link(tree: WorkTree) -> None:
    tree.link("state/nexusform.nfstate.journal")
    code, text = tree.run("plan")
    assert code == 1, text
    assert "not a regular file" in text
    assert tree.victim.read_text() == PRECIOUS


@pytest.mark.parametrize("name", ["backend.json.tmp", "backend.json"])
def test_init_does_not_write_through_a_link(tree: WorkTree, name: str) -> None:
    tree.write(
        "backend.nf.hcl",
        'nexusform {\n  backend "local" {\n    path = "elsewhere.nfstate"\n  }\n}\n',
    )
    tree.link(f".nexusform/{name}")
    tree.run("init", "-reconfigure")
    assert tree.victim.read_text() == PRECIOUS
    assert oct(tree.victim.stat().st_mode)[-3:] != "600"


def test_workspace_selection_does_not_write_through_a_link(tree: WorkTree) -> None:
    tree.link(".nexusform/environment")
    tree.run("workspace", "new", "blue")
    assert tree.victim.read_text() == PRECIOUS


@pytest.mark.parametrize(
    "flag",
    ["-out=result", "-report=markdown:result", "-report=json:result"],
    ids=lambda f: f.split("=")[1],
)
def test_requested_output_file_replaces_a_link(tree: WorkTree, flag: str) -> None:
    tree.link("result")
    code, text = tree.run("plan", flag)
    assert code == 0, text
    assert tree.victim.read_text() == PRECIOUS
    assert not (tree.root / "result").is_symlink()
    assert (tree.root / "result").stat().st_size > 0


def test_junit_results_replace_a_link(tree: WorkTree) -> None:
    tree.write("a.nftest.hcl", 'run "one" {\n  command = plan\n}\n')
    tree.link("result.xml")
    code, text = tree.run("test", "-junit-xml=result.xml")
    assert code == 0, text
    assert tree.victim.read_text() == PRECIOUS
    assert "testsuite" in (tree.root / "result.xml").read_text()


def test_generated_configuration_is_not_written_through_a_link(tree: WorkTree) -> None:
    target = tree.victim.with_name("not-there.nf.hcl")
    tree.link("made.nf.hcl", target)
    tree.write(
        "site.json", json.dumps([{**build_row("a"), "attributes": {"id": "lab/a", "name": "a"}}])
    )
    tree.write("import.nf.hcl", 'import {\n  to = nexus_rack.a\n  id = "lab/a"\n}\n')
    tree.run("plan", "-generate-config-out=made.nf.hcl")
    assert not target.exists()


def test_report_is_written_to_standard_output(tree: WorkTree) -> None:
    code, text = tree.run_alone("plan", "-report=json:/dev/stdout")
    assert code == 0, text
    assert '"format_version"' in text


def test_report_to_redirected_output_keeps_the_file(tree: WorkTree) -> None:
    code, _ = tree.run_alone("plan", "-report=json:/dev/stdout", before="exec > out.json;")
    assert code == 0
    assert '"format_version"' in (tree.root / "out.json").read_text()


# --- state file behind a link ------------------------------------------------------------------


def test_lock_journal_and_backup_are_beside_the_real_state(tree: WorkTree) -> None:
    real = tree.root / "real"
    real.mkdir()
    (tree.root / "state").mkdir()
    tree.link("state/nexusform.nfstate", real / "team.nfstate")
    code, text = tree.run("apply", "-auto-approve")
    assert code == 0, text
    tree.write("more.nf.hcl", 'output "x" {\n  value = 1\n}\n')
    code, text = tree.run("apply", "-auto-approve")
    assert code == 0, text
    assert {path.name for path in real.iterdir()} == {"team.nfstate", "team.nfstate.backup"}
    assert [path.name for path in (tree.root / "state").iterdir()] == ["nexusform.nfstate"]
    (real / "team.nfstate.lock.info").write_text(
        json.dumps({"ID": "1234", "Host": "another", "Pid": 1, "Who": "somebody"})
    )
    code, text = tree.run("plan")
    assert code == 1
    assert "1234" in text


# --- special files -----------------------------------------------------------------------------

ODD_PLACES = [
    "site.json",
    "site.json.pending",
    "state/nexusform.nfstate",
    "state/nexusform.nfstate.journal",
    "state/nexusform.nfstate.lock.info",
    ".nexusform/environment",
    ".nexusform/backend.json",
    "more.nf.hcl",
    "x.auto.nfvars.hcl",
]


@pytest.mark.parametrize("place", ODD_PLACES)
@pytest.mark.parametrize("kind", ["fifo", "endless", "directory"])
def test_special_file_is_rejected_or_skipped_immediately(
    tree: WorkTree, place: str, kind: str
) -> None:
    path = tree.root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    code, text = tree.run("plan", "-lock-timeout=0s")
    assert code in (0, 1)
    assert "Internal error" not in text
    assert "Out of memory" not in text


def test_endless_files_named_by_the_operator_are_rejected(tree: WorkTree) -> None:
    for flag in ("-target-file=/dev/zero", "-var-file=/dev/zero"):
        code, text = tree.run("plan", flag)
        assert code == 1, text
        assert "regular file" in " ".join(text.split())
    code, text = tree.run("state", "push", "/dev/zero")
    assert code == 1, text


# --- locks -------------------------------------------------------------------------------------


UNTYPABLE = ("a\x1b[31m", "-force", "x" * 500, "a\nb", "\u202e")
NOT_TYPED = [json.dumps({"ID": name, "Who": "x"}) for name in UNTYPABLE]


@pytest.mark.parametrize("garbage", ["", "not JSON", "{}", '{"ID": 7}', "link", "fifo", *NOT_TYPED])
def test_invalid_lock_is_removed_by_the_command_in_its_message(
    tree: WorkTree, garbage: str
) -> None:
    path = tree.root / "state" / "nexusform.nfstate.lock.info"
    path.parent.mkdir()
    if garbage == "link":
        path.symlink_to(tree.victim)
    elif garbage == "fifo":
        os.mkfifo(path)
    else:
        path.write_text(garbage)
    code, text = tree.run("plan")
    assert code == 1
    command = text.replace("\n", " ").split("`nexusform force-unlock ")[1].split("`")[0].split()
    code, text = tree.run("force-unlock", "-force", *command)
    assert code == 0, text
    code, text = tree.run("plan")
    assert code == 0, text
    assert tree.victim.read_text() == PRECIOUS


@pytest.mark.parametrize(
    "name", ["$(touch ../victim2)", "`touch x`", "a b; touch x", "it's", "1f0e-22"]
)
def test_unlock_command_can_be_pasted_into_a_shell(tree: WorkTree, name: str) -> None:
    path = tree.root / "state" / "nexusform.nfstate.lock.info"
    path.parent.mkdir()
    path.write_text(json.dumps({"ID": name, "Who": "x"}))
    code, text = tree.run("plan")
    assert code == 1
    command = strip_box(text).split("break its lock with `nexusform ")[1].split("`. Lock Info")[0]
    assert shlex.split(command) == ["force-unlock", name]
    code, text = tree.run("force-unlock", "-force", name)
    assert code == 0, text
    code, text = tree.run("plan")
    assert code == 0, text


def test_planning_without_a_lock_is_reported(tree: WorkTree) -> None:
    code, text = tree.run("plan", "-lock=false")
    assert code == 0
    assert "Unlocked state" in text
    code, text = tree.run("plan")
    assert "Unlocked state" not in text


# --- streams -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("apply",),
        ("destroy",),
        ("console",),
        ("force-unlock", "x"),
        ("state", "push", "-"),
        ("fmt", "-"),
        ("test",),
        ("plan",),
    ],
    ids=" ".join,
)
def test_closed_stdin_causes_no_crash(tree: WorkTree, arguments: tuple[str, ...]) -> None:
    code, text = tree.run_alone(*arguments, before="exec <&-;")
    assert code in (0, 1, 2), text
    assert "Internal error" not in text


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="this system has no /dev/shm")
def test_plan_in_shared_memory_is_complete_and_private(tmp_path: Path) -> None:
    from nexusform.workflow.opening.system_io import write_output

    name = Path("/dev/shm") / f"nexusform-test-{os.getpid()}"
    kept = tmp_path / "kept"
    kept.write_text("mine")
    name.symlink_to(kept)
    try:
        write_output(str(name), b"plan", private=True)
        assert kept.read_text() == "mine"
        assert not name.is_symlink()
        assert (name.read_bytes(), name.stat().st_mode & 0o777) == (b"plan", 0o600)
    finally:
        name.unlink()
