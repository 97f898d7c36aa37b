"""Texts of consequences: equal ones of many objects share one, as changes do."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from nexusform.diagnostics.name_ranges import format_names, format_range
from nexusform.diagnostics.phrases import format_first_items, group_by
from nexusform.placements.consequence_record import Consequence
from nexusform.placements.consequences import ConsequenceSeverity

# Risks with one different word that share a sentence.
_MIN_DIFFERING: Final = 4
# Different texts of a severity in a price.
_MAX_PRICE_TEXTS: Final = 4
# In place of the name of the object.
_SUBJECT: Final = "\0"
_WORD: Final = re.compile(r"([\w.-]*\w)")


def describe_risks(findings: Sequence[Consequence]) -> list[tuple[str, int]]:
    """Return a sentence per group of equal risks, each with the number of its risks.

    An example is `edge01..40: each of 40 keeps 1 of 3 control-plane VMs; losing one breaks etcd
    quorum`. Equal risks differ in one part of the names of their objects, and in one more word at
    most, such as the rack.
    """
    sentences: list[tuple[str, int]] = []
    groups = group_by(findings, _build_shape)
    for equal in groups.values():
        for group in _split_names(equal):
            sentences += _describe_group(group)
    return sentences


def describe_objects(objects: Sequence[Consequence]) -> list[tuple[str, int]]:
    """Return a title per group of equal objects, each with the number of its objects.

    `edge01..12 (7 VMs each)`. Equal objects differ in one part of their names.
    """
    titles: list[tuple[str, int]] = []
    # Names with different numbers of parts do not fold.
    groups = group_by(
        objects,
        lambda item: (
            item.risk,
            item.title.replace(item.subject, _SUBJECT),
            item.data,
            item.subject.count("/"),
        ),
    )
    for (_, pattern, *_), equal in groups.items():
        for group in _split_names(equal) if equal[0].subject in equal[0].title else [equal]:
            if len(group) == 1:
                titles.append((group[0].title, 1))
                continue
            has_count = pattern.endswith(")") and any(map(str.isdigit, pattern.rpartition("(")[2]))
            each = f"{pattern.removesuffix(')')} each)" if has_count else pattern
            titles.append((each.replace(_SUBJECT, _format_names(group)), len(group)))
    return titles


def _build_shape(finding: Consequence) -> object:
    """Return a key of risks that may share a sentence: the same kind, severity and punctuation."""
    words = _WORD.split(_get_pattern(finding))
    return (
        finding.risk,
        finding.severity,
        finding.subject.count("/"),
        len(words),
        tuple(words[::2]),
    )


def _get_pattern(finding: Consequence) -> str:
    return finding.text.replace(finding.subject, _SUBJECT)


def _split_names(findings: Sequence[Consequence]) -> Iterator[Sequence[Consequence]]:
    """Yield groups of risks whose names differ in one part: the one with the most values."""
    columns = zip(*(finding.subject.split("/") for finding in findings), strict=True)
    value_counts = [len(set(column)) for column in columns]
    folded = value_counts.index(max(value_counts))

    def get_other_parts(finding: Consequence) -> tuple[str, ...]:
        parts = finding.subject.split("/")
        return (*parts[:folded], *parts[folded + 1 :])

    yield from group_by(findings, get_other_parts).values()


def _describe_group(findings: Sequence[Consequence]) -> Iterator[tuple[str, int]]:
    """Yield one sentence, or one per different text if more than a word differs."""
    texts = [_WORD.split(_get_pattern(finding)) for finding in findings]
    differing = [i for i, column in enumerate(zip(*texts, strict=True)) if len(set(column)) > 1]
    # Few objects that differ are clearer in sentences of their own; one is the same elsewhere.
    has_few = len(findings) < _MIN_DIFFERING and len({item.subject for item in findings}) > 1
    if len(differing) > 1 or (differing and has_few):
        for group in group_by(findings, _get_pattern).values():
            yield from _describe_group(group)
        return
    words = list(texts[0])
    for i in differing:
        values = {text[i] for text in texts}
        is_number = all(value.isdecimal() for value in values)
        words[i] = format_range(map(int, values)) if is_number else format_names(sorted(values))
    yield _name_subjects("".join(words), findings), len(findings)


def _name_subjects(pattern: str, findings: Sequence[Consequence]) -> str:
    """Return a sentence with the names of its objects."""
    names = _format_names(findings)
    count = len({finding.subject for finding in findings})
    if count > 1 and pattern.startswith(_SUBJECT):
        return f"{names}: each of {count:,}{pattern.removeprefix(_SUBJECT)}"
    return pattern.replace(_SUBJECT, names)


def _format_names(findings: Sequence[Consequence]) -> str:
    """Return the names of the subjects: `edge01..12/pool1`."""
    columns = zip(*(finding.subject.split("/") for finding in findings), strict=True)
    return "/".join(format_names(column) for column in columns)


_PRICE_LABELS: Final[Mapping[ConsequenceSeverity, str]] = {
    ConsequenceSeverity.LASTING: "Lasting loss: ",
    ConsequenceSeverity.TEMPORARY: "Temporary loss: ",
    ConsequenceSeverity.NONE: "Also: ",
}


def format_price(consequences: Iterable[Consequence]) -> str:
    """Return a sentence per severity on what a plan costs, "" for nothing.

    An example is `Lasting loss: edge1,2: each of 2 is deleted and created again with 7 VMs.`
    """
    sentences = []
    for severity, group in group_by(consequences, lambda item: item.severity).items():
        texts = [text for text, _ in describe_risks(group)]
        price = format_first_items(texts, _MAX_PRICE_TEXTS, "; ")
        sentences.append(f"{_PRICE_LABELS[severity]}{price}.")
    return " ".join(sentences)
