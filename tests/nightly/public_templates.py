"""Plans of 60 public HOT and TOSCA files, compared with the table public_templates.txt.

    python -m tests.nightly.public_templates DIRECTORY [write]

DIRECTORY has a Git repository OWNER/NAME for each repository of the table. Nothing of them is kept
here. A row has the repository, the commit, the path, the number of predicted VMs (`error` if the
plan is rejected), and the unread fields. Required parameters have invented values. `write` writes
the table anew. The exit code is 1 if a row differs, or if a HOT file has another number of servers.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from nexusform.cli.main import run_command_line

TABLE = Path(__file__).with_suffix(".txt")
EXPORT = Path(__file__).parents[2] / "examples" / "every-type" / "documents" / "openstack"
CONFIGURATION = """
data "openstack_inventory" "o" { directory = "export" }
resource "openstack_site" "o" { inventory = data.openstack_inventory.o }
resource "tacker_vnf" "v" {
  site_id    = openstack_site.o.id
  parameters = jsondecode(file("parameters.json"))
  ARGUMENT   = file("document.yaml")
}
"""
VALUES = {"number": 1, "json": {}, "comma_delimited_list": [], "boolean": True}


class _Loader(yaml.SafeLoader):
    """Loader for documents with tags of their own, such as `!reference`."""


_Loader.add_multi_constructor("", lambda *_: None)


def read_file(directory: Path, repository: str, commit: str, path: str) -> str:
    """Return the text of a file in a commit."""
    command = ["git", "-C", str(directory / repository), "show", f"{commit}:{path}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def invent_parameters(template: dict[str, Any]) -> dict[str, Any]:
    """Return a value for each parameter of a HOT file without a default."""
    required = {
        name: parameter
        for name, parameter in (template.get("parameters") or {}).items()
        if "default" not in parameter
    }
    return {
        name: "worker.large" if "flavor" in name else VALUES.get(parameter.get("type"), "x")
        for name, parameter in required.items()
    }


def plan_document(text: str) -> tuple[str, str]:
    """Return the number of predicted VMs, or `error`, and the unread fields."""
    document = yaml.load(text, _Loader)
    is_hot = "heat_template_version" in document
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        Path("export").mkdir()
        for path in EXPORT.iterdir():
            (Path("export") / path.name).write_bytes(path.read_bytes())
        flavors = json.loads((EXPORT / "flavors.json").read_text())
        names = sorted({"m1.small", *re.findall(r"\bm1\.\w+", text)})
        flavors += [{**flavors[0], "Name": name, "VCPUs": 1, "RAM": 512} for name in names]
        Path("export/flavors.json").write_text(json.dumps(flavors))
        Path("document.yaml").write_text(text)
        Path("parameters.json").write_text(
            json.dumps(invent_parameters(document) if is_hot else {})
        )
        argument = "base_hot" if is_hot else "vnfd"
        Path("main.nf.hcl").write_text(CONFIGURATION.replace("ARGUMENT", argument))
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = run_command_line(["plan", "-samples=3", "-report=json:report"])
        assert "Traceback" not in output.getvalue()
        if code:
            return "error", ""
        report = json.loads(Path("report").read_text())
    fields = sorted({row["field"].replace(" ", "_") for row in report.get("unread", [])})
    return str(len(report["placement_changes"])), ",".join(fields)


def count_servers(text: str) -> int | None:
    """Return the number of servers of a HOT file, None if a count or condition decides it."""
    document = yaml.load(text, _Loader)
    if "heat_template_version" not in document or "conditions" in document:
        return None
    types = [resource["type"] for resource in (document.get("resources") or {}).values()]
    if any(name.startswith("OS::Heat::") and "Group" in name for name in types):
        return None
    return types.count("OS::Nova::Server")


def compare(directory: Path, *, is_written: bool) -> list[str]:
    """Return the differences of the rows; write them with `is_written`."""
    differences = []
    lines = []
    for line in TABLE.read_text().splitlines():
        repository, commit, path, *_ = line.split(" ")
        text = read_file(directory, repository, commit, path)
        count, fields = plan_document(text)
        lines.append(" ".join(filter(None, (repository, commit, path, count, fields))))
        servers = count_servers(text)
        if count not in ("error", str(servers)) and servers is not None:
            differences.append(f"{path}: {count} VMs of {servers} servers")
        if lines[-1] != line:
            differences.append(f"{line}\n  now {lines[-1]}")
    if is_written:
        TABLE.write_text("\n".join(lines) + "\n")
    return differences


if __name__ == "__main__":
    os.environ["NF_INPUT"] = "0"
    found = compare(Path(sys.argv[1]).resolve(), is_written="write" in sys.argv[2:])
    print("\n".join(found) or "no difference")
    sys.exit(bool(found) and "write" not in sys.argv[2:])
