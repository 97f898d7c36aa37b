"""Remote modules of run blocks: installed by `init`, locked, listed and mirrored."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.configuration.remote_modules.module_lock import LOCK_FILE
from tests.workflow.module_packages.module_server import ModuleServer, commit_files

Run = Callable[..., tuple[int, str]]
SETUP = 'output "n" {\n  value = module.inner.n\n}\nmodule "inner" {\n  source = "SOURCE"\n}\n'
INNER = 'output "n" {\n  value = NUMBER\n}\n'

pytestmark = pytest.mark.of_domains("testing")


def write_test(source: str, version: str = "", path: str = "tests/main.nftest.hcl") -> None:
    constraint = f'    version = "{version}"\n' if version else ""
    Path("main.nf.hcl").write_text('variable "n" {\n}\noutput "o" {\n  value = var.n\n}\n')
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text(
        f'run "setup" {{\n  module {{\n    source = "{source}"\n{constraint}  }}\n}}\n'
        'run "check" {\n  variables {\n    n = run.setup.n\n  }\n'
        '  assert {\n    condition = output.o == 7\n    error_message = "got ${output.o}"\n  }\n}\n'
    )


def test_module_of_a_run_from_git(server: ModuleServer, nf: Run, tmp_path: Path) -> None:
    commit_files(
        server.repositories / "inner", {"main.nf.hcl": INNER.replace("NUMBER", "7")}, tag="v1"
    )
    setup = SETUP.replace("SOURCE", server.build_git_source("inner", ref="v1"))
    commit_files(server.repositories / "setup", {"a/b/main.nf.hcl": setup}, tag="v1")
    write_test(server.build_git_source("setup", "a/b", ref="v1"))
    code, text = nf("test")
    assert code == 1
    assert 'The module "@tests.@main.setup"' in text
    assert "Run `nexusform init`." in text
    assert "Internal error" not in text
    code, text = nf("init")
    assert code == 0, text
    lock = Path(LOCK_FILE).read_text()
    assert 'module "@tests.@main.setup" {' in lock
    assert 'module "@tests.@main.setup.inner" {' in lock
    requests = len(server.requests)
    code, text = nf("test")
    assert code == 0, text
    assert "Success! 2 passed" in text
    assert nf("plan", "-var=n=1")[0] == 0
    assert len(server.requests) == requests
    # A moved tag: the locked commit stays.
    commit_files(
        server.repositories / "inner", {"main.nf.hcl": INNER.replace("NUMBER", "8")}, tag="v1"
    )
    assert nf("init")[0] == 0
    assert Path(LOCK_FILE).read_text() == lock
    # The list, and a mirror of it.
    assert "@tests.@main.setup.inner" in nf("modules", "-json")[1]
    assert nf("modules", "mirror", str(tmp_path / "mirror"))[0] == 0
    shutil.rmtree(".nexusform")
    code, text = nf("init", f"-from-mirror={tmp_path}/mirror")
    assert code == 0, text
    assert nf("test")[0] == 0
    # A changed file of the package.
    next(Path(".nexusform/modules/@tests.@main.setup.inner").glob("*.hcl")).write_text("")
    code, text = nf("test")
    assert code == 1
    assert "differ from" in text
    assert nf("init", "-upgrade")[0] == 0
    assert "got 8" in nf("test")[1]
    # Without the test file, nothing of it stays.
    Path("tests/main.nftest.hcl").unlink()
    assert nf("init")[0] == 0
    assert not Path(LOCK_FILE).exists()
    assert not Path(".nexusform/modules/@tests.@main.setup").exists()


def test_remote_module_below_a_local_module_of_a_run(server: ModuleServer, nf: Run) -> None:
    commit_files(server.repositories / "inner", {"main.nf.hcl": INNER.replace("NUMBER", "7")})
    Path("setup").mkdir()
    Path("setup/main.nf.hcl").write_text(SETUP.replace("SOURCE", server.build_git_source("inner")))
    write_test("./setup", path="other/x.y.nftest.hcl")
    code, text = nf("init", "-test-directory=other")
    assert code == 0, text
    assert 'module "@other.@x%2Ey.setup.inner" {' in Path(LOCK_FILE).read_text()
    code, text = nf("test", "-test-directory=other")
    assert code == 0, text


def test_module_of_a_run_from_a_registry(server: ModuleServer, nf: Run) -> None:
    for number, tag in (("6", "v1"), ("7", "v2")):
        commit_files(
            server.repositories / "m", {"main.nf.hcl": INNER.replace("NUMBER", number)}, tag=tag
        )
    locations = {
        f"{number}.0.0": server.build_git_source("m", ref=f"v{number}") for number in (1, 2)
    }
    server.add_registry_module("team/m/nexus", locations)
    write_test(f"127.0.0.1:{server.port}/team/m/nexus", "~> 2.0")
    code, text = nf("init")
    assert code == 0, text
    assert nf("test")[0] == 0


def test_invalid_source_of_a_run_is_an_error(server: ModuleServer, nf: Run) -> None:
    write_test("file:///tmp/m")
    for command in ("test", "validate"):
        code, text = nf(command)
        assert code == 1
        assert "Unsupported module source" in text
    write_test(server.build_git_source("missing"))
    code, text = nf("init")
    assert code == 1
    assert 'The module "@tests.@main.setup" cannot be downloaded' in text
    assert 'in run "setup"' in text
    write_test("./missing")
    code, text = nf("test")
    assert code == 1
    assert 'The directory "missing" cannot be read' in text


def test_modules_of_test_files_with_similar_paths_are_separate(
    server: ModuleServer, nf: Run
) -> None:
    paths = {
        "one": "tests/main.nftest.hcl",
        "two": "tests_main.nftest.hcl",
        "three": "tests/a b.nftest.hcl",
        "four": "tests/a.b.nftest.hcl",
    }
    for name, path in paths.items():
        commit_files(
            server.repositories / name, {"main.nf.hcl": INNER.replace("NUMBER", "7")}, tag="v1"
        )
        write_test(server.build_git_source(name, ref="v1"), path=path)
    assert nf("init")[0] == 0
    lock = Path(LOCK_FILE).read_text()
    for name in paths:
        assert f"/git/{name}?ref=v1" in lock
    code, text = nf("test")
    assert code == 0, text
    assert "Success! 8 passed" in text
    assert nf("init")[0] == 0
    assert Path(LOCK_FILE).read_text() == lock


def test_directory_with_tests_only_is_prepared(server: ModuleServer, nf: Run) -> None:
    commit_files(
        server.repositories / "inner", {"main.nf.hcl": INNER.replace("NUMBER", "7")}, tag="v1"
    )
    write_test(server.build_git_source("inner", ref="v1"))
    Path("main.nf.hcl").unlink()
    Path("tests/main.nftest.hcl").write_text(
        Path("tests/main.nftest.hcl").read_text().partition('run "check"')[0]
    )
    code, text = nf("init")
    assert code == 0, text
    assert nf("test")[0] == 0
    # A directory with nothing stays an error.
    shutil.rmtree("tests")
    Path(LOCK_FILE).unlink()
    code, text = nf("init")
    assert code == 1
    assert "contains no nexusform configuration files" in text
