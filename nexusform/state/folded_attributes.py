"""Attributes with many similar elements, folded in the state document.

The statuses and bindings of a placement repeat the same texts for each of its clusters. An object
has such a list or map in `folded_attributes`: `labels` with one text per element, and `values` with
the distinct elements, where `${label}` stands for the label. If there are several values, `numbers`
has the position of each element's value. The label of a list's element is its `label_key`; a map
has none, because its keys are the labels.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from nexusform.state.json_codec import parse_json, render_json

# Lists and maps with fewer elements are easier to read in full.
_MIN_ELEMENTS: Final = 8
# Elements per distinct value.
_MIN_REPETITIONS: Final = 4
# Of an unfolded attribute: a small file must not expand into a large state.
_MAX_BYTES: Final = 1 << 30
# Text that needs no escapes in JSON.
_LABEL: Final = re.compile(r"[\w.-]*", re.ASCII)
_MARK: Final = b"${label}"
# A whole text, and a quotation in a text.
_QUOTES: Final = (b'"%b"', rb"\"%b\"")

_Members: TypeAlias = Mapping[str, Any]


def fold_attributes(attributes: _Members) -> tuple[_Members, dict[str, Any]]:
    """Return the attributes to write in full, and the folded ones."""
    folded: dict[str, Any] = {}
    for name, value in attributes.items():
        form = _fold_attribute(value)
        if form is not None:
            folded[name] = form
    if not folded:
        return attributes, folded
    return {name: value for name, value in attributes.items() if name not in folded}, folded


def _fold_attribute(value: Any) -> dict[str, Any] | None:
    """Return the folded form of a list or map of objects; None if it is no shorter."""
    is_map = isinstance(value, Mapping)
    if (not is_map and not isinstance(value, (list, tuple))) or len(value) < _MIN_ELEMENTS:
        return None
    # The members of a map are sorted in a document.
    elements = [value[label] for label in sorted(value)] if is_map else list(value)
    if not all(isinstance(element, Mapping) for element in elements):
        return None
    label_key = "" if is_map else _find_label_key(elements)
    if label_key is None:
        return None
    labels = sorted(value) if is_map else [element[label_key] for element in elements]
    numbers = _number_values(labels, elements)
    if numbers is None:
        return None
    positions, texts = numbers
    form: dict[str, Any] = {"labels": labels, "values": [parse_json(text) for text in texts]}
    if len(texts) > 1:
        form["numbers"] = positions
    return form if is_map else {"label_key": label_key, **form}


def _find_label_key(elements: Iterable[_Members]) -> str | None:
    """Return the first key, in alphabetical order, with a text in each element."""
    first, *others = elements
    for key in sorted(first):
        if isinstance(first[key], str) and all(isinstance(item.get(key), str) for item in others):
            return key
    return None


def _number_values(
    labels: Iterable[str], elements: Iterable[_Members]
) -> tuple[list[int], list[bytes]] | None:
    """Return the position of each element's value, and the JSON texts of the values.

    Return None if the elements differ too much.
    """
    texts: dict[bytes, int] = {}
    positions: list[int] = []
    for label, element in zip(labels, elements, strict=True):
        text = render_json(element, sort=True)
        if _MARK in text or _LABEL.fullmatch(label) is None:
            return None
        for quotes in _QUOTES:
            text = text.replace(quotes % label.encode(), quotes % _MARK)
        positions.append(texts.setdefault(text, len(texts)))
        if len(texts) > _MIN_REPETITIONS + len(positions) // _MIN_REPETITIONS:
            return None
    if len(texts) * _MIN_REPETITIONS > len(positions):
        return None
    return positions, list(texts)


def unfold_attributes(folded: _Members) -> dict[str, Any]:
    """Return the attributes of folded forms that `is_folded` accepts."""
    return {name: _unfold_attribute(form) for name, form in folded.items()}


def _unfold_attribute(form: _Members) -> Any:
    """Return the list or map of a folded form."""
    texts = [render_json(value) for value in form["values"]]
    labels = form["labels"]
    elements = [
        parse_json(texts[position].replace(_MARK, label.encode()))
        for label, position in zip(labels, _list_positions(form), strict=True)
    ]
    if "label_key" in form:
        return elements
    return dict(zip(labels, elements, strict=True))


def _list_positions(form: _Members) -> list[int]:
    """Return the position of each element's value; the only value has position 0."""
    positions: list[int] = form.get("numbers", [0] * len(form["labels"]))
    return positions


def is_folded(forms: Any) -> bool:
    """Check for an object of folded attributes."""
    return forms.__class__ is dict and all(map(_is_folded_form, forms.values()))


def _is_folded_form(form: Any) -> bool:
    """Check the members of a folded attribute, and its size."""
    if form.__class__ is not dict or not {"labels", "values"} <= form.keys():
        return False
    if form.keys() - {"labels", "values", "numbers", "label_key"}:
        return False
    labels = form["labels"]
    values = form["values"]
    if labels.__class__ is not list or values.__class__ is not list:
        return False
    if not all(label.__class__ is str and _LABEL.fullmatch(label) for label in labels):
        return False
    if not all(value.__class__ is dict for value in values):
        return False
    if form.get("label_key", "").__class__ is not str:
        return False
    if "numbers" not in form and len(values) != 1:
        return False
    positions = _list_positions(form)
    if positions.__class__ is not list or len(positions) != len(labels):
        return False
    if not all(item.__class__ is int and 0 <= item < len(values) for item in positions):
        return False
    longest = max((len(render_json(value)) for value in values), default=0)
    return longest * len(labels) <= _MAX_BYTES
