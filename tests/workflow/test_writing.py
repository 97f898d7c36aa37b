from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from nexusform.workflow.writing import write_output


def test_a_file_that_cannot_be_written_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.nfplan"
    path.write_bytes(b"before")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        write_output(str(path), b"after")
    assert path.read_bytes() == b"before"
    with pytest.raises(OSError, match="No space left"):
        write_output(str(tmp_path / "new"), b"after")
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.nfplan"]


def test_what_is_private_is_nobody_elses_to_read(tmp_path: Path) -> None:
    path = tmp_path / "p.nfplan"
    path.write_bytes(b"before")
    path.chmod(0o644)
    write_output(str(path), b"after", private=True)
    assert path.read_bytes() == b"after"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"before")
    link = tmp_path / "link"
    link.symlink_to("there")
    write_output(str(link), b"after")
    assert not link.is_symlink()
    assert link.read_bytes() == b"after"
    assert (tmp_path / "there").read_bytes() == b"before"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_output(str(pipe), b"text")
    reader.join()
    assert found == [b"text"]
    assert pipe.is_fifo()
