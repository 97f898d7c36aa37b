"""Tests of a `backend` block changed without `init`.

No plan starts from an empty state by mistake.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from tests.contracts.http_state_server import run_state_server

SITE = 'resource "nexus_site" "lab" {\n  name = "lab"\n}\n'
Told = tuple[int, str]


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Told]:
    monkeypatch.chdir(tmp_path)
    for name in ("NF_IN_AUTOMATION", "NF_CONFINE", "NF_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)

    def run_command(*words: str) -> Told:
        capsys.readouterr()
        code = run_command_line(list(words))
        said = capsys.readouterr()
        return code, " ".join((said.out + said.err).replace("│", " ").split())

    return run_command


def configure(kind: str = "", **settings: str) -> None:
    body = "".join(f'    {name} = "{value}"\n' for name, value in settings.items())
    block = f'nexusform {{\n  backend "{kind}" {{\n{body}  }}\n}}\n' if kind else ""
    Path("main.nf.hcl").write_text(block + SITE)


@pytest.mark.parametrize(
    "command", [("plan",), ("apply", "-auto-approve"), ("destroy", "-auto-approve")]
)
def test_new_backend_needs_init_if_default_state_has_objects(
    nf: Callable[..., Told], command: tuple[str, ...]
) -> None:
    configure()
    assert nf("apply", "-auto-approve")[0] == 0
    configure("local", path="elsewhere.nfstate")
    code, said = nf(*command)
    assert code == 1
    assert "init -migrate-state" in said
    assert "init -reconfigure" in said
    assert not Path("elsewhere.nfstate").exists()
    assert nf("init", "-migrate-state")[0] == 0
    assert "No changes." in nf("plan")[1]


@pytest.mark.of_domains("remote_state")
def test_remote_backend_needs_init_too(nf: Callable[..., Told]) -> None:
    with run_state_server() as (address, store):
        configure()
        assert nf("apply", "-auto-approve")[0] == 0
        configure("http", address=f"{address}/s")
        assert nf("apply", "-auto-approve")[0] == 1
        assert store.written == []
        assert nf("init", "-reconfigure")[0] == 0
        assert "1 to add" in nf("plan")[1]
        configure("http", address=f"{address}/other")
        assert "The backend of this configuration changed" in nf("plan")[1]
        configure()
        assert "The backend of this configuration changed" in nf("plan")[1]


@pytest.mark.of_domains("remote_state")
def test_changed_backend_kind_is_reported_before_missing_settings(nf: Callable[..., Told]) -> None:
    with run_state_server() as (address, _):
        configure("http")
        assert nf("init", f"-backend-config=address={address}/s")[0] == 0
        assert nf("apply", "-auto-approve")[0] == 0
        configure("s3")
        code, said = nf("plan")
        assert (
            code,
            'since the last init or apply (from "http" to "s3")' in said,
            "Missing" in said,
        ) == (1, True, False)
        assert 'needs "bucket"' in nf("init", "-migrate-state")[1]
        # Settings given for one backend are not used for another.
        configure("local", path="elsewhere.nfstate")
        assert 'since the last init or apply (from "http" to "local")' in nf("plan")[1]
        code, said = nf("init", "-migrate-state")
        assert code == 0, said
        assert "No changes." in nf("plan")[1]


@pytest.mark.of_domains("remote_state")
def test_fresh_clone_plans_without_init(nf: Callable[..., Told]) -> None:
    with run_state_server() as (address, _):
        configure("http", address=f"{address}/s")
        assert nf("plan")[0] == 0
        assert nf("apply", "-auto-approve")[0] == 0
        assert "No changes." in nf("plan")[1]


def test_empty_default_state_does_not_require_init(nf: Callable[..., Told]) -> None:
    configure()
    assert nf("apply", "-auto-approve")[0] == 0
    assert nf("destroy", "-auto-approve")[0] == 0
    configure("local", path="elsewhere.nfstate")
    assert nf("plan")[0] == 0


def test_same_state_under_another_name_is_no_other_backend(nf: Callable[..., Told]) -> None:
    configure()
    assert nf("apply", "-auto-approve")[0] == 0
    configure("local", path="state/nexusform.nfstate")
    assert "No changes." in nf("plan")[1]


def test_interrupted_migration_must_be_completed_first(
    nf: Callable[..., Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nexusform.backends.local_file import LocalBackend

    configure("local", path="one.nfstate")
    assert nf("init")[0] == 0
    assert nf("apply", "-auto-approve")[0] == 0
    configure("local", path="elsewhere.nfstate")
    compact = LocalBackend.write_merged_state

    def interrupt_write(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalBackend, "write_merged_state", interrupt_write)
    assert nf("init", "-migrate-state")[0] != 0
    monkeypatch.setattr(LocalBackend, "write_merged_state", compact)
    for kind in ({"kind": "local", "path": "elsewhere.nfstate"}, {}):
        configure(**kind)
        code, said = nf("plan")
        assert code == 1
        assert "Migration interrupted" in said
    configure("http")
    assert "Migration interrupted" in nf("plan")[1]
    configure("local", path="elsewhere.nfstate")
    assert nf("init", "-migrate-state")[0] == 0
    assert "No changes." in nf("plan")[1]


@pytest.mark.parametrize("junk", [b"", b"{", b"\0" * 2_000_000, b'{"type": 3}'])
def test_unreadable_backend_record_is_an_error(nf: Callable[..., Told], junk: bytes) -> None:
    configure("local", path="one.nfstate")
    assert nf("init")[0] == 0
    assert nf("apply", "-auto-approve")[0] == 0
    configure("local", path="two.nfstate")
    Path(".nexusform/backend.json").write_bytes(junk)
    code, said = nf("apply", "-auto-approve")
    assert code == 1
    assert "is not readable, so the backend of the last run is unknown" in said
    assert not Path("two.nfstate").exists()
    configure("local", path="one.nfstate")
    assert nf("init")[0] == 0
    assert "No changes." in nf("plan")[1]


@pytest.mark.parametrize(
    "later", [{"kind": "local", "path": "second.nfstate"}, {}], ids=["another path", "no block"]
)
def test_apply_without_init_records_its_backend(
    nf: Callable[..., Told], later: dict[str, str]
) -> None:
    configure("local", path="first.nfstate")
    assert nf("apply", "-auto-approve")[0] == 0
    configure(**later)
    code, said = nf("plan")
    assert (
        code,
        "The backend of this configuration changed since the last init or apply" in said,
    ) == (1, True), said
    assert nf("init", "-migrate-state")[0] == 0
    assert "No changes." in nf("plan")[1]


def test_import_without_init_records_its_backend(nf: Callable[..., Told]) -> None:
    Path("provider.nf.hcl").write_text('provider "simulated" {\n  reality = "site.json"\n}\n')
    configure("local", path="first.nfstate")
    # A state named by a flag is not recorded.
    assert nf("apply", "-auto-approve", "-state=first.nfstate")[0] == 0
    assert nf("state", "rm", "nexus_site.lab")[0] == 0
    assert not Path(".nexusform/backend.json").exists()
    assert nf("import", "nexus_site.lab", "lab")[0] == 0
    configure("local", path="second.nfstate")
    code, said = nf("plan")
    assert (
        code,
        "The backend of this configuration changed since the last init or apply" in said,
    ) == (1, True), said


def test_unwritable_record_of_the_backend_is_a_warning(
    nf: Callable[..., Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("local", path="elsewhere.nfstate")
    Path("file").touch()
    monkeypatch.setenv("NF_DATA_DIR", "file")
    code, said = nf("apply", "-auto-approve")
    assert code == 0
    assert "Apply complete!" in said
    assert "Later commands will not notice a change of the `backend` block" in said
    monkeypatch.delenv("NF_DATA_DIR")
    assert "cannot be written" not in nf("apply", "-auto-approve")[1]
