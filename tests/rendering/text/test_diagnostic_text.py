from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Position,
    Severity,
    SourceFile,
    Span,
    ValueNote,
    build_error,
    build_warning,
)
from nexusform.rendering.notation.colours import count_columns, strip_colours
from nexusform.rendering.text.diagnostic_text import merge_similar_warnings, render_diagnostics


def build_diagnostics(plans: SimpleNamespace) -> list[Diagnostic]:
    pool = plans.span_of('agent_pool "pool1" {')
    whole = plans.span_of('agent_pool "pool1" {\n    count              = 24\n')
    return [
        build_error(
            "insufficient-capacity",
            "No NUMA cell with 48 vCPUs and 224 GiB is free on the site (zones: all). 31 cells "
            "hold only small VMs.\n\nSuggested fixes (tested):\n  1. count = 20 fits with this SKU "
            "(960 vCPUs; 24 x NC_P34_168_v1 would fit 20 too).\nNo changes were made.",
            pool,
            block='resource "nexus_kubernetes_cluster" "d"',
            address="nexus_kubernetes_cluster.d",
            headline="24 x NC_P46_224_v1 do not fit: 20 of 24 placed",
        ),
        build_error(
            "invalid-function-argument",
            'Invalid value for "min" parameter.',
            plans.span_of("24"),
            values=(ValueNote("var.zones", "is null"), ValueNote("each.key", 'is "a"')),
            function="range(min, max)",
        ),
        build_error(
            "invalid-expression", "The subject spans lines.", whole, headline="Several lines"
        ),
        build_error("invalid-expression", "Nothing to point at.", headline="No place"),
        build_error(
            "invalid-expression",
            "",
            Span("gone.nf.hcl", Position(3, 1, 10), Position(3, 2, 11)),
            headline="Unknown file",
        ),
        build_warning(
            "value-for-undeclared-variable", "The root module does not declare it.", pool
        ),
        build_warning("value-for-undeclared-variable", "Another one.", whole),
        build_warning("value-for-undeclared-variable", "A third.", whole),
    ]


def test_boxes_match_reviewed_file(
    plans: SimpleNamespace, golden: Callable[[str, str], None]
) -> None:
    golden("diagnostics.txt", render_diagnostics(build_diagnostics(plans), plans.files, width=78))


def test_colour_adds_escapes_and_underlines_the_subject(plans: SimpleNamespace) -> None:
    plain = render_diagnostics(build_diagnostics(plans), plans.files)
    coloured = render_diagnostics(build_diagnostics(plans), plans.files, colour=True)
    assert strip_colours(coloured) == plain
    assert '\x1b[4magent_pool "pool1" {\x1b[0m' in coloured


def test_most_severe_is_first_and_similar_warnings_are_merged(plans: SimpleNamespace) -> None:
    text = render_diagnostics(build_diagnostics(plans), plans.files)
    assert text.count("Advice: Value for undeclared variable") == 1
    assert "(and 2 more similar warnings elsewhere)" in text
    assert text.index("Error:") < text.index("Advice:")


def test_terraform_order_has_errors_last(plans: SimpleNamespace) -> None:
    text = render_diagnostics(build_diagnostics(plans), plans.files, terraform=True)
    assert text.index("Warning:") < text.index("Error:")


def test_one_more_warning_is_written_in_words(plans: SimpleNamespace) -> None:
    found = merge_similar_warnings(build_diagnostics(plans)[-2:])
    assert [d.detail for d in found] == ["Another one.\n\n(and one more similar warning elsewhere)"]


def test_errors_are_never_merged(plans: SimpleNamespace) -> None:
    same = [build_diagnostics(plans)[0]] * 3
    assert len(merge_similar_warnings(same)) == 3


def build_cluster_errors(count: int, sku: str = "NC_NOPE_v1") -> list[Diagnostic]:
    return [
        build_error(
            "unknown-vm-sku",
            f'There is no VM SKU "{sku}" for oslo-edge{number}.',
            Span("main.nf.hcl", Position(10 * number, 1, 0), Position(10 * number, 2, 1)),
            address=f"nexus_kubernetes_cluster.edge{number}",
        )
        for number in range(1, count + 1)
    ]


def test_many_errors_that_differ_in_names_share_a_box() -> None:
    text = render_diagnostics(build_cluster_errors(40), {})
    joined = " ".join(text.replace("│", "").split())
    assert text.count("Error:") == 1
    assert (
        "The same error for 39 more: nexus_kubernetes_cluster.edge2..40 (main.nf.hcl:20, "
        "main.nf.hcl:30, main.nf.hcl:40 and 36 more)." in joined
    )


def test_few_or_different_errors_have_boxes_of_their_own() -> None:
    assert render_diagnostics(build_cluster_errors(3), {}).count("Error:") == 3
    skus = [*build_cluster_errors(3), *build_cluster_errors(3, "NC_OTHER_v1")]
    assert render_diagnostics(skus, {}).count("Error:") == 6
    assert render_diagnostics(build_cluster_errors(40), {}, terraform=True).count("Error:") == 40


