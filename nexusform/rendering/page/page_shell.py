"""Shell of every page: a single file without external requests, for any screen width. Text and tables need no
scripts. Scripts draw the rack map, the change tree and the lists, and only the visible part of them. Their
data is JSON in the page (`page_data.py`); styles and scripts are files in `assets/`.
"""

from collections.abc import Sequence
from importlib import resources
from typing import Any, Final

from nexusform.rendering.notation.markup import Markup, build_code_element, build_data_script, build_element

STYLES: Final = ("page.css", "map.css")
SCRIPTS: Final = (
    "document.js",
    "sites.js",
    "route.js",
    "detail.js",
    "rack_map.js",
    "layers.js",
    "arrows.js",
    "zoom.js",
    "overview.js",
    "map.js",
    "vm_list.js",
    "changes.js",
    "search.js",
    "page.js",
)
# Block all requests, whatever the values in the plan contain.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'"


def render_page(
    title: str,
    header: Markup,
    main: Markup,
    footer: Markup,
    data: dict[str, Any],
    *,
    extra_scripts: Sequence[Markup] = (),
    policy: str = _POLICY,
) -> str:
    """Render a page with a map drawn from `data`, as one file; `extra_scripts` follow its own scripts."""
    # Build the fixed bar: sections (filled by a script), search and theme.
    sections = build_element("nav", build_element("ul", id="sections"), aria_label="Sections")
    placeholder = "Find a VM, rack, site or placement"
    attributes = {"autocomplete": "off", "spellcheck": "false"}
    field = build_element(
        "input", type="search", id="find", placeholder=placeholder, aria_label=placeholder, **attributes
    )
    count = build_element("span", id="hit-count", class_="unseen", role="status")
    hits = build_element("ul", id="hits", hidden=True)
    choices = [build_element("option", text, value=value) for value, text in _THEMES]
    theme = build_element("select", choices, id="theme", aria_label="Theme")
    search = build_element("div", field, count, hits, class_="find", role="search")
    body = build_element(
        "body",
        build_element("a", "Skip to the content", href="#content", class_="skip"),
        build_element("div", sections, search, theme, class_="bar"),
        header,
        build_element("main", main, id="content", tabindex="-1"),
        footer,
        build_data_script("plan-data", data),
        [build_code_element("script", _read_asset(name)) for name in SCRIPTS],
        extra_scripts,
    )
    page = build_element("html", _build_html_head(title, policy), body, lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _read_asset(name: str) -> str:
    return resources.files("nexusform.rendering.page").joinpath("assets", name).read_text(encoding="utf-8")


def _build_html_head(title: str, policy: str) -> Markup:
    """Build title, policy and style sheets."""
    return build_element(
        "head",
        build_element("meta", charset="utf-8"),
        build_element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        build_element("meta", http_equiv="Content-Security-Policy", content=policy),
        build_element("meta", name="color-scheme", content="light dark"),
        build_element("title", title),
        [build_code_element("style", _read_asset(name)) for name in STYLES],
    )


_THEMES: Final = (("auto", "theme"), ("light", "light"), ("dark", "dark"))


def build_script_placeholder(identifier: str) -> Markup:
    """Build an element that a script fills."""
    note = "This section needs JavaScript, which is disabled."
    return build_element("div", build_element("noscript", note), id=identifier)
