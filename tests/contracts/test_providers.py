from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from nexusform.files.regular_files import UNCONFINED
from nexusform.interfaces.plugins import Provider
from nexusform.providers.registry import PROVIDERS
from tests.contracts.provider_contract import CHECKS

# Settings for the runs of each writable provider of the registry; read-only ones have none.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "azure": [],
    "azure_export": [],
    "fleet": [],
    # tested with a running Tacker: tests/domains/vnf/tacker.
    "tacker": [],
    "simulated": [{}, {"reality": "site.json"}],
}
CASES = [(name, settings) for name, given in SETTINGS.items() for settings in given]


@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(
    name: str, settings: dict[str, Any], check: Callable[[Provider], None], tmp_path: Path
) -> None:
    with ExitStack() as leaving:
        check(PROVIDERS[name].make(settings, str(tmp_path), leaving, UNCONFINED))


def test_contract_covers_every_provider_of_the_registry() -> None:
    assert set(SETTINGS) == set(PROVIDERS)
