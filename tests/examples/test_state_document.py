"""Test of state/nexus-document.nfstate.

It equals the state of an apply of examples/nexus-document except for the lineage.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from msgspec.structs import replace

from nexusform.state import state_codec
from tests import commands

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "state" / "nexus-document.nfstate"
LINEAGE = "00000000-0000-4000-8000-000000000000"


def test_state_of_document_example(tmp_path: Path) -> None:
    example = tmp_path / "nexus-document"
    shutil.copytree(
        ROOT / "examples" / "nexus-document",
        example,
        ignore=shutil.ignore_patterns("state", ".nexusform"),
    )
    command = [*commands.nexusform(), "apply", "-auto-approve"]
    subprocess.run(command, cwd=example, check=True, capture_output=True, timeout=120)
    name = "nexusform.nfstate"
    state, problems = state_codec.decode_state((example / "state" / name).read_bytes(), name)
    assert not problems
    assert state is not None
    document = state_codec.encode_state(replace(state, lineage=LINEAGE))
    if os.environ.get("NEXUSFORM_REWRITE_GOLDEN"):
        DOCUMENT.write_bytes(document)
    assert DOCUMENT.read_bytes() == document
