"""Configurations trying to read files of others, and a process running them confined.

python -m tests.trust.hostile DIRECTORY COUNT SEED

writes COUNT work trees below the directory, each with its own repository, beside secrets, runs
commands in each like a CI job, and leaves all output in DIRECTORY/said and the opened paths in
DIRECTORY/opened. Every secret contains CANARY.
"""

from __future__ import annotations

import io
import itertools
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

CANARY = "CANARY0xC0FFEE"
SECRET = f'password = "{CANARY}"\n'
JSON_SECRET = f'{{"password": "{CANARY}"}}'
ENVIRONMENT_SECRET = "DEPLOY_TOKEN"

Files = dict[str, str]
Use = Callable[[str, Files], str]


def read_with(function: str) -> Use:
    return lambda path, _files: (
        f'output "o" {{\n  value = {function.replace("PATH", quote(path))}\n}}\n'
    )


def quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$") + '"'


def module(path: str, _files: Files) -> str:
    source = path if path.startswith(("./", "../")) else f"./{path.lstrip('/')}"
    return f'module "m" {{\n  source = {quote(source)}\n}}\n'


def use_climbing_module(path: str, _files: Files) -> str:
    return f'module "m" {{\n  source = {quote("./../../../../../../../../.." + path)}\n}}\n'


def use_inner_module(path: str, files: Files) -> str:
    files["inner/main.nf.hcl"] = f'output "o" {{\n  value = file({quote(path)})\n}}\n'
    return 'module "m" {\n  source = "./inner"\n}\noutput "o" {\n  value = module.m.o\n}\n'


def use_module_in_module(path: str, files: Files) -> str:
    files["inner/main.nf.hcl"] = module("../" + path.lstrip("/"), files)
    return 'module "m" {\n  source = "./inner"\n}\n'


def reality(path: str, _files: Files) -> str:
    return (
        f'provider "simulated" {{\n  reality = {quote(path)}\n}}\nresource "nexus_site" "s" {{}}\n'
    )


def use_computed_reality(path: str, _files: Files) -> str:
    return (
        f'variable "p" {{\n  default = {quote(path)}\n}}\n'
        'provider "simulated" {\n  reality = join("", [var.p])\n}\nresource "nexus_site" "s" {}\n'
    )


def inventory(path: str, _files: Files) -> str:
    return f'data "nexus_inventory" "i" {{\n  directory = {quote(path)}\n}}\n' + _SHOWN


def use_inventory_file(path: str, _files: Files) -> str:
    named = f"  bare_metal_machines_file = {quote(path)}\n  racks_file = {quote(path)}\n"
    return f'data "nexus_inventory" "i" {{\n{named}}}\n{_SHOWN}'


_SHOWN = 'output "o" {\n  value = data.nexus_inventory.i\n}\n'


def remote_state(path: str, _files: Files) -> str:
    settings = f'backend = "local"\n  config = {{ path = {quote(path)} }}\n'
    shown = 'output "o" {\n  value = data.nexusform_remote_state.r.outputs\n}\n'
    return f'data "nexusform_remote_state" "r" {{\n  {settings}}}\n{shown}'


def export(path: str, _files: Files) -> str:
    provider = f'provider "azure_export" {{\n  directory = {quote(path)}\n}}\n'
    return provider + 'resource "nexus_site" "s" {\n  provider = azure_export\n}\n'


def read_with_data_source(block: str, argument: str, *, as_list: bool = False) -> Use:
    """Return a use of a data source for files printed by `kubectl`."""

    def use(path: str, _files: Files) -> str:
        value = f"[{quote(path)}]" if as_list else quote(path)
        shown = f'output "o" {{\n  value = data.{block}.d\n}}\n'
        return f'data "{block}" "d" {{\n  {argument} = {value}\n}}\n{shown}'

    return use


def package(path: str, _files: Files) -> str:
    return (
        'resource "nexus_site" "s" {}\n'
        f'resource "tacker_vnf" "v" {{\n  site_id = nexus_site.s.id\n  csar = {quote(path)}\n}}\n'
    )


def template(path: str, files: Files) -> str:
    files["t.tftpl"] = "${file(p)}"
    return f'output "o" {{\n  value = templatefile("t.tftpl", {{ p = {quote(path)} }})\n}}\n'


def use_local_backend(path: str, _files: Files) -> str:
    return f'nexusform {{\n  backend "local" {{\n    path = {quote(path)}\n  }}\n}}\n'


def workspaces(path: str, _files: Files) -> str:
    return f'nexusform {{\n  backend "local" {{\n    workspace_dir = {quote(path)}\n  }}\n}}\n'


def use_key_of_the_environment(_path: str, _files: Files) -> str:
    return f"""
nexusform {{
  encryption {{
    key_provider "environment" "k" {{
      variable = "{ENVIRONMENT_SECRET}"
    }}
    method "aes_gcm" "m" {{
      keys = key_provider.environment.k
    }}
    state {{
      method = method.aes_gcm.m
    }}
  }}
}}
"""


