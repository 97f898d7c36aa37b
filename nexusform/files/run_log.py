"""Log of a run for troubleshooting: NF_LOG=LEVEL, or NF_LOG=json, to stderr or NF_LOG_PATH.

Nothing is logged, and `logging` is not imported, before `start_log` is called. Values of the configuration
are never logged, only names, counts and times, so that a log can be shared.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging

_TRACE: Final = 5
_LEVELS: Final = {"trace": _TRACE, "debug": 10, "info": 20, "warn": 30, "error": 40}
LEVELS: Final = (*_LEVELS, "json", "off")
_ACTIVE: list[logging.Logger] = []  # the logger, after the start


def start_log(environment: Mapping[str, str]) -> str:
    """Start the log according to NF_LOG and NF_LOG_PATH. Return an error message, or ""."""
    _ACTIVE.clear()
    level = environment.get("NF_LOG", "").lower()
    if level in ("", "off"):
        return ""
    if level not in LEVELS:
        return f'NF_LOG: there is no level "{level}". Known are: {", ".join(LEVELS)}.'
    import logging

    path = environment.get("NF_LOG_PATH", "")
    if os.path.islink(path) and not path.startswith("/dev/"):  # noqa: PTH114 - a pull request may add it
        return f'NF_LOG_PATH: "{path}" is a link. Name the file itself.'
    try:
        handler = logging.FileHandler(path, encoding="utf-8") if path else logging.StreamHandler()
    except OSError as problem:
        return f'NF_LOG_PATH: "{path}" cannot be written: {problem.strerror}.'
    logging.addLevelName(_TRACE, "TRACE")
    handler.setFormatter(_build_json_formatter() if level == "json" else _build_text_formatter())
    logger = logging.getLogger("nexusform")
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
def log_duration(level: str, message: str, **facts: object) -> Iterator[None]:
    """Log one line after the block, with its duration in seconds."""
    if not _ACTIVE:
        yield
        return
    start_time = perf_counter()
    try:
        yield
    finally:
        log_event(level, message, **facts, seconds=round(perf_counter() - start_time, 4))


def _build_text_formatter() -> logging.Formatter:
    """Build the formatter of `2026-01-01T00:00:00.000Z [INFO]  plan made: changes=14 seconds=0.1`."""
    import logging

    class Lines(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            facts = " ".join(f"{name}={value}" for name, value in _get_event_values(record).items())
            level = f"[{record.levelname}]"
            line = f"{_format_timestamp(record)} {level:<9}{record.getMessage()}"
            return f"{line}: {facts}" if facts else line

    return Lines()


def _build_json_formatter() -> logging.Formatter:
    """Build the formatter of one object per line, with the names of Terraform's JSON log."""
    import logging

    class Lines(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            import json

            head = {
                "@level": record.levelname.lower(),
                "@message": record.getMessage(),
                "@module": "nexusform",
                "@timestamp": _format_timestamp(record),
            }
            return json.dumps({**head, **_get_event_values(record)}, default=str)

    return Lines()


def _get_event_values(record: logging.LogRecord) -> dict[str, object]:
    facts = getattr(record, "facts", {})
    return dict(facts)


def _format_timestamp(record: logging.LogRecord) -> str:
    from datetime import UTC, datetime

    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
