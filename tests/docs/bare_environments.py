"""Virtual environments that have only what `pip install .` installs, or also some extras.

Each has links to the installed packages that the requirements of pyproject.toml need, and no
others. A package of another extra, or of the tests, is not there.
"""

from __future__ import annotations

import re
import sys
import tomllib
import venv
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENTRY = "nexusform.cli.main"


def normalize_name(name: str) -> str:
    """Return the name of a distribution as in package indexes."""
    return re.sub(r"[-_.]+", "-", name).lower()


def list_requirements(extras: Iterable[str]) -> list[str]:
    """Return the requirements of nexusform with extras."""
    optional = PROJECT["optional-dependencies"]
    return [*PROJECT["dependencies"], *(line for extra in extras for line in optional[extra])]


def find_distributions(requirements: Iterable[str]) -> dict[str, Distribution]:
    """Return the installed distributions that requirements need at any depth, by name."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    to_visit = [*map(Requirement, requirements)]
    while to_visit:
        requirement = to_visit.pop()
        name = normalize_name(requirement.name)
        if name == "nexusform":
            to_visit += map(Requirement, list_requirements(requirement.extras))
            continue
        found[name] = distribution(name)
        for extra in ("", *requirement.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                to_visit += _list_needed(found[name], extra)
    return found


def _list_needed(package: Distribution, extra: str) -> Iterator[Requirement]:
    """Yield what a distribution requires on this machine, with one of its extras or "" for none."""
    for line in package.requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def list_links(package: Distribution) -> set[str]:
    """Return the files and folders of a distribution in the folder of packages."""
    tops = {file.parts[0] for file in package.files or ()}
    return tops - {"..", "__pycache__"}


def create_environment(directory: Path, *extras: str) -> None:
    """Create a virtual environment with nexusform, what it requires, and extras."""
    venv.create(directory, symlinks=True)
    packages = directory / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages /= "site-packages"
    needed = find_distributions(list_requirements(extras))
    for package in needed.values():
        for name in list_links(package):
            target = Path(str(package.locate_file(name)))
            link = packages / name
            if not link.is_symlink():
                link.symlink_to(target)
    # A folder that two distributions share would bring the other one.
    linked = {name for package in needed.values() for name in list_links(package)}
    for package in distributions():
        name = normalize_name(package.metadata["Name"])
        # An editable installation has a second record in the folder of the checkout.
        if name != "nexusform":
            assert name in needed or not linked & list_links(package), name
    (packages / "nexusform").symlink_to(ROOT / "nexusform")
    program = directory / "bin" / "nexusform"
    program.write_text(
        f"#!{directory}/bin/python\nfrom {ENTRY} import main\n\nmain()\n", encoding="utf-8"
    )
    program.chmod(0o755)
