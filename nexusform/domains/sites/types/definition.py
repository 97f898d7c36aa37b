"""What nexusform.sites.hcl says: sites in their order, and the waves that they are applied in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.source import SourceFile, Span

FILE_NAME: Final = "nexusform.sites.hcl"
ONLY_WAVE: Final = "all"  # the wave of a strategy that names none


class SiteEntry(Struct, frozen=True):
    """One site.

    `source` is the directory of its root module, as it is to be opened from the directory of the file.
    `inputs` are values of its variables as plain data, `sensitive` the names of those that must not be
    shown. `backend` and `settings` say where its state is; paths among them start at the file's directory.
    `span` is its header, `inputs_span` where its inputs stand. A site of a `sites` block has the `key` of its
    row, and in `listed_in` the files that the rows were read from.
    """

    name: str
    source: str
    wave: str
    span: Span
    inputs_span: Span
    inputs: Mapping[str, Any]
    sensitive: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    backend: str = "local"
    settings: Mapping[str, Any] = {}
    key: str = ""
    listed_in: tuple[str, ...] = ()


class Wave(Struct, frozen=True):
    """Sites that are applied together, after the waves before it.

    At most `max_parallel` of them are being applied at a time, and at most `max_unavailable` are being
    applied or have failed (None: as many as there are workers). More than `max_failures` failed or refused
    sites stop it, and so do more than `max_miss_rate` of its predictions missed. `soak`: seconds between its
    end and the next wave. `approve`: somebody must say that it may begin.
    """

    name: str
    max_parallel: int | None = None
    max_unavailable: int | None = None
    max_failures: int = 0
    max_miss_rate: float = 1.0
    soak: float = 0.0
    approve: bool = False


class FleetDefinition(Struct, frozen=True):
    """All sites in their order, and the waves in theirs. `digest` is of everything that was read for it.

    `requests`: how many a subscription may be sent in a minute, by all workers together; 0: any number.
    """

    sites: tuple[SiteEntry, ...]
    waves: tuple[Wave, ...]
    digest: str
    requests: int = 0
    sources: Mapping[str, SourceFile] = {}
