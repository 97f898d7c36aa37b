"""Kubernetes versions: allowed upgrades and end of support.

Plans and `simulate kubernetes-upgrade` share them.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from enum import StrEnum
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.phrases import enclose, format_first_items

_VERSION: Final = re.compile(r"v?(\d{1,3})\.(\d{1,4})(?:\.(\d{1,6}))?(?:-([0-9.]{1,20}))?")

_MAX_NAMES: Final = 4
_MONTH_LENGTH: Final = len("2026-01")

# As Microsoft lists it: "Supported Kubernetes versions in Azure Operator Nexus Kubernetes service",
# its include supported-versions.md in MicrosoftDocs/azure-docs as of 2025-07-27 (1.26: as of
# 2024-08-24). End of life, and end of long-term support (all versions from 1.30). The versions
# reported by a site (kubernetesVersions) take precedence.
SOURCE: Final = (
    "learn.microsoft.com/azure/operator-nexus/"
    "reference-nexus-kubernetes-cluster-supported-versions, "
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
# Last month of extended availability, from the same include as of 2025-01. Earlier versions ended
# before. After it a cluster is abandoned: it cannot be upgraded or scaled, only deleted.
_END_OF_EXTENDED_AVAILABILITY: Final[Mapping[str, str]] = {
    "1.26": "2025-03",
    "1.27": "2025-06",
    "1.28": "2025-10",
}
_FIRST_LISTED: Final = (1, 26)
WARNING_DAYS: Final = 90
ABANDONED: Final = "abandoned-kubernetes-version"
# An etcd error makes upgrades between these version bundles fail unless an intermediate bundle is
# used first (same page).
_LAST_WITH_OLD_ETCD: Final = (4, 3)
_FIRST_WITH_NEW_ETCD: Final = (4, 6)


class KubernetesVersion(Struct, frozen=True, order=True):
    """Kubernetes version; `patch` is -1 if absent."""

    major: int
    minor: int
    patch: int = -1
    bundle: str = ""

    @property
    def minor_version(self) -> str:
        """Minor version, `1.30`."""
        return f"{self.major}.{self.minor}"

    def __str__(self) -> str:
        patch = f".{self.patch}" if self.patch >= 0 else ""
        return f"{self.minor_version}{patch}{enclose('-', self.bundle)}"

    @property
    def end_of_support(self) -> str | None:
        """End of support, long-term if available; None if not in Microsoft's list."""
        return _END_OF_LONG_TERM_SUPPORT.get(self.minor_version) or END_OF_LIFE.get(
            self.minor_version
        )


def parse_version(text: str) -> KubernetesVersion | None:
    """Parse a version such as `1.30`, `v1.30.4` or `1.30.4-4.5.0`; None if invalid."""
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        return None
    major, minor, patch, bundle = match.groups()
    return KubernetesVersion(int(major), int(minor), int(patch) if patch else -1, bundle or "")


class VersionStep(StrEnum):
    """Kind of a change of the version of a cluster."""

    # The cluster runs this version.
    NONE = "none"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    # A minor version is left out.
    SKIPPING = "skipping"


def determine_upgrade_kind(start: KubernetesVersion, end: KubernetesVersion) -> VersionStep:
    """Determine the kind of a change from a running version (`start`) to a requested one.

    `end` may leave out the patch (-1) or the bundle (""): then the running one stays as it is.
    """
    if (end.major, end.minor) < (start.major, start.minor):
        return VersionStep.DOWNGRADE
    if end.major > start.major or end.minor - start.minor > 1:
        return VersionStep.SKIPPING
    if end.minor > start.minor:
        return VersionStep.UPGRADE
    # The patch of `start` may be unknown (-1): then this is no downgrade.
    if -1 < end.patch < start.patch:
        return VersionStep.DOWNGRADE
    is_same = end.patch in (-1, start.patch) and end.bundle in ("", start.bundle)
    return VersionStep.NONE if is_same else VersionStep.UPGRADE


class OfferedVersions(Struct, frozen=True):
    """Versions offered to a cluster.

    `versions` are those of the site's catalogue (None: unknown), and `upgrades` those to the
    cluster itself (empty: unknown). `available_until` has the ends of extended availability
    in the catalogue.
    """

    versions: tuple[str, ...] | None = None
    upgrades: tuple[str, ...] = ()
    available_until: Mapping[str, str] = {}

    def list_hop_choices(self, count: int) -> list[tuple[str, ...]]:
        """Return for each of `count` hops the versions to choose from, () if unknown.

        The upgrades of the cluster are those for the first hop. An empty catalogue
        counts as unknown.
        """
        catalogue = self.versions or ()
        first_choices = self.upgrades or catalogue
        further_choices = [catalogue] * (count - 1)
        return [first_choices, *further_choices]


