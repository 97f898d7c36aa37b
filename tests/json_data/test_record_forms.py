"""Records as JSON by the words of their form; and that every form of the program names what there is."""

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


def test_without_words_a_record_shows_all_that_it_has_in_its_own_order() -> None:
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


def test_words_name_order_and_rename_and_say_what_becomes_of_the_empty() -> None:
    form = RecordForm(Car, "length title=name maker=spare.maker note? [colour] [spare]")
    assert list(form(CAR).items()) == [
        ("length", 6),
        ("title", "beetle"),
        ("maker", None),
        ("note", None),
        ("colour", "red"),
    ]


def test_parts_make_each_element_and_what_is_not_there_stays_null() -> None:
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


def test_rows_become_objects_by_their_heads() -> None:
    assert build_row_form("machine reason?")(("bm1", "")) == {"machine": "bm1", "reason": None}


def test_what_no_form_says_is_no_json() -> None:
    class Odd(Struct, frozen=True):
        what: frozenset[str]

    with pytest.raises(TypeError, match="no JSON form for frozenset"):
        RecordForm(Odd)(Odd(frozenset("a")))


def forms() -> Iterator[tuple[str, RecordForm[Any]]]:
    for module in pkgutil.walk_packages(nexusform.__path__, "nexusform."):
        # The driver of Nova runs in an environment of its own.
        if module.name.endswith(("__main__", ".nova_driver")) or "/assets/" in module.name:
            continue
        names = vars(importlib.import_module(module.name))
        for name, value in names.items():
            if isinstance(value, RecordForm):
                yield f"{module.name}.{name}", value


def missing(form: RecordForm[Any], of: type) -> Iterator[str]:
    """The words of a form that lead to nothing in a class, and those of the forms inside."""
    for member in form.members:
        classes = list(led(of, member.path))
        if not classes:
            yield member.path
        if isinstance(member.part, RecordForm):
            for inner in structs(classes) if member.part.record_class is Struct else [member.part.record_class]:
                yield from (f"{member.path}: {path}" for path in missing(member.part, inner))


def led(of: Any, path: str) -> Iterator[Any]:
    """What stands at a path of a class, by its annotations."""
    if path == ".":
        yield of
        return
    first, _, rest = path.partition(".")
    for struct in structs([of]):
        held = getattr(struct, first, None)
        hint = held.fget if isinstance(held, property) else None
        found = get_type_hints(hint)["return"] if hint else get_type_hints(struct).get(first)
        if found is not None:
            yield from led(found, rest) if rest else [found]


def structs(hints: list[Any]) -> Iterator[type]:
    for hint in hints:
        if isinstance(hint, type) and hint is not type(None) and not get_args(hint):
            yield hint
        else:
            yield from structs(list(get_args(hint)))


def test_every_form_names_what_its_class_has() -> None:
    found = list(forms())
    assert len([name for name, _ in found if not name.startswith("nexusform.domains.")]) > 25
    assert {
        name: list(missing(form, form.record_class)) for name, form in found if form.record_class is not Struct
    } == {name: [] for name, form in found if form.record_class is not Struct}
