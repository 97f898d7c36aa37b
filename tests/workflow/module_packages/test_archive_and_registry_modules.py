from __future__ import annotations

import gzip
import json
import shutil
import stat
import tarfile
import time
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from nexusform.configuration.remote_modules.module_lock import LOCK_FILE
from nexusform.files.file_trees import UnsafeTree
from nexusform.workflow.module_packages.archive_packages import _read_archive
from tests.contracts.bad_answers import reset_connection, run_bad_server
from tests.workflow.module_packages.module_server import (
    RACK,
    SITE,
    ModuleServer,
    build_tar,
    build_zip,
    commit_files,
)

Run = Callable[..., tuple[int, str]]
FILES = {
    "site/main.nf.hcl": SITE.replace("SOURCE", "../rack"),
    "rack/main.nf.hcl": RACK.replace("COUNT", "2"),
}


def write_root(source: str, version: str = "") -> None:
    constraint = f'  version = "{version}"\n' if version else ""
    Path("main.nf.hcl").write_text(
        f'module "lab" {{\n  source = "{source}"\n{constraint}}}\n'
        'output "count" {\n  value = module.lab.count\n}\n'
    )


def add_directory(source: str, path: str) -> str:
    address, _, query = source.partition("?")
    return f"{address}//{path}?{query}"


@pytest.mark.parametrize("form", ["zip", "tar.gz", "tgz"])
def test_archive(server: ModuleServer, nf: Run, form: str) -> None:
    content = build_zip(FILES) if form == "zip" else build_tar(FILES)
    write_root(add_directory(server.add_file(f"/sites.{form}", content), "site"))
    code, text = nf("init")
    assert code == 0, text
    assert nf("apply", "-auto-approve")[0] == 0
    assert nf("output", "-json", "count") == (0, "2")
    # Another file of the same name.
    requests = len(server.requests)
    server.pages[f"/sites.{form}"] = (200, {}, build_zip({}))
    assert nf("init", "-upgrade")[0] == 1
    assert nf("init")[0] == 0
    assert len(server.requests) == requests + 1


def test_archive_with_one_directory_at_its_top(server: ModuleServer, nf: Run) -> None:
    files = {f"sites-1.0/{name}": text for name, text in FILES.items()}
    write_root(add_directory(server.add_file("/a?archive=tar.gz", b""), "*/site"))
    source = add_directory(server.add_file("/download", build_tar(files)), "*/site")
    write_root(f"{source}&archive=tar.gz")
    code, text = nf("init")
    assert code == 0, text
    assert Path(".nexusform/modules/lab/site/main.nf.hcl").exists()
    assert nf("validate")[0] == 0


def test_archive_follows_redirects_and_keeps_its_checksum(server: ModuleServer, nf: Run) -> None:
    source = add_directory(server.add_file("/a.zip", build_zip(FILES)), "site")
    server.pages["/b.zip"] = server.pages["/a.zip"]
    server.pages["/a.zip"] = (302, {"Location": "/b.zip"}, b"")
    write_root(source)
    code, text = nf("init")
    assert code == 0, text
    server.pages["/a.zip"] = (302, {"Location": "file:///etc/passwd"}, b"")
    write_root(source.replace("lab", "lab2").replace("/a.zip", "/a.zip"))
    shutil.rmtree(".nexusform")
    code, text = nf("init")
    assert code == 1
    assert "a redirect to an invalid address" in text


def test_wrong_checksum_is_an_error(server: ModuleServer, nf: Run) -> None:
    source = server.add_file("/a.zip", build_zip(FILES))
    write_root(f"{source[:-4]}0000")
    code, text = nf("init")
    assert code == 1
    assert "its SHA-256 is" in text
    write_root(f"{server.url}/a.zip")
    code, text = nf("init")
    assert code == 1
    assert 'An archive needs its SHA-256: add "?checksum=sha256:...' in text


def test_broken_download_is_described(nf: Run) -> None:
    with run_bad_server(reset_connection) as server:
        address = f"http://127.0.0.1:{server.port}/sites.zip"
        write_root(f"{address}?checksum=sha256:{'0' * 64}")
        code, text = nf("init")
    assert code == 1
    assert f'The module "lab" cannot be downloaded: {address}: the connection was reset.' in text


def build_link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = target
    return member


def build_zip_member(name: str, text: str, mode: int) -> bytes:
    document = BytesIO(build_zip(FILES))
    with zipfile.ZipFile(document, "a") as archive:
        member = zipfile.ZipInfo(name)
        member.external_attr = mode << 16
        archive.writestr(member, text)
    return document.getvalue()


