"""State in a PostgreSQL database (14 or newer): a row per workspace, locked by an advisory lock.

The lock is held by one session, which the server ends when it was idle for a minute; a heartbeat keeps it
busy, and all that the holder writes goes through it. Whoever takes the lock gets the next fencing number of
the workspace; every write names the writer's number in its own transaction, so that of a holder that slept
nothing is accepted. Earlier documents are rows of `versions`.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from nexusform.backends import journal_lines, locks, refusals
from nexusform.backends.deadlines import deadline_seconds, silence_seconds
from nexusform.backends.journal_lines import Gathering
from nexusform.backends.locks import Lease, lease_seconds, now
from nexusform.backends.refusals import DEFAULT, Reading, check_deletable, check_name, needing
from nexusform.regular_files import TooLarge
from nexusform.state_ports import BackendProblem, LockHeld, LockInfo, StoredVersion

if TYPE_CHECKING:
    from psycopg import Connection

_MOST_VERSIONS: Final = 100  # kept per workspace
_CONNECT_SECONDS: Final = 10
_OUTDATED: Final = 14  # the first version with idle_session_timeout

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS {schema}.workspaces (
    id serial PRIMARY KEY,
    name text NOT NULL UNIQUE,
    document bytea,
    fencing bigint NOT NULL DEFAULT 0,
    holder bytea
);
CREATE TABLE IF NOT EXISTS {schema}.journal (
    workspace integer NOT NULL REFERENCES {schema}.workspaces ON DELETE CASCADE,
    number bigint GENERATED ALWAYS AS IDENTITY,
    lines bytea NOT NULL,
    PRIMARY KEY (workspace, number)
);
CREATE TABLE IF NOT EXISTS {schema}.versions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace integer NOT NULL REFERENCES {schema}.workspaces ON DELETE CASCADE,
    written timestamptz NOT NULL DEFAULT now(),
    document bytea NOT NULL
);
CREATE INDEX IF NOT EXISTS versions_of_workspace ON {schema}.versions (workspace, id);
"""


