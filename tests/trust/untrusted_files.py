"""Untrusted files of a work tree used as settings, programs or credentials of the runner.

python -m tests.trust.untrusted_files DIRECTORY

runs a sandboxed plan for each of them, in one process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from nexusform.cli.main import run_command_line
from nexusform.files.external_files import (
    EXTERNAL_FILES,
    AllowedWriter,
    ExternalFile,
    PathValueForm,
)

SetVariable = Callable[[str, str], None]
SERVER = "https://127.0.0.1:9"
CONFIGURATION = 'output "o" {\n  value = 1\n}\n'
LIVE_HUB = 'data "fleet_hub" "h" {}\noutput "o" {\n  value = data.fleet_hub.h\n}\n'

LIVE_TACKER = f"""provider "tacker" {{
  endpoint = "{SERVER}"
}}
resource "tacker_vnf" "a" {{
  provider = tacker
}}
"""


def write_tree(root: Path) -> Path:
    """Write a work tree with a file and a directory to be named by settings."""
    for folder in (".git", "folder", "bin"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "main.nf.hcl").write_text(CONFIGURATION)
    (root / "evil").write_text("[default]\ncredential_process = touch ran\n")
    return root


def build_environment(entry: ExternalFile, root: Path) -> dict[str, str]:
    """Return variables leading an entry of the table to a file of the work tree."""
    evil = str(root / "evil")
    if entry.form is PathValueForm.HOME:
        target = root / entry.name[2:]
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            target.symlink_to(evil)
        return {"HOME": str(root)}
    if entry.form is PathValueForm.PROGRAM:
        program = root / "bin" / entry.name
        program.write_text("#!/bin/sh\ntouch ran\n")
        program.chmod(0o755)
        return {"PATH": f"{root / 'bin'}:{os.environ['PATH']}"}
    values = {
        PathValueForm.PATH: evil,
        PathValueForm.PATHS: f"/nonexistent:{evil}",
        PathValueForm.COMMAND: f"sh {evil}",
        PathValueForm.PARAMETERS: f"host=db dbname=d sslkey='{evil}'",
        PathValueForm.BUDGET: f"60:{evil}",
    }
    return {entry.name: values[entry.form]}


# --- kubeconfigs ---------------------------------------------------------------------------------

PLUG_IN = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "command": "sh",
    "args": ["-c", "touch ran"],
}
# Fields of the user and of the cluster.
_FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "exec": ({"exec": PLUG_IN}, {}),
    "exec of the tree": ({"exec": {**PLUG_IN, "command": "./evil"}}, {}),
    "auth-provider": ({"auth-provider": {"name": "gcp", "config": {"cmd-path": "./evil"}}}, {}),
    "tokenFile": ({"tokenFile": "/etc/hostname"}, {}),
    "client-key": ({"client-certificate": "evil", "client-key": "evil"}, {}),
    "client-certificate outside": ({"client-certificate": "/etc/hostname"}, {}),
    "authority outside": ({}, {"certificate-authority": "/etc/hostname"}),
    "proxy-url": ({"token": "t"}, {"proxy-url": "http://127.0.0.1:9"}),
    "no verification": ({"token": "t"}, {"insecure-skip-tls-verify": True}),
    "another server": ({"token": "t"}, {}),
}
_ROUTES = ("NF_FLEET_KUBECONFIG", "KUBECONFIG", "HOME")
KUBECONFIG_CASES = [f"{route}: {fields}" for route in _ROUTES for fields in _FIELDS]


def write_kubeconfig(path: Path, user: dict[str, Any], cluster: dict[str, Any]) -> None:
    """Write a kubeconfig with these fields of the user and of the cluster."""
    document = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": SERVER, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))


def use_kubeconfig(case: str, root: Path, set_variable: SetVariable) -> None:
    """Write the kubeconfig of a case to the work tree, and set its variable."""
    route, _, name = case.partition(": ")
    user, cluster = _FIELDS[name]
    path = root / ".kube" / "config" if route == "HOME" else root / "kubeconfig"
    path.parent.mkdir(exist_ok=True)
    write_kubeconfig(path, user, cluster)
    (root / "main.nf.hcl").write_text(LIVE_HUB)
    for variable in _ROUTES[:2]:
        set_variable(variable, "")
    set_variable(route, str(root) if route == "HOME" else str(path))


# --- backend settings ----------------------------------------------------------------------------

_SETTINGS = {
    "http": [
        'address = "http://127.0.0.1:9/s"',
        'address = "http://127.0.0.1:9/s"\nlock_address = "http://127.0.0.1:9/l"',
        'update_method = "PUT"',
        'username = "u"\npassword = "p"',
        "skip_cert_verification = true",
    ],
    "azurerm": [
        'storage_account_name = "evil"\ncontainer_name = "c"\nkey = "k"',
        'endpoint = "http://127.0.0.1:9/evil"\nkey = "k"',
        'oidc_token_file_path = "/etc/hostname"\nkey = "k"',
        'use_msi = true\nkey = "k"',
        'access_key = "a"\nkey = "k"',
    ],
    "s3": [
        'bucket = "evil"\nkey = "k"',
        'endpoint = "http://127.0.0.1:9"\nkey = "k"',
        'region = "evil"\nkey = "k"',
        (
            'bucket = "b"\nendpoint = "http://127.0.0.1:9"\naccess_key = "a"\nsecret_key = "s"\n'
            'key = "k"'
        ),
        'profile = "evil"\nkey = "k"',
    ],
    "postgres": [
        'conn_str = "postgres://127.0.0.1:9/d"',
        'conn_str = "service=evil"',
        'conn_str = "host=127.0.0.1 port=9"\nschema_name = "s"',
    ],
}
_LINKED = ["link to a file outside", "name of a setting"]
BACKEND_CASES = [
    f"{kind} {number}" for kind, texts in _SETTINGS.items() for number in range(len(texts))
] + _LINKED


def use_backend_settings(case: str, root: Path) -> list[str]:
    """Write the settings file of a case to the work tree; return the flags naming it."""
    (root / "main.nf.hcl").write_text('nexusform {\n  backend "http" {}\n}\n')
    if case == "link to a file outside":
        (root / "link.nfvars.hcl").symlink_to("/etc/hostname")
        return ["-backend-config=link.nfvars.hcl"]
    if case == "name of a setting":
        (root / "username=me").write_text('address = "http://127.0.0.1:9/s"\n')
        return ["-backend-config=username=me"]
    kind, _, number = case.partition(" ")
    (root / "main.nf.hcl").write_text(f'nexusform {{\n  backend "{kind}" {{}}\n}}\n')
    (root / "settings.nfvars.hcl").write_text(_SETTINGS[kind][int(number)] + "\n")
    return ["-backend-config=settings.nfvars.hcl"]


def prepare_case(name: str, root: Path) -> list[str]:
    """Write the files of a case, set its variables, and return its flags."""
    for entry in EXTERNAL_FILES:
        if entry.name == name:
            os.environ.update(build_environment(entry, root))
    if name in KUBECONFIG_CASES:
        use_kubeconfig(name, root, os.environ.__setitem__)
    return use_backend_settings(name, root) if name in BACKEND_CASES else []


def main() -> None:
    place = Path(sys.argv[1])
    variables = dict(os.environ)
    names = [entry.name for entry in EXTERNAL_FILES if entry.writer is AllowedWriter.OPERATOR]
    for number, name in enumerate([*names, *KUBECONFIG_CASES, *BACKEND_CASES]):
        root = write_tree(place / str(number))
        os.chdir(root)
        os.environ.clear()
        os.environ.update(variables)
        if run_command_line(["plan", "-confine", *prepare_case(name, root)]) != 1:
            raise SystemExit(f"{name}: accepted")


if __name__ == "__main__":
    main()
