"""For all tests: nothing that hypothesis says depends on how busy the machine is, or differs between runs.

Runs that are made to search (many cases, a seed) are free to find something new.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SEARCHES = ("NEXUSFORM_SOUNDNESS_CASES", "NF_TEST_SITES")

settings.register_profile(
    "nexusform",
    deadline=None,
    derandomize=not any(name in os.environ for name in SEARCHES),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("nexusform")
