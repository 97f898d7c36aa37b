"""Report as terminal text: a whole answer, or sections of a plan."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics.levels import PlacementImpact
from nexusform.diagnostics.names import escape_name
from nexusform.diagnostics.phrases import enclose, join_texts
from nexusform.rendering.notation.colours import (
    PLAIN,
    Painter,
    compute_column_widths,
    count_columns,
    fill_to_width,
    indent_lines,
    render_symbol,
    wrap_line,
    wrap_lines,
)
from nexusform.rendering.report.decision_lines import DecisionLine
from nexusform.rendering.report.report_tree import (
    Findings,
    ItemGroup,
    Report,
    Row,
    Section,
    Table,
    change_texts,
    get_plain_text,
)

_INDENT = "  "
_IMPACT_COLOURS: Mapping[PlacementImpact | None, str] = {
    PlacementImpact.NONE: "green",
    PlacementImpact.MOVES: "yellow",
    PlacementImpact.LOSES: "red",
}
# Number of columns for a sentence next to its label; with fewer it is put below.
_MIN_LABELLED_WIDTH: Final = 20
# Indent of a text below its label.
_BELOW_INDENT: Final = 6
# Limit of detail rows of a folded section.
MAX_DETAIL_ROWS = 12
# Number of folded sections without findings; more would hide the others.
MAX_FOLDED = 12
# Number of rows of a table without figures, such as steps.
_MAX_STEPS: Final = 12
_MAX_ITEMS: Final = 80
_MAX_ITEM_LINES: Final = 4
# A difference of a site ends with what to do.
_MAX_LISTED_LINES: Final = 10
# Number of columns of a symbol and the gaps around a label.
_SYMBOL_WIDTH: Final = 6
# Number of columns for text next to a label; with fewer it is put below.
_MIN_TEXT_WIDTH: Final = 30
_URGENT_SYMBOLS: Final = ("-", "-/+", "+/-", ".")
# Sections whose title is not omitted above captions.
_TITLED_SECTIONS: Final = ("rollouts", "losses")
# Column of the texts of the decision block.
_DECISION_COLUMN: Final = 13


def render_report_text(report: Report, *, colour: bool = False, width: int = 80) -> str:
    """Render the report as text with a final newline.

    Folded sections after the first MAX_FOLDED are only counted.
    """
    report = change_texts(report, escape_name)
    paint = Painter(colour)
    colour_name = _IMPACT_COLOURS.get(report.alert_level, "red" if report.is_finding else "green")
    lines = [
        *_render_bold_lines(report.title, width, paint),
        *_render_bold_lines(report.verdict, width, paint, colour_name),
    ]
    for fact in report.facts:
        first_line, *further_lines = _wrap_text(fact, width - 4)
        lines += [f"{_INDENT}- {first_line}", *indent_lines(further_lines, f"{_INDENT}  ")]
    folded_sections = [
        section for section in report.sections if section.is_folded and not section.is_finding
    ]
    hidden_sections = folded_sections[MAX_FOLDED:]
    # Other sections may be equal to them.
    hidden_ids = set(map(id, hidden_sections))
    for section in report.sections:
        if id(section) not in hidden_ids:
            lines += ["", *_render_section(section, paint, width)]
    if hidden_sections:
        first_title = hidden_sections[0].title
        lines += [
            "",
            (
                f"{len(hidden_sections)} more sections, from: {first_title}; -format=markdown "
                "lists all."
            ),
        ]
    if report.decision:
        lines += ["", *render_decision(report.decision, width, paint)]
    return "\n".join(lines) + "\n"


def _render_section(section: Section, paint: Painter, width: int) -> list[str]:
    """Render the lines of a section: sentences, notes, commands, findings, items, code, tables.

    A folded one has its first rows.
    """
    styles = ("red",) if section.is_finding else ()
    inner_width = width - len(_INDENT)
    paragraphs = (_wrap_text(get_plain_text(line), inner_width) for line in section.lines)
    lines = [*chain.from_iterable(paragraphs), *render_report_notes(section, inner_width, paint)]
    lines += section.commands
    if section.findings.findings:
        lines += _render_findings(section.findings, paint, inner_width)
    lines += render_report_items(section.groups, inner_width, paint)
    lines += section.code.text.splitlines()
    for table in section.all_tables:
        visible_table = table
        # Of a long table show only the rows with findings, if any.
        if section.is_folded:
            rows = table.rows
            if len(rows) > MAX_DETAIL_ROWS and table.has_findings:
                rows = tuple(row for row in rows if row.is_finding)
            visible_table = replace(table, rows=rows[:MAX_DETAIL_ROWS])
        if table.caption:
            lines += ["", *_render_bold_lines(f"{table.caption}:", inner_width, paint)]
        lines += render_table(visible_table, paint, inner_width)
        hidden_count = len(table.rows) - len(visible_table.rows)
        if hidden_count:
            lines.append(f"... and {hidden_count} more; -format=markdown lists all.")
    return [
        *_render_bold_lines(section.title, width, paint, *styles),
        *indent_lines(lines, _INDENT),
    ]


def _render_findings(findings: Findings, paint: Painter, width: int) -> Iterator[str]:
    """Yield the lines of each finding in its box."""
    # A plan without findings does not load it.
    from nexusform.rendering.text.diagnostic_text import render_diagnostic

    for finding in findings.findings:
        box = render_diagnostic(
            finding.diagnostic, findings.sources, colour=paint.colour, width=width
        )
        yield from box.strip("\n").split("\n")


def _render_bold_lines(text: str, width: int, paint: Painter, *styles: str) -> list[str]:
    """Return the wrapped lines of a text in bold and with further styles."""
    return [paint(line, "bold", *styles) for line in _wrap_text(text, width)]


def render_table(
    table: Table, paint: Painter, width: int, *, has_details: bool = True
) -> list[str]:
    """Render a table as lines of text.

    Its less important columns, at the positions `table.details`, are omitted without `has_details`.
    In a table wider than `width`, they move to a note below each row. If it is still too wide, its
    rows become lines of `header: value`.
    """
    hidden_columns = frozenset() if has_details else table.details
    columns = [column for column in range(len(table.headers)) if column not in hidden_columns]
    headers = [table.headers[column] for column in columns]
    rows = [[get_plain_text(row.cells[column]) for column in columns] for row in table.rows]
    widths = compute_column_widths([headers, *rows])
    # Two spaces between columns.
    separators = 2 * (len(widths) - 1)
    if sum(widths) + separators <= width:
        right_aligned = frozenset(
            number for number, column in enumerate(columns) if column in table.number_columns
        )
        return _render_rows_in_columns(table, headers, rows, right_aligned, paint, width)
    if has_details and table.details:
        rows_with_notes = tuple(_move_details_to_note(table, row) for row in table.rows)
        return render_table(replace(table, rows=rows_with_notes), paint, width, has_details=False)
    return _render_rows_as_records(table, headers, rows, paint, width)


def _render_rows_in_columns(
    table: Table,
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    right_aligned: frozenset[int],
    paint: Painter,
    width: int,
) -> list[str]:
    """Render a table as a line per row.

    `headers` and `rows` are its visible cells as text. A note is below its row.
    """
    widths = compute_column_widths([headers, *rows])
    lines = [paint(_render_row(headers, widths, right_aligned), "bold")]
    # The first cell of the row above; grouped tables show it once.
    previous = ""
    for row, cells in zip(table.rows, rows, strict=True):
        is_repeated = table.is_grouped and cells[0] == previous
        previous = cells[0]
        shown_cells = ["", *cells[1:]] if is_repeated else cells
        line = _render_row(shown_cells, widths, right_aligned)
        lines.append(paint(line, "red") if row.is_finding else line)
        if row.note:
            lines += render_labelled_text("", row.note, widths[0] + 4, width)
    return lines


def _move_details_to_note(table: Table, row: Row) -> Row:
    """Return a row with the cells of the table's detail columns added to its note.

    Each is added as `HEADER: CELL`.
    """
    columns = sorted(table.details & set(range(len(row.cells))))
    details = [
        f"{table.headers[column]}: {get_plain_text(row.cells[column])}" for column in columns
    ]
    return replace(row, note=join_texts((row.note, ", ".join(details)), "; "))


def _render_row(cells: Sequence[str], widths: Sequence[int], right_aligned: frozenset[int]) -> str:
    """Render a row with cells filled to the column widths.

    `right_aligned` are positions of columns.
    """
    cell_texts = (
        fill_to_width(cell, widths[column], right=column in right_aligned)
        for column, cell in enumerate(cells)
    )
    return "  ".join(cell_texts).rstrip()


def _render_rows_as_records(
    table: Table, headers: Sequence[str], rows: Sequence[Sequence[str]], paint: Painter, width: int
) -> list[str]:
    """Render a table wider than `width` as lines per row.

    A row is its first cell, then `header: value` clauses and its note.
    """
    lines: list[str] = []
    for row, cells in zip(table.rows, rows, strict=True):
        lines.append(paint(cells[0] or "-", "red" if row.is_finding else "bold"))
        clauses = [
            f"{enclose('', header, ': ')}{cell}"
            for header, cell in zip(headers[1:], cells[1:], strict=True)
            if cell
        ]
        clauses.append(row.note)
        lines += indent_lines(_join_clauses(filter(None, clauses), width - len(_INDENT)), _INDENT)
    return lines


def _join_clauses(clauses: Iterable[str], width: int) -> Iterable[str]:
    """Yield lines of clauses joined by commas, as many per line as fit.

    Wrap a clause longer than a line.
    """
    line = ""
    for clause in clauses:
        # With ", " before and "," after it.
        if line and count_columns(line) + count_columns(clause) + 3 > width:
            yield from wrap_line(f"{line},", 2, width)
            line = clause
        else:
            line = f"{line}, {clause}" if line else clause
    if line:
        yield from wrap_line(line, 2, width)


def _wrap_text(text: str, width: int) -> list[str]:
    return wrap_lines(text, width)


def render_plan_section(
    section: Section, width: int, paint: Painter, *, hint: str = "", has_details: bool = False
) -> list[str]:
    """Return the paragraphs of a section of a plan, to be separated by blank lines.

    Return [] without content. Usually it is one paragraph: title, tables, items, then sentences. If
    there are only tables with captions and sentences, each table is a paragraph without the title,
    and the sentences belong to the last one. `hint` follows the number of hidden items;
    `has_details` shows every row and column.
    """
    if not section.has_content:
        return []
    section = change_texts(section, escape_name)
    sentences = list(map(get_plain_text, section.lines))
    table_lines = [
        _render_captioned_table(table, width, paint, has_details=has_details)
        for table in section.all_tables
    ]
    # The title is omitted if every table has a caption, unless the captions are mere
    # addresses (of rollouts), or the title names what is lost.
    has_captions = all(table.caption for table in section.all_tables)
    has_captions = has_captions and section.name not in _TITLED_SECTIONS
    is_titled = bool(section.groups) or not has_captions
    # Each table is a paragraph; the sentences belong to the last one.
    if table_lines and not is_titled:
        paragraphs = ["\n".join(lines_of_table) for lines_of_table in table_lines]
        paragraphs[-1] += "".join(f"\n  {sentence}" for sentence in sentences)
        return paragraphs
    lines = (
        [paint(f"{section.title.removesuffix(':')}:", "bold")]
        if section.title and is_titled
        else []
    )
    lines += chain.from_iterable(table_lines)
    max_lines = _MAX_LISTED_LINES if section.name == "listed" else _MAX_ITEM_LINES
    lines += render_report_items(section.groups, width, paint, hint, max_lines)
    # A paragraph per sentence.
    if not lines:
        return (
            ["\n\n".join("\n".join(wrap_lines(sentence, width)) for sentence in sentences)]
            if sentences
            else []
        )
    # Below the title or the items.
    for sentence in sentences:
        lines += wrap_line(f"{_INDENT}{sentence}", 4, width)
    lines += [f"{_INDENT}{command}" for command in section.commands]
    return ["\n".join(lines)]


def _render_captioned_table(
    table: Table, width: int, paint: Painter, *, has_details: bool
) -> list[str]:
    """Render a table below its caption.

    A table without numbers shows only its first rows, unless `has_details`.
    """
    lines = _render_bold_lines(f"{table.caption}:", width, paint) if table.caption else []
    has_all_rows = has_details or bool(table.number_columns)
    visible_rows = table.rows if has_all_rows else table.rows[:_MAX_STEPS]
    visible_table = replace(table, rows=visible_rows)
    lines += indent_lines(
        render_table(visible_table, paint, width - len(_INDENT), has_details=has_details), _INDENT
    )
    hidden_count = len(table.rows) - len(visible_table.rows)
    if hidden_count:
        lines.append(f"{_INDENT}and {hidden_count:,} more; -report=markdown:PATH shows each.")
    return lines


def render_report_items(
    groups: Sequence[ItemGroup],
    width: int,
    paint: Painter,
    hint: str = "",
    max_lines: int = _MAX_ITEM_LINES,
) -> list[str]:
    """Render the items under the names of their groups, each with up to `max_lines` lines.

    An item has a symbol, a label and a text: `+ web  3 to place`. All texts begin at one column. If
    there are more than _MAX_ITEMS, deleted, replaced and forgotten ones are kept first. A last line
    has the number of hidden objects, followed by `hint`.
    """
    items = list(chain.from_iterable(group.items for group in groups))
    urgent_first = sorted(items, key=lambda item: item.symbol not in _URGENT_SYMBOLS)
    visible = urgent_first[:_MAX_ITEMS]
    hidden = urgent_first[_MAX_ITEMS:]
    # By identity, because two groups may have equal items.
    visible_ids = set(map(id, visible))
    # The text of a longer label is below it.
    max_label_width = width - _SYMBOL_WIDTH - _MIN_TEXT_WIDTH
    label_widths = [count_columns(item.label) for item in visible]
    short_widths = [label_width for label_width in label_widths if label_width <= max_label_width]
    # Column of the texts.
    column = _SYMBOL_WIDTH + max(short_widths, default=0)
    lines: list[str] = []
    for group in groups:
        group_items = [item for item in group.items if id(item) in visible_ids]
        if group.name and group_items:
            first_line, *further_lines = wrap_line(f"  {group.name}:", 4, width)
            lines.append(f"  {paint(first_line[2:], 'bold')}")
            lines += [f"    {paint(line.strip(), 'bold')}" for line in further_lines]
        for item in group_items:
            shown_name = paint(item.label, "bold") if item.is_strong else item.label
            label = f"{render_symbol(item.symbol, paint)}{shown_name}"
            text = get_plain_text(item.text)
            lines += truncate_lines(
                render_labelled_text(label, text, column, width), max_lines, width
            )
    hidden_count = sum(item.count for item in hidden)
    return [*lines, f"    and {hidden_count:,} more{hint}."] if hidden_count else lines


def render_report_notes(section: Section, width: int, paint: Painter) -> list[str]:
    """Render a line per note, with the headings in a column."""
    heading_width = max((count_columns(heading) for heading, _ in section.notes), default=0)
    lines: list[str] = []
    for heading, sentence in section.notes:
        label = paint(f"{heading}:", "bold")
        lines += render_labelled_text(label, sentence, heading_width + 2, width, gap=1)
    return lines


def render_decision(
    decision: Sequence[DecisionLine], width: int, paint: Painter = PLAIN
) -> list[str]:
    """Render the decision block: `Capacity:    lab 9 -> 1`.

    Further texts of a line are below the first.
    """
    lines: list[str] = []
    for line in decision:
        # A text in parentheses has its own colon: `Partial plan (-target): 1 changed resource`.
        colon = "" if line.texts[0].startswith("(") else ":"
        label = f"{escape_name(line.label)}{colon} "
        for text in map(escape_name, line.texts):
            column = max(_DECISION_COLUMN, count_columns(label))
            lines += render_labelled_text(paint(label.rstrip(), "bold"), text, column, width, gap=1)
            # Only the first text has it.
            label = ""
    return lines


def render_labelled_text(label: str, text: str, indent: int, width: int, gap: int = 2) -> list[str]:
    """Return lines with `label` and, from column `indent` on, the wrapped text.

    It can have colours. After a longer label, the whole text follows after `gap` spaces if it fits
    on the line, else it is below. If the column of the text is too narrow, or would cut a word, it
    begins further left. Lines have no trailing spaces.
    """
    if count_columns(label) > width and " " in label.strip():
        # Names may be as long as a line, so the last word of a label moves below.
        front, _, last_word = label.rpartition(" ")
        return [
            front.rstrip(),
            *render_labelled_text(f"      {last_word}", text, indent, width, gap),
        ]
    text_width = width - indent
    longest_word = max(map(count_columns, text.split()), default=0)
    # Too narrow a column moves to the left, and so does one that cuts a word, if the
    # word fits there.
    if text_width < _MIN_LABELLED_WIDTH or text_width < longest_word <= width - _BELOW_INDENT:
        indent = _BELOW_INDENT
        text_width = width - _BELOW_INDENT
    label_width = count_columns(label) + gap
    is_long_label = bool(label) and label_width > indent
    if is_long_label and label_width + count_columns(text) <= width:
        return [f"{label}{' ' * gap}{text}".rstrip()]
    if not text:
        return [label.rstrip()]
    first_line, *further_lines = wrap_lines(text, max(text_width, _MIN_LABELLED_WIDTH))
    margin = " " * indent
    if is_long_label:
        first_lines = [label.rstrip(), f"{margin}{first_line}"]
    else:
        first_lines = [f"{fill_to_width(label, indent)}{first_line}"]
    return [*first_lines, *indent_lines(further_lines, margin)]


def truncate_lines(lines: list[str], maximum: int, width: int) -> list[str]:
    """Return at most `maximum` lines; "..." marks omitted text."""
    if len(lines) <= maximum:
        return lines
    return [
        *lines[: maximum - 1],
        f"{drop_last_words(lines[maximum - 1], width - len(' ...'))} ...",
    ]


def drop_last_words(line: str, width: int) -> str:
    """Return the line without the last words that do not fit into the width.

    The first word always stays.
    """
    while count_columns(line) > width and " " in line.strip():
        line = line.rpartition(" ")[0]
    return line
