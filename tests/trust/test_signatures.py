"""Tests of `plan -sign` and `apply -verify=key:FILE`.

Only plans signed with the key are applied.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nexusform.cli.main import run_command_line
from nexusform.plans.saved import plan_file
from tests.trust.test_saved_plans import CONFIGURATION, add_machines, forge_plan

PEM = serialization.Encoding.PEM
ENCRYPTION = """
nexusform {
  encryption {
    key_provider "pbkdf2" "main" {
      passphrase    = "a passphrase that is long"
      iterations    = 200000
    }
    method "aes_gcm" "main" {
      keys = key_provider.pbkdf2.main
    }
    plan {
      method = method.aes_gcm.main
    }
  }
}
"""


def write_keys(name: str) -> None:
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    Path(f"{name}.key").write_bytes(private)
    Path(f"{name}.pub").write_bytes(public)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(CONFIGURATION)
    write_keys("team")
    return tmp_path


def apply_and_expect_rejection(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    capsys.readouterr()
    assert run_command_line(["apply", *flags, "p.nfplan"]) == 1
    assert not Path("state/nexusform.nfstate").exists()
    return " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_signed_plan_is_applied() -> None:
    assert run_command_line(["plan", "-out=p.nfplan", "-sign=team.key", "-confine=false"]) == 0
    assert run_command_line(["apply", "-verify=key:team.pub", "p.nfplan"]) == 0


def test_signed_plan_needs_no_verification_and_is_applied_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command_line(["plan", "-out=p.nfplan", "-sign=team.key", "-confine=false"]) == 0
    signed = Path("p.nfplan").read_bytes()
    assert run_command_line(["apply", "p.nfplan"]) == 0
    members = plan_file.unpack_archive(signed) or {}
    del members["signature.json"]
    Path("p.nfplan").write_bytes(plan_file.pack_archive(members))
    assert run_command_line(["apply", "p.nfplan"]) == 1
    assert "Saved plan already applied" in capsys.readouterr().err


def test_signature_is_inside_the_encryption() -> None:
    Path("encryption.nf.hcl").write_text(ENCRYPTION)
    assert run_command_line(["plan", "-out=p.nfplan", "-sign=team.key", "-confine=false"]) == 0
    assert b"signature" not in Path("p.nfplan").read_bytes()
    assert run_command_line(["apply", "-verify=key:team.pub", "p.nfplan"]) == 0


def test_unsigned_plan_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    assert "Saved plan not verified It is not signed." in apply_and_expect_rejection(
        capsys, "-verify=key:team.pub"
    )


def test_plan_signed_with_another_key_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    write_keys("mallory")
    assert run_command_line(["plan", "-out=p.nfplan", "-sign=mallory.key", "-confine=false"]) == 0
    assert "It was signed with the key" in apply_and_expect_rejection(
        capsys, "-verify=key:team.pub"
    )
    both = ("-verify=key:team.pub", "-verify=key:mallory.pub")
    assert "It was signed with the key" in apply_and_expect_rejection(capsys, *both)
    members = plan_file.unpack_archive(Path("p.nfplan").read_bytes()) or {}
    signature = json.loads(members["signature.json"])
    assert run_command_line(["plan", "-out=q.nfplan", "-sign=team.key", "-confine=false"]) == 0
    mine = json.loads(
        (plan_file.unpack_archive(Path("q.nfplan").read_bytes()) or {})["signature.json"]
    )
    signature["key"] = mine["key"]
    members["signature.json"] = json.dumps(signature).encode()
    Path("p.nfplan").write_bytes(plan_file.pack_archive(members))
    assert "Its signature is invalid" in apply_and_expect_rejection(capsys, "-verify=key:team.pub")


def test_plan_changed_after_signing_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["plan", "-out=p.nfplan", "-sign=team.key", "-confine=false"]) == 0
    forge_plan(Path("p.nfplan"), "steps.json", add_machines)
    assert "Its signature is invalid" in apply_and_expect_rejection(capsys, "-verify=key:team.pub")


@pytest.mark.parametrize(
    "signature", [b"", b"[]", b"{}", b'{"algorithm":"none"}', b'{"algorithm":7,"key":[]}']
)
def test_invalid_signature_is_rejected(
    signature: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["plan", "-out=p.nfplan", "-sign=team.key", "-confine=false"]) == 0
    members = plan_file.unpack_archive(Path("p.nfplan").read_bytes()) or {}
    members["signature.json"] = signature
    Path("p.nfplan").write_bytes(plan_file.pack_archive(members))
    assert "signature" in apply_and_expect_rejection(capsys, "-verify=key:team.pub")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_openssl_keys_are_accepted() -> None:
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", "o.key"], check=True)
    subprocess.run(["openssl", "pkey", "-in", "o.key", "-pubout", "-out", "o.pub"], check=True)
    assert run_command_line(["plan", "-out=p.nfplan", "-sign=o.key", "-confine=false"]) == 0
    assert run_command_line(["apply", "-verify=key:o.pub", "p.nfplan"]) == 0


@pytest.mark.parametrize("encryption", ["", ENCRYPTION])
def test_plan_can_be_signed_after_approval(
    encryption: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if encryption:
        Path("encryption.nf.hcl").write_text(encryption)
    write_keys("mallory")
    assert run_command_line(["plan", "-out=p.nfplan", "-sign=mallory.key", "-confine=false"]) == 0
    assert "It was signed with the key" in apply_and_expect_rejection(
        capsys, "-verify=key:team.pub"
    )
    assert run_command_line(["sign", "-key=team.key", "p.nfplan", "-confine=false"]) == 0
    assert (b"signature" in Path("p.nfplan").read_bytes()) == (not encryption)
    assert Path("p.nfplan").stat().st_mode & 0o777 == 0o600
    assert run_command_line(["apply", "-verify=key:team.pub", "p.nfplan"]) == 0


def test_invalid_input_of_sign_is_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    plan = Path("p.nfplan").read_bytes()
    Path("odd.nfplan").write_bytes(plan[:-1])
    for words, expected in (
        (["sign", "p.nfplan"], "Specify the plan and the key"),
        (["sign", "-key=team.pub", "p.nfplan", "-confine=false"], "is a public key"),
        (["sign", "-key=team.key", "absent", "-confine=false"], 'There is no file "absent"'),
        (
            ["sign", "-key=team.key", "odd.nfplan", "-confine=false"],
            "Bytes are missing, changed or added",
        ),
        (
            ["sign", "-key=team.key", "main.nf.hcl", "-confine=false"],
            "was not written by nexusform plan",
        ),
    ):
        assert run_command_line(words) == 1
        assert expected in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert Path("p.nfplan").read_bytes() == plan
    assert Path("odd.nfplan").read_bytes() == plan[:-1]


def build_invalid_keys() -> dict[str, tuple[bytes, str]]:
    curve = ec.generate_private_key(ec.SECP256R1())
    pkcs8 = serialization.PrivateFormat.PKCS8
    secret = serialization.BestAvailableEncryption(b"secret")
    openssh = serialization.PrivateFormat.OpenSSH
    plain = serialization.NoEncryption()
    mine = Ed25519PrivateKey.generate()
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    return {
        "nothing": (b"", "not a PEM file"),
        "text": (b"my key\n", "not a PEM file"),
        "damaged": (
            b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            "is damaged",
        ),
        "curve": (curve.private_bytes(PEM, pkcs8, plain), "not an Ed25519 key"),
        "passphrase": (mine.private_bytes(PEM, pkcs8, secret), "protected by a passphrase"),
        "public": (mine.public_key().public_bytes(PEM, public), "is a public key"),
        "openssh": (curve.private_bytes(PEM, openssh, plain), "an OpenSSH key"),
        "ssh": (b"ssh-ed25519 AAAA me\n", "an OpenSSH key"),
    }


def test_invalid_signing_key_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    for key, expected in build_invalid_keys().values():
        Path("odd.key").write_bytes(key)
        assert run_command_line(["plan", "-out=p.nfplan", "-sign=odd.key", "-confine=false"]) == 1
        captured = capsys.readouterr()
        told = " ".join(captured.err.replace("│", " ").split())
        # planning does not start.
        assert not captured.out
        assert "Plan signing failed" in told
        assert expected in told
        assert run_command_line(["show", "-json", "p.nfplan"]) == 0
        assert json.loads(capsys.readouterr().out)["errored"] is True
    assert run_command_line(["plan", "-out=p.nfplan", "-sign=absent.key", "-confine=false"]) == 1
    assert 'There is no file "absent.key"' in capsys.readouterr().err


def test_invalid_verification_key_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["plan", "-out=p.nfplan", "-sign=team.key", "-confine=false"]) == 0
    assert "is a private key" in apply_and_expect_rejection(capsys, "-verify=key:team.key")
    curve = ec.generate_private_key(ec.SECP256R1()).public_key()
    Path("odd.pub").write_bytes(
        curve.public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    assert "not an Ed25519 key" in apply_and_expect_rejection(capsys, "-verify=key:odd.pub")
    Path("odd.pub").write_bytes(b"ssh-ed25519 AAAA me\n")
    assert "an OpenSSH key" in apply_and_expect_rejection(capsys, "-verify=key:odd.pub")
    assert 'There is no file "absent"' in apply_and_expect_rejection(capsys, "-verify=key:absent")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["plan", "-sign=team.key", "-confine=false"], "Add -out=FILE"),
        (["apply", "-verify=key:team.pub"], "needs a plan file"),
        (["apply", "-verify=key:team.pub", "-resume"], "needs a plan file"),
        (
            ["apply", "-verify=key:team.pub", "-discard", "p"],
            "-verify and -discard cannot be combined",
        ),
        (["apply", "-verify=key:", "p"], "invalid value"),
        (["apply", "-verify=team.pub", "p"], "invalid value"),
    ],
)
def test_invalid_flag_combinations_are_rejected(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(words) == 1
    assert expected in capsys.readouterr().err


UNSAFE = {
    "plan -sign": (["plan", "-out=q.nfplan", "-sign=team.key"], "not made in a sandbox"),
    "sign": (["sign", "-key=team.key", "p.nfplan"], "not made in a sandbox"),
    "sign, confined": (
        ["sign", "-key=outside.key", "p.nfplan", "-confine"],
        "not made in a sandbox",
    ),
    "plan -sign, key of the tree": (
        ["plan", "-out=q.nfplan", "-sign=team.key", "-confine"],
        "in the work tree",
    ),
    "sign, key of the tree": (
        ["sign", "-key=team.key", "p.nfplan", "-confine"],
        "in the work tree",
    ),
    "sign, public key": (
        ["sign", "-key=team.pub", "p.nfplan", "-confine=false"],
        "is a public key",
    ),
    "sign, text": (
        ["sign", "-key=team.key", "main.nf.hcl", "-confine=false"],
        "was not written by nexusform plan",
    ),
    "sign, nothing": (
        ["sign", "-key=team.key", "absent", "-confine=false"],
        'There is no file "absent"',
    ),
    "sign, torn": (
        ["sign", "-key=team.key", "torn.nfplan", "-confine=false"],
        "Bytes are missing, changed or added",
    ),
    "sign, link out": (
        ["sign", "-key=outside.key", "link", "-confine"],
        "-confine does not allow it",
    ),
    "sign, no key": (["sign", "-key=absent.key", "p.nfplan", "-confine=false"], "absent.key"),
    "sites sign": (["sites", "sign", "-key=team.key", "p.nfplan"], "is not a plan of sites"),
}


@pytest.mark.of_domains("sites")
@pytest.mark.parametrize("case", UNSAFE)
def test_twelve_unsafe_signing_requests_are_rejected(
    case: str, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "outside.key").write_bytes(Path("team.key").read_bytes())
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    document = Path("p.nfplan").read_bytes()
    Path("torn.nfplan").write_bytes(document[:-20])
    Path("link").symlink_to(outside / "outside.key")
    capsys.readouterr()
    arguments, message = UNSAFE[case]
    arguments = [word.replace("=outside.key", f"={outside}/outside.key") for word in arguments]
    assert run_command_line(arguments) == 1
    captured = capsys.readouterr()
    assert message in " ".join((captured.out + captured.err).replace("│", " ").split())
    assert Path("p.nfplan").read_bytes() == document
    # The record of a failed plan.
    if Path("q.nfplan").exists():
        assert run_command_line(["apply", "-verify=key:team.pub", "q.nfplan"]) == 1
