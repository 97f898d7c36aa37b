"""Tests of an apply killed in its last calls.

All steps are complete, and this is not reported as an error.
"""

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
def apply_killed_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dies:
    """Run an apply and kill it before its end is recorded."""
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(TEXT)
    note: Callable[..., None] = ApplyRecorder.add_record

    def add_record_or_die(self: ApplyRecorder, record: object) -> None:
        if isinstance(record, ApplyEnd):
            self.flush()
            raise KeyboardInterrupt
        note(self, record)

    def run_apply(*words: str) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(ApplyRecorder, "add_record", add_record_or_die)
            assert run_command_line(["apply", *words]) != 0

    return run_apply


def test_killed_apply_is_complete(
    apply_killed_at_the_end: Dies, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["plan", "-out=p"]) == 0
    apply_killed_at_the_end("p")
    capsys.readouterr()
    assert run_command_line(["apply", "p"]) == 0
    assert "All steps of this plan were complete" in capsys.readouterr().out
    assert run_command_line(["output", "-raw", "id"]) == 0
    assert capsys.readouterr().out == "lab"
    # The plan was applied once, and completely.
    assert run_command_line(["apply", "p"]) == 1


# command after the kill, configuration (changed or not), and expected message
AFTER = (
    (("plan",), TEXT, "`nexusform apply -resume` records it."),
    (("apply", "-auto-approve"), TEXT, "Finishing an earlier apply first."),
    (("apply", "-auto-approve"), f"{TEXT}# more", "The configuration changed since."),
)


@pytest.mark.parametrize(("words", "text", "said"), AFTER)
def test_no_remaining_steps_are_reported(
    apply_killed_at_the_end: Dies,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    text: str,
    said: str,
) -> None:
    apply_killed_at_the_end("-auto-approve")
    Path("main.nf.hcl").write_text(text)
    capsys.readouterr()
    run_command_line(list(words))
    both = capsys.readouterr()
    told = " ".join((both.out + both.err).replace("│", " ").split())
    assert "All its steps are complete, but its end is not recorded." in told
    assert said in told
    assert "0 steps" not in told


def test_unfinished_end_can_be_discarded(
    apply_killed_at_the_end: Dies, capsys: pytest.CaptureFixture[str]
) -> None:
    apply_killed_at_the_end("-auto-approve")
    capsys.readouterr()
    assert run_command_line(["apply", "-discard"]) == 0
    assert "Recorded the end of an earlier apply" in capsys.readouterr().out
    assert run_command_line(["apply", "-discard"]) == 0
    assert "No unfinished apply." in capsys.readouterr().out
