"""The `azure_export` provider: a site as `az networkcloud` printed it into a directory. It sends nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nexusform.diagnostics import Problem
from nexusform.domains.azure.providers.observed_site import ObservedSites
from nexusform.language.evaluation import FileProblem
from nexusform.providers.registry import ProviderKind
from nexusform.regular_files import FREE, Confinement, NotRegular, TooLarge, read_regular
from nexusform.schema import Attribute, BlockSchema
from nexusform.value_types import STRING, MapType

if TYPE_CHECKING:  # the importers are loaded where a site is read
    from nexusform.domains.azure.importers.az_capture import Export
    from nexusform.domains.azure.importers.az_model import AzSite

NAME: Final = "nexusform.dev/builtin/azure_export"
_LARGEST: Final = 64 * 1024 * 1024  # bytes of one file
MACHINE_SKU_BY_ID: Final = Attribute(
    MapType(STRING),
    "Machine SKU of the catalogue by machineSkuId. Default: from the SKU's name.",
    optional=True,
)

SETTINGS: Final = BlockSchema(
    {
        "directory": Attribute(
            STRING,
            "Directory with the exported files, relative to the root module.",
            required=True,
        ),
        "machine_sku_by_id": MACHINE_SKU_BY_ID,
    },
    {},
    "Reads a site from files exported with `az networkcloud`. Sends nothing.",
)


def make(
    settings: Mapping[str, Any], directory: str, _leaving: ExitStack, confinement: Confinement = FREE
) -> ObservedSites:
    """The provider for evaluated settings; the directory is read when it is first asked about, where the
    `confinement` lets it.
    """
    path = os.path.normpath(Path(directory) / str(settings["directory"]))
    return of_directory(path, settings.get("machine_sku_by_id") or {}, confinement)


def of_directory(
    directory: str, machine_sku_by_id: Mapping[str, str], confinement: Confinement = FREE
) -> ObservedSites:
    """The sites of an exported directory."""
    return ObservedSites(
        NAME,
        f"the export in {directory}",
        "capture the export again",
        lambda: read_export(directory, machine_sku_by_id, confinement),
        captured=True,
    )


def read_export(
    directory: str, machine_sku_by_id: Mapping[str, str], confinement: Confinement = FREE
) -> tuple[tuple[AzSite, ...], list[Problem]]:
    """The sites of a directory and everything wrong with its files."""
    from nexusform.domains.azure.importers.az_inventory import read_sites

    export = read_files(directory, confinement)
    if export.problems:
        return (), export.problems
    sites, findings = read_sites(export.documents, machine_sku_by_id)
    return sites, list(findings)


def read_files(directory: str, confinement: Confinement = FREE) -> Export:
    """The files of a directory by kind, and what cannot be read."""
    from nexusform.domains.azure.importers.az_capture import Export, is_expected, read_directory

    try:
        entries = os.scandir(confinement.admitted(directory))
        names = [entry.name for entry in entries if entry.is_file() or is_expected(entry.name)]
    except OSError as problem:
        detail = f'The directory "{directory}" cannot be read: {problem.strerror}.'
        return Export(problems=[Problem((), "unreadable-file", detail)])
    return read_directory(directory, names, lambda path: _content(path, confinement))


def _content(path: str, confinement: Confinement) -> bytes:
    """The bytes of a file. Raises FileProblem."""
    try:
        return read_regular(confinement.admitted(path), _LARGEST)
    except NotRegular:
        raise FileProblem(f'"{path}" is not a regular file.') from None
    except TooLarge:
        raise FileProblem(f'"{path}" is larger than {_LARGEST} bytes, the most that is read.') from None
    except OSError as problem:
        raise FileProblem(f'"{path}" cannot be read: {problem.strerror}.') from None


PROVIDER: Final = ProviderKind(SETTINGS, make)