def condition(path: str, _files: Files) -> str:
    return (
        f'check "c" {{\n  assert {{\n    condition     = file({quote(path)}) == ""\n'
        f"    error_message = file({quote(path)})\n  }}\n}}\n"
    )


def count(path: str, _files: Files) -> str:
    return f'resource "nexus_site" "s" {{\n  for_each = toset([file({quote(path)})])\n}}\n'


def link_to_path(name: str) -> Use:
    """Return a use with a file of the work tree linked to the path itself."""

    def use(path: str, files: Files) -> str:
        files[name] = f"->{path}"
        return 'resource "nexus_site" "s" {}\n'

    return use


def use_hard_links(_path: str, files: Files) -> str:
    """Return a use with files of the work tree that have the content of a file outside."""
    names = ("more.nf.hcl", "x.auto.nfvars.hcl", "a.nftest.hcl", "inner/more.nf.hcl", "text")
    files |= dict.fromkeys(names, "=>")
    return 'module "m" {\n  source = "./inner"\n}\noutput "o" {\n  value = file("text")\n}\n'


def use_link_in_module(path: str, files: Files) -> str:
    files["inner/more.nf.hcl"] = f"->{path}"
    return 'module "m" {\n  source = "./inner"\n}\n'


def use_loose_test(path: str, files: Files) -> str:
    files["a.nftest.hcl"] = (
        f'run "one" {{\n  module {{\n    source = {quote("./" + path)}\n  }}\n}}\n'
    )
    return 'resource "nexus_site" "s" {}\n'


USES: list[Use] = [
    *map(
        read_with,
        (
            "file(PATH)",
            "filebase64(PATH)",
            "filesha256(PATH)",
            "filebase64sha512(PATH)",
            "fileexists(PATH)",
            "templatefile(PATH, {})",
            "try(file(PATH), filebase64(PATH), 7)",
            "can(file(PATH)) ? file(PATH) : 1",
            'fileset(PATH, "**")',
            'fileset(".", PATH)',
            'fileset(PATH, "{**,.*/**}")',
            "pathexpand(PATH)",
            "yamldecode(file(PATH))",
            '[for f in fileset(PATH, "*") : file("${PATH}/${f}")]',
            "file(abspath(PATH))",
            "sensitive(file(PATH))",
        ),
    ),
    module,
    use_climbing_module,
    use_inner_module,
    use_module_in_module,
    reality,
    use_computed_reality,
    inventory,
    use_inventory_file,
    export,
    read_with_data_source("kubernetes_manifests", "directory"),
    read_with_data_source("kubernetes_manifests", "files", as_list=True),
    read_with_data_source("kubernetes_nodes", "files", as_list=True),
    read_with_data_source("fleet_hub_export", "directory"),
    package,
    template,
    remote_state,
    use_local_backend,
    workspaces,
    use_key_of_the_environment,
    condition,
    count,
    *map(
        link_to_path,
        (
            "more.nf.hcl",
            "more.nf.json",
            "more_override.nf.hcl",
            "x.auto.nfvars.hcl",
            "x.auto.nfvars.json",
            "nexusform.nfvars.hcl",
            "site.nfvars.hcl",
            "a.nftest.hcl",
            "tests/a.nftest.hcl",
            "tests",
            "state",
            "state/nexusform.nfstate",
            "state/nexusform.nfstate.d",
            "state/nexusform.nfstate.journal",
            "state/nexusform.nfstate.lock.info",
            ".nexusform/environment",
            ".nexusform/backend.json",
        ),
    ),
    use_hard_links,
    use_link_in_module,
    use_loose_test,
]
COMMANDS = [
    [
        "plan",
        "-detailed-exitcode",
        "-report=json:r.json",
        "-report=markdown:r.md",
        "-report=html:r.html",
    ],
    ["plan", "-json", "-out=p"],
    ["plan", "-var-file=site.nfvars.hcl"],
    ["show", "-json", "p"],
    ["validate", "-json"],
    ["fmt", "-check", "-diff", "-recursive"],
    ["test", "-verbose"],
    ["state", "verify"],
    ["workspace", "list"],
    ["advise"],
    ["state", "pull"],
    ["graph"],
    ["show", "link"],
    ["inventory", "check", "folder"],
    ["import", "-from=folder", "-generate-config-out=taken.nf.hcl"],
    ["predict", "-arm-what-if=link", "-inventory=folder"],
]
REPORTS = ["r.json", "r.md", "r.html", "p"]


