from __future__ import annotations

import json

import pytest

from nexusform.cli.main import run


def test_every_function_has_a_signature(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metadata", "functions", "-json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format_version"] == "1.0"
    signatures = document["function_signatures"]
    assert list(signatures) == sorted(signatures)
    assert len(signatures) > 110
    assert signatures["join"]["return_type"] == "string"
    assert signatures["join"]["parameters"] == [
        {
            "name": "separator",
            "description": signatures["join"]["parameters"][0]["description"],
            "type": "string",
        }
    ]
    assert signatures["join"]["variadic_parameter"]["type"] == ["list", "string"]
    assert signatures["merge"]["return_type"] == "dynamic"
    assert signatures["chunklist"]["return_type"] == ["list", ["list", "dynamic"]]
    assert signatures["setunion"]["return_type"] == ["set", "dynamic"]
    assert all(s["description"] for s in signatures.values())


def test_without_json_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metadata", "functions"]) == 1
    assert "add -json" in capsys.readouterr().err
