"""An apply that died in its last calls: all is done, and saying so is no error."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.applying.apply_recorder import ApplyRecorder
from nexusform.cli.main import run_command_line
from nexusform.state.journal import ApplyEnd

TEXT = """resource "nexus_site" "lab" {
  name = "lab"
}
output "id" {
  value = nexus_site.lab.id
}
"""


Dies = Callable[..., None]


@pytest.fixture
def dies_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dies:
    """Applies, and dies before its end is recorded."""
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(TEXT)
    note: Callable[..., None] = ApplyRecorder.add_record

    def dying(self: ApplyRecorder, record: object) -> None:
        if isinstance(record, ApplyEnd):
            self.flush()
            raise KeyboardInterrupt
        note(self, record)

    def call(*words: str) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(ApplyRecorder, "add_record", dying)
            assert run_command_line(["apply", *words]) != 0

    return call


def test_it_is_complete(dies_at_the_end: Dies, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["plan", "-out=p"]) == 0
    dies_at_the_end("p")
    capsys.readouterr()
    assert run_command_line(["apply", "p"]) == 0
    assert "All steps of this plan were complete" in capsys.readouterr().out
    assert run_command_line(["output", "-raw", "id"]) == 0
    assert capsys.readouterr().out == "lab"
    assert run_command_line(["apply", "p"]) == 1  # applied once, and wholly


# what is asked for after the kill, with another configuration or the same, and what is said of what is left
AFTER = (
    (("plan",), TEXT, "`nexusform apply -resume` records it."),
    (("apply", "-auto-approve"), TEXT, "Finishing an earlier apply first."),
    (("apply", "-auto-approve"), f"{TEXT}# more", "The configuration changed since."),
)


@pytest.mark.parametrize(("words", "text", "said"), AFTER)
def test_no_steps_are_said_to_be_left(
    dies_at_the_end: Dies, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], text: str, said: str
) -> None:
    dies_at_the_end("-auto-approve")
    Path("main.nf.hcl").write_text(text)
    capsys.readouterr()
    run_command_line(list(words))
    both = capsys.readouterr()
    told = " ".join((both.out + both.err).replace("│", " ").split())
    assert "All its steps are complete, but its end is not recorded." in told
    assert said in told
    assert "0 steps" not in told


def test_what_is_left_of_it_may_be_dropped(dies_at_the_end: Dies, capsys: pytest.CaptureFixture[str]) -> None:
    dies_at_the_end("-auto-approve")
    capsys.readouterr()
    assert run_command_line(["apply", "-discard"]) == 0
    assert "Recorded the end of an earlier apply" in capsys.readouterr().out
    assert run_command_line(["apply", "-discard"]) == 0
    assert "No unfinished apply." in capsys.readouterr().out
