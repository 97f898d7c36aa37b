"""For all tests: calls that nest as deep as the command line lets them, for those that ask; and nothing that
hypothesis says depends on how busy the machine is, or differs between runs.

Runs that are made to search (many cases, a seed) are free to find something new.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

SEARCHES = ("NEXUSFORM_SOUNDNESS_CASES", "NF_TEST_SITES")

settings.register_profile(
    "nexusform",
    deadline=None,
    derandomize=not any(name in os.environ for name in SEARCHES),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("nexusform")


@pytest.fixture
def deep_calls() -> Iterator[None]:
    """Calls may nest as the command line lets them."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(3000)
    yield
    sys.setrecursionlimit(limit)
