"""VM SKUs that arguments name and nobody knows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from nexusform.diagnostics import Problem, did_you_mean
from nexusform.plain_data import Path


def unknown_sku(name: str, path: Path, known: Collection[str]) -> Problem:
    """The problem of a VM SKU that nobody knows, with the nearest names."""
    near = get_close_matches(name, sorted(known), n=3, cutoff=0.5)
    listed = f" The nearest are {', '.join(near)}." if len(near) > 1 else ""
    return Problem(
        path,
        "unknown-vm-sku",
        f'There is no VM SKU "{name}".{did_you_mean(name, sorted(known))}{listed} A size of your own is '
        "declared with nexus_vm_sku.",
    )


def unknown_skus(named: Iterable[tuple[Path, object]], known: Collection[str]) -> list[Problem]:
    """The problems of the SKUs that a resource names, by their path; names not known yet are let pass."""
    return [
        unknown_sku(name, path, known) for path, name in named if isinstance(name, str) and name not in known
    ]
