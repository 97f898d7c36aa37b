from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.providers.optional_provider_interfaces import IdentityComparison
from nexusform.providers.simulated import SimulatedProvider
from nexusform.workflow.runs import provider_identity
from nexusform.workflow.runs.provider_identity import IdentityCheck

PROVIDER = 'provider "simulated" {\n  reality = "reality.json"\n}\n'
SYSTEMS = {name: {"identity": {"subscription": "a"}} for name in ("simulated", "simulated.other")}
SITE = 'resource "nexus_site" "s" {\n  name = "lab"\n}\n'
RACKS = """\
resource "nexus_rack" "r" {
  for_each          = toset(["a", "b"])
  site_id           = "lab"
  name              = "rack-${each.key}"
  availability_zone = each.key
  machine_count     = 3
}
"""
CLUSTER = """\
resource "nexus_kubernetes_cluster" "c" {
  site_id    = nexus_site.s.id
  depends_on = [nexus_rack.r]
  name       = "web"
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "zz" {
    count       = 2
    vm_sku_name = "NC_G6_28_v1"
    labels      = { "a b" = "x$${y}\\n\\"" }
    taint {
      key    = "k"
      effect = "NoSchedule"
    }
  }
  agent_pool "aa" {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
}
"""
IMPORTS = """\
locals {
  racks = { a = "rack-a", b = "rack-b" }
}
import {
  to = nexus_site.s
  id = "lab"
}
import {
  for_each = local.racks
  to       = nexus_rack.r[each.key]
  id       = "lab/${each.value}"
}
import {
  to = nexus_kubernetes_cluster.c
  id = "lab/web"
}
"""


