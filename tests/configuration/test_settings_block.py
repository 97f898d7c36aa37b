from __future__ import annotations

import pytest

from nexusform.configuration.settings_block import is_version_allowed


@pytest.mark.parametrize(
    ("version", "constraint", "kept"),
    [
        ("0.1.0", ">= 0.1", True),
        ("0.1.0", "> 0.1", False),
        ("1.2.9", "~> 1.2.3", True),
        ("1.3.0", "~> 1.2.3", False),
        ("1.9.0", "~> 1.2", True),
        ("2.0.0", "~> 1.2", False),
        ("1.9.0", "~> 1", True),
        ("2.0.0", "~> 1", False),
        ("1.0.0", ">= 1, < 2, != 1.5", True),
        ("1.5.0", ">= 1, < 2, != 1.5", False),
        ("1.0.0", "1", True),
        ("1.0.0rc1", "= 1.0.0", True),
        ("1.0.0", "newest", None),
        ("1.0.0", ">= 1,", None),
        ("1.0.0", "", None),
        ("1.0.0", ">= " + "9" * 5000, None),
    ],
)
def test_version_constraints(version: str, constraint: str, kept: bool | None) -> None:
    assert is_version_allowed(version, constraint) is kept
