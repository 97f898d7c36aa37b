"""A failed plan replaces the plan file and the reports of an earlier run, at every stage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.workflow.runs.run import Run
from tests.certificates import create_signing_key

CONFIGURATION = """
variable "machines" {
  type    = number
  default = 2
}
resource "nexus_site" "lab" {}
resource "nexus_rack" "r" {
  site_id       = nexus_site.lab.id
  name          = "r"
  machine_count = var.machines
}
"""
REPORTS = ("text", "markdown", "json", "html", "svg", "sarif", "junit", "csv")
Result = tuple[int, str, str]


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Result]:
    """Run a command line in a directory with a saved plan and reports of it.

    Return code, stdout, stderr.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    Path("main.nf.hcl").write_text(CONFIGURATION)

    def call(*arguments: str) -> Result:
        code = run_command_line(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    assert call("plan", "-out=p", *list_report_flags())[0] == 0
    return call


def list_report_flags() -> list[str]:
    """Return a -report flag per format."""
    return [f"-report={name}:report.{name}" for name in REPORTS]


def break_syntax(_monkeypatch: pytest.MonkeyPatch) -> list[str]:
    Path("main.nf.hcl").write_text(f"{CONFIGURATION}\nx =\n")
    return []


def break_planning(_monkeypatch: pytest.MonkeyPatch) -> list[str]:
    Path("main.nf.hcl").write_text(f'{CONFIGURATION}\noutput "o" {{\n  value = 1 / 0\n}}\n')
    return []


def break_state(_monkeypatch: pytest.MonkeyPatch) -> list[str]:
    Path("state").mkdir()
    Path("state/nexusform.nfstate").write_text("{")
    return []


def break_variable(_monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return ["-var=unknown=1"]


def break_signing(_monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return ["-sign=missing.key", "-confine=false"]


def break_saving(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("nexusform.workflow.plan_files.saved_plans.encrypt_plan", reject_encryption)
    return []


def reject_encryption(*_arguments: object) -> tuple[bytes, list[object]]:
    from nexusform.diagnostics.diagnostic import build_error

    return b"", [build_error("plan-save-failed", "The key is not available.")]


def interrupt(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    def stop(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "plan", stop)
    return []


def use_wrong_limit(_monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return ["-fail-on=bogus:1"]


STAGES = (
    break_syntax,
    break_variable,
    break_signing,
    break_state,
    break_planning,
    break_saving,
    interrupt,
    use_wrong_limit,
)
# Stages at which the run ends before a report can be written; the older one is deleted.
WITHOUT_REPORT = {interrupt, use_wrong_limit}


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.__name__)
def test_no_file_is_older_than_the_run(
    nf: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
    stage: Callable[[pytest.MonkeyPatch], list[str]],
) -> None:
    older = {path.name: path.read_bytes() for path in Path().glob("report.*")}
    plan = Path("p").read_bytes()
    flags = stage(monkeypatch)
    assert nf("plan", "-out=p", *list_report_flags(), *flags)[0] == 1
    assert Path("p").read_bytes() != plan
    for name, content in older.items():
        is_report = stage not in WITHOUT_REPORT
        assert Path(name).exists() == is_report, name
        # A plan that cannot be saved is reported as planned. Without VMs, the CSV file
        # has only headings.
        if is_report and stage is not break_saving and name != "report.csv":
            assert Path(name).read_bytes() != content, name


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.__name__)
def test_failed_plan_is_shown_and_not_applied(
    nf: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
    stage: Callable[[pytest.MonkeyPatch], list[str]],
) -> None:
    folder = Path.cwd()
    flags = stage(monkeypatch)
    nf("plan", "-out=p", *flags)
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    code, out, err = nf("show", "p")
    assert code == 0, err
    assert "Planning failed." in out
    assert "Error: " in out
    code, out, _ = nf("show", "-json", "p")
    document = json.loads(out)
    assert (code, document["errored"], document["applyable"]) == (0, True, False)
    assert [found["severity"] for found in document["diagnostics"]].count("error") >= 1
    for command in (
        ["apply", "p"],
        ["export", "-format=az", "p"],
        ["explain", "-plan=p", "nexus_site.lab"],
    ):
        code, out, err = nf(*command)
        assert (code, "Saved plan has errors" in out + err) == (1, True), (command, out, err)


def test_failed_plan_is_not_signed(nf: Callable[..., Result]) -> None:
    create_signing_key("key.pem")
    nf("plan", "-out=p", "-var=unknown=1")
    before = Path("p").read_bytes()
    code, out, err = nf("sign", "-key=key.pem", "p", "-confine=false")
    assert (code, "Saved plan has errors" in out + err) == (1, True)
    assert Path("p").read_bytes() == before


def test_comment_of_failed_pull_request_has_the_error(nf: Callable[..., Result]) -> None:
    Path("main.nf.hcl").write_text(f"{CONFIGURATION}\nx =\n")
    assert nf("plan", "-report=markdown:plan.md")[0] == 1
    assert "**Invalid expression** (`main.nf.hcl:13`)" in Path("plan.md").read_text()
    assert "**Plan failed**: 1 error." in Path("plan.md").read_text()


@pytest.mark.parametrize(
    "content", ["hello\n", '{"format": "nexusform"}', "PK\3\4 another archive"]
)
def test_other_kind_of_file_is_not_overwritten(nf: Callable[..., Result], content: str) -> None:
    Path("notes").write_text(content)
    code, out, err = nf("plan", "-out=notes")
    assert code == 1
    assert '"notes" is not a plan file, so it is not overwritten.' in " ".join((out + err).split())
    assert Path("notes").read_text() == content


def test_empty_file_and_damaged_plan_are_overwritten(nf: Callable[..., Result]) -> None:
    Path("empty").touch()
    Path("damaged").write_bytes(Path("p").read_bytes()[:-20])
    for name in ("empty", "damaged"):
        assert nf("plan", f"-out={name}")[0] == 0
        assert nf("show", name)[0] == 0


def test_report_does_not_overwrite_an_input(nf: Callable[..., Result]) -> None:
    code, _, err = nf("plan", "-report=json:main.nf.hcl")
    assert code == 1
    assert '-report: "main.nf.hcl" is an input' in err
    assert Path("main.nf.hcl").read_text() == CONFIGURATION


STATE_DOCUMENT = '{\n  "format": "nexusform",\n  "kind": "state"\n}\n'


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("v.json", '{"machines": 3}', "plan -var-file=v.json -report=json:./v.json"),
        ("v.json", '{"machines": 3}', "plan -var-file=./v.json -report=json:v.json"),
        ("targets", "nexus_site.lab\n", "plan -target-file=targets -report=text:./targets"),
        ("p", None, "show p -report=json:./p"),
        ("p", None, "export -format=az -out=./p p"),
        ("a.auto.nfvars.json", '{"machines": 3}', "plan -report=json:a.auto.nfvars.json"),
        ("main.nf.json", "{}", "plan -report=json:main.nf.json"),
        ("s.nfstate.backup", STATE_DOCUMENT, "plan -report=text:s.nfstate.backup"),
    ],
)
def test_no_input_is_deleted(
    nf: Callable[..., Result], name: str, content: str | None, words: str
) -> None:
    before = Path(name).read_bytes() if content is None else content.encode()
    Path(name).write_bytes(before)
    Path("older.md").write_text("older")
    code, _, err = nf(
        *words.split(), *(["-report=markdown:older.md"] if "export" not in words else [])
    )
    assert (
        code,
        "is an input and is not overwritten" in " ".join(err.replace("│", "").split()),
    ) == (1, True), err
    assert Path(name).read_bytes() == before
    assert Path("older.md").read_text() == "older"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("my.json", STATE_DOCUMENT),
        ("my.json", '{"encryption":{"version":1,"purpose":"state"}}'),
        ("sites.json", '["lon1"]'),
        ("racks.json", '[{"id": "/subscriptions/1"}]'),
        ("terraform.tfstate", '{"version": 4}'),
        ("journal", '{"sequence": 1}\n{"sequence": 2}\n'),
        ("machines.csv", "rack,machines\nr,2\n"),
        ("names.yaml", "- a\n"),
        ("key", "-----BEGIN PRIVATE KEY-----\n"),
        ("p", None),
    ],
)
@pytest.mark.parametrize("report", ["json", "text"])
def test_possible_input_is_not_overwritten(
    nf: Callable[..., Result], name: str, content: str | None, report: str
) -> None:
    before = Path(name).read_bytes() if content is None else content.encode()
    Path(name).write_bytes(before)
    code, _, err = nf("plan", f"-report={report}:{name}")
    assert (code, f'"{name}" may be an input and is not overwritten.' in " ".join(err.split())) == (
        1,
        True,
    ), err
    assert Path(name).read_bytes() == before


