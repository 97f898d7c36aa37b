"""Tests of VNF packages in `plan -check-with`: Tacker's own user data makes their stacks."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from nexusform.cli.main import run_command_line
from nexusform.domains.vnf.importers import vnf_records
from nexusform.domains.vnf.types import tacker_vnf, vnf_documents
from tests.domains.openstack.test_arrival_orders import (
    build_flavor,
    build_inventory,
    work_directory,  # noqa: F401 - a fixture
)
from tests.domains.openstack.test_nova_decisions import MISSING, NOVA
from tests.domains.vnf.tacker import tacker_bed
from tests.domains.vnf.tacker.packages import STANDARD, PackageSpec, VduSpec, write_package
from tests.domains.vnf.tacker.tacker_bed import TACKER
from tests.domains.vnf.test_heat_defaults import HEAT, MISSING_HEAT

_REASONS = {MISSING: NOVA, MISSING_HEAT: HEAT, tacker_bed.MISSING: TACKER}
pytestmark = [
    pytest.mark.of_domains("program_checks", "openstack", "vnf"),
    pytest.mark.skipif(
        not all(_REASONS.values()),
        reason=next((reason for reason, program in _REASONS.items() if not program), ""),
    ),
]
READERS = (f"-check-with=heat={HEAT}", f"-check-with=tacker={TACKER}")
SITE = """
resource "openstack_site" "o" {
  inventory = jsondecode(file("o.json"))
}
"""
VNF = """
resource "tacker_vnf" "NAME" {
  site_id    = openstack_site.o.id
  flavour_id = "simple"
  DOCUMENTS
}
"""


def write_site() -> None:
    inventory = build_inventory({"c1": 64, "c2": 60})
    inventory["flavors"]["small"] = build_flavor(1, 2048)
    Path("o.json").write_text(json.dumps(inventory))
    Path("main.nf.hcl").write_text(SITE)


def add_vnf(name: str, documents: str) -> None:
    path = Path("main.nf.hcl")
    path.write_text(path.read_text() + VNF.replace("NAME", name).replace("DOCUMENTS", documents))


def write_server_package(name: str, *, is_standard: bool, script: str = "") -> PackageSpec:
    """Write a package whose servers have an image; `script` replaces its user data."""
    spec = PackageSpec(name, {"a": VduSpec(2), "b": VduSpec(1)}, is_standard=is_standard)
    path = write_package(spec, Path())
    folder = Path(name)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
    for nested in folder.glob("BaseHOT/simple/nested/*.yaml"):
        content = yaml.safe_load(nested.read_text())
        for resource in content["resources"].values():
            resource["properties"]["image"] = "plain"
            # The NFVO chooses no zone.
            del resource["properties"]["availability_zone"]
        del content["parameters"]["zone"]
        nested.write_text(yaml.safe_dump(content))
    base = folder / "BaseHOT/simple/base.yaml"
    hot = yaml.safe_load(base.read_text())
    for resource in hot["resources"].values():
        properties = resource["properties"]
        del properties.get("resource", resource)["properties"]["zone"]
    base.write_text(yaml.safe_dump(hot))
    if script:
        folder.joinpath("UserData/userdata_standard.py").write_text(script)
    path.unlink()
    shutil.make_archive(name, "zip", folder)
    return spec


def run_plan(words: tuple[str, ...], expected: int = 0) -> Any:
    vnf_documents._read_cached.cache_clear()
    options = ("-details", "-samples=2", "-report=json:p.json")
    assert run_command_line(["plan", *words, *options]) == expected
    return json.loads(Path("p.json").read_text())["checks_by"][0]


def read_text(capsys: pytest.CaptureFixture[str]) -> str:
    printed = capsys.readouterr()
    return " ".join((printed.out + printed.err).replace("│", " ").split())


def write_packages() -> None:
    """Write a zip file, a directory, and the documents of a package as arguments."""
    write_site()
    parameters = f"parameters = jsondecode({json.dumps(json.dumps(STANDARD))})"
    write_server_package("standard", is_standard=True)
    add_vnf("standard", f'csar = "standard.zip"\n  {parameters}')
    write_server_package("default", is_standard=False)
    add_vnf("default", 'csar = "default"')
    add_vnf(
        "texts",
        'vnfd = file("default/Definitions/vnfd.yaml")\n'
        '  base_hot = file("default/BaseHOT/simple/base.yaml")\n'
        '  nested = { for name in ["a.yaml", "b.yaml"] : '
        'name => file("default/BaseHOT/simple/nested/${name}") }',
    )


def test_packages_have_the_requests_of_tacker() -> None:
    write_packages()
    check = run_plan(READERS)
    assert check["differences"] == []
    assert (check["program"], check["checked"], check["total"]) == ("heat", 9, 9)
    assert check["readers"] == ["tacker 16.0.0"]


def test_packages_have_the_hosts_of_nova(capsys: pytest.CaptureFixture[str]) -> None:
    write_packages()
    check = run_plan((*READERS, f"-check-with=nova={NOVA}"))
    assert check["differences"] == []
    assert (check["program"], check["checked"], check["total"]) == ("nova", 9, 9)
    text = "nova 34.0.0 (requests built by heat 27.0.1 and tacker 16.0.0): 9 of 9 VMs"
    assert text in read_text(capsys)


def test_another_number_of_vms_is_noticed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tacker counts the VMs of a level on its own."""
    write_packages()

    def count_one_more(vnf: Any, level: object = "", levels: Mapping[str, int] = {}) -> Any:
        counts = vnf_records.compute_vdu_counts(vnf, level, levels)
        return vnf_records.VduVmCounts({name: n + 1 for name, n in counts.numbers.items()})

    monkeypatch.setattr(tacker_vnf, "compute_vdu_counts", count_one_more)
    check = run_plan(READERS, 1)
    assert len(check["differences"]) == 3
    assert "read servers differently: 2 x small, plain; heat: none" in read_text(capsys)


def test_code_of_a_package_is_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    write_site()
    script = "open('/tmp/nexusform-was-here', 'w')\nclass StandardUserData: pass\n"
    write_server_package("own", is_standard=True, script=script)
    add_vnf("own", f'csar = "own"\n  parameters = jsondecode({json.dumps(json.dumps(STANDARD))})')
    check = run_plan(READERS)
    assert (check["checked"], check["total"]) == (0, 3)
    assert "the user data is code of the package, which is not run" in read_text(capsys)
    assert not Path("/tmp/nexusform-was-here").exists()


def test_package_without_tacker_is_not_checked(capsys: pytest.CaptureFixture[str]) -> None:
    write_packages()
    check = run_plan((f"-check-with=heat={HEAT}",))
    assert (check["checked"], check["total"]) == (0, 9)
    assert "packages and VNFDs need -check-with=tacker=PYTHON" in read_text(capsys)
