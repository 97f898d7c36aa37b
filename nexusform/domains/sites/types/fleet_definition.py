"""Definition of nexusform.sites.hcl: sites in order, and their waves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.diagnostic import SourceFile, Span

FILE_NAME: Final = "nexusform.sites.hcl"
SITE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
ANY_SITE: Final = "__any_site__"  # placeholder for a site's name in paths of states
ONLY_WAVE: Final = "all"  # default wave of a strategy


class SiteEntry(Struct, frozen=True):
    """One site. `source`: directory of its root module, relative to the file's directory. `inputs`: variable
    values as plain data; `sensitive`: names of sensitive ones. `backend` and `settings`: location of its
    state, paths relative to the file's directory. `span`: its header. A site of a `sites` block has the `key`
    of its row and in `data_files` the files of the rows. `destroy`: delete everything.
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
    data_files: tuple[str, ...] = ()


class Wave(Struct, frozen=True):
    """Sites applied together, after the previous waves. At most `max_parallel` are applied at a time, and at
    most `max_unavailable` are being applied or failed (None: number of workers). More than `max_failures`
    failed or rejected sites stop it, as does a share of wrong predictions above `max_miss_rate`. `soak`:
    seconds before the next wave. `approve`: it needs an approval.
    """

    name: str
    max_parallel: int | None = None
    max_unavailable: int | None = None
    max_failures: int = 0
    max_miss_rate: float = 1.0
    soak: float = 0.0
    needs_approval: bool = False


class FleetDefinition(Struct, frozen=True):
    """All sites and waves in order. `digest`: digest of everything read. `templates`: sites named ANY_SITE
    with the state locations of `sites` blocks. `requests`: maximum requests per minute and subscription over
    all workers; 0: unlimited.
    """

    sites: tuple[SiteEntry, ...]
    waves: tuple[Wave, ...]
    digest: str
    templates: tuple[SiteEntry, ...] = ()
    requests_per_minute: int = 0
    sources: Mapping[str, SourceFile] = {}
