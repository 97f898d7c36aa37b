"""What the hcl2 package makes of a file: whether tools built on it can read the file too."""

from __future__ import annotations

from nexusform.diagnostics import Diagnostic, warning
from nexusform.language.parser import collector_off
from nexusform.language.positions import Positions
from nexusform.source import SourceFile


def hcl2_complaint(source: SourceFile) -> Diagnostic | None:
    """A warning at the place where hcl2 stops reading a file of native syntax, None when it does not.

    To be asked only of files that `parse_file` reads without errors; it takes several times as
    long. docs/language-differences.md lists what to write instead.
    """
    import hcl2
    from lark.exceptions import LarkError, UnexpectedInput

    text = source.text
    try:
        with collector_off():
            hcl2.parses_to_tree(text)
    except UnexpectedInput as problem:
        at = problem.pos_in_stream
    except LarkError:
        at = 0
    else:
        return None
    begin = at if at is not None and 0 <= at < len(text) else len(text)
    return warning(
        "not-readable-with-hcl2",
        "This is valid HCL, but tools built on the Python package hcl2 stop reading here. "
        "docs/language-differences.md lists the forms to stay clear of.",
        Positions(source.name, text).span(begin, min(begin + 1, len(text))),
    )
