"""Tests of the contract that one package writes files."""

from pathlib import Path

import pytest

from tests.architecture.file_writers import find_file_writers

WRITERS = (
    "import os\nos.unlink(p)\n",
    "import os\nos.open(p, os.O_RDWR | os.O_CREAT)\n",
    "import shutil\nshutil.rmtree(p)\n",
    "from shutil import rmtree\n",
    "from os import replace\n",
    "import tempfile\ntempfile.mkdtemp()\n",
    "path.write_text(x)\n",
    "path.mkdir(parents=True)\n",
    "path.rename(target)\n",
    "path.replace(target)\n",
    "path.open('wb')\n",
    "open(p, mode='a')\n",
)
READERS = (
    "import os\nos.open(os.devnull, os.O_WRONLY)\n",
    "import os\nos.open(p, os.O_RDONLY)\n",
    "import shutil\nshutil.which('git')\n",
    "text.replace('a', 'b')\n",
    "path.open('rb')\n",
    "open(p)\n",
)


def write_module(root: Path, package: str, text: str) -> None:
    path = root / "nexusform" / package / "module.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("text", WRITERS)
def test_writer_outside_of_the_package_is_found(tmp_path: Path, text: str) -> None:
    write_module(tmp_path, "files", text)
    write_module(tmp_path, "workflow", text)
    name = "nexusform/workflow/module.py"
    (problem,) = find_file_writers(tmp_path, frozenset())
    assert problem.startswith(f"{name}:")
    assert find_file_writers(tmp_path, frozenset({name})) == []


@pytest.mark.parametrize("text", READERS)
def test_reader_is_no_writer(tmp_path: Path, text: str) -> None:
    write_module(tmp_path, "workflow", text)
    assert find_file_writers(tmp_path, frozenset()) == []


def test_unused_exemption_is_a_problem(tmp_path: Path) -> None:
    write_module(tmp_path, "workflow", "")
    (problem,) = find_file_writers(tmp_path, frozenset({"nexusform/workflow/module.py"}))
    assert problem == "nexusform/workflow/module.py writes no file: remove it from exempt."
