"""Draw the pictures of README and docs.

`python packaging/pictures.py [DIRECTORY]` (needs Chromium).

One plan of a site: plan.svg as a terminal shows it, comment.webp as a comment on GitHub, page.webp
as its page. predict.svg asks where a plan of Terraform lands, fleet.webp is the page of a fleet's
plan. texts.json beside them has a digest of the words that each shows, so that a test sees when
they are old.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
from markdown_it import MarkdownIt
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
EXAMPLES = ROOT / "examples"
PREDICT = ("predict", "-terraform-plan=plan.json", "-inventory=export")
# 28 February 2026.
NOW = "1772287200"
WIDTH = 80
CHROMIUM = next(
    (path for name in ("chromium", "google-chrome", "chrome") if (path := shutil.which(name))), None
)

# After the apply of the example, two machines of rack3 are evacuated.
EVACUATION = """
  dynamic "machine_override" {
    for_each = each.key == "3" ? ["rack3-bm11", "rack3-bm12"] : []
    labels   = [machine_override.value]

    content {
      evacuate = true
    }
  }
}
"""

DARK = TerminalTheme(
    (13, 17, 23),
    (230, 237, 243),
    [
        (72, 79, 88),
        (255, 123, 114),
        (86, 211, 100),
        (227, 179, 65),
        (121, 192, 255),
        (210, 168, 255),
        (86, 212, 221),
        (230, 237, 243),
    ],
)
# The template of rich loads a font from another host; this one does not, and draws no window frame.
TERMINAL = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>
.{unique_id}-matrix {{
  font: {char_height}px/{line_height}px ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace;
}}
{styles}
</style>
<defs>
{lines}
</defs>
<rect width="{width}" height="{height}" rx="10" fill="#0d1117"/>
<g transform="translate({terminal_x}, {terminal_y})">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""  # noqa: E501
# The text of an alert is in the paragraph of its name, or a list follows.
ALERT = re.compile(r"<blockquote>\n<p>\[!(\w+)](?:\n|(</p>))")


def main(directory: Path) -> None:
    """Draw all pictures into a directory."""
    with tempfile.TemporaryDirectory() as work:
        report(Path(work))
        draw(Path(work), directory)


def draw(place: Path, directory: Path) -> None:
    """Draw the reports of one directory into another one."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, words in (("plan", ("plan",)), ("predict", PREDICT)):
        (directory / f"{name}.svg").write_text(terminal(place, name, words), encoding="utf-8")
    comment = place / "comment.html"
    comment.write_text(
        as_github_shows((place / "plan.md").read_text(encoding="utf-8")), encoding="utf-8"
    )
    photograph(comment, directory / "comment.webp", 900, 730)
    photograph(place / "plan.html", directory / "page.webp", 1280, 880)
    photograph(place / "fleet.html", directory / "fleet.webp", 1280, 580)
    digests = msgspec.json.format(msgspec.json.encode(texts(place)))
    (directory / "texts.json").write_bytes(digests + b"\n")


def report(place: Path) -> None:
    """Create the plans in a directory.

    The files are plan.txt, plan.md, plan.html, predict.txt and fleet.html.
    """
    terraform = example("terraform-plan", place)
    (place / "predict.txt").write_text(nexusform(terraform, *PREDICT), encoding="utf-8")
    nexusform(example("fleet", place), "plan", f"-report=html:{place / 'fleet.html'}")
    site = example("nexus-document", place)
    nexusform(site, "apply", "-auto-approve", "-samples=0")
    file = site / "main.nf.hcl"
    file.write_text(
        file.read_text(encoding="utf-8").rstrip().removesuffix("}") + EVACUATION, encoding="utf-8"
    )
    reports = [
        f"-report={form}:{place / name}"
        for form, name in (("markdown", "plan.md"), ("html", "plan.html"))
    ]
    (place / "plan.txt").write_text(nexusform(site, "plan", *reports), encoding="utf-8")


def example(name: str, place: Path) -> Path:
    """Copy an example; return its directory."""
    copy = place / name
    shutil.copytree(EXAMPLES / name, copy, ignore=shutil.ignore_patterns("state", ".nexusform"))
    return copy


def nexusform(site: Path, *words: str) -> str:
    """Run a command; return its output with colours."""
    more = {"SOURCE_DATE_EPOCH": NOW, "CLICOLOR_FORCE": "1", "COLUMNS": str(WIDTH)}
    command = [sys.executable, "-m", "nexusform", *words]
    done = subprocess.run(  # noqa: S603 (our own words)
        command, cwd=site, env={**os.environ, **more}, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def terminal(place: Path, name: str, words: tuple[str, ...]) -> str:
    """Return a command and its output as an SVG of a terminal."""
    printed = (place / f"{name}.txt").read_text(encoding="utf-8")
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(f"$ nexusform {' '.join(words)}\n{printed}"))
    return console.export_svg(theme=DARK, code_format=TERMINAL, unique_id=name)


def as_github_shows(markdown: str) -> str:
    """Return a comment as a page in the style of GitHub."""
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    html = ALERT.sub(_mark_alert, html)
    style = Path(__file__).with_name("github.css").read_text(encoding="utf-8")
    return f'<!DOCTYPE html><meta charset="utf-8"><style>{style}</style><article>{html}</article>\n'


def _mark_alert(match: re.Match[str]) -> str:
    name, end = match.groups()
    text = "" if end else "<p>"
    return f'<blockquote class="alert {name}"><p class="title">{name}</p>{text}'


def photograph(page: Path, picture: Path, width: int, height: int) -> None:
    """Return a screenshot of a page in Chromium."""
    if CHROMIUM is None:
        sys.exit("Chromium is not installed (Debian: apt-get install chromium)")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
        ]
        words += [f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        # Chromium ends after the screenshot, also on a busy machine. Its own profile avoids the
        # lock of another Chromium.
        subprocess.run(  # noqa: S603 (our own words)
            [CHROMIUM, *words, f"--screenshot={picture}", page.as_uri()],
            check=True,
            capture_output=True,
        )


def texts(place: Path) -> dict[str, str]:
    """Return a digest of the text of each picture.

    Output, Markdown, a page without scripts and styles.
    """
    files = {
        "plan": "plan.txt",
        "comment": "plan.md",
        "page": "plan.html",
        "predict": "predict.txt",
        "fleet": "fleet.html",
    }
    return {
        name: digest((place / file).read_text(encoding="utf-8")) for name, file in files.items()
    }


def digest(text: str) -> str:
    """Return a digest of a text, or of the visible text of a page."""
    if text.startswith("<!DOCTYPE"):
        text = " ".join(
            re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL).split()
        )
    return hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES)