def test_long_words_and_preformatted_lines_are_kept() -> None:
    path = "x" * 100
    text = render_diagnostics(
        [build_error("unknown-site", f"See {path} there.\n  kept   as   {path}")], {}, width=40
    )
    assert f"│ {path}\n" in text
    assert f"│   kept   as   {path}\n" in text


def test_wide_characters_are_underlined_by_byte_offsets() -> None:
    file = SourceFile("w.nf.hcl", 'å = "日本"\nb = nope\n')
    at = len('å = "日本"\nb = '.encode())
    span = Span(file.name, Position(2, 5, at), Position(2, 9, at + 4))
    text = render_diagnostics(
        [build_error("unknown-site", "", span)], {file.name: file}, colour=True
    )
    assert "   2: b = \x1b[4mnope\x1b[0m" in text


def test_huge_subject_is_cut() -> None:
    text = "".join(f"line {i}\n" for i in range(100))
    file = SourceFile("big.nf.hcl", text)
    span = Span(file.name, Position(1, 1, 0), Position(100, 1, len(text)))
    shown = render_diagnostics([build_error("unknown-site", "", span)], {file.name: file})
    assert "  12: line 11" in shown
    assert "line 12\n" not in shown
    assert "(88 more lines)" in shown


def test_spans_outside_the_file_are_harmless() -> None:
    file = SourceFile("s.nf.hcl", "a\n")
    for start, end in ((50, 60), (1, 0), (0, 99)):
        span = Span(file.name, Position(9, 1, start), Position(9, 1, end))
        assert "s.nf.hcl line 9" in render_diagnostics(
            [build_error("unknown-site", "", span)], {file.name: file}
        )


def test_escape_sequences_are_not_sent_to_the_terminal() -> None:
    file = SourceFile("e.nf.hcl", "a = \x1b]0;x\x07\n")
    span = Span(file.name, Position(1, 1, 0), Position(1, 2, 1))
    found = Diagnostic(
        Severity.ERROR, "bad \x1b[31m", "detail \x1b[0m", span, address="a\x1b", block="b\x1b"
    )
    assert "\x1b" not in render_diagnostics([found], {file.name: file})


def test_warnings_without_a_location_are_not_merged() -> None:
    assert (
        len(
            merge_similar_warnings([build_warning("old-inventory"), build_warning("old-inventory")])
        )
        == 2
    )


def test_machine_written_line_is_cut_around_the_subject() -> None:
    text = "a" * 40_000 + "WRONG" + "b" * 40_000
    span = Span("m.nf.json", Position(1, 40_001, 40_000), Position(1, 40_006, 40_005))
    shown = render_diagnostics(
        [build_error("unknown-site", "", span)], {"m.nf.json": SourceFile("m.nf.json", text)}
    )
    assert "...aaa" in shown
    assert "aWRONGb" in shown
    assert "bbb...\n" in shown
    assert max(map(len, shown.splitlines())) < 320


def build_long_line(at: int, word: str = "wrong") -> tuple[Diagnostic, dict[str, SourceFile]]:
    """Return a finding about a word in a line of 400 columns."""
    line = f"value = [{'a, ' * 130}]"
    text = f"{line[:at]}{word}{line[at:]}\n"
    span = Span(
        "long.nf.hcl",
        Position(1, at + 1, at),
        Position(1, at + 1 + len(word), at + len(word.encode())),
    )
    return build_error("unknown-site", "", span), {"long.nf.hcl": SourceFile("long.nf.hcl", text)}


@pytest.mark.parametrize("at", [0, 40, 70, 200, 399])
@pytest.mark.parametrize(
    "word", ["wrong", "wrong" * 30, "日本" * 40], ids=["short", "long", "wide"]
)
def test_long_line_is_cut_around_the_subject(at: int, word: str) -> None:
    diagnostic, files = build_long_line(at, word)
    text = render_diagnostics([diagnostic], files, width=80)
    shown = text.splitlines()[4]
    assert word[:10] in shown
    assert "..." in shown
    assert max(map(count_columns, text.splitlines())) <= 80


def test_locations_and_notes_are_wrapped_at_words() -> None:
    name = "a-cluster-with-quite-a-long-name-that-somebody-chose"
    span = Span("gone.nf.hcl", Position(3, 1, 10), Position(3, 2, 11))
    notes = (ValueNote("var.zones", f'is "{"long value " * 20}"'),)
    text = render_diagnostics(
        [
            build_error(
                "unknown-site",
                "",
                span,
                block=f'resource "nexus_kubernetes_cluster" "{name}"',
                address=f"nexus_rack.{name}",
                values=notes,
            )
        ],
        {},
        width=80,
    )
    assert max(map(len, text.splitlines())) <= 80
    assert (
        f'│   on gone.nf.hcl line 3, in resource "nexus_kubernetes_cluster"\n│      "{name}":\n'
        in text
    )


def test_tab_is_expanded() -> None:
    file = SourceFile("t.nf.hcl", "\t\ta = 1\n")
    span = Span(file.name, Position(1, 3, 2), Position(1, 4, 3))
    assert "   1:         a = 1\n" in render_diagnostics(
        [build_error("unknown-site", "", span)], {file.name: file}
    )