def test_state_of_another_name_is_not_overwritten(nf: Callable[..., Result]) -> None:
    Path("backend.nf.hcl").write_text(
        'nexusform {\n  backend "local" {\n    path = "my.json"\n  }\n}\n'
    )
    assert nf("apply", "-auto-approve")[0] == 0
    before = Path("my.json").read_bytes()
    assert nf("plan", "-report=json:my.json")[0] == 1
    assert Path("my.json").read_bytes() == before


def test_older_outputs_of_every_format_are_replaced(nf: Callable[..., Result]) -> None:
    Path("d").touch()
    flags = [*list_report_flags(), "-report=github-review:review.json", "-diff=d"]
    for _ in range(2):
        assert nf("plan", *flags)[0] == 0
        assert nf("advise", "-report=json:advice.json")[0] in (0, 2)
        for kind, name in (("azapi", "main.tf.json"), ("az", "change.sh")):
            code, _, err = nf("export", f"-format={kind}", f"-out={name}", "p")
            assert code == 0, err


def test_failed_export_leaves_no_older_script(nf: Callable[..., Result]) -> None:
    Path("change.sh").write_text("older")
    nf("plan", "-out=p", "-var=unknown=1")
    assert nf("export", "-format=az", "-out=change.sh", "p")[0] == 1
    assert not Path("change.sh").exists()


def test_plan_is_not_saved_as_configuration(nf: Callable[..., Result]) -> None:
    for name in ("x.nf.hcl", "x.nf.json", "x.auto.nfvars.json"):
        code, _, err = nf("plan", f"-out={name}")
        assert (code, f'-out: "{name}" is an input' in err) == (1, True), err
        assert not Path(name).exists()


def test_one_path_is_for_one_output(nf: Callable[..., Result]) -> None:
    code, _, err = nf("plan", "-report=json:r", "-report=markdown:./r")
    assert (
        code,
        "only one report can go to stdout, and to each file" in " ".join(err.split()),
    ) == (1, True), err
    assert nf("plan", "-out=q", "-report=json:./q")[0] == 1
    assert not Path("q").exists()
