"""Tests of ownership: an object of another state in Azure is never taken over."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from tests.domains.azure.providers.azure_sites import NEW, CommandRunner, write_configuration


@pytest.mark.parametrize("change", ["workspace", "lost state"])
def test_object_of_another_state_is_not_taken_over(nexusform: CommandRunner, change: str) -> None:
    write_configuration(NEW)
    assert nexusform("apply", "-auto-approve", "-parallelism=1") == 0, nexusform.said
    sent = list(nexusform.changes())
    if change == "workspace":
        assert nexusform("workspace", "new", "staging") == 0
    else:
        Path("state/nexusform.nfstate").unlink()
    assert nexusform("apply", "-auto-approve", "-target=nexus_virtual_machine.v") == 1
    # The plan names it, before the provider would reject the creation.
    assert "unrecorded-objects" in nexusform.said
    assert list(nexusform.changes()) == sent
