"""Tests of records as JSON by the fields of their form.

Every form of the product names existing fields.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args, get_type_hints

import pytest
from msgspec import Struct

import nexusform
from nexusform.json_data.record_forms import RecordForm, build_row_form
from nexusform.resources.address import Address


class Colour(Enum):
    RED = "red"


class Wheel(Struct, frozen=True):
    size: int
    maker: str = ""


class Car(Struct, frozen=True):
    name: str
    wheels: tuple[Wheel, ...] = ()
    colour: Colour = Colour.RED
    note: str = ""
    spare: Wheel | None = None
    address: Address | None = None

    @property
    def length(self) -> int:
        return len(self.name)


CAR = Car("beetle", (Wheel(15, "a"), Wheel(16)), address=Address((), "managed", "car", "b"))


def test_form_without_fields_shows_all_in_order_of_record() -> None:
    document = RecordForm(Car)(CAR)
    assert document == {
        "name": "beetle",
        "wheels": [{"size": 15, "maker": "a"}, {"size": 16, "maker": ""}],
        "colour": "red",
        "note": "",
        "spare": None,
        "address": "car.b",
    }
    assert list(document) == list(Car.__struct_fields__)


def test_fields_select_order_rename_and_treat_empty_values() -> None:
    form = RecordForm(Car, "length title=name maker=spare.maker note? [colour] [spare]")
    assert list(form(CAR).items()) == [
        ("length", 6),
        ("title", "beetle"),
        ("maker", None),
        ("note", None),
        ("colour", "red"),
    ]


def test_parts_convert_each_element_and_missing_values_are_null() -> None:
    wheel = RecordForm(Wheel, "inches=size")
    form = RecordForm(
        Car,
        "wheels sizes=wheels *first=. spare doubled=length",
        wheels=wheel,
        sizes="size",
        first=lambda car: wheel(car.wheels[0]),
        spare=wheel,
        doubled=lambda length: 2 * length,
    )
    assert form(CAR) == {
        "wheels": [{"inches": 15}, {"inches": 16}],
        "sizes": [{"size": 15}, {"size": 16}],
        "inches": 15,
        "spare": None,
        "doubled": 12,
    }


def test_rows_become_objects_by_column_names() -> None:
    assert build_row_form("machine reason")(("bm1", None)) == {"machine": "bm1", "reason": None}


def test_type_without_form_is_rejected() -> None:
    class UnsupportedRecord(Struct, frozen=True):
        what: frozenset[str]

    with pytest.raises(TypeError, match="no JSON form for frozenset"):
        RecordForm(UnsupportedRecord)(UnsupportedRecord(frozenset("a")))


def list_forms() -> Iterator[tuple[str, RecordForm[Any]]]:
    for module in pkgutil.walk_packages(nexusform.__path__, "nexusform."):
        # The Nova driver runs in its own environment.
        if module.name.endswith(("__main__", ".nova_driver")) or "/assets/" in module.name:
            continue
        names = vars(importlib.import_module(module.name))
        for name, value in names.items():
            if isinstance(value, RecordForm):
                yield f"{module.name}.{name}", value


def find_missing_fields(form: RecordForm[Any], of: type) -> Iterator[str]:
    """Yield the fields of a form missing in its class, and those of nested forms."""
    for member in form.members:
        classes = list(resolve_field_types(of, member.path))
        if not classes:
            yield member.path
        if isinstance(member.convert, RecordForm):
            record_class = member.convert.record_class
            for inner in list_structs(classes) if record_class is Struct else [record_class]:
                yield from (
                    f"{member.path}: {path}" for path in find_missing_fields(member.convert, inner)
                )


def resolve_field_types(of: Any, path: str) -> Iterator[Any]:
    """Yield the types at a path of a class, by its annotations."""
    if path == ".":
        yield of
        return
    first, _, rest = path.partition(".")
    for struct in list_structs([of]):
        held = getattr(struct, first, None)
        hint = held.fget if isinstance(held, property) else None
        found = get_type_hints(hint)["return"] if hint else get_type_hints(struct).get(first)
        if found is not None:
            yield from resolve_field_types(found, rest) if rest else [found]


def list_structs(hints: list[Any]) -> Iterator[type]:
    for hint in hints:
        if isinstance(hint, type) and hint is not type(None) and not get_args(hint):
            yield hint
        else:
            yield from list_structs(list(get_args(hint)))


def test_every_form_names_existing_fields() -> None:
    found = list(list_forms())
    assert len([name for name, _ in found if not name.startswith("nexusform.domains.")]) > 25
    assert {
        name: list(find_missing_fields(form, form.record_class))
        for name, form in found
        if form.record_class is not Struct
    } == {name: [] for name, form in found if form.record_class is not Struct}
