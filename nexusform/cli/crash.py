"""What a user sees of a bug: one paragraph; the traceback goes to a file."""

from __future__ import annotations

import os
import tempfile
import traceback

import click

import nexusform

_SAFE = (
    "Nothing that was recorded is lost: the state and its journal are as the last finished step left them."
)


def report_crash(bug: BaseException) -> int:
    """Say that nexusform has a bug and where its traceback stands; returns exit code 1.

    Running out of memory is none: then the machine is too small for what is asked.
    """
    if isinstance(bug, MemoryError):
        click.echo(f"Error: The memory of this machine does not suffice for this. {_SAFE}", err=True)
        return 1
    trace = "".join(traceback.format_exception(bug))
    if os.environ.get("NF_LOG", "").lower() in ("debug", "trace"):
        click.echo(trace, err=True)
    click.echo(
        f"Error: nexusform met a bug of its own ({type(bug).__name__}). {_SAFE} {_where_the_trace_is(trace)}",
        err=True,
    )
    return 1


def _where_the_trace_is(trace: str) -> str:
    ask = "Please report it, with that file"
    try:
        handle, path = tempfile.mkstemp(prefix="nexusform-crash-", suffix=".log")
        with os.fdopen(handle, "w", encoding="utf-8") as log:
            log.write(f"nexusform {nexusform.__version__}\n{trace}")
    except OSError:
        return f"{ask[:13]} it; NF_LOG=debug prints the details, which could not be written to a file."
    return f"The details are in {path}. {ask} and, if you can, the configuration that led to it."
