""""""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from nexusform.interfaces.plugins import FileProblem
from nexusform.language.functions.file_access import FileReader
from nexusform.workflow.opening import system_io
from nexusform.workflow.opening.system_io import ConfinedFileAccess, get_plan_time, write_output

FILES = ConfinedFileAccess()


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x00\xff")
    assert FILES.read(str(tmp_path / "a")) == b"\x00\xff"


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in (str(tmp_path / "pipe"), "/dev/zero", str(tmp_path)):
        with pytest.raises(FileProblem, match=r"not a regular file|cannot be read"):
            FILES.read(name)
    with pytest.raises(FileProblem, match="There is no file"):
        FILES.read(str(tmp_path / "none"))
    with pytest.raises(FileProblem, match="not the name of a file"):
        FILES.read("a\0b")


def test_a_large_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_io, "SIZE_CAP", 10)
    (tmp_path / "a").write_bytes(b"x" * 10)
    assert len(FILES.read(str(tmp_path / "a"))) == 10
    (tmp_path / "a").write_bytes(b"x" * 11)
    with pytest.raises(FileProblem, match="larger than 10 bytes"):
        FILES.read(str(tmp_path / "a"))


def test_exists_is_about_regular_files(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert FILES.is_file(str(tmp_path / "a"))
    assert not FILES.is_file(str(tmp_path / "b"))
    assert not FILES.is_file(str(tmp_path / "a" / "b"))
    with pytest.raises(FileProblem, match="a directory"):
        FILES.is_file(str(tmp_path))


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*", ["a.txt", "b.md"]),
        ("*.txt", ["a.txt"]),
        ("?.md", ["b.md"]),
        ("**", ["a.txt", "b.md", "d/c.txt", "d/e/f.txt"]),
        ("**/*.txt", ["a.txt", "d/c.txt", "d/e/f.txt"]),
        ("d/*", ["d/c.txt"]),
        ("{a,b}.*", ["a.txt", "b.md"]),
        ("[ab].*", ["a.txt", "b.md"]),
        ("[^a].*", ["b.md"]),
        ("[!a].*", ["a.txt"]),
        ("[b-a].*", []),
        ("", []),
        (".", []),
        ("a.txt", ["a.txt"]),
        ("./d/../a.txt", ["a.txt"]),
        ("/d//c.txt", ["d/c.txt"]),
        ("\\a.txt", ["a.txt"]),
        ("d**", []),
        ("**/d/**", ["d/c.txt", "d/e/f.txt"]),
        ("**/**/f.txt", ["d/e/f.txt"]),
        ("a\0", []),
        ("nothing", []),
        ("d/{c,e/f}.txt", ["d/c.txt", "d/e/f.txt"]),
    ],
)
def test_glob(tmp_path: Path, pattern: str, found: list[str]) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    for name in ("a.txt", "b.md", "d/c.txt", "d/e/f.txt"):
        (tmp_path / name).touch()
    assert FILES.find_files(str(tmp_path), pattern) == found


@pytest.mark.parametrize("pattern", ["[", "{", "[]a]", "[a-]", "[-a]", "[a", "\\", "{a,b", "a[^"])
def test_patterns_that_mean_nothing(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(FileProblem, match="not a valid file pattern"):
        FILES.find_files(str(tmp_path), pattern)


def test_braces_without_measure() -> None:
    with pytest.raises(FileProblem, match="more than 1000 patterns"):
        FILES.find_files(".", "{a,b}" * 40)


@pytest.mark.parametrize("base", ["none", "a" * 300, "a\0b"])
def test_nothing_is_below_a_directory_that_is_not_there(base: str) -> None:
    with pytest.raises(FileProblem, match="There is no directory"):
        FILES.find_files(base, "*")
    assert FileReader(FILES, "").find_files(base, "*") == []


def test_links_are_followed_but_not_round_and_round(tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "a.txt").touch()
    (tmp_path / "b.txt").touch()
    (tmp_path / "l").symlink_to("d")
    (tmp_path / "d" / "back").symlink_to("..")
    (tmp_path / "m.txt").symlink_to("b.txt")
    (tmp_path / "broken.txt").symlink_to("nosuch")
    assert FILES.find_files(str(tmp_path), "**") == ["b.txt", "d/e/a.txt", "l/e/a.txt", "m.txt"]
    assert FILES.find_files(str(tmp_path), "d/back/*.txt") == ["d/back/b.txt", "d/back/m.txt"]
    assert FILES.find_files(str(tmp_path / "d"), "../*.txt") == ["../b.txt", "../m.txt"]


def test_the_home_of_somebody_unknown() -> None:
    with pytest.raises(FileProblem, match="nobody-by-this-name"):
        ConfinedFileAccess().expand_home("~nobody-by-this-name/a")


def test_source_date_epoch_fixes_the_time_of_a_plan() -> None:
    assert get_plan_time({"SOURCE_DATE_EPOCH": "1700000000"}) == "2023-11-14T22:13:20Z"
    assert get_plan_time({}) > "2024"


def test_files_that_may_not_be_looked_at_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "seen.txt").write_text("")
    (tmp_path / "unseen.txt").write_text("")
    look = Path.is_file

    def is_file(self: Path) -> bool:
        if self.name == "unseen.txt":
            raise PermissionError(13, "Permission denied")
        return look(self)

    monkeypatch.setattr(Path, "is_file", is_file)
    assert ConfinedFileAccess().find_files(str(tmp_path), "*.txt") == ["seen.txt"]


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
