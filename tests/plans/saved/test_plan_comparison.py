"""Tests of record equality: types of all values count, source locations do not."""

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Position, Span
from nexusform.plans.plan import Action, Change, Step, StepKind
from nexusform.plans.saved.plan_comparison import is_equal_record
from nexusform.resources.address import Address

RACK = Address((), "managed", "nexus_rack", "r", 0)
SPAN = Span("here/main.nf.hcl", Position(1, 1, 0), Position(2, 2, 9))
CHANGE = Change(
    RACK, Action.CREATE, None, {"count": 1, "cells": (0, 1)}, "simulated", 1, 0, source=SPAN
)
STEP = Step(0, StepKind.CREATE, 0, (), None, {"id": "r"})


def test_lists_equal_tuples_and_locations_are_ignored() -> None:
    elsewhere = replace(SPAN, filename="there/main.nf.hcl")
    assert is_equal_record(
        CHANGE, replace(CHANGE, after={"count": 1, "cells": [0, 1]}, source=elsewhere)
    )


@pytest.mark.parametrize(
    "other",
    [
        replace(CHANGE, after={"count": True, "cells": [0, 1]}),
        replace(CHANGE, after={"count": 1.0, "cells": [0, 1]}),
        replace(CHANGE, after={"count": 1, "cells": [0]}),
        replace(CHANGE, after={"count": 1, "cells": [1, 0]}),
        replace(CHANGE, after={"count": 1}),
        replace(CHANGE, after=None),
        replace(CHANGE, action=Action.UPDATE),
        replace(CHANGE, source=None),
        STEP,
    ],
)
def test_different_records_are_not_equal(other: object) -> None:
    assert not is_equal_record(CHANGE, other)
    assert not is_equal_record((CHANGE, other), (CHANGE, CHANGE))