HOSTILE = {
    "zip slip": build_zip({"../../evil.nf.hcl": "", **FILES}),
    "absolute path": build_zip({"/tmp/evil.nf.hcl": "", **FILES}),
    "backslash": build_zip({"site/..\\evil.nf.hcl": "", **FILES}),
    "git directory": build_zip({"site/.GIT/config": "", **FILES}),
    "zip link": build_zip_member("site/evil", "/etc/passwd", stat.S_IFLNK | 0o777),
    "zip relative link": build_zip_member("site/evil", "../../x", stat.S_IFLNK | 0o777),
    "zip device": build_zip_member("site/evil", "", stat.S_IFCHR | 0o666),
    "twice": build_zip({"site/a/b": "", "site/a": ""}),
    "tar slip": build_tar({"../evil.nf.hcl": "", **FILES}),
    "tar link": build_tar(FILES, build_link("site/evil", "/etc")),
    "tar link over links": build_tar(
        FILES, build_link("a/b/c", "../.."), build_link("site/evil", "../a/b/c/../../x")
    ),
    "write through a link": build_tar(
        FILES, build_link("out", "/tmp"), tarfile.TarInfo("out/evil.nf.hcl")
    ),
    "hard link": build_tar(FILES, build_link("site/evil", "/etc/passwd", tarfile.LNKTYPE)),
    "device": build_tar(FILES, build_link("site/evil", "", tarfile.CHRTYPE)),
    "pipe": build_tar(FILES, build_link("site/evil", "", tarfile.FIFOTYPE)),
    "control character": build_tar({"site/a\nb": "", **FILES}),
    "not an archive": b"no archive at all",
    "cut off": build_tar(FILES)[:-40],
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_archive_is_rejected(
    server: ModuleServer, nf: Run, tmp_path: Path, case: str
) -> None:
    content = HOSTILE[case]
    form = "zip" if content.startswith(b"PK") else "tar.gz"
    write_root(add_directory(server.add_file(f"/a.{form}", content), "site"))
    code, text = nf("init")
    assert code == 1
    assert "The package of the module" in text or "is not a valid" in text, text
    assert not [*Path().rglob("*evil*")]
    assert not [*tmp_path.rglob("*evil*")]
    assert not Path(LOCK_FILE).exists()
    assert [*Path(".nexusform/modules").iterdir()] == []


UNUSUAL = {
    "zip": build_zip({"docs/..\\evil": "", "tests/.GIT/evil": "", "x/a\nevil": "", **FILES}),
    "tar.gz": build_tar(
        FILES,
        build_link("docs/evil", "/etc/passwd"),
        build_link("a/b/c", "../.."),
        build_link("evil", "a/b/c/../../x"),
        build_link("tests/good", "../docs"),
    ),
}


@pytest.mark.parametrize("form", UNUSUAL)
def test_unusual_files_elsewhere_in_a_package_are_left_out(
    server: ModuleServer, nf: Run, tmp_path: Path, form: str
) -> None:
    source = server.add_file(f"/a.{form}", UNUSUAL[form])
    write_root(add_directory(source, "site"))
    code, text = nf("init")
    assert code == 0, text
    assert "Files of the package are left out." in text
    assert "docs/" in text
    assert not [*Path().rglob("*evil*")]
    assert nf("plan")[0] == 0
    # Also from a mirror, and in another run.
    assert nf("modules", "mirror", str(tmp_path / "mirror"))[0] == 0
    shutil.rmtree(".nexusform")
    assert nf("init", f"-from-mirror={tmp_path}/mirror")[0] == 0
    # A module in an incomplete directory.
    Path("main.nf.hcl").write_text(
        'module "lab" {\n  source = "SITE"\n}\nmodule "d" {\n  source = "DOCS"\n}\n'.replace(
            "SITE", add_directory(source, "site")
        ).replace("DOCS", add_directory(source, "docs"))
    )
    for arguments in (("init",), ("init", f"-from-mirror={tmp_path}/mirror")):
        code, text = nf(*arguments)
        assert code == 1
        assert "rejected" in text


def test_module_cannot_call_an_incomplete_directory(server: ModuleServer, nf: Run) -> None:
    files = {**FILES, "site/main.nf.hcl": SITE.replace("SOURCE", "../rack")}
    source = server.add_file("/a.tar.gz", build_tar(files, build_link("rack/evil", "/etc")))
    write_root(add_directory(source, "site"))
    for command in ("init", "plan"):
        code, text = nf(command)
        assert code == 1
        assert 'Files of ".nexusform/modules/lab/rack" were left out' in text


def test_rejected_package_is_downloaded_once(server: ModuleServer, nf: Run) -> None:
    source = add_directory(server.add_file("/a.tar.gz", HOSTILE["tar slip"]), "site")
    block = f'module "NAME" {{\n  source = "{source}"\n}}\n'
    Path("main.nf.hcl").write_text(block.replace("NAME", "a") + block.replace("NAME", "b"))
    code, text = nf("init")
    assert code == 1
    assert text.count("leads out of it") == 2
    assert server.requests == ["/a.tar.gz"]


def test_archive_with_too_many_headers_is_not_opened(
    server: ModuleServer, nf: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "nexusform.workflow.module_packages.archive_packages"
    write_root(server.add_file("/a.zip", build_zip({f"d{n}/": "" for n in range(60)})))
    limits = "nexusform.files.file_trees.TreeLimits.__init__.__defaults__"
    monkeypatch.setattr(limits, (25, 1 << 20))
    monkeypatch.setattr(f"{module}.zipfile.ZipFile", None)
    code, text = nf("init")
    assert code == 1
    assert "It has more than" in text


@pytest.mark.parametrize("form", ["zip", "tar.gz"])
def test_archive_with_too_many_files_is_rejected_before_any_is_written(
    server: ModuleServer, nf: Run, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    module = "nexusform.workflow.module_packages.archive_packages"
    limits = "nexusform.files.file_trees.TreeLimits.__init__.__defaults__"
    monkeypatch.setattr(limits, (25, 1 << 20))
    build = build_zip if form == "zip" else build_tar
    write_root(server.add_file(f"/a.{form}", build({f"f{n}": "x" * n for n in range(26)})))
    with monkeypatch.context() as patch:
        patch.setattr(f"{module}.TreeEntry", None)
        code, text = nf("init")
    assert code == 1
    assert "It has more than 25 files." in text
    write_root(server.add_file(f"/b.{form}", build({f"f{n}": "x" * n for n in range(25)})))
    code, text = nf("init")
    assert "more than 25 files" not in text


def test_tar_of_many_entries_is_rejected_within_seconds() -> None:
    """A tar of 60,000 files needs half a second, against 20 seconds if they are written."""
    header = tarfile.TarInfo("f").tobuf()
    content = gzip.compress(header * 60_000, compresslevel=1)
    start = time.monotonic()
    with pytest.raises(UnsafeTree, match="more than 50,000 files"):
        list(_read_archive(content, "tar.gz"))
    assert time.monotonic() - start < 10


def test_large_archive_is_rejected(
    server: ModuleServer, nf: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "nexusform.files.file_trees.TreeLimits.__init__.__defaults__", (50, 1 << 20)
    )
    sparse = tarfile.TarInfo("site/large")
    sparse.size = 1 << 40
    for content in (
        build_zip({"site/large": "0" * (2 << 20)}),
        build_tar({"site/large": "0" * (2 << 20)}),
        build_zip({f"site/{n}": "" for n in range(60)}),
        build_tar({}, sparse),
    ):
        form = "zip" if content.startswith(b"PK") else "tar.gz"
        write_root(add_directory(server.add_file(f"/a.{form}", content), "site"))
        code, text = nf("init")
        assert code == 1
        assert "more than" in text or "is not a valid" in text, text


def test_archive_with_a_large_comment_is_rejected(server: ModuleServer, nf: Run) -> None:
    """`tarfile` reads such a text whole, in several copies."""
    content = BytesIO()
    with tarfile.open(
        fileobj=content, mode="w:gz", pax_headers={"comment": "x" * (2 << 20)}
    ) as archive:
        archive.addfile(tarfile.TarInfo("site"))
    write_root(add_directory(server.add_file("/a.tar.gz", content.getvalue()), "site"))
    code, text = nf("init")
    assert code == 1
    assert "It has a name or comment of more than 1 MiB." in text, text


def test_links_in_a_package_work(server: ModuleServer, nf: Run) -> None:
    content = build_tar(FILES, build_link("link", "site"), build_link("site/rack", "../rack"))
    write_root(add_directory(server.add_file("/a.tar.gz", content), "link"))
    code, text = nf("init")
    assert code == 0, text
    assert nf("validate")[0] == 0


def test_path_out_of_a_package_is_an_error(server: ModuleServer, nf: Run) -> None:
    Path("outside").mkdir()
    Path("outside/main.nf.hcl").write_text("")
    for path in ("../../../../outside", "../.."):
        content = build_zip({"site/main.nf.hcl": f'module "m" {{\n  source = "{path}"\n}}\n'})
        source = add_directory(server.add_file("/a.zip", content), "site")
        Path("main.nf.hcl").write_text(f'module "lab" {{\n  source = "{source}"\n}}\n')
        code, text = nf("init", "-upgrade")
        assert code == 1
        assert "leads out of the downloaded package" in text, text


def add_registry(server: ModuleServer, versions: tuple[str, ...]) -> str:
    """Serve versions in a git repository; each has another number of machines."""
    locations = {}
    for number, version in enumerate(versions, start=1):
        files = {
            "sites/main.nf.hcl": SITE.replace("SOURCE", "./rack"),
            "sites/rack/main.nf.hcl": RACK.replace("COUNT", str(number)),
        }
        commit_files(server.repositories / "registry", files, tag=f"v{version}")
        locations[version] = server.build_git_source("registry", "sites", f"v{version}")
    server.add_registry_module("team/site/nexus", locations)
    return f"127.0.0.1:{server.port}/team/site/nexus"


def test_registry_selects_by_constraints(server: ModuleServer, nf: Run) -> None:
    source = add_registry(server, ("1.0.0", "1.2.0", "1.3.0-beta.1", "2.0.0"))
    write_root(source, "~> 1.0")
    code, text = nf("init")
    assert code == 0, text
    lock = Path(LOCK_FILE).read_text()
    assert 'version      = "1.2.0"' in lock
    assert 'constraints  = "~> 1.0"' in lock
    assert 'subdirectory = "sites"' in lock
    assert nf("apply", "-auto-approve")[0] == 0
    assert nf("output", "-json", "count") == (0, "2")
    # A newer version is for -upgrade only.
    add_registry(server, ("1.0.0", "1.2.0", "1.9.0"))
    shutil.rmtree(".nexusform")
    assert nf("init")[0] == 0
    assert Path(LOCK_FILE).read_text() == lock
    code, text = nf("init", "-upgrade")
    assert "- lab 1.2.0 -> 1.9.0 in .nexusform/modules/lab" in text
    assert "1.9.0 (~> 1.0)" in nf("modules")[1]
    nf("plan", "-out=p")
    document = json.loads(nf("show", "-json", "p")[1])
    call = document["configuration"]["root_module"]["module_calls"]["lab"]
    assert call["version_constraint"] == "~> 1.0"


def test_registry_module_in_a_subdirectory_keeps_the_whole_package(
    server: ModuleServer, nf: Run
) -> None:
    files = {
        "modules/site/main.nf.hcl": SITE.replace("SOURCE", "../../shared/rack"),
        "modules/site/small/main.nf.hcl": SITE.replace("SOURCE", "../../../shared/rack"),
        "shared/rack/main.nf.hcl": RACK.replace("COUNT", "3"),
    }
    commit_files(server.repositories / "m", files)
    locations = {"1.0.0": server.build_git_source("m", "modules/site")}
    server.add_registry_module("team/site/nexus", locations)
    source = f"127.0.0.1:{server.port}/team/site/nexus"
    for path in ("", "//small"):
        write_root(f"{source}{path}")
        code, text = nf("init")
        assert code == 0, text
        code, text = nf("plan", "-out=p")
        assert code == 0, text
    assert nf("apply", "p")[0] == 0
    assert nf("output", "-json", "count") == (0, "3")
    lock = Path(LOCK_FILE).read_text()
    Path(LOCK_FILE).write_text(lock.replace('"modules/site"', '"../../.."'))
    code, text = nf("plan")
    assert code == 1
    assert "The subdirectory of the module" in text


def test_registry_module_of_three_levels_and_archive(server: ModuleServer, nf: Run) -> None:
    rack = server.add_file("/rack.tgz", build_tar({"x/main.nf.hcl": RACK.replace("COUNT", "4")}))
    site = build_zip(
        {
            "top/main.nf.hcl": SITE.replace("SOURCE", add_directory(rack, "x")),
            "top/deep/main.nf.hcl": SITE.replace("SOURCE", ".."),
        }
    )
    server.add_file("/site", site)
    locations = {"1.0.0": "/site?archive=zip&x=1//*", "2.0.0": f"{server.url}/site//*?archive=zip"}
    server.add_registry_module("team/site/nexus", locations)
    write_root(f"127.0.0.1:{server.port}/team/site/nexus", "2.0.0")
    code, text = nf("init")
    assert code == 0, text
    assert nf("apply", "-auto-approve")[0] == 0
    assert nf("output", "-json", "count") == (0, "4")


@pytest.mark.parametrize("start", ["/files/", "./", "../../../../../../files/"])
def test_registry_names_a_relative_address_with_a_directory(
    server: ModuleServer, nf: Run, start: str
) -> None:
    content = build_zip(FILES)
    for directory in ("/files", "/api/modules/team/site/nexus/1.0.0"):
        server.add_file(f"{directory}/a.zip", content)
    server.add_registry_module("team/site/nexus", {"1.0.0": f"{start}a.zip//site?archive=zip"})
    write_root(f"127.0.0.1:{server.port}/team/site/nexus")
    code, text = nf("init")
    assert code == 0, text
    assert 'subdirectory = "site"' in Path(LOCK_FILE).read_text()
    assert nf("validate")[0] == 0


def test_parameters_of_a_server_are_not_shown(
    server: ModuleServer, nf: Run, tmp_path: Path
) -> None:
    mirror = tmp_path / "mirror"
    source = server.add_file("/a.zip", build_zip(FILES)).replace("?", "?sv=1&sig=secret-word&")
    write_root(add_directory(source, "site"))
    commands = (
        ("plan",),
        ("init",),
        ("init", "-upgrade"),
        ("modules",),
        ("modules", "-json"),
        ("modules", "mirror", str(mirror)),
        ("plan", "-out=p"),
        ("show", "-json", "p"),
        ("init", f"-from-mirror={mirror}"),
    )
    texts = {command: nf(*command)[1] for command in commands}
    assert "is not installed" in texts["plan",] or "is not in" in texts["plan",]
    assert "Downloading" in texts["init",]
    assert "/a.zip" in texts["modules",]
    assert set(server.queries) == {"sv=1&sig=secret-word"}
    assert "secret-word" not in Path(LOCK_FILE).read_text()
    # Another signature is the same package.
    lock = Path(LOCK_FILE).read_text()
    requests = len(server.requests)
    write_root(add_directory(source, "site").replace("secret-word", "secret-words"))
    texts["changed",] = nf("plan")[1]
    texts["kept",] = nf("init")[1]
    assert len(server.requests) == requests
    assert Path(LOCK_FILE).read_text() == lock
    # An earlier version wrote the source as it was in the block.
    old_lock = lock.replace("?", "?sv=1&sig=secret-word&")
    Path(LOCK_FILE).write_text(old_lock)
    assert nf("validate")[0] == 0
    assert nf("init", "-lockfile=readonly")[0] == 1
    assert nf("init")[0] == 0
    assert Path(LOCK_FILE).read_text() == lock
    shutil.rmtree(".nexusform")
    texts["missing",] = nf("plan")[1]
    texts["mirror",] = nf("init", f"-from-mirror={mirror}")[1]
    assert nf("validate")[0] == 0
    server.pages.clear()
    shutil.rmtree(".nexusform")
    texts["failed",] = nf("init")[1]
    assert "the server answered 404" in texts["failed",]
    write_root(source.replace("http", "ftp"))
    texts["invalid",] = nf("validate")[1]
    write_root(source.partition("://")[2])
    texts["no scheme",] = nf("validate")[1]
    index = (mirror / "index.json").read_text()
    assert [name for name, text in texts.items() if "secret-word" in text] == []
    assert "secret-word" not in index
    # An index of an older version.
    (mirror / "index.json").write_text(index.replace("?archive", "?sig=secret-word&archive"))
    write_root(add_directory(source, "site"))
    assert nf("init", f"-from-mirror={mirror}")[0] == 0
    assert nf("modules", "mirror", str(mirror))[0] == 0
    assert (mirror / "index.json").read_text() == index


def test_registry_mirror(server: ModuleServer, nf: Run, tmp_path: Path) -> None:
    source = add_registry(server, ("1.0.0", "1.2.0"))
    mirror = str(tmp_path / "mirror")
    for version in ("1.0.0", "~> 1.0"):
        write_root(source, version)
        assert nf("init", "-upgrade")[0] == 0
        assert nf("modules", "mirror", mirror)[0] == 0
    server.pages.clear()
    shutil.rmtree(".nexusform")
    Path(LOCK_FILE).unlink()
    code, text = nf("init", f"-from-mirror={mirror}")
    assert code == 0, text
    assert 'version      = "1.2.0"' in Path(LOCK_FILE).read_text()
    write_root(source, "> 3")
    assert "the mirror has no" in nf("init", f"-from-mirror={mirror}")[1]


@pytest.mark.parametrize(
    ("path", "answer", "message"),
    [
        ("/.well-known/terraform.json", (404, {}, b""), "the server answered 404"),
        ("/.well-known/terraform.json", (200, {}, b"{}"), "has no registry of modules"),
        ("/.well-known/terraform.json", (200, {}, b"[["), "it is not JSON"),
        (
            "/.well-known/terraform.json",
            (200, {}, b'{"modules.v1": "file:///etc/"}'),
            "not an http or https address",
        ),
        ("/api/modules/team/site/nexus/versions", (200, {}, b"{}"), "not a list of versions"),
        (
            "/api/modules/team/site/nexus/versions",
            (200, {}, b'{"modules": [{"versions": [{"version": "x"}, {"version": 3}]}]}'),
            "has no version",
        ),
        (
            "/api/modules/team/site/nexus/1.0.0/download",
            (204, {}, b""),
            "names no source of the module",
        ),
        (
            "/api/modules/team/site/nexus/1.0.0/download",
            (204, {"X-Terraform-Get": "git::ext::sh -c touch% ran"}, b""),
            "names a source that is not supported",
        ),
        (
            "/api/modules/team/site/nexus/1.0.0/download",
            (204, {"X-Terraform-Get": "file:///etc"}, b""),
            "names a source that is not supported",
        ),
        (
            "/api/modules/team/site/nexus/1.0.0/download",
            (204, {"X-Terraform-Get": "a/b/c"}, b""),
            "names another registry",
        ),
        (
            "/api/modules/team/site/nexus/1.0.0/download",
            (200, {}, b'{"location": 3}'),
            "names no source of the module",
        ),
    ],
)  # fmt: skip
def test_unusable_answer_of_a_registry(
    server: ModuleServer,
    nf: Run,
    path: str,
    answer: tuple[int, dict[str, str], bytes],
    message: str,
) -> None:
    write_root(add_registry(server, ("1.0.0",)), "1.0.0")
    server.pages[path] = answer
    code, text = nf("init")
    assert code == 1
    assert message in text, text
    assert "Traceback" not in text


def test_token_of_a_constant_is_not_locked(
    server: ModuleServer, nf: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = server.add_file("/a.zip", build_zip({"main.nf.hcl": ""}))
    checksum = source.partition("?")[2]
    block = (
        f'module "lab" {{\n  source = "{server.url}/a.zip?token=${{var.token}}&{checksum}"\n}}\n'
    )
    variable = 'variable "token" {\n  type  = string\n  const = true\n}\n'
    Path("main.nf.hcl").write_text(variable + block)
    monkeypatch.setenv("NF_VAR_token", "secret-word")
    code, text = nf("init")
    assert code == 0, text
    assert server.queries == ["token=secret-word"]
    assert "secret-word" not in Path(LOCK_FILE).read_text()
    lock = Path(LOCK_FILE).read_text()
    monkeypatch.setenv("NF_VAR_token", "another-word")
    assert nf("init")[0] == 0
    assert Path(LOCK_FILE).read_text() == lock
    assert nf("validate")[0] == 0


def test_token_is_for_the_host_only(
    server: ModuleServer, nf: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_root(add_registry(server, ("1.0.0",)))
    monkeypatch.setenv("TF_TOKEN_127_0_0_1", "old-secret")
    monkeypatch.setenv("NF_TOKEN_127_0_0_1", "secret-word")
    assert nf("init")[0] == 0
    sent = [*zip(server.requests, server.tokens, strict=True)]
    assert {token for path, token in sent if path.startswith(("/api", "/.well"))} == {
        "Bearer secret-word"
    }
    assert {token for path, token in sent if path.startswith("/git")} == {""}
    assert "secret" not in Path(LOCK_FILE).read_text()


def test_version_is_for_registries_only(nf: Run) -> None:
    write_root("github.com/team/site", "1.0")
    code, text = nf("validate")
    assert code == 1
    assert "Only modules of a registry have versions" in text
    write_root("team/site/nexus", "newest")
    assert '"newest" is not a version constraint' in nf("validate")[1]
