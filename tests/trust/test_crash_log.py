"""Tests of crash logs: they may be shared with others."""

import re
from pathlib import Path

import pytest

from nexusform.cli import main

_ADDRESSES = "https://me:canary@h.example/x?token=canary&b=1 postgres://u:canary@db/n"


def _read_crash_log(bug: Exception, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the text of the crash log of an exception, and delete the log."""
    assert main._report_internal_error(bug) == 1
    said = "".join(capsys.readouterr().err.split())
    (path,) = re.findall(r"(/\S*?nexusform-crash-\w+\.log)", said)
    log = Path(path)
    text = log.read_text()
    log.unlink()
    return text


def test_crash_log_has_no_credentials_of_an_address(capsys: pytest.CaptureFixture[str]) -> None:
    text = _read_crash_log(TypeError(_ADDRESSES), capsys)
    assert "https://...@h.example/x?..." in text
    assert "postgres://...@db/n" in text
    assert "canary" not in text


def test_crash_log_has_no_message_that_may_quote_a_value(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = _read_crash_log(KeyError(_ADDRESSES), capsys)
    assert "KeyError: ..." in text
    assert "example" not in text
