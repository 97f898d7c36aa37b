"""The `azure_export` provider: sites from a directory of `az networkcloud` output.

It sends nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nexusform.diagnostics.diagnostic import Problem
from nexusform.domains.azure.providers.observed_site import ObservedSites
from nexusform.files.regular_files import (
    UNCONFINED,
    Confinement,
    FileTooLarge,
    NotRegularFile,
    read_regular,
)
from nexusform.json_data.plain_data import get_mapping
from nexusform.language.evaluation_run import FileProblem
from nexusform.providers.provider_definition import ProviderDefinition
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import STRING, MapType

# The importers are loaded where a site is read.
if TYPE_CHECKING:
    from nexusform.domains.azure.importers.az_capture_commands import AzExport
    from nexusform.domains.azure.importers.az_records import AzSite

NAME: Final = "nexusform.dev/builtin/azure_export"
_MAX_BYTES: Final = 64 * 1024 * 1024  # bytes of one file
MACHINE_SKU_BY_ID: Final = AttributeSchema(
    MapType(STRING),
    "Machine SKU of the catalogue by machineSkuId. Default: from the SKU's name.",
    optional=True,
)

SETTINGS: Final = BlockSchema(
    {
        "directory": AttributeSchema(
            STRING, "Directory with the exported files, relative to the root module.", required=True
        ),
        "machine_sku_by_id": MACHINE_SKU_BY_ID,
    },
    blocks={},
    description="Reads a site from files exported with `az networkcloud`. Sends nothing.",
)


def make_provider(
    settings: Mapping[str, Any],
    directory: str,
    _leaving: ExitStack,
    confinement: Confinement = UNCONFINED,
) -> ObservedSites:
    """Create the provider for evaluated settings.

    The directory is read on first use, if `confinement` allows it.
    """
    path = os.path.normpath(Path(directory) / str(settings["directory"]))
    machine_sku_by_id = get_mapping(settings, "machine_sku_by_id")
    return ObservedSites(
        name=NAME,
        source=f"the export in {path}",
        advice="capture the export again",
        read_sites=lambda: read_export(path, machine_sku_by_id, confinement),
        is_captured=True,
    )


def read_export(
    directory: str, machine_sku_by_id: Mapping[str, str], confinement: Confinement = UNCONFINED
) -> tuple[tuple[AzSite, ...], list[Problem]]:
    """Read the sites of a directory and all findings about its files."""
    from nexusform.domains.azure.importers.az_inventory import read_sites

    export = read_files(directory, confinement)
    if export.problems:
        return (), export.problems
    sites, findings = read_sites(export.documents, machine_sku_by_id)
    return sites, list(findings)


def read_files(directory: str, confinement: Confinement = UNCONFINED) -> AzExport:
    """Read the export files of a directory by kind.

    Report unreadable files, and special files with such a name.
    """
    from nexusform.domains.azure.importers.az_capture_commands import (
        AzExport,
        is_export_file,
        read_export_directory,
    )

    try:
        entries = os.scandir(confinement.resolve(directory))
        names = [entry.name for entry in entries if entry.is_file() or is_export_file(entry.name)]
    except OSError as problem:
        detail = f'The directory "{directory}" cannot be read: {problem.strerror}.'
        return AzExport(problems=[Problem((), "unreadable-file", detail)])
    return read_export_directory(directory, names, lambda path: _read_content(path, confinement))


def _read_content(path: str, confinement: Confinement) -> bytes:
    """Read the bytes of a file.

    Raises FileProblem.
    """
    try:
        return read_regular(confinement.resolve(path), _MAX_BYTES)
    except NotRegularFile:
        raise FileProblem(f'"{path}" is not a regular file.') from None
    except FileTooLarge:
        raise FileProblem(f'"{path}" is larger than {_MAX_BYTES} bytes, the limit.') from None
    except OSError as problem:
        raise FileProblem(f'"{path}" cannot be read: {problem.strerror}.') from None


PROVIDER: Final = ProviderDefinition(SETTINGS, make_provider)
