""""""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from nexusform.interfaces.plugins import FileProblem
from nexusform.language.functions.file_access import FileReader
from nexusform.providers.clock import read_clock
from nexusform.workflow.opening import system_io
from nexusform.workflow.opening.system_io import ConfinedFileAccess, write_output

FILES = ConfinedFileAccess()


def test_file_is_read_completely(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x00\xff")
    assert FILES.read(str(tmp_path / "a")) == b"\x00\xff"


def test_special_file_is_rejected_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in (str(tmp_path / "pipe"), "/dev/zero", str(tmp_path)):
        with pytest.raises(FileProblem, match=r"not a regular file|cannot be read"):
            FILES.read(name)
    with pytest.raises(FileProblem, match="There is no file"):
        FILES.read(str(tmp_path / "none"))
    with pytest.raises(FileProblem, match="not the name of a file"):
        FILES.read("a\0b")


def test_large_file_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_io, "SIZE_CAP", 10)
    (tmp_path / "a").write_bytes(b"x" * 10)
    assert len(FILES.read(str(tmp_path / "a"))) == 10
    (tmp_path / "a").write_bytes(b"x" * 11)
    with pytest.raises(FileProblem, match="larger than 10 bytes"):
        FILES.read(str(tmp_path / "a"))


def test_is_file_is_true_only_for_regular_files(tmp_path: Path) -> None:
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
def test_patterns_match_files(tmp_path: Path, pattern: str, found: list[str]) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    for name in ("a.txt", "b.md", "d/c.txt", "d/e/f.txt"):
        (tmp_path / name).touch()
    assert FILES.find_files(str(tmp_path), pattern) == found


@pytest.mark.parametrize("pattern", ["[", "{", "[]a]", "[a-]", "[-a]", "[a", "\\", "{a,b", "a[^"])
def test_invalid_patterns_are_rejected(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(FileProblem, match="not a valid file pattern"):
        FILES.find_files(str(tmp_path), pattern)


def test_excessive_brace_expansion_is_rejected() -> None:
    with pytest.raises(FileProblem, match="more than 1000 patterns"):
        FILES.find_files(".", "{a,b}" * 40)


@pytest.mark.parametrize("base", ["none", "a" * 300, "a\0b"])
def test_missing_directory_contains_no_files(base: str) -> None:
    with pytest.raises(FileProblem, match="There is no directory"):
        FILES.find_files(base, "*")
    assert FileReader(FILES, "").find_files(base, "*") == []


def test_links_are_followed_without_loops(tmp_path: Path) -> None:
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


def test_home_of_unknown_user_is_rejected() -> None:
    with pytest.raises(FileProblem, match="nobody-by-this-name"):
        ConfinedFileAccess().expand_home("~nobody-by-this-name/a")


def test_source_date_epoch_sets_the_time_of_a_plan() -> None:
    assert read_clock({"SOURCE_DATE_EPOCH": "1700000000"}) == "2023-11-14T22:13:20Z"
    assert read_clock({}) > "2024"
    for digits in ("²", "9" * 5000, "9" * 18):  # no time
        assert read_clock({"SOURCE_DATE_EPOCH": digits})[:10] == read_clock({})[:10]


def test_inaccessible_files_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "seen.txt").write_text("")
    (tmp_path / "unseen.txt").write_text("")
    look = Path.is_file

    def is_file(self: Path) -> bool:
        if self.name == "unseen.txt":
            raise PermissionError(13, "Permission denied")
        return look(self)

    monkeypatch.setattr(Path, "is_file", is_file)
    assert ConfinedFileAccess().find_files(str(tmp_path), "*.txt") == ["seen.txt"]


def test_failed_write_keeps_the_previous_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.nfplan"
    path.write_bytes(b"before")

    def fail_write(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", fail_write)
    with pytest.raises(OSError, match="No space left"):
        write_output(str(path), b"after")
    assert path.read_bytes() == b"before"
    with pytest.raises(OSError, match="No space left"):
        write_output(str(tmp_path / "new"), b"after")
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.nfplan"]


def test_private_file_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "p.nfplan"
    path.write_bytes(b"before")
    path.chmod(0o644)
    write_output(str(path), b"after", private=True)
    assert path.read_bytes() == b"after"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_link_is_replaced_and_its_target_is_unchanged(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"before")
    link = tmp_path / "link"
    link.symlink_to("there")
    write_output(str(link), b"after")
    assert not link.is_symlink()
    assert link.read_bytes() == b"after"
    assert (tmp_path / "there").read_bytes() == b"before"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
def test_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_output(str(pipe), b"text")
    reader.join()
    assert found == [b"text"]
    assert pipe.is_fifo()
