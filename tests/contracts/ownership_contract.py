"""Contract of ownership: a creation makes an object or fails.

An object of the same name, made by another state, by a lost state or by hand, is never written.
Each provider has a bed, and each situation leaves such an object for the apply that must fail.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from nexusform.cli.main import run_command_line
from tests.prepared_situations import prepare_situation

# Directory of the state under test, and that of another repository.
OWN = "own"
OTHER = "other"
STATE = Path("state")


class OwnershipBed(Protocol):
    """System of a provider, in the process of the test."""

    # Pattern of the message about an existing object.
    message: str

    def write(self, type_name: str, directory: Path, *, is_declared: bool = True) -> None:
        """Write a configuration with an object of a type, or the same without it."""

    def create(self, type_name: str) -> None:
        """Create the object, by an apply if the system completes it."""

    def take_snapshot(self) -> Any:
        """Return the objects under test in the system."""

    def restore(self, snapshot: Any) -> None:
        """Replace the objects of the system."""

    def remove_marks(self, snapshot: Any) -> Any:
        """Return the objects as made by hand."""

    def change(self, type_name: str) -> bool:
        """Write another argument of the object; return whether its type has one to update."""

    def make_again(self, snapshot: Any) -> Any:
        """Return the objects as others make them after a deletion: with another identity."""

    def run_before_creation(self, call: Callable[[], None]) -> None:
        """Call a function once, between the last read and the creation of the object."""

    def lose_creation(self, call: Callable[[], None]) -> None:
        """Call a function once in place of the creation of the object, and send no answer."""

    def reject_later_object(self) -> None:
        """Add a second object to the configuration, and reject its creation."""

    def list_changes(self) -> list[str]:
        """Return the requests with an effect so far, except creations that were rejected."""


class Existing(Struct, frozen=True):
    """Objects of others that an apply with these arguments must not write."""

    objects: Any
    arguments: tuple[str, ...] = ()


Situation = Callable[[OwnershipBed, str, Path], Existing]


def apply(*flags: str) -> int:
    return run_command_line(["apply", "-auto-approve", *flags])


def apply_once(bed: OwnershipBed, type_name: str, *codes: int) -> None:
    """Create the object by an apply that ends with one of the codes, or copy an earlier one."""

    def create() -> None:
        assert apply() in codes

    prepare_situation((type(bed), type_name), bed, create)


def make_object(bed: OwnershipBed, type_name: str, root: Path, directory: str) -> Any:
    """Create the object by an apply in a directory, and return the objects of the system."""
    enter(bed, type_name, root, directory)
    bed.create(type_name)
    snapshot = bed.take_snapshot()
    assert snapshot, "the object is not created"
    return snapshot


def enter(bed: OwnershipBed, type_name: str, root: Path, directory: str) -> None:
    """Change to a directory with the configuration."""
    path = root / directory
    path.mkdir(exist_ok=True)
    os.chdir(path)
    # A configuration without the object has a state, too.
    Path("outputs.nf.hcl").write_text('output "any" {\n  value = 1\n}\n')
    bed.write(type_name, path)


def share_with_another_repository(bed: OwnershipBed, type_name: str, root: Path) -> Existing:
    make_object(bed, type_name, root, OTHER)
    enter(bed, type_name, root, OWN)
    return Existing(bed.take_snapshot())


def share_with_another_workspace(bed: OwnershipBed, type_name: str, root: Path) -> Existing:
    make_object(bed, type_name, root, OWN)
    assert run_command_line(["workspace", "new", "staging"]) == 0
    return Existing(bed.take_snapshot())


def share_under_another_address(bed: OwnershipBed, type_name: str, root: Path) -> Existing:
    """Another repository has a longer history, so the creation has another number."""
    make_object(bed, type_name, root, OTHER)
    assert apply(f"-replace={type_name}.o") in (0, 1, 2)
    enter(bed, type_name, root, OWN)
    return Existing(bed.take_snapshot())


def lose_the_state(bed: OwnershipBed, type_name: str, root: Path) -> Existing:
    make_object(bed, type_name, root, OWN)
    shutil.rmtree(STATE, ignore_errors=True)
    return Existing(bed.take_snapshot())


def lose_the_journal(bed: OwnershipBed, type_name: str, root: Path) -> Existing:
    """The state is older than the object, and no journal has its creation."""
    enter(bed, type_name, root, OWN)
    bed.write(type_name, Path.cwd(), is_declared=False)
    assert apply() == 0
    shutil.copytree(STATE, root / "older")
    make_object(bed, type_name, root, OWN)
    shutil.rmtree(STATE, ignore_errors=True)
    shutil.copytree(root / "older", STATE)
    return Existing(bed.take_snapshot())


def make_by_hand(bed: OwnershipBed, type_name: str, root: Path) -> Existing:
    bed.restore(bed.remove_marks(make_object(bed, type_name, root, OTHER)))
    enter(bed, type_name, root, OWN)
    return Existing(bed.take_snapshot())


def make_between_plan_and_apply(bed: OwnershipBed, type_name: str, root: Path) -> Existing:
    empty = bed.take_snapshot()
    made = make_object(bed, type_name, root, OTHER)
    bed.restore(empty)
    enter(bed, type_name, root, OWN)
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    bed.restore(made)
    return Existing(made, ("p.nfplan",))


def make_at_the_same_time(bed: OwnershipBed, type_name: str, root: Path) -> Existing:
    """Another apply makes the object between the read and the request of this one."""
    empty = bed.take_snapshot()
    made = make_object(bed, type_name, root, OTHER)
    bed.restore(empty)
    enter(bed, type_name, root, OWN)
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    bed.run_before_creation(lambda: bed.restore(made))
    return Existing(made, ("p.nfplan",))


def make_without_an_answer(bed: OwnershipBed, type_name: str, root: Path) -> Existing:
    """Another apply makes the equal object, and the request of this one is lost."""
    empty = bed.take_snapshot()
    made = make_object(bed, type_name, root, OTHER)
    bed.restore(empty)
    enter(bed, type_name, root, OWN)
    bed.lose_creation(lambda: bed.restore(made))
    assert apply() == 1
    assert bed.take_snapshot() == made
    return Existing(made)


def make_again_during_the_creation(bed: OwnershipBed, type_name: str, root: Path) -> Existing:
    """Another apply makes the first of two objects again, between the requests of this one."""
    empty = bed.take_snapshot()
    made = make_object(bed, type_name, root, OTHER)
    bed.restore(empty)
    enter(bed, type_name, root, OWN)
    bed.reject_later_object()
    assert apply() == 1
    assert bed.take_snapshot().keys() == made.keys()
    bed.restore(made)
    return Existing(made, ("-resume",))


SITUATIONS: tuple[Situation, ...] = (
    share_with_another_repository,
    share_with_another_workspace,
    share_under_another_address,
    lose_the_state,
    lose_the_journal,
    make_by_hand,
    make_between_plan_and_apply,
    make_at_the_same_time,
    make_without_an_answer,
    make_again_during_the_creation,
)
