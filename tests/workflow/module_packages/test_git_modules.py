from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.configuration.literal_edits import build_literal_edit
from nexusform.configuration.remote_modules.module_lock import LOCK_FILE
from nexusform.resources.address import Address, ModulePathStep
from nexusform.workflow.module_packages import git_packages
from nexusform.workflow.opening.command_context import CommandContext, load_project_configuration
from tests.git_repositories import run_git
from tests.workflow.module_packages.module_server import (
    RACK,
    ROOT,
    SITE,
    ModuleServer,
    build_tar,
    commit_files,
)
from tests.workflow.module_packages.ssh_server import run_sshd

Run = Callable[..., tuple[int, str]]


def write_root(source: str) -> None:
    Path("main.nf.hcl").write_text(ROOT.replace("SOURCE", source))


def write_tree(server: ModuleServer, count: int = 2, tag: str = "v1") -> str:
    """Commit a site that calls a rack of another repository, which calls one by path."""
    racks = server.repositories / "racks"
    commit_files(
        racks,
        {
            "modules/rack/main.nf.hcl": """
variable "site_id" {
  type = string
}
module "inner" {
  source  = "../inner"
  site_id = var.site_id
}
output "count" {
  value = module.inner.count
}
""",
            "modules/inner/main.nf.hcl": RACK.replace("COUNT", str(count)),
        },
        tag=tag,
    )
    site = SITE.replace("SOURCE", server.build_git_source("racks", "modules/rack", "v1"))
    commit_files(server.repositories / "site", {"main.nf.hcl": site}, tag=tag)
    write_root(server.build_git_source("site", ref="v1"))
    return run_git(racks, "rev-parse", "HEAD")


def test_tree_of_three_levels_from_git(server: ModuleServer, nf: Run) -> None:
    commit = write_tree(server)
    code, text = nf("plan")
    assert code == 1
    assert 'The module "lab"' in text
    assert "is not in .nexusform.lock.hcl. Run `nexusform init`." in text
    code, text = nf("init")
    assert code == 0, text
    lock = Path(LOCK_FILE).read_text()
    assert f'commit = "{commit}"' in lock
    assert 'module "lab.rack" {' in lock
    # Only the lock and the installed files count from here on.
    requests = len(server.requests)
    code, text = nf("plan", "-out=p")
    assert code == 0, text
    assert "module.lab.module.rack.module.inner.nexus_rack.r" in nf("plan", "-details")[1]
    assert nf("validate")[0] == 0
    assert nf("init")[0] == 0
    assert len(server.requests) == requests
    code, text = nf("apply", "p")
    assert code == 0, text
    assert "No changes." in nf("plan")[1]
    assert nf("output", "-json", "count") == (0, "2")
    assert len(server.requests) == requests


def test_saved_plan_has_its_modules(server: ModuleServer, nf: Run) -> None:
    write_tree(server)
    nf("init")
    assert nf("plan", "-out=p")[0] == 0
    shutil.rmtree(".nexusform")
    code, text = nf("apply", "p")
    assert code == 0, text
    assert nf("output", "-json", "count") == (0, "2")


