"""Tests of plans, keys and statements rejected by `sign`, `plan -sign` and `apply -verify`.

Each file stays unchanged.
"""

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from nexusform.cli.main import run_command_line
from nexusform.plans.saved import plan_file
from tests.certificates import create_signing_key

CONFIGURATION = """
locals {
  text = file("${path.module}/text.txt")
}
output "text" {
  value = local.text
}
"""
SIGN = ["sign", "-key=../team.key", "p.nfplan"]


@pytest.fixture(autouse=True)
def work_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a work tree with a sandboxed plan, and keys outside of it."""
    tree = tmp_path / "tree"
    tree.mkdir()
    monkeypatch.chdir(tree)
    Path("main.nf.hcl").write_text(CONFIGURATION)
    Path("text.txt").write_text("text")
    make_keys("../team")
    assert run_command_line(["plan", "-confine", "-out=p.nfplan"]) == 0
    return tree


def make_keys(name: str, algorithm: str = "ed25519") -> None:
    create_signing_key(f"{name}.key", f"{name}.pub", algorithm=algorithm)


def rewrite(**fields: object) -> None:
    """Rewrite the plan with other fields of its evaluation."""
    saved, _ = plan_file.read_plan_file(Path("p.nfplan").read_bytes())
    assert saved is not None
    assert saved.plan.basis.evaluation is not None
    evaluation = replace(saved.plan.basis.evaluation, **fields)
    plan = replace(saved.plan, basis=replace(saved.plan.basis, evaluation=evaluation))
    Path("p.nfplan").write_bytes(
        plan_file.write_plan_file(plan, saved.configuration_files, saved.prior_state)
    )


def forget_evaluation() -> None:
    saved, _ = plan_file.read_plan_file(Path("p.nfplan").read_bytes())
    assert saved is not None
    plan = replace(saved.plan, basis=replace(saved.plan.basis, evaluation=None))
    Path("p.nfplan").write_bytes(
        plan_file.write_plan_file(plan, saved.configuration_files, saved.prior_state)
    )


def plan_unconfined() -> None:
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0


def plan_with_error() -> None:
    Path("more.nf.hcl").write_text('output "more" {\n  value = file("absent.txt")\n}\n')
    assert run_command_line(["plan", "-confine", "-out=p.nfplan"]) == 1


def truncate_plan() -> None:
    Path("p.nfplan").write_bytes(Path("p.nfplan").read_bytes()[:-9])


def change_member() -> None:
    members = plan_file.unpack_archive(Path("p.nfplan").read_bytes()) or {}
    members["configuration.json"] = members["configuration.json"].replace(b"text.txt", b"next.txt")
    Path("p.nfplan").write_bytes(plan_file.pack_archive(members))


def copy_key_into_tree() -> None:
    Path("team.key").write_bytes(Path("../team.key").read_bytes())


def encrypt_key() -> None:
    create_signing_key("../locked.key", password=b"secret")


REJECTIONS: dict[str, tuple[Callable[[], object], list[str], str]] = {
    "a plan without a sandbox": (plan_unconfined, SIGN, "was not made in a sandbox"),
    "a plan of unknown evaluation": (forget_evaluation, SIGN, "was not made in a sandbox"),
    "a record without the files": (
        lambda: rewrite(files=()),
        SIGN,
        "The record of its evaluation lacks main.nf.hcl",
    ),
    "a failed plan": (plan_with_error, SIGN, "Planning failed with 1 error"),
    "a changed plan": (change_member, SIGN, 'Its part "configuration.json" was changed'),
    "half a plan": (truncate_plan, SIGN, "Bytes are missing"),
    "a state": (
        lambda: Path("p.nfplan").write_text("{}"),
        SIGN,
        "was not written by nexusform plan",
    ),
    "a plan signed while planning without a sandbox": (
        lambda: None,
        ["plan", "-sign=../team.key", "-out=p.nfplan"],
        "was not made in a sandbox",
    ),
    "a key of the work tree": (
        copy_key_into_tree,
        ["sign", "-confine", "-key=team.key", "p.nfplan"],
        "a pull request could replace it",
    ),
    "a public key": (lambda: None, ["sign", "-key=../team.pub", "p.nfplan"], "is a public key"),
    "a key of another algorithm": (
        lambda: make_keys("../rsa", "rsa"),
        ["sign", "-key=../rsa.key", "p.nfplan"],
        "is not an Ed25519 key",
    ),
    "a key with a passphrase": (
        encrypt_key,
        ["sign", "-key=../locked.key", "p.nfplan"],
        "protected by a passphrase",
    ),
    "a sandbox of every file": (
        lambda: None,
        ["plan", "-confine=/", "-sign=../team.key", "-out=p.nfplan"],
        "holds every file",
    ),
    "a plan of one site as a plan of sites": (
        lambda: None,
        ["sites", "sign", "-key=../team.key", "p.nfplan"],
        "p.nfplan",
    ),
}


@pytest.mark.parametrize("case", REJECTIONS)
def test_rejected_plan_stays_unsigned(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    prepare, words, reason = REJECTIONS[case]
    prepare()
    content = Path("p.nfplan").read_bytes()
    capsys.readouterr()
    assert run_command_line(words) == 1
    assert reason in " ".join(capsys.readouterr().err.replace("│", " ").split())
    # A failed plan replaces an earlier one.
    is_planned = words[0] == "plan"
    assert b"signature.json" not in Path("p.nfplan").read_bytes()
    assert is_planned or Path("p.nfplan").read_bytes() == content
    assert not Path("p.nfplan.intoto.jsonl").exists()


def test_environment_variable_does_not_replace_the_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    plan_unconfined()
    monkeypatch.setenv("NF_CONFINE", "false")
    assert run_command_line(SIGN) == 1


def test_sign_writes_the_provenance_and_apply_checks_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(SIGN) == 0
    assert "Evaluation: 2 files read; sandbox on" in capsys.readouterr().out
    envelope = json.loads(Path("p.nfplan.intoto.jsonl").read_text())
    statement = json.loads(base64.b64decode(envelope["payload"]))
    subject = {
        "name": "p.nfplan",
        "digest": {"sha256": plan_file.compute_digest(Path("p.nfplan").read_bytes())},
    }
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["subject"][0] == subject
    assert [part["uri"] for part in statement["predicate"]["materials"]] == [
        "file:main.nf.hcl",
        "file:text.txt",
    ]
    assert run_command_line(["apply", "-verify=key:../team.pub", "p.nfplan"]) == 0
    assert "Signature verified. Evaluation: 2 files read; sandbox on." in capsys.readouterr().out


def _forge_payload(envelope: dict[str, str]) -> dict[str, str]:
    payload = base64.b64decode(envelope["payload"]).replace(b"text.txt", b"next.txt")
    return {**envelope, "payload": base64.b64encode(payload).decode()}


@pytest.mark.parametrize(
    "change",
    [_forge_payload, lambda _: {}, lambda envelope: {**envelope, "signatures": []}, lambda _: []],
)
def test_forged_statement_is_rejected(change: Callable[[dict[str, str]], object]) -> None:
    assert run_command_line(SIGN) == 0
    envelope = json.loads(Path("p.nfplan.intoto.jsonl").read_text())
    Path("p.nfplan.intoto.jsonl").write_text(json.dumps(change(envelope)))
    assert run_command_line(["apply", "-verify=key:../team.pub", "p.nfplan"]) == 1


def test_statement_of_another_plan_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(SIGN) == 0
    Path("text.txt").write_text("other text")
    assert run_command_line(["plan", "-confine", "-out=q.nfplan"]) == 0
    assert run_command_line(["sign", "-key=../team.key", "q.nfplan"]) == 0
    Path("p.nfplan.intoto.jsonl").replace("q.nfplan.intoto.jsonl")
    assert run_command_line(["apply", "-verify=key:../team.pub", "q.nfplan"]) == 1
    assert "It is about another plan" in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_json_and_comment_name_the_evaluation(capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run_command_line(["show", "-json", "p.nfplan"]) == 0
    evaluation = json.loads(capsys.readouterr().out)["evaluation"]
    assert evaluation["confined"] is True
    assert evaluation["root"] == "."
    assert [(file["path"], file["in_root"]) for file in evaluation["files"]] == [
        ("main.nf.hcl", True),
        ("text.txt", True),
    ]
    assert (evaluation["origins"], evaluation["programs"], evaluation["environment_read"]) == (
        [],
        [],
        [],
    )
    assert run_command_line(["show", "-report=markdown:-", "p.nfplan"]) == 0
    assert "\n2 files read; sandbox on\n" in capsys.readouterr().out


def test_operator_file_counts_as_outside_the_work_tree(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("../outside.txt").write_text("outside")
    Path("more.nf.hcl").write_text(
        'variable "name" {}\noutput "more" {\n  value = file(var.name)\n}\n'
    )
    monkeypatch.setenv("NF_VAR_name", "../outside.txt")
    monkeypatch.setattr("os.path.lexists", lambda path: str(path) == str(Path.cwd() / ".git"))
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    capsys.readouterr()
    assert run_command_line(["show", "p.nfplan"]) == 0
    assert (
        "Evaluation: 4 files read, 1 outside of the work tree; sandbox off"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize("sign_while_planning", [True, False])
def test_signed_plan_has_a_statement(sign_while_planning: bool) -> None:
    if sign_while_planning:
        assert run_command_line(["plan", "-confine", "-sign=../team.key", "-out=p.nfplan"]) == 0
    else:
        assert run_command_line(SIGN) == 0
    payload = json.loads(
        base64.b64decode(json.loads(Path("p.nfplan.intoto.jsonl").read_text())["payload"])
    )
    saved, _ = plan_file.read_plan_file(Path("p.nfplan").read_bytes())
    assert saved is not None
    assert {subject["name"]: subject["digest"]["sha256"] for subject in payload["subject"]} == {
        "p.nfplan": plan_file.compute_digest(Path("p.nfplan").read_bytes()),
        "plan": saved.digest,
    }
    assert run_command_line(["apply", "-verify=key:../team.pub", "p.nfplan"]) == 0
