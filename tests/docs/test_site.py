"""Tests of the documentation site.

The build is strict, every page is in the navigation, and every link has a target.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from contextlib import suppress
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

import pytest

import nexusform
from tests.rendering.browser import CHROMIUM, DRIVER, MISSING, Browser

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "packaging" / "site.py"
REPOSITORY = f"{nexusform.PROJECT_URL}/" if nexusform.PROJECT_URL else ""


class BuiltPage(HTMLParser):
    """Links and anchors of a built page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := values.get(name))}
        link = values.get("href") if tag in ("a", "link") else values.get("src")
        if link:
            self.links.append(link)


@pytest.fixture(scope="module")
def built_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("zensical", reason="zensical is not installed")
    directory = tmp_path_factory.mktemp("docs")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(directory)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


def test_no_link_is_broken(built_site: Path) -> None:
    site = built_site / "site"
    pages = {path: BuiltPage(path) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 50
    broken = [
        f"{path.relative_to(site)}: {link}"
        for path, page in pages.items()
        for link in page.links
        if not has_target(link, path, pages)
    ]
    assert not broken, "\n".join(broken)


def test_code_blocks_are_rendered(built_site: Path) -> None:
    for page in (built_site / "site").rglob("*.html"):
        assert "```" not in page.read_text(encoding="utf-8"), page


def has_target(link: str, path: Path, pages: dict[Path, BuiltPage]) -> bool:
    address = urlsplit(link)
    if REPOSITORY and link.startswith((f"{REPOSITORY}blob/main/", f"{REPOSITORY}tree/main/")):
        return (ROOT / address.path.split("/", 5)[5]).exists()
    if address.scheme or address.netloc:
        return True
    target = (path.parent / unquote(address.path)).resolve() if address.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return False
    return (
        not address.fragment
        or target not in pages
        or unquote(address.fragment) in pages[target].anchors
    )


# Words that users look for in the index of pages.
INDEX_WORDS = (
    *("alert", "ARM64", "CSV", "Government", "history", "last month"),
    *("NotReady", "PersistentVolume", "PVC", "quota", "reimage"),
)


@pytest.mark.parametrize("word", INDEX_WORDS)
def test_index_has_the_word_of_a_user(word: str) -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert word.lower() in index.lower()


def test_every_page_is_in_the_navigation(built_site: Path) -> None:
    settings = tomllib.loads((built_site / "zensical.toml").read_text(encoding="utf-8"))
    linked = [
        page
        for section in settings["project"]["nav"]
        for pages in section.values()
        for page in pages
    ]
    staged = {
        path.relative_to(built_site / "pages").as_posix()
        for path in (built_site / "pages").rglob("*.md")
    }
    assert sorted(linked) == sorted(staged)


def test_links_to_other_files_lead_to_the_repository(built_site: Path) -> None:
    page = (built_site / "site" / "docs" / "ci" / "index.html").read_text(encoding="utf-8")
    for kind, name in (("blob", "docs/ci/gitlab.yml"), ("tree", "docs/ci/policy")):
        # Without a repository URL they are plain text.
        assert (f'href="{REPOSITORY}{kind}/main/{name}"' in page) == bool(REPOSITORY)
    assert "nexusform:none" not in page
    assert "gitlab.yml" in page


def test_decisions_are_excluded_from_search(built_site: Path) -> None:
    """They are for contributors; links to them lead to the repository."""
    assert not (built_site / "site" / "docs" / "decisions").exists()
    page = (built_site / "site" / "docs" / "index.html").read_text(encoding="utf-8")
    assert (f'href="{REPOSITORY}blob/main/docs/decisions/README.md"' in page) == bool(REPOSITORY)


def test_change_log_is_excluded_from_search(built_site: Path) -> None:
    items = json.loads((built_site / "site" / "search.json").read_text(encoding="utf-8"))["items"]
    assert "docs/confidence.html" in {item["location"] for item in items}
    assert not [item["location"] for item in items if "CHANGELOG" in item["location"]]
    assert "Unreleased" in (built_site / "site" / "CHANGELOG.html").read_text(encoding="utf-8")


def test_no_page_requests_stars_of_a_repository(built_site: Path) -> None:
    """The theme requests the stars of a repository from api.github.com.

    The repository is the one named in the head of a page.
    """
    for page in (built_site / "site").rglob("*.html"):
        assert 'data-md-component="source"' not in page.read_text(encoding="utf-8"), page


# The expected first result for each search.
SEARCHES = {
    "why is my vm on this rack": "docs/why-is-my-vm-there.html",
    "fail build if VMs move": "docs/how-to/guard-rails.html",
    "import existing cluster": "docs/import-a-site.html",
    "confidence": "docs/confidence.html",
    "NUMA": "docs/numa.html",
    "rollback": "docs/undo-a-change.html",
    "role assignment": "docs/azure-permissions.html",
    "locked state": "docs/locked-state.html",
    "staged rollout": "docs/how-to/staged-rollout.html",
    "pending pods": "docs/fidelity-pods.html",
    "nightly drift check": "docs/undo-a-change.html#nightly-drift-check",
    "apply was killed": "docs/locked-state.html#an-apply-was-interrupted-or-killed",
    "many sites in CI": "docs/many-sites.html",
    "PickFixed": "docs/how-to/staged-rollout.html#rules",
    "downgrade": "docs/troubleshooting.html#upgrade-or-downgrade-nexusform",
    "CPU pinning": "docs/numa.html#cpu-pinning-and-isolated-cpus",
    (
        "spread placement over sites"
    ): "docs/how-to/pick-clusters.html#spread-a-placement-over-sites-or-keep-it-off-a-cluster",
    (
        "keep placement off a cluster"
    ): "docs/how-to/pick-clusters.html#spread-a-placement-over-sites-or-keep-it-off-a-cluster",
    (
        "protect racks from deletion"
    ): "docs/how-to/guard-rails.html#protect-racks-and-machines-from-deletion",
    "pod pending": "docs/fidelity-pods.html",
    "machine died": "docs/how-to/failed-server.html",
    "PersistentVolume VM re-created": "docs/how-to/persistent-volumes.html",
    "where was this VM": "docs/how-to/where-was-a-vm.html",
    "nightly alert": "docs/how-to/capacity-alert.html",
    "CSV columns": "docs/reference/csv.html#csv-report-columns",
    "install": "docs/installation.html",
}
# The search box is in a separate shadow tree.
SEARCH_BOX = (
    "const tree = [...document.querySelectorAll('*')].find((node) => node.shadowRoot).shadowRoot;"
)


@pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason=MISSING)
def test_search_finds_the_expected_page_first(built_site: Path) -> None:
    handler = partial(SimpleHTTPRequestHandler, directory=str(built_site / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        home = f"http://127.0.0.1:{server.server_port}/"
        browser = Browser()
        try:
            browser.visit(f"{home}index.html")
            browser.wait_for("document.readyState === 'complete'")
            browser.run("document.querySelector('.md-search__button').click()")
            browser.wait_for("[...document.querySelectorAll('*')].some((node) => node.shadowRoot)")
            found = {}
            for words, page in SEARCHES.items():
                browser.run(
                    f"{SEARCH_BOX} const input = tree.querySelector('input[role=combobox]');"
                    "Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call("
                    "input, arguments[0]); input.dispatchEvent(new Event('input', {bubbles: "
                    "true}));",
                    words,
                )
                first = f"(() => {{ {SEARCH_BOX} return tree.querySelector('ol a')?.href; }})()"
                with suppress(AssertionError):
                    browser.wait_for(f"{first} === arguments[0]", home + page)
                found[words] = str(browser.run(f"return {first}")).removeprefix(home)
            assert found == SEARCHES
        finally:
            browser.close()
            server.shutdown()


@pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason=MISSING)
def test_browser_requests_no_other_host(built_site: Path) -> None:
    """The theme can request stars from a code host; the browser lists all its requests."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(built_site / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        home = f"http://127.0.0.1:{server.server_port}/"
        browser = Browser()
        try:
            for page in ("index.html", "docs/index.html", "docs/reference/types.html"):
                browser.visit(home + page)
                browser.wait_for("document.readyState === 'complete'")
                asked = browser.run(
                    "return performance.getEntriesByType('resource').map((each) => each.name)"
                )
                assert len(asked) > 2
                assert [address for address in asked if not address.startswith(home)] == []
        finally:
            browser.close()
            server.shutdown()


def test_landing_page_has_three_entries_with_pictures(built_site: Path) -> None:
    text = (built_site / "site" / "index.html").read_text(encoding="utf-8")
    doors = text.partition("You run a Nexus site")[2].partition("The worked example")[0]
    assert [Path(link).name for link in re.findall(r'<img[^>]* src="([^"]+)"', doors)] == [
        "page.webp",
        "predict.svg",
        "fleet.webp",
    ]