class VersionRejection(Struct, frozen=True):
    """Reason against a change of a cluster's version: the id of a diagnostic, and its detail."""

    id: str
    detail: str


def find_upgrade_hops(
    cluster: str, current: str, target: str, offers: OfferedVersions, today: str
) -> tuple[KubernetesVersion, ...] | VersionRejection:
    """Return the versions to install in turn to reach `target`, or the reason against it.

    The versions are installed one after the other on a cluster. The versions are () if the cluster
    already runs `target`. Plans and `simulate kubernetes-upgrade` both use this function. `today`
    is RFC 3339; with "" ends of availability are not checked.
    """
    start = parse_version(current)
    end = parse_version(target)
    if start is None or end is None:
        detail = (
            f'"{target if end is None else current}" is not a version. Write one such as 1.31 or '
            "1.31.4."
        )
        return VersionRejection("invalid-kubernetes-version", detail)
    kind = determine_upgrade_kind(start, end)
    if kind is VersionStep.NONE:
        return ()
    if kind is VersionStep.DOWNGRADE:
        detail = (
            f"{current} -> {target} is a downgrade. A Kubernetes cluster cannot be downgraded. "
            f"Keep {current}."
        )
        return VersionRejection("no-such-upgrade", detail)
    if end.major != start.major:
        detail = (
            f"{current} -> {target} changes the major version. No upgrade path is known. Keep "
            f"{current}."
        )
        return VersionRejection("no-such-upgrade", detail)
    availability = (
        find_availability_end(start, today, offers.versions, offers.available_until)
        if today
        else None
    )
    # The cluster is abandoned.
    if availability is not None and availability.days < 0:
        return VersionRejection(
            ABANDONED, describe_abandoned_cluster(cluster, current, availability)
        )
    hops = list_upgrade_hops(start, end, offers)
    obstacle = _explain_missing_offer(current, hops, offers)
    return VersionRejection("no-such-upgrade", obstacle) if obstacle else hops


def explain_skipped_versions(current: str, target: str, hops: Sequence[KubernetesVersion]) -> str:
    """Explain why a change is rejected.

    It needs several `hops` (versions in order), and a plan makes one.
    """
    # The last hop ends at `target`.
    skipped = hops[:-1]
    dots = ["..."] if len(skipped) > _MAX_NAMES else []
    chain = " -> ".join([current, *[f"v{hop}" for hop in skipped[:_MAX_NAMES]], *dots, target])
    minor_versions = [f"v{hop.minor_version}" for hop in skipped]
    return (
        f"{current} -> {target} skips {format_first_items(minor_versions, _MAX_NAMES)}. "
        f"Upgrade one minor version at a time: set v{hops[0]} next. All hops: {chain}."
    )


def list_upgrade_hops(
    start: KubernetesVersion, end: KubernetesVersion, offers: OfferedVersions
) -> tuple[KubernetesVersion, ...]:
    """List the versions from `start` (exclusive) to `end`; no minor version is skipped.

    The versions between are the newest offered ones of their minor version, if known.
    """
    between = [KubernetesVersion(start.major, minor) for minor in range(start.minor + 1, end.minor)]
    choices = offers.list_hop_choices(len(between) + 1)
    # The call of `map` ignores the last choices, for the hop to `end`.
    return (*map(_select_newest, between, choices), end)


def _select_newest(minor: KubernetesVersion, choices: Sequence[str]) -> KubernetesVersion:
    """Return the newest of these versions with the minor version of `minor`.

    Return `minor` itself if no version has it.
    """
    matching = [version for _, version in _parse_versions(choices) if _is_match(version, minor)]
    return max(matching, default=minor)


def _parse_versions(texts: Sequence[str]) -> list[tuple[str, KubernetesVersion]]:
    """Return the valid versions among these texts, each with its text."""
    versions: list[tuple[str, KubernetesVersion]] = []
    for text in texts:
        version = parse_version(text)
        if version is not None:
            versions.append((text, version))
    return versions


def _explain_missing_offer(
    current: str, hops: Sequence[KubernetesVersion], offers: OfferedVersions
) -> str:
    """Explain the first hop to a version without an offer.

    Return "" if all hops are offered or nothing is known.
    """
    before = current
    for hop, choices in zip(hops, offers.list_hop_choices(len(hops)), strict=True):
        if choices and not select_available_versions(hop, choices):
            owner = "this cluster" if choices is offers.upgrades else "this site"
            offered = f"Azure offers {format_first_items(choices, _MAX_NAMES)} for {owner}"
            return f"{before} -> {hop}: {offered}. Set one of the offered versions."
        before = str(hop)
    return ""


