import json
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.schemas.value_types import BOOL, NUMBER, STRING, ListType
from nexusform.state.objects import OutputState, State
from nexusform.state.state_codec import encode_state

OUTPUTS = {
    "name": OutputState("lab", STRING),
    "many": OutputState(["a", "b"], ListType(STRING)),
    "secret": OutputState("hush", STRING, sensitive=True),
    "count": OutputState(3, NUMBER),
    "on": OutputState(True, BOOL),
    "nothing": OutputState(None, STRING),
}


@pytest.fixture(autouse=True)
def state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("state").mkdir()
    Path("state/nexusform.nfstate").write_bytes(encode_state(State("l", 1, outputs=OUTPUTS)))


def print_output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run_command_line(["output", *words]) == 0
    return capsys.readouterr().out


def test_all_outputs_are_sorted_and_sensitive_ones_hidden(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = print_output(capsys)
    assert text.startswith("count = 3\nmany = ")
    assert 'name = "lab"\n' in text
    assert "secret = <sensitive>\n" in text
    assert 'secret = "hush"\n' in print_output(capsys, "-show-sensitive")


def test_json_includes_sensitive_values(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(print_output(capsys, "-json"))
    assert document["secret"] == {"sensitive": True, "type": "string", "value": "hush"}
    assert document["many"]["type"] == ["list", "string"]


def test_single_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_output(capsys, "name") == '"lab"\n'
    assert print_output(capsys, "secret") == '"hush"\n'
    assert json.loads(print_output(capsys, "-json", "many")) == ["a", "b"]


@pytest.mark.parametrize(("name", "text"), [("name", "lab"), ("count", "3"), ("on", "true")])
def test_raw_prints_text_only(name: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert print_output(capsys, "-raw", name) == text


@pytest.mark.parametrize("name", ["many", "nothing"])
def test_raw_of_other_types_is_rejected(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["output", "-raw", name]) == 1
    assert "Unsupported value for raw output" in capsys.readouterr().err


def test_missing_output_suggests_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["output", "nam"]) == 1
    shown = capsys.readouterr().err
    assert 'Output "nam" not found' in shown
    assert 'Did you mean "name"?' in shown


def test_conflicting_flags_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["output", "-json", "-raw", "name"]) == 1
    assert run_command_line(["output", "-raw"]) == 1
    assert "NAME" in capsys.readouterr().err


def test_state_without_outputs_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    Path("state/nexusform.nfstate").unlink()
    assert "No outputs found" in print_output(capsys)
    assert json.loads(print_output(capsys, "-json")) == {}


def test_numbers_are_printed_with_all_digits(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    exact = "0.123456789012345678901234567890123456789"
    text = "".join(
        f'output "{n}" {{\n  value = {v}\n}}\n' for n, v in (("exact", exact), ("small", "1e-7"))
    )
    (tmp_path / "main.nf.hcl").write_text(text)
    assert run_command_line([f"-chdir={tmp_path}", "apply", "-auto-approve", "-no-color"]) == 0
    assert f"exact = {exact}\n" in capfd.readouterr().out
    for arguments, shown in (
        (["-raw", "exact"], exact),
        (["exact"], f"{exact}\n"),
        (["small"], "0.0000001\n"),
    ):
        assert run_command_line([f"-chdir={tmp_path}", "output", *arguments]) == 0
        assert capfd.readouterr().out == shown
    (tmp_path / "main.nf.hcl").write_text(text.replace(exact, "1 - 0.9e-30"))
    assert run_command_line([f"-chdir={tmp_path}", "plan", "-details", "-no-color"]) == 0
    assert f"{exact} -> 0.9999999999999999999999999999991" in " ".join(
        capfd.readouterr().out.split()
    )
