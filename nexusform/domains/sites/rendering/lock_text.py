"""Text about the locks of sites."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from nexusform.diagnostics.phrases import format_count, format_duration, select_word_form
from nexusform.domains.sites.types.site_tasks import SiteLock, SiteResult


def format_locked_sites(results: Sequence[SiteResult], now: datetime) -> str:
    """Format the locks as a table below a sentence, with the command to release them; "" without locks."""
    if not results:
        return ""
    rows = [_format_lock(result, result.lock, now) for result in results if result.lock is not None]
    hosts = sorted({result.lock.host for result in results if result.lock is not None and result.lock.host})
    hints = [
        f"If no process on {host} runs any more, release the locks of sites that were not started:\n"
        f"  nexusform sites unlock -host={host}"
        for host in hosts
    ]
    verb = select_word_form(len(results), "is", "are")
    title = f"{format_count(len(results), 'site')} {verb} locked:"
    return "\n\n".join(["", "\n".join([title, *rows]), *hints])


def format_age(created: str, now: datetime) -> str:
    """Format the time since a lock was taken, "unknown" if its time cannot be read."""
    try:
        return format_duration(max((now - datetime.fromisoformat(created)).total_seconds(), 0))
    except (ValueError, TypeError):
        return "unknown"


def _format_lock(result: SiteResult, lock: SiteLock, now: datetime) -> str:
    progress = "started" if lock.has_started else "not started"
    host = f"host {lock.host}" if lock.host else lock.who
    return f"  {result.site}: ID {lock.id}, {host}, age {format_age(lock.created, now)}, apply {progress}"