def select_available_versions(
    requested: KubernetesVersion, versions: Sequence[str] | None
) -> tuple[str, ...] | None:
    """Select a site's versions for a requested minor version, patch and bundle.

    Return None if the versions of the site are unknown.
    """
    if versions is None:
        return None
    return tuple(
        text for text, version in _parse_versions(versions) if _is_match(version, requested)
    )


def _is_match(available: KubernetesVersion, requested: KubernetesVersion) -> bool:
    """Return True if a version offers the requested one.

    A patch or bundle missing on either side matches any.
    """
    if available.minor_version != requested.minor_version:
        return False
    # A catalogue may list only minor versions (patch -1).
    if available.patch != requested.patch and -1 not in (available.patch, requested.patch):
        return False
    return available.bundle == requested.bundle or "" in (available.bundle, requested.bundle)


class VersionAvailabilityEnd(Struct, frozen=True):
    """End of extended availability of a version.

    `date` is a day or a month, "" if the site's catalogue has dropped the version; `days` are those
    left, negative after it: clusters with the version are abandoned then.
    """

    date: str
    days: int


def find_availability_end(
    version: KubernetesVersion, today: str, versions: Sequence[str] | None, dates: Mapping[str, str]
) -> VersionAvailabilityEnd | None:
    """Find the end of extended availability of a running version; None if unknown.

    `today` is RFC 3339. The site's catalogue (`versions`, and `dates` by version) counts first. A
    version older than the whole catalogue has ended (`days` -1, without a date). For a version
    without a date there, the end published by Microsoft counts.
    """
    catalogue = _parse_versions(versions or ())
    # The ends of the catalogue entries of this version: a patch missing on either side matches any.
    known_dates = [
        dates[text] for text, parsed in catalogue if text in dates and _is_match(parsed, version)
    ]
    if known_dates:
        # Several entries match: the last to end counts.
        return _build_availability_end(max(known_dates), today)
    minor_version = (version.major, version.minor)
    listed_versions = [(parsed.major, parsed.minor) for _, parsed in catalogue]
    if minor_version < min(listed_versions, default=minor_version):
        return VersionAvailabilityEnd("", days=-1)
    published_end = _END_OF_EXTENDED_AVAILABILITY.get(version.minor_version, "")
    if minor_version < _FIRST_LISTED:
        # An unlisted older version ended even before.
        published_end = min(_END_OF_EXTENDED_AVAILABILITY.values())
    return _build_availability_end(published_end, today) if published_end else None


def _build_availability_end(end: str, today: str) -> VersionAvailabilityEnd:
    """Return the end of availability, with the days left.

    It is on a day (2026-01-31) or at the end of a month (2026-01).
    """
    if len(end) > _MONTH_LENGTH:
        last_day = date.fromisoformat(end)
    else:
        day_in_next_month = date.fromisoformat(f"{end}-01") + timedelta(days=31)
        last_day = day_in_next_month.replace(day=1) - timedelta(days=1)
    return VersionAvailabilityEnd(end, (last_day - date.fromisoformat(today[:10])).days)


def describe_abandoned_cluster(cluster: str, version: str, end: VersionAvailabilityEnd) -> str:
    """Describe a cluster of a version past its extended availability.

    The date of its end may be unknown ("").
    """
    reason = (
        f"ended on {end.date}"
        if end.date
        else "ended: the site's catalogue no longer lists the version"
    )
    return (
        f"{cluster} runs {version}. Its extended availability {reason}. Azure does not upgrade or "
        "scale such a "
        "cluster. Create a new cluster, move the workloads, and delete this one."
    )


def has_etcd_gap(start: KubernetesVersion, end: KubernetesVersion) -> bool:
    """Return True if `start` has an old etcd and `end` a new one, so an upgrade probably fails.

    Return False if a version bundle is unknown.
    """
    if not start.bundle or not end.bundle:
        return False
    return (
        _parse_bundle_release(start) <= _LAST_WITH_OLD_ETCD
        and _parse_bundle_release(end) >= _FIRST_WITH_NEW_ETCD
    )


def _parse_bundle_release(version: KubernetesVersion) -> tuple[int, int]:
    """Return the first two numbers of a version bundle: (4, 5) for `4.5.0`."""
    figures = [int(part) for part in version.bundle.split(".") if part]
    # A single number is a bundle older than named releases.
    return (figures[0], figures[1]) if len(figures) > 1 else (0, 0)
