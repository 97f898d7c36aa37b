"""To which Kubernetes versions a cluster goes: never back, one minor at a time, what the platform offers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from nexusform.words import first_of

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:-(\d+))?")
_MOST_NAMED: Final = 4


def _parts(version: str) -> tuple[int, ...] | None:
    """The numbers of a version as far as it says them; None for what is none."""
    match = _VERSION.fullmatch(version.strip())
    return tuple(int(part) for part in match.groups() if part is not None) if match is not None else None


def upgrade_refusal(current: str, wanted: str) -> str:
    """Why no cluster goes from one version to the other, "" where it may."""
    before, after = _parts(current), _parts(wanted)
    if before is None or after is None:
        return ""
    shared = min(len(before), len(after))
    if after[:shared] < before[:shared]:
        return f"{current} -> {wanted} goes back, and a Kubernetes cluster goes to no older version."
    if after[0] != before[0] or after[1] - before[1] <= 1:
        return ""
    hops = [f"v{before[0]}.{minor}" for minor in range(before[1] + 1, after[1])]
    dots = ["..."] if len(hops) > _MOST_NAMED else []
    chain = " -> ".join([current, *hops[:_MOST_NAMED], *dots, wanted])
    return (
        f"{current} -> {wanted} leaves out {first_of(hops, _MOST_NAMED)}: a cluster goes up one minor "
        f"version at a time. Write and apply one after the other: {chain}."
    )


def not_offered(current: str, wanted: str, offered: Sequence[str]) -> str:
    """What to say where the platform says what a cluster can go to, and it is something else; else ""."""
    before, after = _parts(current), _parts(wanted)
    if not offered or after is None or before is None:
        return ""
    if after[: len(before)] == before[: len(after)]:
        return ""
    if any((_parts(one) or ())[: len(after)] == after for one in offered):
        return ""
    return (
        f"{current} -> {wanted}: the platform offers {first_of(list(offered), _MOST_NAMED)} for this "
        "cluster, and may refuse another."
    )
