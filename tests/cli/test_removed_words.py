from __future__ import annotations

import pytest

from nexusform.cli.main import run_command_line
from nexusform.cli.removed_words import REMOVED_COMMANDS, REMOVED_FLAGS


@pytest.mark.parametrize("words", REMOVED_COMMANDS)
def test_removed_command_prints_one_line(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([*words.split(), "-flag", "argument"]) == 1
    line = f'Error: "nexusform {words}" was removed. Use: {REMOVED_COMMANDS[words]}\n'
    assert capsys.readouterr() == ("", line)


@pytest.mark.parametrize("words", REMOVED_FLAGS)
def test_removed_flag_prints_one_line(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([*words.split(), "argument"]) == 1
    line = f'Error: "nexusform {words}" was removed. Use: {REMOVED_FLAGS[words]}\n'
    assert capsys.readouterr() == ("", line)


def test_command_with_prefix_of_removed_one_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["refreshing"]) == 1
    assert 'Unknown command "refreshing".' in capsys.readouterr().err