def test_saved_plan_keeps_modules_of_an_absolute_data_directory(
    server: ModuleServer, nf: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NF_DATA_DIR", str(tmp_path / "data"))
    write_tree(server)
    nf("init")
    assert (tmp_path / "data" / "modules" / "lab.rack").is_dir()
    assert nf("plan", "-out=p")[0] == 0
    Path("main.nf.hcl").write_text(Path("main.nf.hcl").read_text() + "\n# changed\n")
    code, text = nf("apply", "p")
    assert code == 0, text
    assert nf("output", "-json", "count") == (0, "2")


def test_upgrade_takes_a_moved_tag_and_init_keeps_the_lock(server: ModuleServer, nf: Run) -> None:
    write_tree(server)
    nf("init")
    old_lock = Path(LOCK_FILE).read_text()
    new_commit = write_tree(server, count=3)
    shutil.rmtree(".nexusform")
    # The old commit is an ancestor: the lock counts.
    code, text = nf("init")
    assert code == 0, text
    assert Path(LOCK_FILE).read_text() == old_lock
    nf("apply", "-auto-approve")
    assert nf("output", "-json", "count") == (0, "2")
    code, text = nf("init", "-upgrade")
    assert code == 0, text
    assert f"-> (commit {new_commit[:10]})" in text
    assert new_commit in Path(LOCK_FILE).read_text()
    nf("apply", "-auto-approve")
    assert nf("output", "-json", "count") == (0, "3")
    # Nothing newer.
    newest_lock = Path(LOCK_FILE).read_text()
    assert nf("init", "-upgrade")[0] == 0
    assert Path(LOCK_FILE).read_text() == newest_lock


def test_rewritten_history_names_the_missing_commit(server: ModuleServer, nf: Run) -> None:
    write_tree(server)
    nf("init")
    racks = server.repositories / "racks"
    shutil.rmtree(racks)
    write_tree(server, count=5)
    shutil.rmtree(".nexusform")
    code, text = nf("init")
    assert code == 1
    assert 'The module "lab.rack" cannot be downloaded' in text
    assert "has no commit" in text
    assert "nexusform init -upgrade" in text
    assert nf("init", "-upgrade")[0] == 0


def test_changed_module_is_rejected_and_restored(server: ModuleServer, nf: Run) -> None:
    write_tree(server)
    nf("init")
    path = Path(".nexusform/modules/lab.rack/modules/inner/main.nf.hcl")
    old_text = path.read_text()
    path.write_text(old_text.replace("= 2", "= 4"))
    for command in ("plan", "validate", "apply"):
        code, text = nf(command)
        assert code == 1
        assert 'files of the module "lab.rack" in ".nexusform/modules/lab.rack" differ' in text
    assert nf("init")[0] == 0
    assert path.read_text() == old_text
    # Also a new file, a link and a missing file.
    extra = path.with_name("extra.nf.hcl")
    extra.symlink_to("/etc/hostname")
    code, text = nf("validate")
    assert code == 1
    assert "leads out of it" in text
    extra.unlink()
    path.unlink()
    assert "differ from" in nf("validate")[1]
    assert nf("init")[0] == 0
    assert nf("validate")[0] == 0


def test_lock_changed_by_hand_is_rejected(server: ModuleServer, nf: Run) -> None:
    commit = write_tree(server)
    old_commit = commit
    nf("init")
    lock = Path(LOCK_FILE)
    text = lock.read_text()
    new_commit = write_tree(server, count=3)
    shutil.rmtree(".nexusform")
    lock.write_text(text.replace(old_commit, new_commit))
    code, message = nf("init")
    assert code == 1
    assert "Find out who changed it." in message
    for broken, words in (
        (text.replace("h1:", "h9:"), "hash of the module"),
        (text.replace('module "lab" {', 'module "../../x" {'), "not the path of a module call"),
        (text + text, "listed twice"),
        (text + "}", "on .nexusform.lock.hcl line 15"),
        ("\0", "on .nexusform.lock.hcl line 1"),
    ):
        lock.write_text(broken)
        for command in ("init", "plan"):
            code, message = nf(command)
            assert code == 1
            assert words in message
            assert "source code not available" not in message


def test_changed_source_requires_init(server: ModuleServer, nf: Run) -> None:
    write_tree(server)
    nf("init")
    write_tree(server, count=3, tag="v2")
    write_root(server.build_git_source("site", ref="v2"))
    code, text = nf("plan")
    assert code == 1
    assert "names another source or version" in text
    assert nf("init")[0] == 0
    assert nf("plan")[0] == 0
    # The module is not called any more.
    Path("main.nf.hcl").write_text('resource "nexus_site" "s" {}\n')
    assert nf("init")[0] == 0
    assert not Path(LOCK_FILE).exists()
    assert [*Path(".nexusform/modules").iterdir()] == []


def test_readonly_lock_is_not_changed(server: ModuleServer, nf: Run) -> None:
    write_tree(server)
    code, text = nf("init", "-lockfile=readonly")
    assert code == 1
    assert "-lockfile=readonly" in text
    assert not Path(LOCK_FILE).exists()
    nf("init")
    shutil.rmtree(".nexusform")
    code, text = nf("init", "-lockfile=readonly")
    assert code == 0, text
    # A package that the lock does not name replaces nothing.
    write_tree(server, count=3, tag="v2")
    text_before = Path("main.nf.hcl").read_text()
    write_root(server.build_git_source("site", ref="v2"))
    code, text = nf("init", "-lockfile=readonly")
    assert code == 1
    assert "-lockfile=readonly" in text
    assert "main.nf.hcl line" in text
    Path("main.nf.hcl").write_text(text_before)
    assert nf("apply", "-auto-approve")[0] == 0


@pytest.mark.parametrize("ref", ["", "main", "refs/heads/main", "annotated", "COMMIT", "SHORT"])
def test_refs(server: ModuleServer, nf: Run, ref: str) -> None:
    repository = server.repositories / "site"
    commit = commit_files(repository, {"main.nf.hcl": SITE.replace("SOURCE", "./rack")})
    commit = commit_files(repository, {"rack/main.nf.hcl": RACK.replace("COUNT", "2")})
    run_git(repository, "tag", "-a", "-m", "tag", "annotated")
    commit_ref = {"COMMIT": commit, "SHORT": commit[:10]}.get(ref, ref)
    if ref in ("annotated", "COMMIT", "SHORT"):
        commit_files(repository, {"rack/main.nf.hcl": RACK.replace("COUNT", "9")})
    write_root(server.build_git_source("site", ref=commit_ref))
    code, text = nf("init")
    assert code == 0, text
    assert commit in Path(LOCK_FILE).read_text()
    assert nf("validate")[0] == 0


def test_unknown_ref_lists_known_ones(server: ModuleServer, nf: Run) -> None:
    write_tree(server)
    write_root(server.build_git_source("site", ref="v7"))
    code, text = nf("init")
    assert code == 1
    assert 'has no branch, tag or commit "v7". It has main, v1.' in text
    assert "v1.." not in text


def test_missing_directory_of_a_package_names_the_closest_one(
    server: ModuleServer, nf: Run
) -> None:
    write_tree(server)
    write_root(server.build_git_source("racks", "modules/rak", ref="v1"))
    for _ in range(2):
        code, text = nf("init")
        assert code == 1
        assert 'The package has no directory "modules/rak". Did you mean "rack"?' in text


def test_repository_served_as_static_files(server: ModuleServer, nf: Run, tmp_path: Path) -> None:
    write_tree(server)
    racks = tmp_path / "static.git"
    run_git(tmp_path, "clone", "-q", "--bare", str(server.repositories / "racks"), str(racks))
    run_git(racks, "update-server-info")
    for path in racks.rglob("*"):
        if path.is_file():
            server.pages[f"/static/{path.relative_to(racks)}"] = (200, {}, path.read_bytes())
    write_root(f"git::{server.url}/static//modules/rack?ref=v1")
    text = Path("main.nf.hcl").read_text().replace('"lab" {', '"lab" {\n  site_id = "x"')
    Path("main.nf.hcl").write_text(text)
    code, text = nf("init")
    assert code == 0, text


def test_ssh_uses_the_command_of_the_operator(
    server: ModuleServer, nf: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(server)
    log = tmp_path / "ssh.log"
    program = tmp_path / "ssh.sh"
    # Terminal input would be a prompt.
    program.write_text(
        f'#!/bin/sh\necho "$*" >> {log}\n(: < /dev/tty) 2>/dev/null && echo tty >> {log}\n'
        'for last; do :; done\nexec sh -c "$last"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(program))
    path = server.repositories / "site"
    for source in (
        f"git::ssh://git@git.example.com{path}?ref=v1",
        f"git@git.example.com:{path}?ref=v1",
    ):
        write_root(source)
        code, text = nf("init")
        assert code == 0, text
    lines = log.read_text().splitlines()
    assert all("git@git.example.com" in line for line in lines)
    assert "tty" not in lines


def test_modules_from_a_running_sshd(
    server: ModuleServer, nf: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(server)
    with run_sshd(tmp_path / "ssh") as ssh:
        monkeypatch.setenv("GIT_SSH_COMMAND", ssh.command)
        racks = f"git::ssh://{ssh.address}{server.repositories}/racks//modules/rack?ref=v1"
        site = {"main.nf.hcl": SITE.replace("SOURCE", racks)}
        commit_files(server.repositories / "site", site, tag="v1")
        write_root(f"git::ssh://{ssh.address}{server.repositories}/site?ref=v1")
        code, text = nf("init")
        assert code == 0, text
        assert Path(LOCK_FILE).read_text().count("  commit = ") == 2
        assert nf("apply", "-auto-approve")[0] == 0
        assert nf("output", "-json", "count") == (0, "2")
        # A key that the server does not accept: no prompt, and its words.
        other_key = ssh.command.replace("/client -o", "/host -o")
        monkeypatch.setenv("GIT_SSH_COMMAND", other_key)
        code, text = nf("init", "-upgrade")
        assert code == 1
        assert "Permission denied (publickey" in text
    monkeypatch.setenv("GIT_SSH_COMMAND", ssh.command)
    code, text = nf("init", "-upgrade")
    assert code == 1
    assert "Connection refused" in text
    # The installed packages stay usable.
    assert nf("plan")[0] == 0


def test_tree_of_three_levels_by_ssh(
    server: ModuleServer, nf: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ssh.sh"
    program.write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')
    program.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(program))
    write_tree(server)
    racks = f"git::ssh://git@git.example.com{server.repositories}/racks//modules/rack?ref=v1"
    site = {"main.nf.hcl": SITE.replace("SOURCE", racks)}
    commit_files(server.repositories / "site", site, tag="v1")
    write_root(f"git@git.example.com:{server.repositories}/site?ref=v1")
    code, text = nf("init")
    assert code == 0, text
    lock = Path(LOCK_FILE).read_text()
    assert lock.count("  commit = ") == 2
    assert nf("plan")[0] == 0
    # A moved tag.
    files = {"modules/inner/main.nf.hcl": RACK.replace("COUNT", "5")}
    commit_files(server.repositories / "racks", files, tag="v1")
    assert nf("init")[0] == 0
    assert Path(LOCK_FILE).read_text() == lock
    assert nf("init", "-upgrade")[0] == 0
    assert nf("apply", "-auto-approve")[0] == 0
    assert nf("output", "-json", "count") == (0, "5")
    assert nf("modules", "mirror", str(tmp_path / "mirror"))[0] == 0
    # The server is gone.
    program.write_text("#!/bin/sh\necho refused >&2\nexit 255\n")
    shutil.rmtree(".nexusform/modules")
    code, text = nf("init")
    assert code == 1
    assert "refused" in text
    assert nf("init", f"-from-mirror={tmp_path}/mirror")[0] == 0
    assert nf("plan")[0] == 0


def test_one_download_for_many_calls(server: ModuleServer, nf: Run) -> None:
    write_tree(server)
    source = server.build_git_source("racks", "modules/inner", "v1")
    blocks = [
        f'module "m{n}" {{\n  source = "{source}"\n  site_id = "s{n}"\n}}\n' for n in range(6)
    ]
    Path("main.nf.hcl").write_text("".join(blocks))
    code, text = nf("init")
    assert code == 0, text
    assert text.count("Downloading") == 1
    listing = json.loads(nf("modules", "-json")[1])
    assert len({module["hash"] for module in listing["modules"]}) == 1
    # A further call of the same source takes the locked commit.
    write_tree(server, count=7)
    blocks.append(blocks[0].replace('"m0"', '"m9"'))
    Path("main.nf.hcl").write_text("".join(blocks))
    assert nf("init")[0] == 0
    listing = json.loads(nf("modules", "-json")[1])
    assert len({module["commit"] for module in listing["modules"]}) == 1


def test_modules_are_listed(server: ModuleServer, nf: Run) -> None:
    commit = write_tree(server)
    nf("init")
    code, text = nf("modules")
    assert code == 0
    assert "Modules declared by configuration:" in text
    assert f'"rack"[{server.build_git_source("racks", "modules/rack", "v1")}]' in text
    assert f"commit {commit[:10]}" in text
    document = json.loads(nf("modules", "-json")[1])
    assert document["format_version"] == "1.0"
    assert [module["key"] for module in document["modules"]] == [
        "lab", "lab.rack", "lab.rack.inner",
    ]  # fmt: skip
    assert document["modules"][1]["commit"] == commit
    assert document["modules"][2]["source"] == "../inner"
    assert nf("modules", "mirror")[0] == 1


def test_plan_document_names_source_and_version(server: ModuleServer, nf: Run) -> None:
    write_tree(server)
    nf("init")
    nf("plan", "-out=p")
    document = json.loads(nf("show", "-json", "p")[1])
    call = document["configuration"]["root_module"]["module_calls"]["lab"]
    assert call["source"] == server.build_git_source("site", ref="v1")


def test_downloaded_module_is_not_edited(server: ModuleServer, nf: Run) -> None:
    write_tree(server)
    nf("init")
    configuration, problems = load_project_configuration(CommandContext())
    assert problems == []
    calls = ("lab", "rack", "inner")
    steps = tuple(ModulePathStep(name, None) for name in calls)
    address = Address(steps, "managed", "nexus_rack", "r")
    assert build_literal_edit(configuration, address, ["machine_count"], 3) is None


def test_mirror_replaces_the_network(server: ModuleServer, nf: Run, tmp_path: Path) -> None:
    write_tree(server)
    nf("init")
    code, text = nf("modules", "mirror", str(tmp_path / "mirror"))
    assert code == 0, text
    assert "2 new packages" in text
    assert "0 new packages" in nf("modules", "mirror", str(tmp_path / "mirror"))[1]
    requests = len(server.requests)
    lock = Path(LOCK_FILE).read_text()
    shutil.rmtree(".nexusform")
    code, text = nf("init", f"-from-mirror={tmp_path / 'mirror'}")
    assert code == 0, text
    assert Path(LOCK_FILE).read_text() == lock
    # Also without a lock, and with -upgrade.
    shutil.rmtree(".nexusform")
    Path(LOCK_FILE).unlink()
    assert nf("init", "-upgrade", f"-from-mirror={tmp_path / 'mirror'}")[0] == 0
    assert Path(LOCK_FILE).read_text() == lock
    assert nf("plan")[0] == 0
    assert len(server.requests) == requests


def test_changed_or_missing_mirror_is_an_error(
    server: ModuleServer, nf: Run, tmp_path: Path
) -> None:
    write_tree(server)
    mirror = tmp_path / "mirror"
    code, text = nf("init", f"-from-mirror={mirror}")
    assert code == 1
    assert "cannot be read" in text
    nf("init")
    nf("modules", "mirror", str(mirror))
    installed = Path(".nexusform").rename("installed")
    index = mirror / "index.json"
    for path in mirror.rglob("main.nf.hcl"):
        path.write_text(path.read_text() + "\n# changed\n")
    code, text = nf("init", f"-from-mirror={mirror}")
    assert code == 1
    assert "Find out who changed it" in text
    # It is written again from intact packages.
    shutil.rmtree(".nexusform", ignore_errors=True)
    installed.rename(".nexusform")
    shutil.rmtree(next(path for path in mirror.iterdir() if path.is_dir()))
    code, text = nf("modules", "mirror", str(mirror))
    assert code == 0, text
    assert "2 new packages" in text
    assert sorted(path.name for path in mirror.iterdir() if path.name.startswith(".")) == []
    shutil.rmtree(".nexusform")
    code, text = nf("init", f"-from-mirror={mirror}")
    assert code == 0, text
    shutil.rmtree(".nexusform")
    document = json.loads(index.read_text())
    document["packages"] = []
    index.write_text(json.dumps(document))
    assert "the mirror has no" in nf("init", f"-from-mirror={mirror}")[1]
    for broken in ("[]", "{}", "no", '{"format": "nexusform-module-mirror", "packages": [1]}'):
        index.write_text(broken)
        assert "index.json" in nf("init", f"-from-mirror={mirror}")[1]


def test_long_output_of_git_is_an_error(
    server: ModuleServer, nf: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(server)
    monkeypatch.setattr(git_packages, "_MAX_LIST_BYTES", 10)
    code, text = nf("init")
    assert code == 1
    assert "bytes of its refs or files, more than 10" in text
    # Errors count, too.
    monkeypatch.setattr(git_packages, "MAX_FETCH_BYTES", 1 << 20)
    program = tmp_path / "git"
    program.write_text('#!/bin/sh\ncase "$*" in *ls-remote*) exec yes >&2;; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    code, text = nf("init")
    assert code == 1
    assert "it has more than 1 MiB" in text


def test_server_gone_slow_or_garbage(
    server: ModuleServer, nf: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(server)
    archive = server.add_file("/a.tar.gz", build_tar({"main.nf.hcl": ""}))
    monkeypatch.setenv("NF_NET_DEADLINE", "1")
    sources = (
        server.build_git_source("site", ref="v1"),
        archive,
        f"127.0.0.1:{server.port}/team/site/nexus",
    )
    for source in sources:
        write_root(source)
        server.delay = 3.0
        code, text = nf("init")
        assert code == 1
        assert "no result within 1 s" in text or "no data received for 1 s" in text, text
        server.delay = 0.0
        server.garbage = b"HTTP/1.1 200 OK\r\n\r\nthis is nothing\r\n"
        code, text = nf("init")
        assert code == 1
        assert 'The module "lab" cannot be downloaded' in text, text
        server.garbage = b""
    assert not Path(LOCK_FILE).exists()
    server_port = server.port
    for source in sources:
        write_root(source.replace(str(server_port), "1"))
        code, text = nf("init")
        assert code == 1
        assert 'The module "lab" cannot be downloaded' in text, text


def test_wrong_commit_in_the_lock_or_a_mirror_is_noticed(
    server: ModuleServer, nf: Run, tmp_path: Path
) -> None:
    repository = server.repositories / "site"
    files = {"main.nf.hcl": SITE.replace("SOURCE", "./rack")}
    commit = commit_files(repository, {**files, "rack/main.nf.hcl": RACK.replace("COUNT", "2")})
    write_root(server.build_git_source("site", ref=commit))
    assert nf("init")[0] == 0
    mirror = tmp_path / "mirror"
    assert nf("modules", "mirror", str(mirror))[0] == 0
    lock = Path(LOCK_FILE).read_text()
    wrong = "0" * len(commit)
    # The source names the commit.
    fields = [line for line in lock.splitlines() if "commit" in line]
    Path(LOCK_FILE).write_text(lock.replace(fields[0], fields[0].replace(commit, wrong)))
    for arguments in (("plan",), ("validate",), ("init",)):
        code, text = nf(*arguments)
        assert code == 1, arguments
        assert f"has the commit {wrong}, but the source names {commit}" in text
    assert nf("init", "-upgrade")[0] == 0
    assert Path(LOCK_FILE).read_text() == lock
    index = (mirror / "index.json").read_text()
    changed_index = index.replace(f'"commit": "{commit}"', f'"commit": "{wrong}"')
    assert changed_index != index
    (mirror / "index.json").write_text(changed_index)
    for flags in ((), ("-upgrade",)):
        shutil.rmtree(".nexusform")
        code, text = nf("init", f"-from-mirror={mirror}", *flags)
        assert code == 1
        assert f"the index of the mirror has the commit {wrong}" in text
        Path(".nexusform").mkdir(exist_ok=True)
    # A tag: the lock and the mirror must agree.
    run_git(repository, "tag", "v1")
    write_root(server.build_git_source("site", ref="v1"))
    (mirror / "index.json").unlink()
    assert nf("init")[0] == 0
    assert nf("modules", "mirror", str(mirror))[0] == 0
    index = (mirror / "index.json").read_text()
    (mirror / "index.json").write_text(
        index.replace(f'"commit": "{commit}"', f'"commit": "{wrong}"')
    )
    shutil.rmtree(".nexusform")
    code, text = nf("init", f"-from-mirror={mirror}")
    assert code == 1
    assert f"the index of the mirror has the commit {wrong}, and {LOCK_FILE} has {commit}" in text