class PostgresBackend:
    """The state of one workspace in a row; see the module."""

    def __init__(self, database: _Database, workspace: str = DEFAULT) -> None:
        check_name(workspace)
        self._database = database
        self._workspace = workspace
        self._held: _HeldLock | None = None
        self._gathering = Gathering(self._write_lines)

    def describe(self) -> str:
        """Server, database, schema and workspace, without credentials."""
        return f"{self._database.place} (workspace {self._workspace})"

    def read(self) -> bytes | None:
        """The state document, None when there is none."""
        with self._session("read the state") as connection:
            return self._document(connection)

    def write(self, document: bytes) -> None:
        """Replace the document; the one before becomes a version. The same document: nothing."""
        with self._writing("write the state") as (connection, row):
            self._replace(connection, row, document)

    def append(self, record: bytes) -> None:
        """Add one record to the journal, durable on return."""
        self.append_all([record])

    def append_all(self, records: Sequence[bytes]) -> None:
        """Add records in order, durable on return; what threads bring at once is one transaction."""
        journal_lines.check_records(records)
        if records:
            self._gathering.add(records)

    def journal(self) -> list[bytes]:
        """All records since the last compaction."""
        query = (
            "SELECT sum(octet_length(lines) + 1), CASE WHEN sum(octet_length(lines) + 1) <= %s THEN "
            "string_agg(lines, '\\x0a'::bytea ORDER BY number) END FROM {schema}.journal "
            "JOIN {schema}.workspaces w ON w.id = workspace WHERE name = %s"
        )
        with self._session("read the journal") as connection:
            lines = _bounded(connection, self._database.sql(query), (self._database.largest, self._workspace))
        return journal_lines.lines_of([lines or b""])

    def compact(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Write the document and empty the journal in one transaction."""
        with self._writing("write the state") as (connection, row):
            self._replace(connection, row, document)
            connection.execute(
                self._database.sql("DELETE FROM {schema}.journal WHERE workspace = %s"), (row,)
            )
            if keep:
                statement = "INSERT INTO {schema}.journal (workspace, lines) VALUES (%s, %s)"
                connection.execute(self._database.sql(statement), (row, b"\n".join(keep)))

    def lock(self, info: LockInfo) -> list[str]:
        """Take the lock or raise LockHeld; a holder whose session ended is replaced, with a warning."""
        seconds = lease_seconds()
        sent_at = now()
        with self._explained("lock the state"):
            connection = self._database.connect(idle_seconds=seconds)
            try:
                row = self._row(connection)
                key = (self._database.lock_space, row)
                if not _first(connection, "SELECT pg_try_advisory_lock(%s, %s)", key):
                    raise LockHeld(self.holder())  # noqa: TRY301 - the session is closed below either way
                former, fencing = self._take(connection, row, info)
            except BaseException:
                connection.close()
                raise
        guard = threading.Lock()

        def renew() -> None:
            with guard:
                connection.execute("SELECT 1")

        self._held = _HeldLock(info.id, fencing, connection, guard, Lease(seconds, renew))
        self._gathering = Gathering(self._write_lines)
        self._held.lease.begin(sent_at)
        if former is None:
            return []
        return [f"The lock of {locks.describe(former)} was taken over: its session had ended."]

    def unlock(self, lock_id: str) -> None:
        """Give the lock back; a BackendProblem when it is no longer held under this id."""
        held, self._held = self._held, None
        if held is not None:
            held.lease.end()
        try:
            holder = self.holder()
            if held is None or holder is None or holder.id != lock_id:
                raise BackendProblem(locks.not_released(lock_id, holder))
            with self._explained("unlock the state"), held.guard:
                statement = "UPDATE {schema}.workspaces SET holder = NULL WHERE name = %s AND fencing = %s"
                held.connection.execute(self._database.sql(statement), (self._workspace, held.fencing))
        finally:
            if held is not None:
                held.connection.close()

    def holder(self) -> LockInfo | None:
        """Who holds the lock now: who took it last, if a session still has it."""
        query = (
            "SELECT substring(holder FROM 1 FOR 65536) FROM {schema}.workspaces w "
            "WHERE name = %s AND EXISTS (SELECT FROM pg_locks "
            "WHERE locktype = 'advisory' AND granted AND classid = %s AND objid = w.id::oid "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
        )
        with self._session("look at the lock") as connection:
            parameters = (self._workspace, self._database.lock_space)
            content = _first(connection, self._database.sql(query), parameters)
        return locks.from_json(bytes(content)) if content is not None else None

    def force_unlock(self, lock_id: str) -> None:
        """End the session that holds the lock with this id; its fencing number counts no more."""
        holder = self.holder()
        if holder is None or holder.id != lock_id:
            raise BackendProblem(locks.not_broken(lock_id, holder))
        end = (
            "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_locks, {schema}.workspaces w "
            "WHERE name = %s AND locktype = 'advisory' AND granted AND classid = %s AND objid = w.id::oid "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        fence = "UPDATE {schema}.workspaces SET fencing = fencing + 1, holder = NULL WHERE name = %s"
        with self._session("break the lock") as connection:
            connection.execute(self._database.sql(fence), (self._workspace,))
            connection.execute(self._database.sql(end), (self._workspace, self._database.lock_space))

    def workspaces(self) -> list[str]:
        """The default workspace and those that have a state."""
        query = "SELECT name FROM {schema}.workspaces WHERE document IS NOT NULL AND name <> %s ORDER BY name"
        with self._session("list the workspaces") as connection:
            rows = connection.execute(self._database.sql(query), (DEFAULT,)).fetchall()
        return [DEFAULT, *sorted(str(name) for (name,) in rows)]

    def for_workspace(self, name: str) -> PostgresBackend:
        """The same database, another workspace."""
        return PostgresBackend(self._database, name)

    def delete_workspace(self, name: str) -> None:
        """Remove the rows of a workspace, its versions too."""
        check_deletable(name, self.workspaces())
        statement = "DELETE FROM {schema}.workspaces WHERE name = %s"
        with self._session("delete the workspace") as connection:
            connection.execute(self._database.sql(statement), (name,))

    def history(self) -> list[StoredVersion]:
        """The earlier documents, newest first."""
        query = (
            "SELECT v.id, to_char(written AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') "
            "FROM {schema}.versions v JOIN {schema}.workspaces w ON w.id = workspace "
            "WHERE name = %s ORDER BY v.id DESC"
        )
        with self._session("list the history") as connection:
            rows = connection.execute(self._database.sql(query), (self._workspace,)).fetchall()
        return [StoredVersion(str(number), str(written)) for number, written in rows]

    def read_version(self, version: str) -> bytes:
        """One of `history` by its id."""
        query = (
            "SELECT octet_length(v.document), CASE WHEN octet_length(v.document) <= %s THEN v.document END "
            "FROM {schema}.versions v JOIN {schema}.workspaces w ON w.id = workspace "
            "WHERE name = %s AND v.id = %s"
        )
        with self._session("read the history") as connection:
            number = int(version) if version.isdigit() else -1
            parameters = (self._database.largest, self._workspace, number)
            content = _bounded(connection, self._database.sql(query), parameters)
        if content is None:
            raise BackendProblem(f'There is no version "{version}" of {self.describe()}.')
        return content

    def check_lease(self) -> None:
        """Raise a BackendProblem when the lock was held here and is lost."""
        if self._held is not None:
            self._held.lease.check()

    # --- how ---------------------------------------------------------------------------------

    @contextmanager
    def _writing(self, what: str) -> Iterator[tuple[Connection[Any], int]]:
        """A transaction in which our fencing number is the workspace's: its connection and the row's id."""
        held = self._held
        if held is not None:
            held.lease.check()
        with self._session(what) as connection, connection.transaction():
            row = self._row(connection)
            query = "SELECT fencing FROM {schema}.workspaces WHERE id = %s FOR UPDATE"
            fencing = _first(connection, self._database.sql(query), (row,))
            if held is not None and fencing != held.fencing:
                raise BackendProblem(
                    f"Cannot {what}: another run has taken the lock of {self.describe()} meanwhile. This one "
                    "writes nothing more."
                )
            yield connection, row
        if held is not None:
            held.lease.check()

    @contextmanager
    def _session(self, what: str) -> Iterator[Connection[Any]]:
        """The holder's session, else one for this call alone."""
        held = self._held
        with self._explained(what):
            if held is not None:
                with held.guard:
                    yield held.connection
                return
            connection = self._database.connect()
            try:
                yield connection
            finally:
                connection.close()

    def _write_lines(self, lines: list[bytes]) -> None:
        statement = "INSERT INTO {schema}.journal (workspace, lines) VALUES (%s, %s)"
        with self._writing("write to the journal") as (connection, row):
            connection.execute(self._database.sql(statement), (row, b"\n".join(lines)))

    def _document(self, connection: Connection[Any]) -> bytes | None:
        query = (
            "SELECT octet_length(document), CASE WHEN octet_length(document) <= %s THEN document END "
            "FROM {schema}.workspaces WHERE name = %s"
        )
        return _bounded(connection, self._database.sql(query), (self._database.largest, self._workspace))

    def _replace(self, connection: Connection[Any], row: int, document: bytes) -> None:
        """Put a document in place of the one that stands, which is kept as a version."""
        standing = self._document(connection)
        if standing == document:
            return
        sql = self._database.sql
        if standing is not None:
            keep = "INSERT INTO {schema}.versions (workspace, document) VALUES (%s, %s)"
            connection.execute(sql(keep), (row, standing))
            prune = (
                "DELETE FROM {schema}.versions WHERE workspace = %s AND id <= (SELECT id FROM "
                "{schema}.versions WHERE workspace = %s ORDER BY id DESC OFFSET %s LIMIT 1)"
            )
            connection.execute(sql(prune), (row, row, _MOST_VERSIONS))
        statement = "UPDATE {schema}.workspaces SET document = %s WHERE id = %s"
        connection.execute(sql(statement), (document, row))

    def _row(self, connection: Connection[Any]) -> int:
        """The workspace's row, made when there is none."""
        make = "INSERT INTO {schema}.workspaces (name) VALUES (%s) ON CONFLICT (name) DO NOTHING"
        find = "SELECT id FROM {schema}.workspaces WHERE name = %s"
        connection.execute(self._database.sql(make), (self._workspace,))
        return int(_first(connection, self._database.sql(find), (self._workspace,)))

    def _take(self, connection: Connection[Any], row: int, info: LockInfo) -> tuple[LockInfo | None, int]:
        """Note the holder; who had not given the lock back, and our fencing number."""
        sql = self._database.sql
        noted = "SELECT substring(holder FROM 1 FOR 65536) FROM {schema}.workspaces WHERE id = %s"
        former = _first(connection, sql(noted), (row,))
        take = (
            "UPDATE {schema}.workspaces SET holder = %s, fencing = fencing + 1 "
            "WHERE id = %s RETURNING fencing"
        )
        fencing = int(_first(connection, sql(take), (locks.to_json(info), row)))
        return (locks.from_json(bytes(former)) if former is not None else None), fencing

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Turn what the server or the network says into a BackendProblem."""
        from psycopg import Error

        try:
            yield
        except Error as problem:
            line = (str(problem).strip() or type(problem).__name__).splitlines()[0]
            raise BackendProblem(f"Cannot {what} in {self._database.place}: {line}") from None
        except TooLarge as problem:
            raise refusals.too_large(what, f"in {self._database.place}", problem) from None


class _HeldLock:
    """The lock that this object holds, and the session that holds it."""

    __slots__ = ("connection", "fencing", "guard", "lease", "lock_id")

    def __init__(
        self, lock_id: str, fencing: int, connection: Connection[Any], guard: threading.Lock, lease: Lease
    ) -> None:
        self.lock_id = lock_id
        self.fencing = fencing
        self.connection = connection
        self.guard = guard
        self.lease = lease


class _Database:
    """Where the tables are, and how one connects."""

    def __init__(self, connection_string: str, schema: str, *, create: bool, largest: int) -> None:
        from psycopg.conninfo import conninfo_to_dict

        self._connection_string = connection_string
        self._schema = schema
        self._create = create
        self.largest = largest  # bytes of a document or a journal that is read
        parts = conninfo_to_dict(connection_string)
        host, name = parts.get("host") or "localhost", parts.get("dbname") or ""
        self.place = f"postgres://{host}/{name}, schema {schema}"
        # Both halves of an advisory lock's key are 32 bits with a sign; pg_locks shows them without one.
        self.lock_space = zlib.crc32(f"nexusform:{schema}".encode()) & 0x7FFFFFFF

    def sql(self, statement: str) -> Any:
        """The statement with the schema's name in it."""
        from psycopg.sql import SQL, Identifier

        return SQL(statement).format(schema=Identifier(self._schema))

    def connect(self, idle_seconds: int = 0) -> Connection[Any]:
        """A session; the server ends it after so many idle seconds. Raises psycopg.Error, BackendProblem."""
        import psycopg

        connection = psycopg.connect(
            self._connection_string,
            autocommit=True,
            connect_timeout=_CONNECT_SECONDS,
            application_name="nexusform",
            keepalives_idle=15,
            keepalives_interval=5,
            keepalives_count=3,
            tcp_user_timeout=int(silence_seconds() * 1000),
        )
        if connection.info.server_version < _OUTDATED * 10_000:
            connection.close()
            raise BackendProblem(f"{self.place}: PostgreSQL {_OUTDATED} or newer is needed.")
        if self._create:
            self._make_tables(connection)
            self._create = False
        connection.execute(f"SET statement_timeout = '{deadline_seconds():.0f}s'")
        if idle_seconds:
            connection.execute(f"SET idle_session_timeout = '{idle_seconds}s'")
            connection.execute(f"SET idle_in_transaction_session_timeout = '{idle_seconds}s'")
        return connection

    def _make_tables(self, connection: Connection[Any]) -> None:
        with connection.transaction():
            # Of two that make the same tables at once one would fail: they take turns.
            connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (self.lock_space,))
            connection.execute(self.sql("CREATE SCHEMA IF NOT EXISTS {schema}"))
            connection.execute(self.sql(_TABLES))


