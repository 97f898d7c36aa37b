"""VNF packages of a directory, by the descriptor_id of their VNFDs."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from msgspec import Struct

from nexusform.diagnostics.diagnostic import DiagnosticsError
from nexusform.domains.vnf.importers.vnf_package import read_vnf_package
from nexusform.domains.vnf.importers.vnf_reading import read_vnf
from nexusform.domains.vnf.importers.vnf_records import VnfSourceDocuments
from nexusform.files.regular_files import read_regular
from nexusform.interfaces.plugins import FileProblem, Files

_SUFFIXES: Final = (".csar", ".zip")
_MAX_BYTES: Final = 512 << 20
_DEFINITIONS: Final = ("TOSCA-Metadata/", "Definitions/")


class VnfPackageFile(Struct, frozen=True):
    """Package file with the descriptor_id of its VNFD."""

    path: Path
    descriptor_id: str

    def read_content(self) -> bytes:
        """Return the whole package."""
        return read_regular(self.path, _MAX_BYTES)

    def read_definitions(self) -> bytes:
        """Return the definitions of the package as a zip archive."""
        target = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(self.read_content())) as source, zipfile.ZipFile(target, "w") as archive:
            for name in source.namelist():
                if name.startswith(_DEFINITIONS) and not name.endswith("/"):
                    archive.writestr(name, source.read(name))
        return target.getvalue()

    def build_info(self) -> dict[str, Any]:
        """Build the VnfPkgInfo."""
        base = f"/vnfpkgm/v2/onboarded_vnf_packages/{self.descriptor_id}"
        return {
            "id": str(uuid5(NAMESPACE_URL, self.descriptor_id)),
            "vnfdId": self.descriptor_id,
            "vnfProvider": "",
            "vnfProductName": self.path.stem,
            "vnfSoftwareVersion": "",
            "vnfdVersion": "",
            "onboardingState": "ONBOARDED",
            "operationalState": "ENABLED",
            "usageState": "IN_USE",
            "_links": {
                "self": {"href": base},
                "vnfd": {"href": f"{base}/vnfd"},
                "packageContent": {"href": f"{base}/package_content"},
            },
        }


def list_packages(directory: str, files: Files) -> tuple[Mapping[str, VnfPackageFile], list[str]]:
    """Return the packages of a directory by descriptor_id, and the problems of others."""
    packages: dict[str, VnfPackageFile] = {}
    problems: list[str] = []
    for path in sorted(Path(directory).iterdir()):
        if path.suffix.lower() not in _SUFFIXES:
            continue
        try:
            vnfd = read_vnf_package(str(path), "", files).vnfd
        except (FileProblem, DiagnosticsError) as problem:
            reason = problem.diagnostics[0].detail if isinstance(problem, DiagnosticsError) else str(problem)
            problems.append(f"{path}: {reason}")
            continue
        descriptor_id = read_vnf(VnfSourceDocuments(vnfd=vnfd)).vnf.descriptor_id if vnfd is not None else ""
        if not descriptor_id:
            problems.append(f"{path}: its VNFD has no descriptor_id.")
        elif descriptor_id in packages:
            problems.append(f"{path}: {packages[descriptor_id].path} has the same descriptor_id {descriptor_id}.")
        else:
            packages[descriptor_id] = VnfPackageFile(path, descriptor_id)
    return packages, problems
