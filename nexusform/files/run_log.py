"""Log of a run for troubleshooting: NF_LOG=LEVEL, or NF_LOG=json, to stderr or NF_LOG_PATH.

Nothing is logged, and `logging` is not imported, before `start_log` is called. Values of the
configuration are never logged, only names, counts and times, so that a log can be shared.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging

_TRACE: Final = 5
_LEVELS: Final = {"trace": _TRACE, "debug": 10, "info": 20, "warn": 30, "error": 40}
LEVELS: Final = (*_LEVELS, "json", "off")
_MAX_CAUSES: Final = 10
# Python's own messages, with names and types.
_SAFE_EXCEPTIONS: Final = (AssertionError, AttributeError, ImportError, NameError, TypeError)
# The logger, after the start.
_ACTIVE: list[logging.Logger] = []


def start_log(environment: Mapping[str, str]) -> str:
    """Start the log according to NF_LOG and NF_LOG_PATH (by default stderr).

    Return an error message, or "".
    """
    # No logger, unless all goes well.
    _ACTIVE.clear()
    level = environment.get("NF_LOG", "").lower()
    if level in ("", "off"):
        return ""  # no log
    if level not in LEVELS:
        return f'NF_LOG: there is no level "{level}". Known are: {", ".join(LEVELS)}.'
    import logging

    path = environment.get("NF_LOG_PATH", "")
    # A pull request may add a link to any file; links below /dev (/dev/stdout) are no part of it.
    if os.path.islink(path) and not path.startswith("/dev/"):  # noqa: PTH114
        return f'NF_LOG_PATH: "{path}" is a link. Name the file itself.'
    try:
        handler = logging.FileHandler(path, encoding="utf-8") if path else logging.StreamHandler()
    except OSError as problem:
        return f'NF_LOG_PATH: "{path}" cannot be written: {problem.strerror}.'
    logging.addLevelName(_TRACE, "TRACE")
    handler.setFormatter(_build_formatter(_format_as_json if level == "json" else _format_as_text))
    logger = logging.getLogger("nexusform")
    # NF_LOG=json logs all levels.
    logger.setLevel(_LEVELS.get(level, _TRACE))
    logger.handlers = [handler]
    logger.propagate = False
    _ACTIVE[:] = [logger]
    return ""


def log_event(level: str, message: str, **facts: object) -> None:
    """Log one line: an event, and facts about it (names, counts, seconds)."""
    for logger in _ACTIVE:
        logger.log(_LEVELS[level], message, extra={"facts": facts})


@contextmanager
def log_duration(message: str, **facts: object) -> Iterator[None]:
    """Log one line of level `info` after the block, with its duration in seconds."""
    start_time = perf_counter()
    try:
        yield
    finally:
        log_event("info", message, **facts, seconds=round(perf_counter() - start_time, 4))


def _build_formatter(
    format_record: Callable[[logging.LogRecord, str, Mapping[str, object]], str],
) -> logging.Formatter:
    """Build a formatter from a function of a record, its time and its facts."""
    import logging
    from datetime import UTC, datetime

    class Lines(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            moment = datetime.fromtimestamp(record.created, UTC)
            time_text = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            return format_record(record, time_text, getattr(record, "facts", {}))

    return Lines()


def _format_as_text(record: logging.LogRecord, time_text: str, facts: Mapping[str, object]) -> str:
    """Format `2026-01-01T00:00:00.000Z [INFO]  plan made: changes=14 seconds=0.1`."""
    facts_text = " ".join(f"{name}={value}" for name, value in facts.items())
    level = f"[{record.levelname}]"
    line = f"{time_text} {level:<9}{record.getMessage()}"
    return f"{line}: {facts_text}" if facts_text else line


def _format_as_json(record: logging.LogRecord, time_text: str, facts: Mapping[str, object]) -> str:
    """Format one object, with the names of Terraform's JSON log."""
    import json

    head = {
        "@level": record.levelname.lower(),
        "@message": record.getMessage(),
        "@module": "nexusform",
        "@timestamp": time_text,
    }
    return json.dumps({**head, **facts}, default=str)


def format_traceback(bug: BaseException) -> str:
    """Return the calls and classes of an exception and of its causes, first cause first.

    A message may quote a value of the configuration, so only those of Python are kept.
    """
    from traceback import format_tb

    parts: list[str] = []
    cause: BaseException | None = bug
    while cause is not None and len(parts) < _MAX_CAUSES:
        message = str(cause) if isinstance(cause, _SAFE_EXCEPTIONS) else "..."
        calls = "".join(format_tb(cause.__traceback__))
        parts.append(
            f"Traceback (most recent call last):\n{calls}{type(cause).__name__}: {message}\n"
        )
        context = None if cause.__suppress_context__ else cause.__context__
        cause = cause.__cause__ or context
    return "\nAfter this exception:\n\n".join(reversed(parts))
