"""`plan -check-with=heat=PYTHON`: requests of servers, read again from the documents of VNFs.

`-check-with=tacker=PYTHON` adds VNF packages. Both are the readers of `-check-with=nova`, which
compares the requests, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from nexusform.domains.program_checks.workflow.stack_requests import (
    HEAT,
    TACKER,
    list_readers,
    list_reasons,
    read_stacks,
)
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.plan_checks import ProgramCheck
from nexusform.workflow.program_checks import ProgramCheckOutcome, ProgramCheckProblem


def check_with_heat(
    result: PlanResult, programs: Mapping[str, str], seconds: float
) -> ProgramCheckOutcome | None:
    """Compare the requests of servers of the planned VNFs with those of Heat's parser.

    Return None if the check with Nova compares them. Raises ProgramCheckProblem.
    """
    if "nova" in programs:
        return None
    readings, has_timed_out = read_stacks(result, programs, seconds)
    checked = [reading for reading in readings if not reading.unchecked_reason]
    readers = list_readers(readings)
    check = ProgramCheck(
        HEAT,
        readers.get(HEAT, "of unknown version"),
        sum(reading.vm_count for reading in checked),
        sum(reading.vm_count for reading in readings),
        "VM",
        tuple(difference for reading in checked for difference in reading.differences),
        readers=tuple(f"{name} {readers[name]}" for name in readers if name != HEAT),
        not_checked=("hosts",),
    )
    return ProgramCheckOutcome(
        check, has_timed_out=has_timed_out, unchecked_reasons=list_reasons(readings)
    )


def check_with_tacker(
    _result: PlanResult, programs: Mapping[str, str], _seconds: float
) -> ProgramCheckOutcome | None:
    """Return None: Tacker makes the stacks that another program checks.

    Raises ProgramCheckProblem.
    """
    if HEAT not in programs:
        raise ProgramCheckProblem(
            f"{TACKER.capitalize()} makes stacks that Heat reads. Add -check-with=heat=PYTHON."
        )
    return None
