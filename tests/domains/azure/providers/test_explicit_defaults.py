"""Tests that reading back is neutral: an argument written at its default, otherwise, or omitted.

After an apply, the plan has no changes: Azure shows a setting at its default, or leaves it out.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from tests.domains.azure.providers.azure_sites import CommandRunner

POOL = """resource "nexus_kubernetes_cluster" "c" {{
  agent_pool "np1" {{
    count       = 2
    vm_sku_name = "NC_P22_112_v1"
    mode        = "System"
  }}
  agent_pool "web" {{
    count       = 2
    vm_sku_name = "NC_P22_112_v1"
    {argument}
  }}
}}
"""
SETTINGS = "upgrade_settings {{\n {0}\n }}"
UNAVAILABLE = SETTINGS.format('max_unavailable = "100%"')
# Each optional member: at its default, and otherwise.
MEMBERS: dict[str, tuple[str, str]] = {
    "max_surge": (SETTINGS.format('max_surge = "1"'), SETTINGS.format('max_surge = "2"')),
    "max_unavailable": (SETTINGS.format('max_unavailable = "0"'), UNAVAILABLE),
    "drain_timeout": (
        SETTINGS.format("drain_timeout = 1800"),
        SETTINGS.format("drain_timeout = 900"),
    ),
    "all": (
        SETTINGS.format('max_surge = "1"\n max_unavailable = "0"\n drain_timeout = 1800'),
        SETTINGS.format('max_surge = "3"\n max_unavailable = "1"\n drain_timeout = 60'),
    ),
    "mode": ('mode = "User"', f'mode = "System"\n {UNAVAILABLE}'),
    "labels": ("labels = {}", f'labels = {{ a = "b" }}\n {UNAVAILABLE}'),
    "availability_zones": (
        "availability_zones = []",
        f'availability_zones = ["1"]\n {UNAVAILABLE}',
    ),
}


def write_pool(argument: str) -> None:
    Path("defaults_override.nf.hcl").write_text(POOL.format(argument=argument))


def argument_is_updated(member: str) -> bool:
    return UNAVAILABLE not in MEMBERS[member][1] or member == "max_unavailable"


@pytest.mark.parametrize("member", MEMBERS)
def test_argument_of_a_pool_converges(member: str, nexusform: CommandRunner) -> None:
    default, other = MEMBERS[member]
    arguments = [default, "", other]
    # Others than settings re-create the pool.
    if argument_is_updated(member):
        arguments += [default, "", other, ""]
    for argument in arguments:
        write_pool(argument)
        code = nexusform("apply", "-auto-approve")
        assert code == 0, (argument, nexusform.said)
        assert nexusform("plan", "-detailed-exitcode") == 0, (argument, nexusform.said)
        assert "No changes." in nexusform.said
