"""Versions of Kubernetes: which can follow which, and when their support ends."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

_VERSION: Final = re.compile(r"v?(\d{1,3})\.(\d{1,4})(?:\.(\d{1,6}))?(?:-([0-9.]{1,20}))?")

# As Microsoft lists it: "Supported Kubernetes versions in Azure Operator Nexus Kubernetes service", its
# include supported-versions.md in MicrosoftDocs/azure-docs as of 2025-07-27 (1.26: as of 2024-08-24). The end
# of life, and that with long-term support, which every version from 1.30 on has there. What a site tells of
# its own versions (kubernetesVersions) goes before this.
SOURCE: Final = (
    "learn.microsoft.com/azure/operator-nexus/reference-nexus-kubernetes-cluster-supported-versions, "
    "as of 2025-07-27, read on 2026-11-21"
)
END_OF_LIFE: Final[Mapping[str, str]] = {
    "1.26": "2024-03",
    "1.27": "2024-07",
    "1.28": "2025-01",
    "1.29": "2025-03",
    "1.30": "2025-07",
    "1.31": "2025-11",
    "1.32": "2026-03",
    "1.33": "2026-06",
}
_END_OF_LONG_TERM_SUPPORT: Final[Mapping[str, str]] = {
    "1.27": "2025-07",
    "1.30": "2026-07",
    "1.31": "2026-11",
    "1.32": "2027-03",
    "1.33": "2027-06",
}
# Version bundles between which an error of etcd makes an upgrade fail unless one of the middle ones comes
# first (the same page).
_LAST_WITH_OLD_ETCD: Final = (4, 3)
_FIRST_WITH_NEW_ETCD: Final = (4, 6)


class KubernetesVersion(Struct, frozen=True, order=True):
    """A version as it is written, with its figures; `patch` -1 where none is given."""

    major: int
    minor: int
    patch: int = -1
    bundle: str = ""

    @property
    def line(self) -> str:
        """Its minor version, `1.30`."""
        return f"{self.major}.{self.minor}"

    def __str__(self) -> str:
        patch = f".{self.patch}" if self.patch >= 0 else ""
        return f"{self.line}{patch}" + (f"-{self.bundle}" if self.bundle else "")

    @property
    def end_of_support(self) -> str | None:
        """When its support ends, the long-term one where there is one; None where Microsoft's list does not
        have it.
        """
        return _END_OF_LONG_TERM_SUPPORT.get(self.line) or END_OF_LIFE.get(self.line)


def read_version(text: str) -> KubernetesVersion | None:
    """A version from text like `1.30`, `v1.30.4` or `1.30.4-4.5.0`; None where it is none."""
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        return None
    major, minor, patch, bundle = match.groups()
    return KubernetesVersion(int(major), int(minor), int(patch) if patch else -1, bundle or "")


def chain(start: KubernetesVersion, end: KubernetesVersion) -> list[KubernetesVersion]:
    """The versions after `start` on the way to `end`: no minor version is skipped."""
    between = [KubernetesVersion(start.major, minor) for minor in range(start.minor + 1, end.minor)]
    return [*between, end]


def offered_for(asked: KubernetesVersion, versions: Sequence[str] | None) -> tuple[str, ...] | None:
    """The versions of a site that are what is asked for: of its minor version, its patch and its bundle as
    far as these are written. None where nobody told what the site has.
    """
    if versions is None:
        return None
    return tuple(text for text in versions if (read := read_version(text)) is not None and _is(read, asked))


def _is(offered: KubernetesVersion, asked: KubernetesVersion) -> bool:
    return (
        offered.line == asked.line
        # A catalogue may list minor versions alone.
        and (-1 in (offered.patch, asked.patch) or offered.patch == asked.patch)
        and (not asked.bundle or offered.bundle in ("", asked.bundle))
    )


def etcd_stands_between(start: KubernetesVersion, end: KubernetesVersion) -> bool:
    """Whether the bundles are such that an upgrade from one to the other is likely to fail for etcd."""
    if not start.bundle or not end.bundle:
        return False
    return _release(start) <= _LAST_WITH_OLD_ETCD and _release(end) >= _FIRST_WITH_NEW_ETCD


def _release(version: KubernetesVersion) -> tuple[int, int]:
    figures = [int(part) for part in version.bundle.split(".") if part]
    # A single number is a bundle from before releases had names.
    return (figures[0], figures[1]) if len(figures) > 1 else (0, 0)
