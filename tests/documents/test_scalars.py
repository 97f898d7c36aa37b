"""Tests of iteration over the scalars of plain data."""

from nexusform.documents.scalars import OMITTED, list_scalars, replace_scalars

DATA = {"a": [1, {"b": None, "c": True}], "d": {}, "e": "x"}


def test_scalars_have_paths_in_the_order_of_the_data() -> None:
    assert list(list_scalars(DATA)) == [(("a", 0), 1), (("a", 1, "b"), None), (("a", 1, "c"), True), (("e",), "x")]
    assert list(list_scalars(7)) == [((), 7)]


def test_omitted_list_item_leaves_null() -> None:
    paths = {("a", 0), ("a", 1, "c")}
    rest = replace_scalars(DATA, lambda path, leaf: OMITTED if path in paths else leaf)
    assert rest == {"a": [None, {"b": None}], "d": {}, "e": "x"}
    assert DATA["a"] == [1, {"b": None, "c": True}]
