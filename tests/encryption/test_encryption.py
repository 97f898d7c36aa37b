"""Tests of encryption at rest from the user's view.

They concern encrypted files, accepted keys, and errors without a key.
"""

import base64
import json
import os
import sys
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.encryption import key_providers
from tests.foreign_secrets import CLOUD_VARIABLES, find_secrets, set_foreign_secrets

STATE = Path("state/nexusform.nfstate")
SECRET = "a passphrase of some length"
SITE = (
    'resource "nexus_site" "lab" {\n  name = "lab"\n}\noutput "word" {\n  value = '
    '"needle-in-the-state"\n}\n'
)

PBKDF2 = """
    key_provider "pbkdf2" "main" {
      passphrase_variable = "SITE_PASSPHRASE"
      iterations          = "200000"
    }
"""
FROM_VARIABLE = """
    key_provider "environment" "main" {
      variable = "SITE_KEY"
    }
"""


def render_encryption(providers: str, kind: str, more: str = "", state: str = "") -> str:
    return f"""
nexusform {{
  encryption {{
{providers}
    method "aes_gcm" "main" {{
      keys = key_provider.{kind}.main
    }}
{more}
    state {{
      method = method.aes_gcm.main
{state}
    }}
    plan {{
      method = method.aes_gcm.main
    }}
  }}
}}
"""


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SITE_PASSPHRASE", SECRET)
    monkeypatch.setenv("SITE_KEY", base64.b64encode(b"k" * 32).decode())


def write_configuration(encryption: str, rest: str = SITE) -> None:
    Path("main.nf.hcl").write_text(encryption + rest)


def read_output(capsys: pytest.CaptureFixture[str]) -> str:
    both = capsys.readouterr()
    return " ".join((both.out + both.err).replace("│", " ").split())


@pytest.mark.parametrize(
    ("providers", "kind"), [(PBKDF2, "pbkdf2"), (FROM_VARIABLE, "environment")]
)
def test_state_journal_and_plan_are_encrypted_and_read_again(
    providers: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_configuration(render_encryption(providers, kind))
    assert run_command_line(["plan", "-out=p.plan"]) == 0
    assert run_command_line(["apply", "p.plan"]) == 0
    for path in (STATE, Path("p.plan")):
        content = path.read_bytes()
        assert content.startswith(b'{"encryption":{')
        assert b"needle" not in content
        assert b"nexus_site" not in content
        assert SECRET.encode() not in content
    capsys.readouterr()
    assert run_command_line(["plan"]) == 0
    assert "No changes." in read_output(capsys)
    assert run_command_line(["show", "p.plan"]) == 0
    assert "needle-in-the-state" in read_output(capsys)
    assert run_command_line(["state", "pull"]) == 0
    assert "needle-in-the-state" in read_output(capsys)


def test_journal_of_killed_apply_is_encrypted_and_merged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from nexusform.backends.local_file import LocalBackend

    write_configuration(render_encryption(FROM_VARIABLE, "environment"))

    def interrupt_write(_self: LocalBackend, _document: bytes, _keep: object = ()) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LocalBackend, "write_merged_state", interrupt_write)
        assert run_command_line(["apply", "-auto-approve"]) != 0
    journal = Path("state/nexusform.nfstate.journal").read_bytes()
    # After the digest of its document.
    records = journal.splitlines()[1:]
    assert journal.count(b'{"encryption":{') == len(records) > 1
    assert b"nexus_site" not in journal
    capsys.readouterr()
    assert run_command_line(["plan"]) == 0
    assert "No changes." in read_output(capsys)


def test_another_key_is_rejected_and_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_configuration(render_encryption(PBKDF2, "pbkdf2"))
    assert run_command_line(["apply", "-auto-approve"]) == 0
    before = STATE.read_bytes()
    monkeypatch.setenv("SITE_PASSPHRASE", SECRET + "!")
    for command in (["plan"], ["apply", "-auto-approve"], ["state", "list"]):
        capsys.readouterr()
        assert run_command_line(command) == 1
        text = read_output(capsys)
        assert "cannot be decrypted" in text
        assert "key_provider.pbkdf2.main: the key does not decrypt it" in text
    assert STATE.read_bytes() == before


