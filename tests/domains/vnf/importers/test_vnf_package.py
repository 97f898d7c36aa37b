"""Tests of VNF packages as folders and zip files.

They concern the documents found in them, and rejected packages.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nexusform.diagnostics.diagnostic import DiagnosticsError
from nexusform.domains.vnf.importers.vnf_package import VnfPackageDocuments, read_vnf_package
from nexusform.files.regular_files import Confinement
from nexusform.interfaces.plugins import FileProblem
from nexusform.workflow.opening.system_io import ConfinedFileAccess

META = "TOSCA-Metadata/TOSCA.meta"


def render_node(name: str, kind: str, flavour: str = "") -> str:
    topology: dict[str, Any] = {"node_templates": {name: {"type": kind}}}
    if flavour:
        topology["substitution_mappings"] = {"properties": {"flavour_id": flavour}}
    return json.dumps({"topology_template": topology})[1:-1] + "\n"


def render_definitions(flavour: str, kind: str = "tosca.nodes.nfv.Vdu.Compute") -> str:
    return f"# {flavour}\n" + render_node("vdu", kind, flavour)


TYPES = "node_types: {acme.Vdu: {derived_from: tosca.nodes.nfv.Vdu.Compute}}\n"
PACKAGE = {
    META: (
        "TOSCA-Meta-File-Version: 1.0\nEntry-Definitions: Definitions/top.yaml\n\nName: "
        "Scripts/x.sh\n"
    ),
    "Definitions/top.yaml": (
        "imports: [etsi_nfv_sol001_x.yaml, types.yaml, {file: small.yaml}, large.yaml]\n"
    )
    + render_node("VNF", "acme.VNF"),
    "Definitions/types.yaml": TYPES,
    "Definitions/small.yaml": render_definitions("small"),
    "Definitions/large.yaml": render_definitions("large", "acme.Vdu"),
    "BaseHOT/small/top.yaml": "# small top\n",
    "BaseHOT/small/nested/a.yaml": "# small a\n",
    "BaseHOT/large/top.yaml": "# large top\n",
    "BaseHOT/large/nested/a.yaml": "# large a\n",
    "Files/image.img": "\0" * 1000,
}


def write_folder(at: Path, package: Mapping[str, str]) -> str:
    for name, text in package.items():
        file = at / "package" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return str(at / "package")


def write_zip(at: Path, package: Mapping[str, str]) -> str:
    with zipfile.ZipFile(at / "package.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in package.items():
            archive.writestr(name, text)
    return str(at / "package.zip")


def build_package_without(*names: str, **more: str) -> dict[str, str]:
    return {name: text for name, text in PACKAGE.items() if name not in names} | more


@pytest.mark.parametrize("form", [write_folder, write_zip])
def test_documents_of_flavour_are_found(form: Any, tmp_path: Path) -> None:
    path = form(tmp_path, PACKAGE)
    small = read_vnf_package(path, "small", ConfinedFileAccess())
    assert small == VnfPackageDocuments(
        PACKAGE["Definitions/small.yaml"], "# small top\n", {"a.yaml": "# small a\n"}
    )
    large = read_vnf_package(path, "large", ConfinedFileAccess())
    assert large.vnfd == PACKAGE["Definitions/large.yaml"] + "\n---\n" + TYPES
    assert large.nested == {"a.yaml": "# large a\n"}


@pytest.mark.parametrize("form", [write_folder, write_zip])
@pytest.mark.parametrize(
    ("package", "flavour", "words"),
    [
        (PACKAGE, "", 'the deployment flavours "large", "small". Set flavour_id'),
        (PACKAGE, "smal", 'Did you mean "small"?'),
        (
            build_package_without("Definitions/large.yaml"),
            "small",
            'Definitions/top.yaml references "Definitions/large.yaml", which',
        ),
        ({"a/b.yaml": ""}, "", "has no TOSCA-Metadata/TOSCA.meta"),
        ({META: "CSAR-Version: 1.1\n"}, "", "has no Entry-Definitions"),
        (
            {META: "Entry-Definitions: ../secret.yaml\n"},
            "",
            '"../secret.yaml" in it points outside',
        ),
        ({META: "Entry-Definitions: /etc/passwd\n"}, "", '"/etc/passwd" in it points outside'),
        ({"top.yaml": "imports: [../../up.yaml]\n"}, "", "points outside the package"),
        ({"top.yaml": "a: [\n"}, "", "top.yaml:2 in it is not valid YAML"),
        ({"top.yaml": "a: 1\n"}, "", "no definitions with a VDU and no BaseHOT"),
        (
            {**PACKAGE, "BaseHOT/small/other.yaml": ""},
            "small",
            "BaseHOT/small/ in it contains several files",
        ),
        ({"top.yaml": "# " + "x" * 2**22}, "", "larger than 4 MiB"),
    ],
)
def test_errors_in_packages(
    form: Any, package: dict[str, str], flavour: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises((DiagnosticsError, FileProblem)) as raised:
        read_vnf_package(form(tmp_path, package), flavour, ConfinedFileAccess())
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "name", ["../up.yaml", "/top.yaml", "a/../../b.yaml", "..\\up.yaml", "C:/x.yaml"]
)
def test_zip_file_with_outside_names_is_rejected(name: str, tmp_path: Path) -> None:
    with pytest.raises(DiagnosticsError, match="points outside the package"):
        read_vnf_package(write_zip(tmp_path, {**PACKAGE, name: ""}), "small", ConfinedFileAccess())


def test_zip_bomb_is_rejected_before_complete_extraction(tmp_path: Path) -> None:
    many = {f"BaseHOT/n/nested/{n}.yaml": "# " + "x" * (2**22 - 10) for n in range(9)}
    path = write_zip(tmp_path, {"BaseHOT/n/top.yaml": "# top", **many})
    assert Path(path).stat().st_size < 2**18
    with pytest.raises(DiagnosticsError, match="larger than 32 MiB together"):
        read_vnf_package(path, "", ConfinedFileAccess())


def test_files_are_counted_before_the_list_is_read(tmp_path: Path) -> None:
    """A list of a million files takes hundreds of megabytes; this one cannot be read at all."""
    file = tmp_path / "p.zip"
    file.write_bytes(b"PK\x01\x02" * 200_001)
    with pytest.raises(DiagnosticsError, match="It contains 200,001 files"):
        read_vnf_package(str(file), "", ConfinedFileAccess())


def test_damaged_files_are_rejected(tmp_path: Path) -> None:
    file = tmp_path / "p.zip"
    file.write_bytes(b"PK no zip")
    with pytest.raises(DiagnosticsError, match="neither a folder nor a zip file"):
        read_vnf_package(str(file), "", ConfinedFileAccess())
    content = bytearray(Path(write_zip(tmp_path, {"top.yaml": "abc" * 100})).read_bytes())
    content[40] ^= 255
    file.write_bytes(content)
    with pytest.raises(DiagnosticsError, match="cannot be read"):
        read_vnf_package(str(file), "", ConfinedFileAccess())
    with pytest.raises(FileProblem):
        read_vnf_package(str(tmp_path / "absent"), "", ConfinedFileAccess())


@pytest.mark.parametrize("form", [write_folder, write_zip])
def test_confined_run_reads_no_package_outside(form: Any, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    inside = form(root, PACKAGE)
    outside = form(tmp_path, PACKAGE)
    files = ConfinedFileAccess(Confinement(str(root)))
    assert read_vnf_package(inside, "small", files).base_hot == "# small top\n"
    with pytest.raises(FileProblem):
        read_vnf_package(outside, "small", files)
    link = root / "link"
    link.symlink_to(outside)
    with pytest.raises(FileProblem):
        read_vnf_package(str(link), "small", files)


def test_tar_and_unsupported_document_are_named(tmp_path: Path) -> None:
    packed = tmp_path / "upf_vnf.tar.gz"
    packed.write_bytes(b"\x1f\x8b\x08\x00")
    with pytest.raises(DiagnosticsError, match="packed tar, as of OSM"):
        read_vnf_package(str(packed), "", ConfinedFileAccess())
    path = write_folder(tmp_path, {"slice_nsd.yaml": "nsd:\n  nsd: [{id: x}]\n"})
    with pytest.raises(DiagnosticsError, match="network service descriptor"):
        read_vnf_package(path, "", ConfinedFileAccess())
