"""Tests that reading back is neutral: an argument at its default, otherwise, or omitted."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from tests.domains.vnf.providers.test_tacker_ownership import (
    Capture,
    apply,
    read_output,
    tacker,
    write_configuration,
)

__all__ = ["tacker"]

pytestmark = pytest.mark.of_domains("vnf")

LEVELS = "scale_levels = { worker_scale = 0 }"
# Each optional member: at its default, and otherwise.
MEMBERS = {
    "scale_levels": (LEVELS, LEVELS.replace("0", "1")),
    "no scale_levels": ("scale_levels = {}", LEVELS.replace("0", "1")),
    "instantiation_level": ('instantiation_level = "first"', ""),
    "parameters": ("parameters = {}", ""),
}


@pytest.mark.parametrize("member", MEMBERS)
def test_argument_of_a_vnf_converges(member: str, capfd: Capture) -> None:
    default, other = MEMBERS[member]
    for argument in (default, "", other, default, ""):
        write_configuration()
        path = Path("main.nf.hcl")
        path.write_text(path.read_text().replace(LEVELS, argument))
        assert apply() == 0, (argument, read_output(capfd))
        assert run_command_line(["plan", "-detailed-exitcode"]) == 0, (argument, read_output(capfd))