def _first(connection: Connection[Any], query: Any, parameters: Sequence[Any]) -> Any:
    """The first column of the first row, None when there is no row."""
    row = connection.execute(query, parameters).fetchone()
    return row[0] if row is not None else None


def _bounded(connection: Connection[Any], query: Any, parameters: Sequence[Any]) -> bytes | None:
    """A value, None when there is none; the query gives its size too, and nothing beyond. Raises TooLarge.

    `parameters` begin with the most bytes. Values come as they are: as text they would be twice as long.
    """
    row = connection.execute(query, parameters, binary=True).fetchone()
    size, content = row if row is not None else (None, None)
    Reading(int(parameters[0])).take(int(size or 0))
    return bytes(content) if content is not None else None


def open_postgres(settings: Mapping[str, Any], largest: int = refusals.LARGEST) -> PostgresBackend:
    """The backend that the settings describe; raises BackendProblem."""
    import os

    with needing("postgres", "postgres"):
        import psycopg
    connection_string = settings.get("conn_str") or os.environ.get("PG_CONN_STR", "")
    schema = settings.get("schema_name") or "nexusform"
    try:
        create = not settings.get("skip_table_creation")
        database = _Database(connection_string, schema, create=create, largest=largest)
    except psycopg.ProgrammingError:
        # What psycopg says holds parts of it, and one of these may be a password.
        raise BackendProblem(
            "The setting conn_str (or PG_CONN_STR) is not a connection string; it is not shown, since it may "
            "hold a password. In a postgres:// address, write % and @ of a password as %25 and %40."
        ) from None
    return PostgresBackend(database)
