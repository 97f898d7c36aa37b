"""Looking at an exported directory before anything is built on it."""

from __future__ import annotations

from msgspec import Struct

from nexusform.diagnostics import Diagnostic, diagnostic_of
from nexusform.providers.azure_export import read_export
from nexusform.regular_files import Confinement
from nexusform.whatif.capture import SiteCapture, capture


class InventoryCheck(Struct, frozen=True):
    """The sites of an export, and what was met while it was read."""

    sites: tuple[SiteCapture, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def check_inventory(directory: str, confinement: Confinement) -> InventoryCheck:
    """Read a directory and say what it holds."""
    sites, findings = read_export(directory, {}, confinement.of_operator(directory))
    return InventoryCheck(tuple(map(capture, sites)), tuple(map(diagnostic_of, findings)))
