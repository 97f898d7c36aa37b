"""Integer programs, solved by HiGHS.

The module of a child process with limits: a program can take any time and memory.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import chain
from math import ceil, inf, isfinite
from typing import Any

from msgspec import Struct, convert

from nexusform.files.limited_worker import serve_requests


class SolverRequest(Struct, frozen=True):
    """A program of whole numbers from 0: costs and bounds, and the entries of each column.

    `rows` and `coefficients` are those of a column. A bound None is infinite. `seconds` None means
    the node limit only.
    """

    costs: Sequence[float]
    column_upper: Sequence[float | None]
    row_lower: Sequence[float | None]
    row_upper: Sequence[float | None]
    rows: Sequence[Sequence[int]]
    coefficients: Sequence[Sequence[float]]
    maximum_nodes: int
    seconds: float | None = None


class SolverResult(Struct, frozen=True):
    """Answer of the solver: whole numbers by column (None: none found), and lower bound."""

    values: Sequence[int] | None
    objective: float
    bound: int
    is_finished: bool


def solve_program(request: SolverRequest) -> SolverResult:
    """Run HiGHS with one thread and a fixed seed.

    A result without values proves the lack of a solution if `is_finished`.
    """
    import highspy
    import numpy as np

    column_count = len(request.costs)
    column_upper = [inf if value is None else value for value in request.column_upper]
    lp = highspy.HighsLp()
    lp.num_col_ = column_count
    lp.num_row_ = len(request.row_lower)
    lp.col_cost_ = np.array(request.costs, dtype=np.double)
    lp.col_lower_ = np.zeros(column_count)
    lp.col_upper_ = np.array(column_upper, dtype=np.double)
    lower = [-inf if value is None else value for value in request.row_lower]
    upper = [inf if value is None else value for value in request.row_upper]
    lp.row_lower_ = np.array(lower, dtype=np.double)
    lp.row_upper_ = np.array(upper, dtype=np.double)
    # Of each column in the entries of all columns.
    starts = np.zeros(column_count + 1, dtype=np.int32)
    starts[1:] = np.cumsum([len(rows) for rows in request.rows])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = starts
    lp.a_matrix_.index_ = np.array(list(chain.from_iterable(request.rows)), dtype=np.int32)
    coefficients = list(chain.from_iterable(request.coefficients))
    lp.a_matrix_.value_ = np.array(coefficients, dtype=np.double)
    lp.integrality_ = [highspy.HighsVarType.kInteger] * column_count
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    options: dict[str, Any] = {
        "output_flag": False,
        "threads": 1,
        "random_seed": 0,
        # All costs are whole numbers.
        "mip_abs_gap": 0.999,
        "mip_rel_gap": 0.0,
        "mip_max_nodes": request.maximum_nodes,
    }
    if request.seconds is not None:
        options["time_limit"] = max(request.seconds, 0.1)
    for name, value in options.items():
        highs.setOptionValue(name, value)
    highs.passModel(lp)
    highs.run()
    status = highs.getModelStatus()
    info = highs.getInfo()
    if status in (
        highspy.HighsModelStatus.kInfeasible,
        highspy.HighsModelStatus.kUnboundedOrInfeasible,
    ):
        return SolverResult(values=None, objective=0.0, bound=0, is_finished=True)
    # Also if the solver knows no bound: then it is not finite.
    bound = 0
    if isfinite(info.mip_dual_bound):
        # 1e-6: the solver's tolerance.
        bound = max(ceil(info.mip_dual_bound - 1e-6), 0)
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return SolverResult(values=None, objective=0.0, bound=bound, is_finished=False)
    values = list(map(round, highs.getSolution().col_value))
    objective = round(info.objective_function_value)
    return SolverResult(values, objective, min(objective, bound), is_finished=True)


def main() -> None:
    """Answer the requests on stdin."""
    # Loaded before the first limit: the memory of the library does not count.
    import highspy  # noqa: F401

    serve_requests(lambda request: solve_program(convert(request, SolverRequest)), sys.stdin.buffer)


if __name__ == "__main__":
    main()