def list_paths(place: Path) -> list[str]:
    """Return names of a secret from a work tree: direct, by links, by detours."""
    outside = f"{place}/outside"
    home = f"{place}/home"
    return [
        f"{outside}/secret",
        f"{outside}/secret.json",
        outside,
        "../../outside/secret",
        "../../outside",
        "./sub/../../../outside/secret",
        f"{home}/.netrc",
        "~/.netrc",
        "~",
        "link",
        "hard",
        "./link",
        "chain",
        "folder/secret",
        "./folder",
        "folder",
        "sub/up/outside/secret",
        "sub/deep/../../../outside/secret",
        ".git/config",
        "./.git",
        ".GIT/config",
        "gitlink",
        "gitfolder/config",
        "/proc/self/environ",
        "/proc/self/cwd/../../outside/secret",
        "/proc/self/root" + outside + "/secret",
        "proclink",
        "/dev/fd/0",
        ".nexusform/backend.json",
        "memory",
        "loop",
        f"/{outside}/secret",
        f"{place}/../{place.name}/outside/secret",
    ]


def list_links(place: Path) -> dict[str, str]:
    return {
        "link": f"{place}/outside/secret",
        "chain": "sub/second",
        "sub/second": "../../../outside/secret",
        "folder": "../../outside",
        "sub/up": "../../..",
        "sub/deep": "../sub",
        "gitlink": ".git/config",
        "gitfolder": ".git",
        "proclink": "/proc/self/environ",
        "memory": ".nexusform",
        "loop": "loop",
    }


def write_secrets(place: Path) -> None:
    for name, text in {
        "outside/secret": SECRET,
        "outside/secret.json": JSON_SECRET,
        "outside/main.nf.hcl": f'output "o" {{\n  value = "{CANARY}"\n}}\n{SECRET}',
        "outside/racks.json": f'[{{"name": "{CANARY}", "id": "{CANARY}"}}]',
        "outside/a.nftest.hcl": SECRET,
        "outside/nexusform.nfstate": JSON_SECRET,
        "home/.netrc": SECRET,
    }.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def write_tree(place: Path, root: Path, use: Use, path: str) -> None:
    files: Files = {}
    files["main.nf.hcl"] = use(path, files)
    files.setdefault("inner/main.nf.hcl", "")
    files[".git/config"] = f"[http]\n\textraheader = {CANARY}\n"
    files.setdefault(".nexusform/backend.json", JSON_SECRET)
    files["hard"] = "=>"
    linked = {name: text[2:] for name, text in files.items() if text.startswith("->")}
    for name, text in files.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("=>"):
            target.hardlink_to(place / "outside/secret")
        elif name not in linked:
            target.write_text(text)
    for name, target_text in {**list_links(place), **linked}.items():
        link = root / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target_text)


def draw_cases(place: Path, number: int, seed: int) -> Iterator[tuple[Path, Use, str]]:
    """Yield `number` random combinations, with every use and every path among them."""
    chance = random.Random(seed)
    every = list(itertools.product(USES, list_paths(place)))
    chance.shuffle(every)
    ways = list_paths(place)
    first = [(use, ways[position % len(ways)]) for position, use in enumerate(USES)]
    for position, (use, path) in enumerate([*first, *every][:number]):
        yield place / "trees" / str(position), use, path


def resolve_opened_path(path: str, flags: object) -> str:
    """Return the real path of an opened path."""
    if isinstance(flags, int) and flags & os.O_NOFOLLOW:
        return f"{os.path.realpath(Path(path).parent)}/{Path(path).name}"
    return os.path.realpath(path)


def main() -> None:
    place = Path(sys.argv[1])
    number = int(sys.argv[2])
    seed = int(sys.argv[3])
    from nexusform.cli.main import run_command_line

    write_secrets(place)
    opened: set[str] = set()

    def record_opened_path(event: str, arguments: tuple[object, ...]) -> None:
        if watching and event in ("open", "os.listdir", "os.scandir", "subprocess.Popen"):
            path = arguments[0]
            flags = arguments[2] if event == "open" else 0
            # Directories that are only passed are not read.
            is_passed = isinstance(flags, int) and flags & os.O_PATH
            if isinstance(path, str | bytes) and not is_passed:
                opened.add(resolve_opened_path(os.fsdecode(path), flags))

    watching = False
    sys.addaudithook(record_opened_path)
    with (place / "said").open("w") as record:
        for root, use, path in draw_cases(place, number, seed):
            root.mkdir(parents=True)
            write_tree(place, root, use, path)
            os.chdir(root)
            for arguments in COMMANDS:
                said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
                watching = True
                with redirect_stdout(said), redirect_stderr(said):
                    code = run_command_line(arguments)
                watching = False
                name = getattr(use, "__name__", "")
                record.write(f"### {root.name} {name} {path}: {arguments} {code}\n")
                record.write(said.detach().getvalue().decode())  # type: ignore[union-attr]
            for report in filter(os.path.isfile, REPORTS):
                record.write(
                    f"### {root.name} {report}\n"
                    f"{Path(report).read_bytes().decode(errors='replace')}\n"
                )
    (place / "opened").write_text("\n".join(sorted(opened)))


if __name__ == "__main__":
    main()
