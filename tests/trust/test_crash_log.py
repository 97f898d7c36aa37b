"""Tests of crash logs: they may be shared with others."""

import re
from pathlib import Path

import pytest

from nexusform.cli import main


def test_crash_log_has_no_credentials_of_an_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main._report_internal_error(
            KeyError("https://me:canary@h.example/x?token=canary&b=1 postgres://u:canary@db/n")
        )
        == 1
    )
    said = "".join(capsys.readouterr().err.split())
    (path,) = re.findall(r"(/\S*?nexusform-crash-\w+\.log)", said)
    log = Path(path)
    text = log.read_text()
    log.unlink()
    assert "https://...@h.example/x?..." in text
    assert "postgres://...@db/n" in text
    assert "canary" not in text
