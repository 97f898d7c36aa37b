"""Drawings by graphviz, where it is installed."""

from __future__ import annotations

import shutil
import subprocess

# A graph of thousands of resources takes graphviz minutes; nobody reads such a drawing.
_SECONDS = 120


class CannotDraw(Exception):
    """Why there is no drawing, in words for the user."""


def svg_of_dot(dot: str) -> str:
    """A DOT graph as SVG, with a newline at its end. Raises CannotDraw."""
    program = shutil.which("dot")
    if program is None:
        raise CannotDraw("graphviz is not installed: there is no program dot in the PATH")
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command; the graph goes in as data
            [program, "-Tsvg"], input=dot, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise CannotDraw(f"dot did not draw it: {problem}") from None
    if done.returncode != 0:
        raise CannotDraw(f"dot did not draw it: {done.stderr.strip()}")
    return done.stdout.rstrip("\n") + "\n"
