"""Tests that a signed plan is applied only at its place and in its time."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.workflow.opening.git_work_tree import explain_not_ancestor, find_repository
from tests.git_repositories import run_git
from tests.trust.test_saved_plans import forge_plan
from tests.trust.test_signatures import write_keys

CONFIGURATION = """
resource "nexus_site" "s" {{
  name = "{name}"
}}
resource "nexus_rack" "r" {{
  count         = {racks}
  name          = "r${{count.index}}"
  site_id       = nexus_site.s.id
  machine_count = 1
}}
"""
# seconds since 1970.
PLAN_TIME = 1_800_000_000
DAY = 24 * 3600

Run = Callable[..., tuple[int, str]]


def write_configuration(directory: str, racks: int, backend: str = "") -> None:
    text = CONFIGURATION.format(name=directory, racks=racks)
    Path(f"../{directory}/main.nf.hcl").write_text(text + backend)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function for commands in lab/ of a repository with prod/ beside it.

    It returns the exit code and the printed text in one line.
    """
    for name in (
        "GITHUB_REPOSITORY",
        "GITHUB_SHA",
        "CI_PROJECT_URL",
        "CI_COMMIT_SHA",
        "BUILD_REPOSITORY_URI",
        "BUILD_SOURCEVERSION",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NF_IN_AUTOMATION", "1")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(PLAN_TIME))
    monkeypatch.chdir(tmp_path)
    write_keys("team")
    write_keys("mallory")
    for directory in ("lab", "prod"):
        (tmp_path / "repository" / directory).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repository" / "lab")
    run_git(".", "init", "-q", "..")
    write_configuration("lab", 3)
    write_configuration("prod", 2)

    def run_command(*arguments: str) -> tuple[int, str]:
        # A sandboxed run accepts only absolute paths outside of the work tree.
        code = run_command_line([word.replace("../..", str(tmp_path)) for word in arguments])
        captured = capsys.readouterr()
        text = (captured.out + captured.err).replace(str(tmp_path), "../..")
        return code, " ".join(text.replace("│", " ").split())

    return run_command


KEY = "-key=../../team.key"
VERIFY = "-verify=key:../../team.pub"
REVOCATIONS = "-revocations=../../revocations.json"


def save_signed_plan(run: Run, *flags: str, name: str = "p") -> str:
    path = f"../../{name}.plan"
    code, text = run("plan", f"-out={path}", *flags)
    assert code == 0, text
    code, text = run("sign", KEY, path)
    assert code == 0, text
    return path


def expect_rejection(run: Run, *arguments: str) -> str:
    code, text = run("apply", *arguments)
    assert code == 1, text
    assert "No changes were made." in text
    assert not Path("state/nexusform.nfstate").exists()
    return text


def test_signed_plan_is_applied_at_its_place(run: Run) -> None:
    path = save_signed_plan(run)
    code, text = run("apply", VERIFY, path)
    assert code == 0, text


def test_withdrawn_plan_of_same_serial_is_rejected(run: Run) -> None:
    first = save_signed_plan(run, name="first")
    write_configuration("lab", 1)
    second = save_signed_plan(run, name="second")
    text = expect_rejection(run, VERIFY, first)
    assert "main.nf.hcl changed since the plan." in text
    assert "-verify applies a plan only with the configuration that was reviewed." in text
    assert run("apply", VERIFY, second)[0] == 0


@pytest.mark.parametrize("flag", [VERIFY, "-verify=replan", "-verify=ancestor", ""])
def test_plan_of_another_directory_is_rejected(
    flag: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save_signed_plan(run)
    monkeypatch.chdir("../prod")
    text = expect_rejection(run, *filter(None, [flag]), path)
    assert 'The plan is for the directory "lab" (here it is "prod").' in text


def test_plan_of_same_configuration_in_another_directory_is_rejected(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save_signed_plan(run)
    Path("../prod/main.nf.hcl").write_bytes(Path("main.nf.hcl").read_bytes())
    monkeypatch.chdir("../prod")
    expect_rejection(run, VERIFY, path)


def test_withdrawn_plan_is_rejected_with_its_own_configuration(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storage hands out an earlier plan, and the checkout has its configuration again.

    Only the list of withdrawn plans tells it from the reviewed one: serial and place are equal.
    """
    first = save_signed_plan(run, name="first")
    write_configuration("lab", 1)
    second = save_signed_plan(run, name="second")
    assert run("sign", "-withdraw", KEY, REVOCATIONS, first)[0] == 0
    write_configuration("lab", 3)
    for flags in ((VERIFY,), (VERIFY, "-verify=replan"), (VERIFY, "-verify=ancestor")):
        text = expect_rejection(run, *flags, REVOCATIONS, first)
        assert '"../../revocations.json" withdraws this plan.' in text
    # The list alone proves nothing: its signer must be known.
    code, text = run("apply", "-verify=replan", REVOCATIONS, first)
    assert (code, "-revocations needs -verify=key:FILE" in text) == (1, True), text
    # In prod with the configuration of lab, and with its own one.
    for name in ("prod", "lab"):
        text = Path("../lab/main.nf.hcl").read_text().replace('"lab"', f'"{name}"')
        Path("../prod/main.nf.hcl").write_text(text)
        monkeypatch.chdir("../prod")
        text = expect_rejection(run, VERIFY, REVOCATIONS, second)
        assert 'The plan is for the directory "lab" (here it is "prod").' in text
        monkeypatch.chdir("../lab")
    write_configuration("lab", 1)
    assert run("apply", VERIFY, REVOCATIONS, second)[0] == 0


def test_plan_of_another_backend_is_rejected(run: Run) -> None:
    path = save_signed_plan(run)
    text = expect_rejection(run, VERIFY, "-state=other/nexusform.nfstate", path)
    assert 'state "state/nexusform.nfstate" (here it is "other/nexusform.nfstate")' in text
    assert not Path("other").exists()


def test_plan_of_another_repository_is_rejected(run: Run) -> None:
    run_git(".", "remote", "add", "origin", "https://token@GitHub.com/o/r.git")
    path = save_signed_plan(run)
    run_git(".", "remote", "set-url", "origin", "git@github.com:o/r")
    assert "repository" not in run("apply", VERIFY, "-max-age=1h", path)[1]
    path = save_signed_plan(run)
    run_git(".", "remote", "set-url", "origin", "https://github.com/o/fork")
    code, text = run("apply", VERIFY, path)
    assert code == 1
    assert (
        'The plan is for the repository "github.com/o/r" (here it is "github.com/o/fork")' in text
    )
    run_git(".", "remote", "remove", "origin")
    code, text = run("apply", VERIFY, path)
    assert code == 1
    assert '"github.com/o/r" (here it is a repository without a remote)' in text


def test_plan_of_earlier_version_needs_no_place_without_verification(run: Run) -> None:
    path = save_signed_plan(run)
    forge_plan(Path(path), "plan.json", lambda plan: plan["basis"].pop("origin"))
    text = expect_rejection(run, "-verify=replan", path)
    assert "an earlier version of nexusform made it." in text
    code, text = run("sign", KEY, path)
    assert code == 1
    assert "The plan does not record its repository, directory and backend" in text
    assert run("apply", path)[0] == 0


def test_plan_without_a_part_of_its_place_is_not_signed(run: Run) -> None:
    Path("../.git/HEAD").write_text("not a commit\n")
    assert run("plan", "-out=../../p.plan")[0] == 0
    code, text = run("sign", KEY, "../../p.plan")
    assert code == 1
    assert "The plan does not record its commit." in text
    code, text = run("plan", "-out=../../q.plan", "-sign=../../team.key")
    assert code == 1
    assert "The plan does not record its commit." in text


@pytest.mark.parametrize(
    ("flags", "age", "apply_flags", "message"),
    [
        ((), 8 * DAY, (), "168h ago. Its maximum age is 168h."),
        (("-max-age=2h",), 3 * 3600, (), "3h ago. Its maximum age is 2h."),
        ((), 3 * 3600, ("-max-age=2h",), "3h ago. Its maximum age is 2h."),
        (("-max-age=2h",), 60, ("-max-age=3h",), "apply can only shorten it."),
        ((), -DAY, (), "is in the future or unknown."),
    ],
)
def test_old_plan_is_rejected(
    flags: tuple[str, ...],
    age: int,
    apply_flags: tuple[str, ...],
    message: str,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = save_signed_plan(run, *flags)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(PLAN_TIME + age))
    text = expect_rejection(run, *apply_flags, path)
    assert message.replace("168h ago", "192h ago") in text


def test_plan_within_its_age_is_applied(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_signed_plan(run)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(PLAN_TIME + 6 * DAY))
    code, text = run("apply", VERIFY, path)
    assert code == 0
    assert "SOURCE_DATE_EPOCH sets the current time, so the real age" in text


def test_age_by_the_real_time_has_no_warning(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    code, text = run("apply", VERIFY, save_signed_plan(run))
    assert (code, "the real age" in text) == (0, False)


def test_revoked_plan_is_rejected(run: Run) -> None:
    path = save_signed_plan(run)
    other = save_signed_plan(run, "-max-age=1h", name="other")
    for withdrawn in (other, path):
        code, text = run("sign", "-withdraw", KEY, REVOCATIONS, withdrawn)
        assert code == 0, text
    text = expect_rejection(run, VERIFY, REVOCATIONS, path)
    assert '"../../revocations.json" withdraws this plan.' in text
    expect_rejection(run, VERIFY, REVOCATIONS, other)
    fresh = save_signed_plan(run, "-max-age=2h", name="fresh")
    assert run("apply", VERIFY, REVOCATIONS, fresh)[0] == 0


def remove_plans(document: dict[str, object]) -> None:
    document["plans"] = []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (remove_plans, "has no valid signature of ../../team.pub."),
        (lambda document: document.pop("signature"), "is not a revocation file"),
        (lambda document: document.update(version=2), "is not a revocation file of this version"),
        (None, "There is no file"),
    ],
)
def test_unusable_revocation_file_is_an_error(
    change: Callable[[dict[str, object]], object] | None, message: str, run: Run
) -> None:
    path = save_signed_plan(run)
    file = Path("../../revocations.json")
    if change is not None:
        assert run("sign", "-withdraw", KEY, REVOCATIONS, path)[0] == 0
        document = json.loads(file.read_text())
        change(document)
        file.write_text(json.dumps(document))
    assert message in expect_rejection(run, VERIFY, REVOCATIONS, path)
    assert run("apply", REVOCATIONS, path)[0] == 1


def test_revocation_file_of_another_key_is_neither_extended_nor_accepted(run: Run) -> None:
    path = save_signed_plan(run)
    assert run("sign", "-withdraw", "-key=../../mallory.key", REVOCATIONS, path)[0] == 0
    code, text = run("sign", "-withdraw", KEY, REVOCATIONS, path)
    assert code == 1
    assert "has no valid signature of ../../team.key" in text
    expect_rejection(run, VERIFY, REVOCATIONS, path)


def commit_all(message: str) -> None:
    run_git(".", "add", "..")
    run_git(".", "commit", "-q", "-m", message)


def test_ancestor_is_required_only_on_request(run: Run) -> None:
    commit_all("one")
    run_git(".", "checkout", "-q", "-b", "side")
    run_git(".", "commit", "-q", "--allow-empty", "-m", "side")
    path = save_signed_plan(run)
    run_git(".", "checkout", "-q", "main")
    text = expect_rejection(run, VERIFY, "-verify=ancestor", path)
    assert "is not an ancestor of the current commit" in text
    run_git(".", "merge", "-q", "--no-ff", "side")
    code, text = run("apply", VERIFY, "-verify=ancestor", path)
    assert code == 0, text


def test_shallow_clone_cannot_check_an_ancestor(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_all("one")
    path = save_signed_plan(run)
    run_git(".", "commit", "-q", "--allow-empty", "-m", "two")
    clone = tmp_path / "clone"
    run_git(".", "clone", "-q", "--depth=1", f"file://{tmp_path}/repository", str(clone))
    run_git(clone, "remote", "remove", "origin")
    monkeypatch.chdir(clone / "lab")
    assert "This clone is shallow" in expect_rejection(run, "-verify=ancestor", path)
    code, text = run("apply", VERIFY, path)
    assert code == 0, text


def test_signature_and_statement_cover_the_place(run: Run) -> None:
    commit_all("one")
    path = save_signed_plan(run)
    forge_plan(
        Path(path), "plan.json", lambda plan: plan["basis"]["origin"].update(directory="prod")
    )
    code, text = run("apply", VERIFY, path)
    assert code == 1
    assert "Its signature is invalid" in text


@pytest.mark.parametrize("source", ["state", "backend-config=path"])
@pytest.mark.parametrize("verify", [VERIFY, ""])
def test_clone_at_another_depth_has_the_same_state_outside_of_it(
    verify: str, source: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "srv" / "x.nfstate"
    state.parent.mkdir()
    write_configuration("lab", 3, 'nexusform {\n  backend "local" {}\n}\n')
    flags = [f"-{source}={state}"]
    path = save_signed_plan(run, *flags)
    deeper = tmp_path / "some" / "deeper"
    deeper.mkdir(parents=True)
    (tmp_path / "repository").rename(deeper / "clone")
    monkeypatch.chdir(deeper / "clone" / "lab")
    code, text = run("apply", *filter(None, [verify]), *flags, path)
    assert code == 0, text
    assert state.exists()


def test_absolute_path_of_a_state_in_the_work_tree_moves_with_the_clone(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save_signed_plan(run, f"-state={tmp_path}/repository/states/x.nfstate")
    (tmp_path / "deeper").mkdir()
    (tmp_path / "repository").rename(tmp_path / "deeper" / "clone")
    monkeypatch.chdir(tmp_path / "deeper" / "clone" / "lab")
    flag = f"-state={tmp_path}/deeper/clone/states/x.nfstate"
    code, text = run("apply", VERIFY, flag, path)
    assert code == 0, text


def test_name_of_the_repository_is_compared_only_with_verification(run: Run) -> None:
    run_git(".", "remote", "add", "origin", "https://github.com/o/r.git")
    path = save_signed_plan(run)
    run_git(".", "remote", "set-url", "origin", "git@host-alias:o/r")
    text = expect_rejection(run, "-verify=replan", path)
    assert 'repository "github.com/o/r" (here it is "host-alias/o/r")' in text
    code, text = run("apply", path)
    assert code == 0, text


@pytest.mark.parametrize(
    ("address", "repository"),
    [
        ("https://dev.azure.com/Org/My%20Project/_git/Repo", "dev.azure.com/org/my%20project/repo"),
        ("https://org@dev.azure.com/org/project/_git/repo", "dev.azure.com/org/project/repo"),
        ("https://dev.azure.com/org/_git/repo", "dev.azure.com/org/repo/repo"),
        ("git@ssh.dev.azure.com:v3/org/project/repo", "dev.azure.com/org/project/repo"),
        ("org@vs-ssh.visualstudio.com:v3/org/project/repo", "dev.azure.com/org/project/repo"),
        ("https://org.visualstudio.com/project/_git/repo", "dev.azure.com/org/project/repo"),
        (
            "https://org.visualstudio.com/DefaultCollection/project/_git/repo",
            "dev.azure.com/org/project/repo",
        ),
        ("ssh://git@ssh.github.com:443/O/R.git", "github.com/o/r"),
        ("git@github.com:/o/r", "github.com/o/r"),
        ("user:secret@github.com:o/r", "github.com/o/r"),
        ("https://user:secret@github.com/o/r", "github.com/o/r"),
        ("/srv/git/r.git", "local"),
        ("../r", "local"),
        ("file:///srv/git/r.git", "local"),
        ("C:/git/r", "local"),
    ],
)
def test_repository_has_a_normal_form(
    address: str, repository: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_git(".", "init", "-q")
    run_git(".", "remote", "add", "origin", address)
    assert find_repository(".", {}) == repository


def test_repository_of_an_earlier_version_is_compared_in_its_normal_form(run: Run) -> None:
    run_git(".", "remote", "add", "origin", "git@github.com:O/R")
    path = save_signed_plan(run)
    recorded = "github.com/O/R"
    forge_plan(
        Path(path), "plan.json", lambda plan: plan["basis"]["origin"].update(repository=recorded)
    )
    code, text = run("apply", "-verify=replan", path)
    assert "another repository" not in text
    assert "Saved plan place mismatch" not in text
    assert code == 0, text


def test_checkout_of_another_repository_is_not_that_of_the_workflow(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_git(".", "remote", "add", "origin", "https://github.com/org/infra")
    commit_all("one")
    monkeypatch.setenv("GITHUB_REPOSITORY", "org/workflows")
    monkeypatch.setenv("GITHUB_SHA", "a" * 40)
    path = save_signed_plan(run)
    for name in ("GITHUB_REPOSITORY", "GITHUB_SHA"):
        monkeypatch.delenv(name)
    code, text = run("apply", VERIFY, "-verify=ancestor", path)
    assert code == 0, text


@pytest.mark.parametrize("verify", [VERIFY, ""])
def test_directory_of_an_archive_is_not_compared(
    verify: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_git(".", "remote", "add", "origin", "https://github.com/o/r")
    path = save_signed_plan(run)
    (tmp_path / "repository" / "lab").rename(tmp_path / "archive")
    monkeypatch.chdir(tmp_path / "archive")
    monkeypatch.setenv("GITHUB_REPOSITORY", "o/r")
    code, text = run("apply", *filter(None, [verify]), path)
    assert code == 0, text


def test_directories_without_work_tree_are_compared_with_verification(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "repository" / ".git").rename(tmp_path / "unused")
    path = save_signed_plan(run)
    (tmp_path / "repository" / "lab").rename(tmp_path / "archive")
    monkeypatch.chdir(tmp_path / "archive")
    assert 'directory "lab" (here it is "archive")' in expect_rejection(run, VERIFY, path)
    assert run("apply", path)[0] == 0


@pytest.mark.parametrize("content", [b"gitdir: \xff\xfe\n", None])
def test_unreadable_git_file_is_a_reason(content: bytes | None, tmp_path: Path) -> None:
    git_file = tmp_path / ".git"
    git_file.write_bytes(content or b"gitdir: x\n")
    if content is None:
        with git_file.open("r+b") as file:
            file.truncate(1 << 25)  # larger than any reference
    reason = explain_not_ancestor("a" * 40, "b" * 40, str(tmp_path))
    assert reason.startswith("The files of .git cannot be read: ")


def test_ancestor_that_is_no_commit_does_not_reach_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_git(".", "init", "-q")
    monkeypatch.setattr("subprocess.run", None)
    reason = explain_not_ancestor("--all", "b" * 40, ".")
    assert reason == "The commit of the plan or of this directory is not a commit ID."


FAULT = """
provider "simulated" {
  fault {
    address   = "nexus_rack.r[1]"
    operation = "create"
    error     = "no power"
  }
}
"""


def save_interrupted_plan(run: Run, *flags: str) -> str:
    """Sign a plan and leave steps of its apply undone; return the path of the plan."""
    Path("provider.nf.hcl").write_text(FAULT)
    path = save_signed_plan(run, *flags)
    code, text = run("apply", VERIFY, path)
    assert code == 1, text
    assert "no power" in text
    return path


def list_state(run: Run) -> list[str]:
    return run("state", "list")[1].split()


def test_resumed_apply_checks_the_age_of_its_plan(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save_interrupted_plan(run)
    before = list_state(run)
    code, text = run("apply", "-resume", "-max-age=10d")
    assert code == 1, text
    assert "apply can only shorten it" in text
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(PLAN_TIME + 2 * DAY))
    code, text = run("apply", "-resume", "-max-age=1d")
    assert (code, "Its maximum age is 24h." in text) == (1, True), text
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(PLAN_TIME + 8 * DAY))
    for arguments in (("-resume",), ("-resume", path)):
        code, text = run("apply", *arguments)
        assert (code, "Its maximum age is 168h." in text) == (1, True), text
    assert list_state(run) == before


def test_error_of_a_resumed_apply_names_the_way_out(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_interrupted_plan(run)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(PLAN_TIME + 8 * DAY))
    code, text = run("apply", "-resume")
    way_out = "1 step remains. `nexusform apply -discard` drops the rest of that apply."
    assert (code, way_out in text) == (1, True), text
    assert run("apply", "-discard")[0] == 0


def test_resumed_apply_of_a_fresh_plan_continues(run: Run) -> None:
    path = save_interrupted_plan(run)
    Path("provider.nf.hcl").unlink()
    code, text = run("apply", "-resume", VERIFY, path)
    assert code in (0, 1), text
    assert "Its maximum age" not in text
    assert "The plan is for" not in text


def test_resumed_apply_checks_signature_and_withdrawals(run: Run) -> None:
    path = save_interrupted_plan(run)
    before = list_state(run)
    code, text = run("apply", "-resume", "-verify=key:../../mallory.pub", path)
    assert (code, "Saved plan not verified" in text) == (1, True), text
    code, text = run("sign", "-withdraw", KEY, REVOCATIONS, path)
    assert code == 0, text
    code, text = run("apply", "-resume", VERIFY, REVOCATIONS, path)
    assert (code, '"../../revocations.json" withdraws this plan.' in text) == (1, True), text
    assert list_state(run) == before


def test_resumed_apply_checks_its_directory(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal is in a common state, and another directory continues it."""
    state = "-state=../../common.nfstate"
    Path("provider.nf.hcl").write_text(FAULT)
    assert run("plan", "-out=../../p.plan", state)[0] == 0
    assert run("apply", state, "../../p.plan")[0] == 1
    monkeypatch.chdir("../prod")
    code, text = run("apply", "-resume", state)
    assert code == 1, text
    assert 'The plan is for the directory "lab" (here it is "prod").' in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-resume", VERIFY), "-verify needs a plan file"),
        (("-resume", "-verify=replan", "p.plan"), "the plan has started"),
        (("-resume", REVOCATIONS), "-revocations needs -verify=key:FILE"),
        (("-discard", "-max-age=1d"), "-max-age and -discard cannot be combined."),
    ],
)
def test_flags_of_a_plan_file_need_one(run: Run, arguments: tuple[str, ...], message: str) -> None:
    code, text = run("apply", *arguments)
    assert (code, message in text) == (1, True), text
