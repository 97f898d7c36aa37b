"""Tests of an untrusted work tree: its texts cannot deceive a reader or control a CI system."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from nexusform.cli.main import run_command_line

Told = tuple[int, str]

CHECK = """
locals {
  holds = false
  lines = ["first", "::set-env name=PATH::x", "  ::add-mask::y", "##vso[task.setvariable variable=x]z"]
}
check "words" {
  assert {
    condition     = local.holds
    error_message = "%s"
  }
}
output "lines" {
  value = { text = join("\\n", local.lines) }
}
"""  # noqa: E501
# Escaped like in configuration, so the file itself contains plain characters.
TRICKS = {
    "&lt;x&gt; <blink>": "entity",
    "zero\\u200bwidth": "zero",
    "line\\u2028end": "line",
    "no\\ufffecharacter": "none",
    "right\\u202eleft": "bidi",
    "tag\\U000e0041": "tag",
    "thanks @maintainer and @org/team, mail a@example.com": "mention",
}
UNSEEN = re.compile("[\u200b\u2028\u2029\u202e\ufffe\uffff\U000e0041]")
FORMATS = ("text", "markdown", "html", "svg", "sarif", "junit")


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Told]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NF_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "main.nf.hcl").write_text(CHECK % " / ".join(TRICKS))

    def run_command(*arguments: str) -> Told:
        code = run_command_line(arguments)
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run_command


@pytest.mark.parametrize("name", FORMATS)
def test_reports_have_no_invisible_characters(nf: Callable[..., Told], name: str) -> None:
    code, text = nf("plan", f"-report={name}:report")
    assert code == 0, text
    report = Path("report").read_text()
    assert not UNSEEN.search(report)
    if name in ("html", "svg", "junit"):
        assert "<blink>" not in report
    if name in ("svg", "junit"):
        ET.fromstring(report)
    if name == "sarif":
        json.loads(report)


NAMES = r"""
locals {
  unseen = ["a\u202eb", "c\u200bd", "e\u2028f", "g\ufffeh", "i\u001bj", "k\U000e0041l"]
  names  = concat(local.unseen, ["##vso[x]", "\n::set-env"])
}
resource "nexus_site" "s" {
  for_each = toset(local.names)
  name     = "s${index(local.names, each.key)}"
}
output "names" {
  value = { for name in local.names : name => name }
}
"""


@pytest.mark.parametrize("name", FORMATS)
def test_names_in_reports_have_no_invisible_characters(nf: Callable[..., Told], name: str) -> None:
    Path("main.nf.hcl").write_text(NAMES)
    code, text = nf("plan", f"-report={name}:report")
    assert code == 0, text
    report = Path("report").read_text()
    assert not UNSEEN.search(report)
    scripts = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', report, re.DOTALL)
    documents = [report] if name == "sarif" else scripts
    assert not [found for each in documents for found in UNSEEN.findall(str(json.loads(each)))]
    assert len(scripts) == (name == "html")


@pytest.mark.parametrize(
    "words", [("plan", "-json"), ("plan", "-report=json:-"), ("output", "-json")], ids=" ".join
)
def test_json_has_the_same_values_without_invisible_characters(
    nf: Callable[..., Told], words: tuple[str, ...]
) -> None:
    Path("main.nf.hcl").write_text(NAMES)
    assert nf("apply", "-auto-approve")[0] == 0
    code, text = nf(*words)
    assert code == 0
    assert not UNSEEN.search(text)
    assert "##vso[" not in text
    if words[0] == "output":
        names = json.loads(text)["names"]["value"]
        assert "##vso[x]" in names
        assert all(key == value for key, value in names.items())
        assert {character for key in names for character in UNSEEN.findall(key)}


@pytest.mark.parametrize("name", ["html", "svg", "junit", "sarif", "csv"])
def test_report_on_stdout_has_no_ci_commands(nf: Callable[..., Told], name: str) -> None:
    Path("main.nf.hcl").write_text(
        CHECK % r"\n::set-env name=a::b\n##[command]x ##vso[task.x]" + NAMES
    )
    code, text = nf("plan", f"-report={name}:-")
    assert code == 0
    assert not re.search(r"(?m)^\s*::\w|##\[|##vso\[", text)
    if name == "junit":
        ET.fromstring(text[text.index("<?xml") :])


def test_comment_mentions_no_user_and_shows_entities_literally(nf: Callable[..., Told]) -> None:
    nf("plan", "-report=markdown:report")
    report = Path("report").read_text()
    outside_of_code = re.sub(r"(`+).*?\1", "", report, flags=re.DOTALL)
    assert not re.search(r"(?<!\w)@\w", outside_of_code)
    assert "&lt;x&gt;" not in outside_of_code.replace("&amp;lt;x&amp;gt;", "")
    assert "a@example.com" in report


@pytest.mark.parametrize(
    "command", [("plan",), ("output",), ("show",), ("plan", "-report=text:-")], ids=" ".join
)
def test_log_has_no_ci_commands(nf: Callable[..., Told], command: tuple[str, ...]) -> None:
    nf("apply", "-auto-approve")
    code, text = nf(*command)
    assert code == 0, text
    assert "set-env" in text or command != ("output",)
    assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]
    assert "##vso[" not in text


def test_raw_output_is_unchanged(nf: Callable[..., Told]) -> None:
    Path("main.nf.hcl").write_text('output "raw" {\n  value = "::set-env name=a::b\\n"\n}\n')
    nf("apply", "-auto-approve")
    assert nf("output", "-raw", "raw") == (0, "::set-env name=a::b\n")
    assert json.loads(nf("output", "-json", "raw")[1]) == "::set-env name=a::b\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("main.nf.hcl", '# a comment that turns\u202e round\noutput "x" {\n  value = 1\n}\n'),
        ("more.nf.json", '{"locals": {"a": "b\u200b"}}'),
        ("x.auto.nfvars.hcl", "# tag \U000e0041\n"),
        ("x.nftest.hcl", '# \u2066\nrun "x" {\n  command = plan\n}\n'),
    ],
)
def test_hidden_characters_in_files_are_reported(
    nf: Callable[..., Told], name: str, text: str
) -> None:
    Path(name).write_text(text)
    command = "plan" if "nfvars" in name else "validate"
    code, told = nf(command)
    assert code == 0, told
    assert "Hidden characters" in told
    assert name in told


def test_byte_order_mark_and_visible_letters_are_not_reported(nf: Callable[..., Told]) -> None:
    Path("main.nf.hcl").write_text(
        '\ufeff# Grüße, 日本\noutput "x" {\n  value = "ä"\n}\n', encoding="utf-8"
    )
    assert "Hidden characters" not in nf("validate")[1]


def test_file_name_with_line_breaks_stays_on_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x\nApply complete!\n.nf.hcl").write_text("a {")
    assert run_command_line(["validate"]) == 1
    assert "on x\\nApply complete!\\n.nf.hcl line 1" in " ".join(capsys.readouterr().err.split())
