"""A `backend` block that changed without `init`: nothing is planned as if there were no state."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from tests.contracts.http_state_server import state_server

SITE = 'resource "nexus_site" "lab" {\n  name = "lab"\n}\n'
Told = tuple[int, str]


@pytest.fixture
def nf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    monkeypatch.chdir(tmp_path)
    for name in ("NF_IN_AUTOMATION", "NF_CONFINE", "NF_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)

    def ask(*words: str) -> Told:
        capsys.readouterr()
        code = run_command_line(list(words))
        said = capsys.readouterr()
        return code, " ".join((said.out + said.err).replace("│", " ").split())

    return ask


def configure(kind: str = "", **settings: str) -> None:
    body = "".join(f'    {name} = "{value}"\n' for name, value in settings.items())
    block = f'nexusform {{\n  backend "{kind}" {{\n{body}  }}\n}}\n' if kind else ""
    Path("main.nf.hcl").write_text(block + SITE)


@pytest.mark.parametrize("command", [("plan",), ("apply", "-auto-approve"), ("destroy", "-auto-approve")])
def test_where_the_default_state_holds_objects_a_new_backend_needs_init(
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
def test_a_remote_backend_needs_it_as_well(nf: Callable[..., Told]) -> None:
    with state_server() as (address, store):
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
def test_a_backend_of_another_kind_is_told_before_what_it_lacks(nf: Callable[..., Told]) -> None:
    with state_server() as (address, _):
        configure("http")
        assert nf("init", f"-backend-config=address={address}/s")[0] == 0
        assert nf("apply", "-auto-approve")[0] == 0
        configure("s3")
        code, said = nf("plan")
        assert (code, 'since the last init (from "http" to "s3")' in said, "Missing" in said) == (1, True, False)
        assert 'needs "bucket"' in nf("init", "-migrate-state")[1]
        # What was given for the one is not taken for the other's.
        configure("local", path="elsewhere.nfstate")
        assert 'since the last init (from "http" to "local")' in nf("plan")[1]
        code, said = nf("init", "-migrate-state")
        assert code == 0, said
        assert "No changes." in nf("plan")[1]


@pytest.mark.of_domains("remote_state")
def test_a_fresh_clone_plans_without_init(nf: Callable[..., Told]) -> None:
    with state_server() as (address, _):
        configure("http", address=f"{address}/s")
        assert nf("plan")[0] == 0
        assert nf("apply", "-auto-approve")[0] == 0
        assert "No changes." in nf("plan")[1]


def test_an_empty_default_state_is_in_nobodys_way(nf: Callable[..., Told]) -> None:
    configure()
    assert nf("apply", "-auto-approve")[0] == 0
    assert nf("destroy", "-auto-approve")[0] == 0
    configure("local", path="elsewhere.nfstate")
    assert nf("plan")[0] == 0


def test_the_same_state_under_another_name_is_no_other_backend(nf: Callable[..., Told]) -> None:
    configure()
    assert nf("apply", "-auto-approve")[0] == 0
    configure("local", path="state/nexusform.nfstate")
    assert "No changes." in nf("plan")[1]


def test_a_migration_that_was_broken_off_is_finished_first(
    nf: Callable[..., Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nexusform.backends.local_file import LocalBackend

    configure("local", path="one.nfstate")
    assert nf("init")[0] == 0
    assert nf("apply", "-auto-approve")[0] == 0
    configure("local", path="elsewhere.nfstate")
    compact = LocalBackend.write_merged_state

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalBackend, "write_merged_state", killed)
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
def test_what_init_remembered_and_nobody_can_read_is_not_taken_for_nothing(
    nf: Callable[..., Told], junk: bytes
) -> None:
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
