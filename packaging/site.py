"""Build the documentation as a site: `python packaging/site.py DIRECTORY` (needs zensical).

DIRECTORY/pages gets a copy of every page in the layout of the repository, so that links between
pages hold; links to what is no page lead to the repository (PROJECT_URL), or are text without one.
docs/README.md is the navigation. DIRECTORY/site is the site.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

import nexusform

ROOT = Path(__file__).parents[1]
REPOSITORY = nexusform.PROJECT_URL
# Of a link to a file that is not in the site.
NO_TARGET = "nexusform:none"
UNLINKED = re.compile(rf"\[([^]]*)\]\({NO_TARGET}\)")
PAGES = ("*.md", "docs/**/*.md", "examples/**/README.md", "editors/README.md", "state/README.md")
PICTURES = {".png", ".svg", ".webp"}
INDEX = Path("docs/README.md")
# Pages for contributors stay in the repository; the site search would list them before the pages
# for users.
DECISIONS = Path("docs/decisions")
TYPES = Path("docs/reference/types.md")
# Its sections have words of everything, so the search would list them before the pages for users.
CHANGES = Path("CHANGELOG.md")
WITHOUT_SEARCH = "---\nsearch:\n  exclude: true\n---\n\n"
AROUND = {"nexusform": [Path("README.md"), INDEX], "Project": [Path("CONTRIBUTING.md"), CHANGES]}
# Code is kept unchanged: fences and text between backticks.
CODE_OR_LINK = re.compile(
    r"^(`{3,}).*?^\1$|`[^`\n]*`|(?<=\]\()[^)\s]+(?=\))", re.MULTILINE | re.DOTALL
)
# The text after the language of a fence is the file name, in zensical its title.
TITLED_FENCE = re.compile(r"^(`{3,})(\w+) +([^\n]+)")
LINK = re.compile(r"\[[^]]*\]\(([^)#\s]+\.md)\)")

# With a repo_url the theme requests the stars from api.github.com. Our pages send no requests.
SOCIAL = """
[[project.extra.social]]
icon = "fontawesome/brands/github"
link = "{repository}"
"""
SETTINGS = """\
[project]
site_name = "nexusform"
site_description = "Placement planning for Azure Operator Nexus, in Terraform style"
docs_dir = "pages"
site_dir = "site"
use_directory_urls = false
nav = {navigation}

[project.theme]
font = false
features = ["content.code.copy", "navigation.indexes", "navigation.path", "navigation.top", "toc.follow"]

{social}
[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle = {{ icon = "lucide/sun", name = "Dark" }}

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle = {{ icon = "lucide/moon", name = "Light" }}
"""  # noqa: E501


class BrokenLinkError(Exception):
    """A page has a link without a target."""


def main(directory: str) -> int:
    """Stage and build the pages; return the exit code of zensical, 1 for a broken link."""
    build = Path(directory)
    try:
        stage(build)
    except BrokenLinkError as broken:
        print(broken, file=sys.stderr)  # noqa: T201 (a script)
        return 1
    zensical = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    return subprocess.run(zensical, cwd=build, check=False).returncode  # noqa: S603 (our own words)


def stage(build: Path) -> None:
    """Write the pages and the settings of zensical into a directory, and empty it before."""
    shutil.rmtree(build, ignore_errors=True)
    pages = {page for pattern in PAGES for page in ROOT.glob(pattern)}
    pages = {page for page in pages if ROOT / DECISIONS not in page.parents}
    for page in sorted(pages):
        copy = build / "pages" / page.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        head = WITHOUT_SEARCH if page == ROOT / CHANGES else ""
        copy.write_text(head + with_links(page, pages, build), encoding="utf-8")
    social = SOCIAL.format(repository=REPOSITORY) if REPOSITORY else ""
    text = SETTINGS.format(social=social, navigation=as_toml(navigation()))
    (build / "zensical.toml").write_text(text, encoding="utf-8")


def with_links(page: Path, pages: set[Path], build: Path) -> str:
    """Return the text of a page.

    Links to other files lead to the repository; without one they are text.
    """

    def replacement(match: re.Match[str]) -> str:
        text = match[0]
        if text.startswith("`"):
            return TITLED_FENCE.sub(r'\1\2 title="\3"', text)
        return link(text, page, pages, build)

    linked_text = CODE_OR_LINK.sub(replacement, page.read_text(encoding="utf-8"))
    return UNLINKED.sub(r"\1", linked_text)


def link(text: str, page: Path, pages: set[Path], build: Path) -> str:
    """Return a link as used in the site."""
    path, mark, fragment = text.partition("#")
    if not path or ":" in path:
        return text
    target = Path(os.path.normpath(page.parent / path))
    if not target.exists():
        message = f"{page.relative_to(ROOT)}: there is no {text}"
        raise BrokenLinkError(message)
    if target in pages:
        return text
    if target / "README.md" in pages:
        return f"{path.rstrip('/')}/README.md{mark}{fragment}"
    inside = target.relative_to(ROOT)
    if target.suffix in PICTURES:
        picture = build / "pages" / inside
        picture.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(target, picture)
        return text
    if not REPOSITORY:
        return NO_TARGET
    kind = "tree" if target.is_dir() else "blob"
    return f"{REPOSITORY}/{kind}/main/{inside.as_posix()}{mark}{fragment}"


def navigation() -> dict[str, list[Path]]:
    """Return the pages of the site by section.

    Pages linked in docs/README.md, under the heading of the first link. The pages of types have
    their own section.
    """
    sections = {"nexusform": AROUND["nexusform"]}
    of_types = [
        TYPES,
        *linked((ROOT / TYPES).read_text(encoding="utf-8").partition("## ")[2], TYPES),
    ]
    listed: set[Path] = set(of_types)
    text = (ROOT / INDEX).read_text(encoding="utf-8")
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        pages = dict.fromkeys(linked(body, INDEX))
        sections[heading] = [page for page in pages if page not in listed]
        if TYPES in pages:
            sections["Resource types"] = of_types
        listed.update(pages)
    return sections | {"Project": AROUND["Project"]}


def linked(text: str, page: Path) -> Iterator[Path]:
    """Return the pages of the site that a part of a page links to, in its order."""
    for target in LINK.findall(text):
        path = Path(os.path.normpath(page.parent / target))
        if DECISIONS not in path.parents:
            yield path


def as_toml(sections: dict[str, list[Path]]) -> str:
    """Return the value of `nav`."""
    entries = []
    for title, pages in sections.items():
        paths = [page.as_posix() for page in pages]
        entries.append(f"  {{ {quoted(title)} = {quoted(paths)} }},")
    return "\n".join(["[", *entries, "]"])


def quoted(value: str | list[str]) -> str:
    """Return a text or a list of texts in TOML, in their JSON notation."""
    return msgspec.json.encode(value).decode()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