def test_modified_document_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    write_configuration(render_encryption(FROM_VARIABLE, "environment"))
    assert run_command_line(["apply", "-auto-approve"]) == 0
    document = json.loads(STATE.read_bytes())
    data = bytearray(base64.b64decode(document["data"]))
    data[len(data) // 2] ^= 1
    changes = [
        {**document, "data": base64.b64encode(data).decode()},
        {
            **document,
            "encryption": {**document["encryption"], "nonce": base64.b64encode(b"x" * 12).decode()},
        },
        {**document, "encryption": {**document["encryption"], "keys": "other"}},
        {**document, "encryption": {**document["encryption"], "purpose": "plan"}},
        {**document, "data": "?"},
        {**document, "data": document["data"] + "\n"},
    ]
    for changed in changes:
        STATE.write_text(json.dumps(changed, separators=(",", ":")))
        capsys.readouterr()
        assert run_command_line(["plan"]) == 1
        assert "Error: Unreadable state" in read_output(capsys)


def test_encrypted_plan_is_rejected_as_state(capsys: pytest.CaptureFixture[str]) -> None:
    write_configuration(render_encryption(FROM_VARIABLE, "environment"))
    assert run_command_line(["plan", "-out=p.plan"]) == 0
    STATE.parent.mkdir(exist_ok=True)
    STATE.write_bytes(Path("p.plan").read_bytes())
    assert run_command_line(["plan"]) == 1
    assert "is encrypted as a plan, not as a state" in read_output(capsys)


def test_unencrypted_state_is_read_only_with_explicit_fallback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_configuration("")
    assert run_command_line(["apply", "-auto-approve"]) == 0
    write_configuration(render_encryption(FROM_VARIABLE, "environment"))
    capsys.readouterr()
    assert run_command_line(["plan"]) == 1
    assert "is not encrypted, but the configuration requires encryption" in read_output(capsys)
    plain = '    method "unencrypted" "before" {}\n'
    fallback = "      fallback {\n        method = method.unencrypted.before\n      }\n"
    rack = 'resource "nexus_site" "second" {\n  name = "second"\n}\n'
    write_configuration(
        render_encryption(FROM_VARIABLE, "environment", plain, fallback), SITE + rack
    )
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert STATE.read_bytes().startswith(b'{"encryption":{')


def test_keys_are_rotated_with_a_fallback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_configuration(render_encryption(FROM_VARIABLE, "environment"))
    assert run_command_line(["apply", "-auto-approve"]) == 0
    monkeypatch.setenv("OLD_KEY", os.environ["SITE_KEY"])
    monkeypatch.setenv("SITE_KEY", "ab" * 32)
    old = """
    key_provider "environment" "old" {
      variable = "OLD_KEY"
    }
    method "aes_gcm" "old" {
      keys = key_provider.environment.old
    }
"""
    fallback = "      fallback {\n        method = method.aes_gcm.old\n      }\n"
    rack = 'resource "nexus_site" "second" {\n  name = "second"\n}\n'
    write_configuration(render_encryption(FROM_VARIABLE, "environment", old, fallback), SITE + rack)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    monkeypatch.delenv("OLD_KEY")
    write_configuration(render_encryption(FROM_VARIABLE, "environment"), SITE + rack)
    capsys.readouterr()
    assert run_command_line(["plan"]) == 0
    assert "No changes." in read_output(capsys)


def test_key_is_rotated_by_apply_without_changes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_configuration(render_encryption(FROM_VARIABLE, "environment"))
    assert run_command_line(["apply", "-auto-approve"]) == 0
    other = FROM_VARIABLE.replace('"main"', '"next"').replace("SITE_KEY", "NEXT_KEY")
    monkeypatch.setenv("NEXT_KEY", "cd" * 32)
    method = '    method "aes_gcm" "next" {\n      keys = key_provider.environment.next\n    }\n'
    fallback = "      fallback {\n        method = method.aes_gcm.main\n      }\n"
    text = render_encryption(FROM_VARIABLE + other, "environment", method, fallback)
    write_configuration(
        text.replace(
            "state {\n      method = method.aes_gcm.main",
            "state {\n      method = method.aes_gcm.next",
        )
    )
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert json.loads(STATE.read_bytes())["encryption"]["keys"] == "environment.next"
    monkeypatch.delenv("SITE_KEY")
    write_configuration(
        text.replace(fallback, "").replace("method.aes_gcm.main", "method.aes_gcm.next")
    )
    capsys.readouterr()
    assert run_command_line(["plan"]) == 0
    assert "No changes." in read_output(capsys)


@pytest.mark.parametrize("value", ["", "abc"])
def test_missing_key_is_reported_before_any_action(
    value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SITE_KEY", value)
    write_configuration(render_encryption(FROM_VARIABLE, "environment"))
    for command in (["plan"], ["apply", "-auto-approve"]):
        capsys.readouterr()
        assert run_command_line(command) == 1
        message = read_output(capsys)
        assert "Cannot encrypt. key_provider.environment.main" in message
        assert "Creating" not in message
    assert not Path("errored.nfstate").exists()
    assert not STATE.exists()


def test_errored_state_is_encrypted_and_can_be_pushed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from nexusform.backends.local_file import LocalBackend
    from nexusform.interfaces.state_storage import BackendProblem

    write_configuration(render_encryption(FROM_VARIABLE, "environment"))

    def fail_with_full_disk(_self: LocalBackend, _document: bytes, _keep: object = ()) -> None:
        raise BackendProblem("The disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr(LocalBackend, "write_merged_state", fail_with_full_disk)
        assert run_command_line(["apply", "-auto-approve"]) == 1
    assert Path("errored.nfstate").read_bytes().startswith(b'{"encryption":{')
    capsys.readouterr()
    assert run_command_line(["state", "push", "-force", "errored.nfstate"]) == 0, read_output(
        capsys
    )
    assert run_command_line(["plan"]) == 0
    assert "No changes." in read_output(capsys)


def test_encrypted_state_without_any_key_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    write_configuration(render_encryption(FROM_VARIABLE, "environment"))
    assert run_command_line(["plan", "-out=p.plan"]) == 0
    assert run_command_line(["apply", "p.plan"]) == 0
    write_configuration("")
    capsys.readouterr()
    assert run_command_line(["plan"]) == 1
    assert "Error: Encrypted state" in read_output(capsys)
    assert run_command_line(["show", "p.plan"]) == 1
    assert (
        "is encrypted, but neither the configuration nor NF_ENCRYPTION has encryption settings"
        in read_output(capsys)
    )


def test_environment_configures_encryption_without_configuration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    inside = (
        render_encryption(FROM_VARIABLE, "environment")
        .partition("encryption {")[2]
        .rpartition("}\n}")[0]
    )
    monkeypatch.setenv("NF_ENCRYPTION", inside)
    write_configuration("")
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert STATE.read_bytes().startswith(b'{"encryption":{')
    monkeypatch.setenv("NF_ENCRYPTION", "state {\n")
    capsys.readouterr()
    assert run_command_line(["plan"]) == 1
    assert "NF_ENCRYPTION line" in read_output(capsys)


PROGRAM = """
import base64, json, sys
meta = json.load(sys.stdin)
print(json.dumps({"magic": "OpenTofu-External-Key-Provider", "version": 1}))
key = base64.b64encode(b"e" * 32).decode()
if meta is None:
    print(json.dumps({"keys": {"encryption_key": key}, "meta": {"external_data": {"n": 7}}}))
else:
    assert meta == {"external_data": {"n": 7}}, meta
    print(json.dumps({"keys": {"encryption_key": key, "decryption_key": key}, "meta": meta}))
"""


def test_program_named_by_environment_provides_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "keys.py").write_text(PROGRAM)
    write_configuration(render_encryption('    key_provider "external" "main" {}\n', "external"))
    assert run_command_line(["plan"]) == 1
    assert "NF_ENCRYPTION_COMMAND must name the program" in read_output(capsys)
    monkeypatch.setenv("NF_ENCRYPTION_COMMAND", f"{sys.executable} {tmp_path / 'keys.py'}")
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capsys.readouterr()
    assert run_command_line(["plan"]) == 0
    assert "No changes." in read_output(capsys)


def test_program_of_keys_gets_no_foreign_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It signs in to a cloud at most, so it gets no token of the job."""
    write_environment = f"import os\nopen({str(tmp_path / 'seen')!r}, 'w').write(str(os.environ))\n"
    (tmp_path / "keys.py").write_text(write_environment + PROGRAM)
    write_configuration(render_encryption('    key_provider "external" "main" {}\n', "external"))
    monkeypatch.setenv("NF_ENCRYPTION_COMMAND", f"{sys.executable} {tmp_path / 'keys.py'}")
    set_foreign_secrets(monkeypatch)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert find_secrets((tmp_path / "seen").read_text()) == set(CLOUD_VARIABLES)


def test_program_is_never_taken_from_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    provider = '    key_provider "external" "main" {\n      command = "touch stolen"\n    }\n'
    write_configuration(render_encryption(provider, "external"))
    assert run_command_line(["apply", "-auto-approve"]) == 1
    assert 'unknown setting "command"' in read_output(capsys)
    assert not Path("stolen").exists()


class FakeVault:
    """Fake of a vault: wraps secrets by reversing the bytes.

    It uses the newest version of each key.
    """

    def wrap(self, key_id: str, secret: bytes) -> tuple[str, bytes]:
        return f"{key_id}/v2", secret[::-1]

    def unwrap(self, key_id: str, wrapped: bytes) -> bytes:
        assert key_id.endswith("/v2")
        return wrapped[::-1]


def test_vault_wraps_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    vault = FakeVault()
    monkeypatch.setattr(key_providers, "wrap_key", vault.wrap)
    monkeypatch.setattr(key_providers, "unwrap_key", vault.unwrap)
    provider = """
    key_provider "azure_vault" "main" {
      vault_uri = "https://sites.vault.azure.net/"
      key_name  = "nexusform"
    }
"""
    write_configuration(render_encryption(provider, "azure_vault"))
    assert run_command_line(["apply", "-auto-approve"]) == 0
    meta = json.loads(STATE.read_bytes())["encryption"]["meta"]
    assert meta["key_id"] == "https://sites.vault.azure.net/keys/nexusform/v2"
    capsys.readouterr()
    assert run_command_line(["plan"]) == 0
    assert "No changes." in read_output(capsys)
    write_configuration(
        render_encryption(provider.replace('"nexusform"', '"nexus"'), "azure_vault")
    )
    assert run_command_line(["plan"]) == 1
    assert "was wrapped by https://sites.vault.azure.net/keys/nexusform/v2" in read_output(capsys)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('method "rot13" "m" {}', 'There is no method "rot13". Known are: aes_gcm, unencrypted.'),
        ('method "aes_gcm" "m" {}', "needs `keys = key_provider.TYPE.NAME`"),
        (
            'method "aes_gcm" "m" {\n keys = key_provider.pbkdf2.x\n}',
            "key_provider.pbkdf2.x, which is not declared",
        ),
        ("state {\n method = method.aes_gcm.m\n}", 'There is no block method "aes_gcm" "m".'),
        ("state {\n method = var.m\n}", "A reference of the form method.TYPE.NAME is needed here."),
        ("state {}", 'The argument "method" is required'),
        (
            (
                'method "unencrypted" "u" {}\nstate {\n method = method.unencrypted.u\n enforced = '
                "true\n}"
            ),
            "`enforced = true` does not allow the method unencrypted",
        ),
        ('key_provider "pbkdf2" "p" {\n passphrase = var.p\n}', "Variables may not be used here."),
        ('key_provider "pbkdf2" "p" {}\n' * 2, "key_provider.pbkdf2.p is declared twice."),
        ('method "unencrypted" "u" {}\n' * 2, "method.unencrypted.u is declared twice."),
        ("state {}\n" * 2, "state is declared twice."),
        ("plan {\n" + "fallback {}\n" * 2 + "}", "fallback is declared twice."),
        ("cipher {}", 'Blocks of type "cipher" are not expected here.'),
    ],
)
def test_errors_in_block_are_reported_at_their_line(
    text: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_configuration(f"nexusform {{\n  encryption {{\n{text}\n  }}\n}}\n")
    assert run_command_line(["validate"]) == 1
    message = read_output(capsys)
    assert complaint in message
    assert "main.nf.hcl line" in message


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ('passphrase = "short"', "must have at least 16 characters"),
        ('passphrase_variable = "NOT_SET"', "the variable NOT_SET is not set"),
        (f'passphrase = "{SECRET}"\niterations = "1000"', "a whole number of at least 200,000"),
        (f'passphrase = "{SECRET}"\niterations = "²"', "a whole number of at least 200,000"),
        (f'passphrase = "{SECRET}"\nhash_function = "md5"', "use sha256 or sha512"),
        (f'passphrase = "{SECRET}"\nsalt = "x"', 'unknown setting "salt"'),
    ],
)
def test_unavailable_keys_are_explained(
    settings: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_configuration(
        render_encryption(f'key_provider "pbkdf2" "main" {{\n{settings}\n}}\n', "pbkdf2")
    )
    assert run_command_line(["apply", "-auto-approve"]) == 1
    message = read_output(capsys)
    assert complaint in message
    assert "key_provider.pbkdf2.main" in message
    assert not STATE.exists()


def test_migrated_state_stays_encrypted(capsys: pytest.CaptureFixture[str]) -> None:
    write_configuration(render_encryption(FROM_VARIABLE, "environment"))
    assert run_command_line(["apply", "-auto-approve"]) == 0
    elsewhere = 'nexusform {\n  backend "local" {\n    path = "elsewhere.nfstate"\n  }\n}\n'
    write_configuration(render_encryption(FROM_VARIABLE, "environment") + elsewhere)
    assert run_command_line(["init", "-migrate-state"]) == 0
    assert Path("elsewhere.nfstate").read_bytes().startswith(b'{"encryption":{')
    capsys.readouterr()
    assert run_command_line(["plan"]) == 0
    assert "No changes." in read_output(capsys)


@pytest.mark.parametrize(
    "keys", ['pbkdf2["x"].main', "pbkdf2[0].main", 'pbkdf2.main["x"]', "pbkdf2.main.x"]
)
def test_reference_with_further_steps_is_rejected(
    keys: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = render_encryption(PBKDF2, "pbkdf2").replace(
        "key_provider.pbkdf2.main", f"key_provider.{keys}"
    )
    write_configuration(text)
    assert run_command_line(["plan"]) == 1
    assert "A reference of the form key_provider.TYPE.NAME is needed here." in read_output(capsys)
