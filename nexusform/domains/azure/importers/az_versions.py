"""Allowed Kubernetes upgrades of a cluster: no downgrade, one minor version at a time, offered by the
platform.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from nexusform.diagnostics.phrases import format_first

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:-(\d+))?")
_MAX_NAMES: Final = 4


def _parse_version(version: str) -> tuple[int, ...] | None:
    """Parse the numbers of a version, None if it is invalid."""
    match = _VERSION.fullmatch(version.strip())
    return tuple(int(part) for part in match.groups() if part is not None) if match is not None else None


def explain_upgrade_rejection(current: str, target: str) -> str:
    """Explain why an upgrade between two versions is not allowed, "" if it is."""
    before, after = _parse_version(current), _parse_version(target)
    if before is None or after is None:
        return ""
    shared = min(len(before), len(after))
    if after[:shared] < before[:shared]:
        return f"{current} -> {target} is a downgrade; Kubernetes clusters cannot be downgraded."
    if after[0] != before[0] or after[1] - before[1] <= 1:
        return ""
    hops = [f"v{before[0]}.{minor}" for minor in range(before[1] + 1, after[1])]
    dots = ["..."] if len(hops) > _MAX_NAMES else []
    chain = " -> ".join([current, *hops[:_MAX_NAMES], *dots, target])
    return (
        f"{current} -> {target} skips {format_first(hops, _MAX_NAMES)}: upgrade one minor version at a "
        f"time. Set and apply each version in turn: {chain}."
    )


def explain_not_offered(current: str, target: str, available_versions: Sequence[str]) -> str:
    """Explain that the platform offers other versions, "" if it offers the target or nothing is known."""
    before, after = _parse_version(current), _parse_version(target)
    if not available_versions or after is None or before is None:
        return ""
    if after[: len(before)] == before[: len(after)]:
        return ""
    if any((_parse_version(version) or ())[: len(after)] == after for version in available_versions):
        return ""
    return (
        f"{current} -> {target}: Azure offers {format_first(list(available_versions), _MAX_NAMES)} for "
        "this cluster and may reject other versions."
    )
