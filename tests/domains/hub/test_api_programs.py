"""A server that fails to start leaves no process running."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.domains.hub.api_programs import ApiPrograms

_PROGRAM = '#!/bin/sh\necho $$ > "$(dirname "$0")/$(basename "$0").pid"\nexec sleep 600\n'


def test_failed_server_start_ends_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("etcd", "kube-apiserver"):
        program = tmp_path / name
        program.write_text(_PROGRAM)
        program.chmod(0o700)
    files = [tmp_path / f"{name}.pid" for name in ("etcd", "kube-apiserver")]
    begin = ApiPrograms._until

    def abort_start(programs: ApiPrograms, _holds: Any, _seconds: float = 0) -> None:
        begin(programs, lambda: all(file.exists() and file.read_text() for file in files), 20)
        raise AssertionError("the hub does not come up")

    monkeypatch.setattr(ApiPrograms, "_until", abort_start)
    with pytest.raises(AssertionError, match="does not come up"):
        ApiPrograms(tmp_path, tmp_path, tmp_path)
    for file in files:
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.read_text()), 0)
