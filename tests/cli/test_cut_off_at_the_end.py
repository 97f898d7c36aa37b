"""A saved plan whose apply died in its last calls: all is done, and saying so is no error."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.applying.recorder import Recorder
from nexusform.cli.main import run
from nexusform.state.journal import Finished

TEXT = """resource "nexus_site" "lab" {
  name = "lab"
}
output "id" {
  value = nexus_site.lab.id
}
"""


def test_it_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(TEXT)
    assert run(["plan", "-out=p"]) == 0
    note: Callable[..., None] = Recorder.note

    def dying(self: Recorder, record: object) -> None:
        if isinstance(record, Finished):
            self.flush()
            raise KeyboardInterrupt
        note(self, record)

    monkeypatch.setattr(Recorder, "note", dying)
    assert run(["apply", "p"]) != 0
    monkeypatch.setattr(Recorder, "note", note)
    capsys.readouterr()
    assert run(["apply", "p"]) == 0
    assert "All steps of this plan were done" in capsys.readouterr().out
    assert run(["output", "-raw", "id"]) == 0
    assert capsys.readouterr().out == "lab"
    assert run(["apply", "p"]) == 1  # applied once, and wholly
