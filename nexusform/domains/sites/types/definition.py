"""What nexusform.sites.hcl says: sites in their order, and the waves that they are applied in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.source import SourceFile, Span

FILE_NAME: Final = "nexusform.sites.hcl"
SITE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
ANY_SITE: Final = "__any_site__"  # stands for the name where a state of any site would be
ONLY_WAVE: Final = "all"  # the wave of a strategy that names none


class SiteEntry(Struct, frozen=True):
    """One site.

    `source` is the directory of its root module, as it is to be opened from the directory of the file.
    `inputs` are values of its variables as plain data, `sensitive` the names of those that must not be
    shown. `backend` and `settings` say where its state is; paths among them start at the file's directory.
    `span` is its header, `inputs_span` where its inputs stand. A site of a `sites` block has the `key` of its
    row, and in `listed_in` the files that the rows were read from. With `destroy` all of it is taken down.
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
    destroy: bool = False
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

    `templates` are sites called ANY_SITE: where the states of sites are that blocks make by name alone.
    `requests`: how many a subscription may be sent in a minute, by all workers together; 0: any number.
    """

    sites: tuple[SiteEntry, ...]
    waves: tuple[Wave, ...]
    digest: str
    templates: tuple[SiteEntry, ...] = ()
    requests: int = 0
    sources: Mapping[str, SourceFile] = {}
