"""Journal of granted requests beside the plan file: one JSON document per line, written before the answer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from nexusform.domains.vnf.serving.grant_decisions import GrantRecord
from nexusform.files.regular_files import open_regular_file, read_regular, write_all_bytes

_MAX_BYTES: Final = 64 << 20


class GrantJournal:
    """Records of the plan with this digest; those of other plans stay in the file."""

    def __init__(self, plan_file: str, digest: str) -> None:
        self.path = Path(f"{plan_file}.grants")
        self.digest = digest
        self.records: list[GrantRecord] = []
        if not self.path.exists():
            return
        for line in read_regular(self.path, _MAX_BYTES).splitlines():
            try:
                entry = msgspec.json.decode(line, type=_JournalEntry)
            except msgspec.DecodeError:
                continue  # the line of a run that was killed while it wrote
            if entry.plan == digest:
                self.records.append(entry.record)

    def add(self, record: GrantRecord) -> None:
        """Write a record to disk, and keep it."""
        text = b"\n" + msgspec.json.encode(_JournalEntry(self.digest, record)) + b"\n"
        descriptor = open_regular_file(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            write_all_bytes(descriptor, text)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.records.append(record)


class _JournalEntry(msgspec.Struct, frozen=True):
    plan: str
    record: GrantRecord
