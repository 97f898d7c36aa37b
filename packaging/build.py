"""Build the sdist, the wheel and the zipapp: `python packaging/build.py [--wheel] DIRECTORY`.

`--wheel` builds no zipapp. The zipapp contains all dependencies of constraints.txt and runs on
CPython 3.11, linux-x86_64; only there can it be built. Two builds of one commit with the same
Python are equal in bytes: the time is SOURCE_DATE_EPOCH (default: the time of the commit), and all
tools have pinned versions and hashes.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (
    "pyproject.toml",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)
FOLDERS = ("nexusform", "docs", "examples", "packaging")
IGNORED = shutil.ignore_patterns(
    "__pycache__", "*.py[cod]", ".nexusform", "*.nfplan", "*.lock.info"
)
# 1980, the earliest time in a ZIP file.
EARLIEST = 315532800
PLATFORM = ("CPython", (3, 11), "linux", "x86_64")
HOOKS = (
    "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
)


def main(arguments: list[str]) -> int:
    """Build into the directory of the arguments; return the exit code."""
    has_zipapp = "--wheel" not in arguments
    directories = [argument for argument in arguments if not argument.startswith("-")]
    if len(directories) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    if has_zipapp and get_platform() != PLATFORM:
        print(
            "The zipapp needs CPython 3.11 on linux-x86_64. Add --wheel to build without it.",
            file=sys.stderr,
        )
        return 1
    os.umask(0o022)
    output = Path(directories[0]).resolve()
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="nexusform-build-") as directory:
        built = build_files(Path(directory), has_zipapp=has_zipapp)
        for file in built:
            shutil.copy(file, output)
            print(f"{compute_digest(file)}  {output / file.name}")
    wheel = next(file for file in built if file.suffix == ".whl")
    print(
        f"NEXUSFORM_WHEEL={output / wheel.name}\n"
        f"NEXUSFORM_SHA256={compute_digest(output / wheel.name)}"
    )
    return 0


def get_platform() -> tuple[object, ...]:
    """Return the platform of this interpreter, to compare with PLATFORM."""
    return platform.python_implementation(), sys.version_info[:2], sys.platform, platform.machine()


def compute_digest(file: Path) -> str:
    """Return the SHA-256 of a file as hex."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def build_files(work: Path, *, has_zipapp: bool) -> list[Path]:
    """Build all files in a work directory; return their paths."""
    source = copy_source(work / "source")
    epoch = find_time()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
    environment.pop("PYTHONPATH", None)
    python = create_environment(work / "tools", environment)
    dist = work / "dist"
    dist.mkdir()
    call(python, "-c", HOOKS, "build_sdist", str(dist), cwd=source, env=environment)
    (sdist,) = dist.iterdir()
    unpacked = rewrite_sdist(sdist, epoch, work / "unpacked")
    # From the sdist, so the sdist is complete.
    call(python, "-c", HOOKS, "build_wheel", str(dist), cwd=unpacked, env=environment)
    files = [sdist, *dist.glob("*.whl")]
    return (
        [*files, build_zipapp(python, unpacked, dist, work, environment)] if has_zipapp else files
    )


def copy_source(target: Path) -> Path:
    """Copy the files of the sdist, without untracked files of a checkout; return the copy."""
    target.mkdir()
    names = [*SOURCES, *FOLDERS]
    if (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z", *names], cwd=ROOT, capture_output=True, check=True, text=True
        )
        names = [name for name in listed.stdout.split("\0") if name]
    for name in names:
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy, ignore=IGNORED)
        elif (ROOT / name).exists():
            shutil.copyfile(ROOT / name, copy)
    return target


def find_time() -> int:
    """Return SOURCE_DATE_EPOCH, else the time of the commit, else 1980."""
    if os.environ.get("SOURCE_DATE_EPOCH"):
        return max(int(os.environ["SOURCE_DATE_EPOCH"]), EARLIEST)
    if not (ROOT / ".git").exists():
        return EARLIEST
    shown = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    return int(shown.stdout)


def create_environment(directory: Path, environment: dict[str, str]) -> str:
    """Create an environment with the pinned tools; return its Python."""
    call(sys.executable, "-m", "venv", str(directory), env=environment)
    python = str(directory / "bin" / "python")
    install(
        python,
        environment,
        "--require-hashes",
        "-r",
        str(ROOT / "packaging" / "build_requirements.txt"),
    )
    return python


def install(python: str, environment: dict[str, str], *arguments: str) -> None:
    """Install packages with pip, from wheels only."""
    call(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--only-binary=:all:",
        "--no-compile",
        *arguments,
        env=environment,
    )


def call(*command: str, cwd: Path | None = None, env: dict[str, str]) -> None:
    """Run a command; exit with its output if it fails."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def rewrite_sdist(sdist: Path, epoch: int, target: Path) -> Path:
    """Rewrite an sdist in sorted order with fixed times, owners and modes.

    Unpack it and return its folder.
    """
    with tarfile.open(sdist) as archive:
        members = sorted(archive.getmembers(), key=lambda member: member.name)
        contents = [archive.extractfile(member) if member.isfile() else None for member in members]
        data = [content.read() if content is not None else b"" for content in contents]
        archive.extractall(target, filter="data")
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, content in zip(members, data, strict=True):
            fixed = tarfile.TarInfo(member.name)
            fixed.type = member.type
            fixed.size = len(content)
            fixed.mtime = epoch
            fixed.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            archive.addfile(fixed, BytesIO(content))
    with (
        sdist.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=epoch) as compressed,
    ):
        compressed.write(packed.getvalue())
    (folder,) = target.iterdir()
    return folder


def build_zipapp(
    python: str, source: Path, dist: Path, work: Path, environment: dict[str, str]
) -> Path:
    """Build the zipapp of the wheel and its pinned dependencies; return its path."""
    (wheel,) = dist.glob("*.whl")
    version = wheel.name.split("-")[1]
    packages = work / "packages"
    constraints = source / "packaging" / "constraints.txt"
    install(
        python, environment, "--target", str(packages), "--require-hashes", "-r", str(constraints)
    )
    install(
        python,
        environment,
        "--target",
        str(packages),
        "--no-deps",
        "--no-index",
        "--find-links",
        str(dist),
        f"nexusform=={version}",
    )
    remove_local_paths(packages)
    zipapp = work / f"nexusform-{version}-cp311-linux_x86_64.pyz"
    call(
        str(Path(python).with_name("shiv")),
        "--site-packages",
        str(packages),
        "--reproducible",
        "-E",
        "--python",
        "/usr/bin/env python3.11",
        "-c",
        "nexusform",
        "-o",
        str(zipapp),
        env=environment,
    )
    return zipapp


def remove_local_paths(packages: Path) -> None:
    """Remove scripts and records with paths of this machine."""
    shutil.rmtree(packages / "bin", ignore_errors=True)
    for record in packages.glob("*.dist-info/RECORD"):
        lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if not re.match(r"(?:\.\./)*bin/|.*/REQUESTED,", line)]
        record.write_text("".join(kept), encoding="utf-8")
    for mark in packages.glob("*.dist-info/REQUESTED"):
        mark.unlink()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
