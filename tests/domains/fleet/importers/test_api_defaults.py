"""Objects as users wrote them, and as API server 1.34 and a hub's resource snapshot store them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nexusform.domains.fleet.importers.api_defaults import add_api_server_defaults
from nexusform.domains.fleet.importers.hub_objects import remove_server_fields

# One object per line; observed on a running hub, with each kind that a server adds defaults to.
PAIRS: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("held_by_an_api_server.json").read_text()
)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: str(pair["written"]["kind"]))
def test_server_defaults_make_no_difference(pair: dict[str, Any]) -> None:
    written = pair["written"]
    held = pair["held"]
    assert add_api_server_defaults(remove_server_fields(written)) == add_api_server_defaults(
        remove_server_fields(held)
    )


def test_generated_job_fields_make_no_difference() -> None:
    (held,) = [pair["held"] for pair in PAIRS if pair["written"]["kind"] == "Job"]
    text = json.dumps(held)
    uid = held["metadata"]["labels"]["controller-uid"]
    assert json.dumps(remove_server_fields(json.loads(text.replace(uid, "another")))) == json.dumps(
        remove_server_fields(held)
    )