@pytest.fixture(autouse=True)
def import_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    """A directory with a reality file created from another state."""
    seed = tmp_path / "seed"
    seed.mkdir()
    monkeypatch.chdir(seed)
    Path("main.nf.hcl").write_text(PROVIDER + SITE + RACKS + CLUSTER)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    here = tmp_path / "here"
    here.mkdir()
    (here / "reality.json").write_bytes(Path("reality.json").read_bytes())
    monkeypatch.chdir(here)
    capsys.readouterr()
    return here


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run_command_line(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def write_configuration(*texts: str) -> None:
    Path("main.nf.hcl").write_text("\n".join([PROVIDER, *texts]))


def read_state() -> dict[str, Any]:
    return json.loads(Path("state/nexusform.nfstate").read_text())


def test_imported_objects_are_neither_created_nor_changed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_configuration(SITE, RACKS, CLUSTER, IMPORTS)
    before = json.loads(Path("reality.json").read_text())
    code, out, err = run_command(capsys, "apply", "-auto-approve", "-details")
    assert (code, err) == (0, "")
    assert 'nexus_rack.r["a"] will be imported' in out
    assert "Plan: 4 to import, 0 to add, 0 to change, 0 to destroy." in out
    assert "Apply complete! Resources: 4 imported, 0 added, 0 changed, 0 destroyed." in out
    assert json.loads(Path("reality.json").read_text()) == before
    assert "No changes." in run_command(capsys, "plan")[1]


def test_differences_are_changed_after_the_import(capsys: pytest.CaptureFixture[str]) -> None:
    write_configuration(
        SITE,
        RACKS.replace("machine_count     = 3", "machine_count     = 4"),
        IMPORTS.rpartition("import {")[0],
    )
    code, out, _ = run_command(capsys, "apply", "-auto-approve", "-details")
    assert code == 0
    assert '(imported from "lab/rack-a")' in out
    assert "Resources: 3 imported, 0 added, 2 changed, 0 destroyed." in out
    racks = [o for o in json.loads(Path("reality.json").read_text()) if o["type"] == "nexus_rack"]
    assert {r["attributes"]["machine_count"] for r in racks} == {4}


def test_object_to_be_replaced_is_imported_first(capsys: pytest.CaptureFixture[str]) -> None:
    write_configuration(
        SITE.replace("lab", "lab2"), 'import {\n  to = nexus_site.s\n  id = "lab"\n}\n'
    )
    code, _, err = run_command(capsys, "apply", "-auto-approve")
    assert (code, err) == (0, "")
    sites = [
        o["id"] for o in json.loads(Path("reality.json").read_text()) if o["type"] == "nexus_site"
    ]
    assert sites == ["lab2"]


def test_new_creation_numbers_follow_those_of_imported_objects(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_configuration(
        SITE, RACKS, CLUSTER, IMPORTS, 'resource "nexus_site" "new" {\n  name = "new"\n}\n'
    )
    assert run_command(capsys, "apply", "-auto-approve")[0] == 0
    numbers = [i["creation"] for r in read_state()["resources"] for i in r["instances"]]
    assert len(set(numbers)) == len(numbers) == 5


def test_import_without_configuration_is_an_error_with_suggested_fix(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_configuration(RACKS, IMPORTS)
    code, _, err = run_command(capsys, "plan")
    assert code == 1
    assert err.count("Missing import target configuration") == 2
    assert "-generate-config-out" in err


def test_generated_configuration_is_used_by_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    write_configuration(RACKS, IMPORTS)
    code, out, err = run_command(capsys, "plan", "-generate-config-out=made.nf.hcl", "-out=saved")
    assert (code, err) == (0, "")
    assert "Plan: 4 to import, 0 to add, 0 to change, 0 to destroy." in out
    made = Path("made.nf.hcl").read_text()
    assert made.index('agent_pool "zz"') < made.index('agent_pool "aa"')
    assert '"a b" = "x$${y}\\n\\""' in made
    assert "provenance" not in made
    assert run_command(capsys, "fmt", "-check")[0] == 0
    assert run_command(capsys, "apply", "saved")[0] == 0
    assert "No changes." in run_command(capsys, "plan")[1]


def test_existing_file_is_not_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    write_configuration(RACKS, IMPORTS)
    Path("made.nf.hcl").write_text("# mine\n")
    code, _, err = run_command(capsys, "plan", "-generate-config-out=made.nf.hcl")
    assert code == 1
    assert "already exists" in err
    assert Path("made.nf.hcl").read_text() == "# mine\n"


def test_generated_file_with_other_suffix_gives_a_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_configuration('import {\n  to = nexus_site.s\n  id = "lab"\n}\n')
    code, out, _ = run_command(capsys, "plan", "-generate-config-out=made.txt")
    assert code == 0
    assert "\N{MIDDLE DOT} generated-configuration-exists" in " ".join(out.split())
    assert "1 to import" in out


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ('to = nexus_site.s\n  id = "nowhere"', "Cannot import non-existent remote object"),
        ('to = nexus_site.s\n  id = ""', "must be a non-empty string"),
        ("to = nexus_site.s\n  id = local.lab", "Reference to undeclared local value"),
        ("to = nexus_site.s\n  id = timestamp()", 'The "id" of an import block must be known'),
        ('to = nexus_site.s\n  id = sensitive("lab")', "cannot be sensitive"),
        ('to = nexus_rack.r["c"]\n  id = "lab/rack-a"', "Missing import target configuration"),
        ('to = module.m.nexus_site.s\n  id = "lab"', "Missing import target configuration"),
        (
            'for_each = toset(["a", "b"])\n  to = nexus_site.s\n  id = "lab"',
            "Duplicate import configuration",
        ),
        (
            'for_each = toset(["a", "b"])\n  to = nexus_rack.r[each.key]\n  id = "lab/rack-a"',
            'The object with the id "lab/rack-a" is already that of nexus_rack.r["a"].',
        ),
        (
            'for_each = toset(["a"])\n  to = module.m[each.key].module.n\n  id = "lab"',
            "must name a resource or one of its instances",
        ),
        (
            'for_each = toset(["a"])\n  to = module.m[each.key].data.nexus_site.s\n  id = "lab"',
            "must name a resource or one of its instances",
        ),
        (
            'for_each = toset(["a"])\n  to = lower("m")[each.key].s\n  id = "lab"',
            "must name a resource or one of its instances",
        ),
        (
            'for_each = toset(["a"])\n  to = module.m[each.key].nexus_site.s\n  id = "lab"',
            "Missing import target",
        ),
    ],
)
def test_invalid_imports_are_reported(
    capsys: pytest.CaptureFixture[str], block: str, words: str
) -> None:
    write_configuration(SITE, RACKS, f"import {{\n  {block}\n}}\n")
    code, out, err = run_command(capsys, "plan")
    assert code == 1
    assert words in " ".join(err.replace("│", " ").split())
    assert "on main.nf.hcl line" in err
    assert "to import" not in out


def test_targeting_skips_other_imports(capsys: pytest.CaptureFixture[str]) -> None:
    write_configuration(SITE, RACKS, CLUSTER, IMPORTS)
    code, out, _ = run_command(capsys, "plan", "-target=nexus_site.s")
    assert code == 0
    assert "Plan: 1 to import, 0 to add, 0 to change, 0 to destroy." in out


MODULE = """\
variable "rack" {
}
import {
  to = module.inner.nexus_rack.r[local.key]
  id = "lab/rack-${var.rack}"
}
locals {
  key = var.rack
}
module "inner" {
  source = "./inner"
  rack   = var.rack
}
"""


def write_modules(module: str = MODULE, calls: str = 'for_each = toset(["a", "b"])') -> None:
    """Write racks in a module of a module, whose import block is in the outer one."""
    Path("m/inner").mkdir(parents=True)
    Path("m/main.nf.hcl").write_text(module)
    racks = RACKS.replace('toset(["a", "b"])', "toset([var.rack])")
    Path("m/inner/main.nf.hcl").write_text('variable "rack" {\n}\n' + racks)
    call = f'module "m" {{\n  {calls}\n  source = "./m"\n  rack   = each.key\n}}\n'
    write_configuration(SITE, call, 'import {\n  to = nexus_site.s\n  id = "lab"\n}\n')


def test_import_blocks_of_modules_import_for_each_instance(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_modules()
    assert run_command(capsys, "validate")[0] == 0
    targets = ["-target=nexus_site.s", '-target=module.m["a"]']
    code, out, _ = run_command(capsys, "plan", *targets)
    assert (code, "2 to import, 0 to add" in out) == (0, True)
    code, out, _ = run_command(capsys, "plan", "-out=p")
    assert (code, "3 to import, 0 to add" in out) == (0, True)
    document = json.loads(run_command(capsys, "show", "-json", "p")[1])
    imported = {
        change["address"]: change["change"]["importing"]["id"]
        for change in document["resource_changes"]
    }
    assert imported == {
        "nexus_site.s": "lab",
        'module.m["a"].module.inner.nexus_rack.r["a"]': "lab/rack-a",
        'module.m["b"].module.inner.nexus_rack.r["b"]': "lab/rack-b",
    }
    assert run_command(capsys, "apply", "p")[0] == 0
    assert "No changes." in run_command(capsys, "plan")[1]


@pytest.mark.parametrize(
    ("module", "calls", "words"),
    [
        (MODULE.replace("lab/rack-${var.rack}", "lab/rack-a"), 'for_each = toset(["a", "b"])',
         'already that of module.m["a"].module.inner.nexus_rack.r["a"]'),
        (MODULE.replace("inner.nexus_rack.r[", "inner.nexus_rack.q["), 'for_each = toset(["a"])',
         'import target module.m["a"].module.inner.nexus_rack.q["a"] does not exist'),
        (MODULE.replace("lab/rack-${var.rack}", "${timestamp()}"), 'for_each = toset(["a"])',
         'The "id" of an import block must be known'),
        (MODULE.replace("local.key", "local.keys"), 'for_each = toset(["a"])',
         "Reference to undeclared local value"),
    ],
)  # fmt: skip
def test_invalid_import_blocks_of_modules_name_their_file(
    capsys: pytest.CaptureFixture[str], module: str, calls: str, words: str
) -> None:
    write_modules(module, calls)
    code, out, err = run_command(capsys, "plan")
    text = " ".join(err.replace("│", " ").split())
    assert (code, words in text, "on m/main.nf.hcl line" in text) == (1, True, True), text
    assert "to import" not in out


def test_module_without_instances_imports_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    write_modules(calls="for_each = toset([])")
    code, out, err = run_command(capsys, "plan")
    assert (code, "1 to import, 0 to add" in out, err) == (0, True, "")


# --- import command ----------------------------------------------------------------------------


def test_import_command_imports_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    write_configuration(SITE, RACKS)
    code, out, err = run_command(capsys, "import", 'nexus_rack.r["a"]', "lab/rack-a")
    assert (code, err) == (0, "")
    assert "Import successful!" in out
    assert run_command(capsys, "state", "list")[1] == 'nexus_rack.r["a"]\n'
    assert run_command(capsys, "import", "nexus_site.s", "lab")[0] == 0
    assert read_state()["serial"] == 2
    code, out, _ = run_command(capsys, "plan")
    assert "Plan: 1 to add, 0 to change, 0 to destroy." in out
    code, _, err = run_command(capsys, "import", "nexus_site.s", "lab")
    assert code == 1
    assert "Resource already managed by nexusform" in err


def test_object_of_one_address_is_not_imported_to_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_configuration(SITE, RACKS)
    assert run_command(capsys, "import", 'nexus_rack.r["a"]', "lab/rack-a")[0] == 0
    code, _, err = run_command(capsys, "import", 'nexus_rack.r["b"]', "lab/rack-a")
    assert code == 1
    assert "Resource already managed by nexusform" in err
    assert read_state()["serial"] == 1
    block = 'import {\n  to = nexus_rack.r["b"]\n  id = "lab/rack-a"\n}\n'
    write_configuration(SITE, RACKS, block)
    code, _, err = run_command(capsys, "plan")
    assert code == 1
    assert 'is already that of nexus_rack.r["a"]' in " ".join(err.replace("│", " ").split())


def test_object_to_import_is_not_destroyed_at_its_old_address(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A renamed block with an import block: the object would be imported, then destroyed."""
    write_configuration(SITE, RACKS)
    assert run_command(capsys, "import", 'nexus_rack.r["a"]', "lab/rack-a")[0] == 0
    renamed = RACKS.replace('"r"', '"new"').replace('["a", "b"]', '["a"]')
    block = 'import {\n  to = nexus_rack.new["a"]\n  id = "lab/rack-a"\n}\n'
    write_configuration(SITE, renamed, block)
    code, _, err = run_command(capsys, "plan")
    assert code == 1
    text = " ".join(err.replace("│", " ").split())
    assert 'is that of nexus_rack.r["a"], which this plan destroys.' in text
    assert 'a moved block: from nexus_rack.r["a"] to nexus_rack.new["a"].' in text
    assert "on main.nf.hcl line" in text
    write_configuration(SITE, renamed, "moved {\n  from = nexus_rack.r\n  to = nexus_rack.new\n}\n")
    code, out, _ = run_command(capsys, "plan")
    assert (code, "0 to destroy" in out) == (0, True)
    forgotten = "removed {\n  from = nexus_rack.r\n  lifecycle {\n    destroy = false\n  }\n}\n"
    write_configuration(SITE, renamed, block, forgotten)
    code, out, _ = run_command(capsys, "plan")
    assert (code, "0 to destroy" in out) == (0, True)


def test_import_block_with_another_id_for_an_object_in_state_is_a_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    block = 'import {\n  to = nexus_rack.r["a"]\n  id = "lab/rack-a"\n}\n'
    write_configuration(SITE, RACKS, block)
    assert run_command(capsys, "apply", "-auto-approve")[0] == 1  # the site exists already
    write_configuration(SITE, RACKS, IMPORTS.rpartition("import {")[0])
    assert run_command(capsys, "apply", "-auto-approve")[0] == 0
    code, out, err = run_command(capsys, "plan")
    assert (code, "import-of-another-object" in out, err) == (0, False, "")
    for object_id in ("lab/rack-b", "nowhere"):
        write_configuration(SITE, RACKS, block.replace("lab/rack-a", object_id))
        code, out, err = run_command(capsys, "plan", "-details")
        text = " ".join((out + err).replace("│", " ").split())
        assert (code, "No changes." in text) == (0, True)
        assert "Import of another object" in text
        assert 'nexus_rack.r["a"] is in the state already, with the id "lab/rack-a".' in text
        assert "on main.nf.hcl line" in text


def test_object_without_a_block_is_not_imported_by_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The next plan would destroy it at its old address."""
    write_configuration(SITE, RACKS)
    assert run_command(capsys, "import", 'nexus_rack.r["a"]', "lab/rack-a")[0] == 0
    write_configuration(SITE, RACKS.replace('"r"', '"new"'))
    code, _, err = run_command(capsys, "import", 'nexus_rack.new["a"]', "lab/rack-a")
    assert (code, "Resource already managed by nexusform" in err) == (1, True)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (
            'nexus_rack.r["zz"]',
            'no instance nexus_rack.r["zz"] (its instances: nexus_rack.r["a"], nexus_rack.r["b"])',
        ),
        ("nexus_rack.r", "no instance nexus_rack.r (its instances: "),
        ("nexus_site.s[0]", "no instance nexus_site.s[0] (its instances: nexus_site.s)"),
        ('module.m["z"].nexus_site.t', 'no instance module.m["z"] (its instances: module.m["x"])'),
    ],
)
def test_object_is_not_imported_to_an_instance_that_the_next_plan_destroys(
    capsys: pytest.CaptureFixture[str], address: str, words: str
) -> None:
    Path("m").mkdir()
    Path("m/main.nf.hcl").write_text('resource "nexus_site" "t" {\n  name = "lab"\n}\n')
    module = 'module "m" {\n  source   = "./m"\n  for_each = toset(["x"])\n}\n'
    write_configuration(SITE, RACKS, module)
    assert run_command(capsys, "init")[0] == 0
    code, _, err = run_command(capsys, "import", address, "lab/rack-a")
    text = " ".join(err.replace("│", " ").split())
    assert code == 1
    assert f"The configuration has {words}" in text
    assert not Path("state/nexusform.nfstate").exists()


def test_deposed_object_is_not_imported(capsys: pytest.CaptureFixture[str]) -> None:
    write_configuration(SITE, RACKS)
    assert run_command(capsys, "import", 'nexus_rack.r["a"]', "lab/rack-a")[0] == 0
    state = read_state()
    state["resources"][0]["instances"][0]["deposed"] = "0000abcd"
    Path("state/nexusform.nfstate").write_text(json.dumps(state))
    code, _, err = run_command(capsys, "import", 'nexus_rack.r["b"]', "lab/rack-a")
    text = " ".join(err.replace("│", " ").split())
    assert (code, "is left over from an unfinished replacement" in text) == (1, True)
    for key, words in (
        ("b", "is left over from an unfinished replacement"),
        ("a", "Apply without this import block first"),
    ):
        block = f'import {{\n  to = nexus_rack.r["{key}"]\n  id = "lab/rack-a"\n}}\n'
        write_configuration(SITE, RACKS, block)
        code, _, err = run_command(capsys, "plan")
        text = " ".join(err.replace("│", " ").split())
        assert (code, words in text) == (1, True)


def test_same_id_of_another_provider_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    other = PROVIDER.replace("{", '{\n  alias = "other"', 1)
    write_configuration(SITE)
    assert run_command(capsys, "import", "nexus_site.s", "lab")[0] == 0
    site = SITE.replace('"s"', '"t"').replace("{", '{\n  provider = "simulated.other"', 1)
    block = 'import {\n  to = nexus_site.t\n  id = "lab"\n}\n'
    write_configuration(other, SITE, site, block)
    code, out, err = run_command(capsys, "plan", "-details")
    text = " ".join((out + err).replace("│", " ").split())
    assert 'nexus_site.s has the same id "lab". It is unknown whether the providers' in text
    assert code == 1  # two sites of one name


@pytest.mark.parametrize("difference", ["", "another subscription"])
def test_object_of_another_provider_of_the_same_system_is_not_imported(
    difference: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = {
        "has_fixed_identity": True,
        "read_identity": lambda *_: {"subscription": "a"},
        "compare_identity": lambda *_: IdentityComparison(difference),
        "describe_identity": lambda *_: "",
        "keep_missing_objects": lambda *_: None,
        "has_missing_objects": lambda *_: False,
    }
    for name, method in methods.items():
        monkeypatch.setattr(SimulatedProvider, name, method, raising=False)
    monkeypatch.setattr(
        provider_identity, "check_identities", lambda *_, **__: IdentityCheck(observed=SYSTEMS)
    )
    write_configuration(SITE)
    assert run_command(capsys, "import", "nexus_site.s", "lab")[0] == 0
    other = PROVIDER.replace("{", '{\n  alias = "other"', 1)
    site = SITE.replace('"s"', '"t"').replace("{", '{\n  provider = "simulated.other"', 1)
    block = 'import {\n  to = nexus_site.t\n  id = "lab"\n}\n'
    write_configuration(other, SITE, site, block)
    code, out, err = run_command(capsys, "plan", "-details")
    text = " ".join((out + err).replace("│", " ").split())
    words = 'The object with the id "lab" is already that of nexus_site.s.'
    assert (words in text) is (not difference)
    assert "It is unknown whether" not in text
    assert code == 1


@pytest.mark.parametrize(
    ("address", "object_id", "words"),
    [
        ("nexus_site.other", "lab", "does not exist in the configuration"),
        ("nexus_site.s", "nowhere", "Cannot import non-existent remote object"),
        ("module.m", "lab", "names a module"),
        ("nexus_site", "lab", "Invalid address"),
    ],
)
def test_import_command_reports_its_errors(
    capsys: pytest.CaptureFixture[str], address: str, object_id: str, words: str
) -> None:
    write_configuration(SITE)
    code, _, err = run_command(capsys, "import", address, object_id)
    assert code == 1
    assert words in " ".join(err.replace("│", " ").split())
    assert not Path("state/nexusform.nfstate").exists()
