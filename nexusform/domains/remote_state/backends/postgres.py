"""State in a PostgreSQL database (14 or newer): a row per workspace, locked by an advisory lock.

One session holds the lock; the server ends it after a minute without activity. A heartbeat keeps it
active, and all writes of the holder use it. Each lock gets the next fencing number of the
workspace; every write checks its number in its own transaction, so that a suspended holder cannot
write. Earlier documents are rows of `versions`.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from nexusform.backends import backend_definition, journal_lines, locks
from nexusform.backends.backend_definition import (
    DEFAULT_WORKSPACE,
    check_deletable,
    check_name,
    require_backend_package,
)
from nexusform.backends.journal_lines import LineBatcher, LineJournalBackend
from nexusform.backends.locks import LockLease, read_lease_seconds, read_monotonic_clock
from nexusform.documents.scalars import parse_integer
from nexusform.files.access_record import read_variable, record_server_access
from nexusform.files.regular_files import FileTooLarge
from nexusform.interfaces.state_storage import (
    BackendProblem,
    LockInfo,
    StateLocked,
    StoredStateVersion,
)
from nexusform.json_data.plain_data import get_text
from nexusform.network.deadlines import compute_silence_limit, read_deadline
from nexusform.network.read_limits import ReadByteLimit
from nexusform.network.web_errors import is_loopback

if TYPE_CHECKING:
    from psycopg import Connection


_MAX_VERSIONS: Final = 100  # kept per workspace
# After the name of a workspace: ":" is in no name, and a row without a document is not listed.
_JOURNAL_COPY: Final = ":journal.old"

_PLAIN: Final = (
    "credentials are not sent without TLS. Set sslmode=require or verify-full in conn_str."
)
# The first version with idle_session_timeout.
_MIN_SERVER_VERSION: Final = 14
# Other programs may write a row of any size.
_HOLDER: Final = "substring(holder FROM 1 FOR 65536)"

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


class PostgresBackend(LineJournalBackend):
    """State of one workspace in a row; see the module."""

    _journal: _TableJournal

    def __init__(self, database: _Database, workspace: str = DEFAULT_WORKSPACE) -> None:
        """Check the workspace name and prepare the row without a lock.

        Concurrent appends are joined.
        """
        check_name(workspace)
        self._database = database
        self._workspace = workspace
        self._lock_state: _HeldLock | None = None  # not locked
        self._journal = _TableJournal(self)

    def describe(self) -> str:
        """Return server, database, schema and workspace, without credentials."""
        return f"{self._database.location} (workspace {self._workspace})"

    def read(self) -> bytes | None:
        """Return the state document, None if there is none."""
        with self._open_session("read the state") as connection:
            return self._read_document(connection)

    def write(self, document: bytes) -> None:
        """Replace the document and keep the previous one as a version.

        An equal document is not written.
        """
        self._mark_base(document)
        with self._begin_fenced_transaction("write the state") as (connection, row):
            self._replace_document(connection, row, document)

    def write_merged_state(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Write the document and empty the journal in one transaction.

        The journal keeps the lines to `keep`.
        """
        with self._begin_fenced_transaction("write the state") as (connection, row):
            self._replace_document(connection, row, document)
            connection.execute(
                self._database.format_sql("DELETE FROM {schema}.journal WHERE workspace = %s"),
                (row,),
            )
            if keep:
                statement = "INSERT INTO {schema}.journal (workspace, lines) VALUES (%s, %s)"
                lines = [
                    journal_lines.build_compaction_mark(document),
                    *keep,
                    journal_lines.WRITTEN_MARK,
                ]
                connection.execute(self._database.format_sql(statement), (row, b"\n".join(lines)))
        self._has_named_document = False

    def lock(self, info: LockInfo) -> list[str]:
        """Acquire the lock and return warnings, or raise StateLocked.

        A holder with an ended session is replaced.
        """
        seconds = read_lease_seconds()
        sent_at = read_monotonic_clock()
        with self._convert_errors("lock the state"):
            connection = self._database.connect(idle_seconds=seconds)
            try:
                fencing = None
                # The former holder may delete the workspace after its row was found.
                while fencing is None:
                    row = self._get_or_create_row_id(connection)
                    lock_key = (self._database.lock_space, row)
                    if not _fetch_first_value(
                        connection, "SELECT pg_try_advisory_lock(%s, %s)", lock_key
                    ):
                        raise StateLocked(self.read_lock())  # noqa: TRY301 - the session is closed below either way
                    previous_holder, fencing = self._swap_holder(connection, row, info)
            except BaseException:
                connection.close()
                raise
        # For the connection: unlocking also uses it.
        guard = threading.Lock()

        def renew() -> None:
            with guard:
                connection.execute("SELECT 1")

        # Writes check `fencing`.
        self._lock_state = _HeldLock(fencing, connection, guard, LockLease(seconds, renew))
        self._journal.reset()
        self._has_named_document = False
        self._lock_state.lease.begin(sent_at)
        if previous_holder is None:
            return []  # no warning
        return [
            (
                f"The lock of {locks.describe_lock_holder(previous_holder)} was replaced: its "
                "session had ended."
            )
        ]

    def unlock(self, lock_id: str) -> None:
        """Release the lock.

        Raises BackendProblem if it is not held under this id.
        """
        lock_state = self._lock_state
        self._lock_state = None
        if lock_state is not None:
            lock_state.lease.stop()
        try:
            holder = self.read_lock()
            if lock_state is None or holder is None or holder.id != lock_id:
                raise BackendProblem(locks.format_unlock_failure(lock_id, holder))
            with self._convert_errors("unlock the state"), lock_state.guard:
                statement = (
                    "UPDATE {schema}.workspaces SET holder = NULL WHERE name = %s AND fencing = %s"
                )
                sql = self._database.format_sql(statement)
                lock_state.connection.execute(sql, (self._workspace, lock_state.fencing))
                _release_locks(lock_state.connection)
        finally:
            if lock_state is not None:
                lock_state.connection.close()

    def read_lock(self) -> LockInfo | None:
        """Return the current holder of the lock: the last one, if its session still has it.

        Return None if that session has ended.
        """
        query = (
            "SELECT {holder} FROM {schema}.workspaces w "
            "WHERE name = %s AND EXISTS (SELECT FROM pg_locks "
            "WHERE locktype = 'advisory' AND granted AND classid = %s AND objid = w.id::oid "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
        )
        with self._open_session("read the lock") as connection:
            parameters = (self._workspace, self._database.lock_space)
            content = _fetch_first_value(connection, self._database.format_sql(query), parameters)
        return locks.parse_lock(bytes(content)) if content is not None else None

    def force_unlock(self, lock_id: str) -> None:
        """Terminate the session of the lock with this id.

        With another fencing number, its holder can write no more.
        """
        locks.check_breakable(lock_id, self.read_lock())
        end = (
            "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_locks, {schema}.workspaces w "
            "WHERE name = %s AND locktype = 'advisory' AND granted AND classid = %s AND objid = "
            "w.id::oid AND database = (SELECT oid FROM pg_database WHERE datname = "
            "current_database())"
        )
        fence = (
            "UPDATE {schema}.workspaces SET fencing = fencing + 1, holder = NULL WHERE name = %s"
        )
        with self._open_session("break the lock") as connection:
            connection.execute(self._database.format_sql(fence), (self._workspace,))
            connection.execute(
                self._database.format_sql(end), (self._workspace, self._database.lock_space)
            )

    def list_workspaces(self) -> list[str]:
        """Return the default workspace and those with a state."""
        query = (
            "SELECT name FROM {schema}.workspaces WHERE document IS NOT NULL AND name <> %s ORDER "
            "BY name"
        )
        with self._open_session("list the workspaces") as connection:
            rows = connection.execute(
                self._database.format_sql(query), (DEFAULT_WORKSPACE,)
            ).fetchall()
        return [DEFAULT_WORKSPACE, *sorted(str(name) for (name,) in rows)]

    def select_workspace(self, name: str) -> PostgresBackend:
        """Return the backend of another workspace in the same database."""
        return PostgresBackend(self._database, name)

    def delete_workspace(self, name: str) -> None:
        """Delete the row of a workspace, with the lock held on it here.

        The database deletes its journal and versions (ON DELETE CASCADE).
        """
        check_deletable(name, self.list_workspaces())
        workspace = self if name == self._workspace else self.select_workspace(name)
        workspace.remove()

    def remove(self) -> None:
        """Delete the row, those of its copied journals, and the lock held here."""
        statement = "DELETE FROM {schema}.workspaces WHERE id = %s OR starts_with(name, %s)"
        with self._begin_fenced_transaction("delete the workspace") as (connection, row):
            sql = self._database.format_sql(statement)
            connection.execute(sql, (row, f"{self._workspace}{_JOURNAL_COPY}"))
        lock_state = self._lock_state
        self._lock_state = None
        if lock_state is not None:
            lock_state.lease.stop()
            try:
                with self._convert_errors("unlock the state"), lock_state.guard:
                    _release_locks(lock_state.connection)
            finally:
                lock_state.connection.close()

    def list_versions(self) -> list[StoredStateVersion]:
        """Return the earlier documents, newest first."""
        query = (
            "SELECT v.id, to_char(written AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') "
            "FROM {schema}.versions v JOIN {schema}.workspaces w ON w.id = workspace "
            "WHERE name = %s ORDER BY v.id DESC"
        )
        with self._open_session("list the history") as connection:
            rows = connection.execute(
                self._database.format_sql(query), (self._workspace,)
            ).fetchall()
        return [StoredStateVersion(str(number), str(timestamp)) for number, timestamp in rows]

    def read_version(self, version: str) -> bytes:
        """Return an earlier document by its id.

        Raises BackendProblem if there is none.
        """
        query = (
            "SELECT octet_length(v.document), CASE WHEN octet_length(v.document) <= %s THEN "
            "v.document END FROM {schema}.versions v JOIN {schema}.workspaces w ON w.id = "
            "workspace WHERE name = %s AND v.id = %s"
        )
        with self._open_session("read the history") as connection:
            # -1 for an invalid id: no row has it.
            number = parse_integer(version) or -1
            parameters = (self._database.max_bytes, self._workspace, number)
            content = _fetch_limited(connection, self._database.format_sql(query), parameters)
        if content is None:
            raise BackendProblem(f'No version "{version}" of {self.describe()}.')
        return content

    def check_lease(self) -> None:
        """Raise a BackendProblem if the lock was held here and is lost."""
        if self._lock_state is not None:
            self._lock_state.lease.check_valid()

    @contextmanager
    def _begin_fenced_transaction(self, operation: str) -> Iterator[tuple[Connection[Any], int]]:
        """Begin a transaction, and yield its connection and row id.

        With a lock, check its lease and fencing number.
        """
        lock_state = self._lock_state
        if lock_state is not None:
            lock_state.lease.check_valid()
        with self._open_session(operation) as connection, connection.transaction():
            row = self._get_or_create_row_id(connection)
            query = "SELECT fencing FROM {schema}.workspaces WHERE id = %s FOR UPDATE"
            fencing = _fetch_first_value(connection, self._database.format_sql(query), (row,))
            # A number for each holder.
            if lock_state is not None and fencing != lock_state.fencing:
                raise BackendProblem(
                    f"Cannot {operation}: another run now holds the lock of {self.describe()}. "
                    "This run writes nothing more."
                )
            yield connection, row
        if lock_state is not None:
            # It may have ended during the transaction.
            lock_state.lease.check_valid()

    @contextmanager
    def _open_session(self, operation: str) -> Iterator[Connection[Any]]:
        """Yield the session of the lock held here, one user at a time.

        Without a lock, yield a session for this call.
        """
        lock_state = self._lock_state
        with self._convert_errors(operation):
            if lock_state is not None:
                with lock_state.guard:
                    yield lock_state.connection
                return
            connection = self._database.connect()
            try:
                yield connection
            finally:
                connection.close()

    def list_journal_lines(self) -> list[bytes]:
        """Return every line of the journal.

        A row of the query is (size, lines): see `_fetch_limited`.
        """
        query = (
            "SELECT sum(octet_length(lines) + 1), CASE WHEN sum(octet_length(lines) + 1) <= %s "
            "THEN string_agg(lines, '\\x0a'::bytea ORDER BY number) END FROM {schema}.journal JOIN "
            "{schema}.workspaces w ON w.id = workspace WHERE name = %s"
        )
        with self._open_session("read the journal") as connection:
            sql = self._database.format_sql(query)
            lines = _fetch_limited(connection, sql, (self._database.max_bytes, self._workspace))
        return journal_lines.split_journal([lines or b""])

    def write_journal_lines(self, lines: list[bytes]) -> None:
        """Append lines to the journal, durable on return."""
        statement = "INSERT INTO {schema}.journal (workspace, lines) VALUES (%s, %s)"
        with self._begin_fenced_transaction("write to the journal") as (connection, row):
            connection.execute(self._database.format_sql(statement), (row, b"\n".join(lines)))

    def keep_journal_copy(self, lines: Sequence[bytes]) -> str:
        """Write the lines as the journal of a hidden workspace; return its location."""
        make = (
            "INSERT INTO {schema}.workspaces (name) SELECT %s || (count(*) + 1) FROM "
            "{schema}.workspaces WHERE starts_with(name, %s) RETURNING id, name"
        )
        prefix = f"{self._workspace}{_JOURNAL_COPY}"
        with self._begin_fenced_transaction("move the journal") as (connection, _):
            sql = self._database.format_sql
            found = connection.execute(sql(make), (prefix, prefix)).fetchone()
            assert found is not None
            statement = "INSERT INTO {schema}.journal (workspace, lines) VALUES (%s, %s)"
            connection.execute(sql(statement), (found[0], b"\n".join(lines)))
        return f"{self._database.location} (workspace {found[1]})"

    def _read_document(self, connection: Connection[Any]) -> bytes | None:
        """Return the state document, None if there is none.

        A row is (size, document): see `_fetch_limited`.
        """
        query = (
            "SELECT octet_length(document), CASE WHEN octet_length(document) <= %s THEN document "
            "END FROM {schema}.workspaces WHERE name = %s"
        )
        return _fetch_limited(
            connection,
            self._database.format_sql(query),
            (self._database.max_bytes, self._workspace),
        )

    def _replace_document(self, connection: Connection[Any], row: int, document: bytes) -> None:
        """Replace the document of the workspace `row` unless it is equal.

        Keep it as a version, delete surplus ones.
        """
        current = self._read_document(connection)
        if current == document:
            return
        sql = self._database.format_sql
        if current is not None:
            keep = "INSERT INTO {schema}.versions (workspace, document) VALUES (%s, %s)"
            connection.execute(sql(keep), (row, current))
            prune = (
                "DELETE FROM {schema}.versions WHERE workspace = %s AND id <= (SELECT id FROM "
                "{schema}.versions WHERE workspace = %s ORDER BY id DESC OFFSET %s LIMIT 1)"
            )
            connection.execute(sql(prune), (row, row, _MAX_VERSIONS))
        statement = "UPDATE {schema}.workspaces SET document = %s WHERE id = %s"
        connection.execute(sql(statement), (document, row))

    def _get_or_create_row_id(self, connection: Connection[Any]) -> int:
        """Return the id of the workspace's row; create a missing row."""
        make = "INSERT INTO {schema}.workspaces (name) VALUES (%s) ON CONFLICT (name) DO NOTHING"
        find = "SELECT id FROM {schema}.workspaces WHERE name = %s"
        connection.execute(self._database.format_sql(make), (self._workspace,))
        return int(
            _fetch_first_value(connection, self._database.format_sql(find), (self._workspace,))
        )

    def _swap_holder(
        self, connection: Connection[Any], row: int, info: LockInfo
    ) -> tuple[LockInfo | None, int | None]:
        """Record the holder; return the previous one and the new fencing number.

        The previous one is returned if it did not release the lock. The number is None if the
        row was deleted.
        """
        sql = self._database.format_sql
        query = "SELECT {holder} FROM {schema}.workspaces WHERE id = %s"
        previous_holder = _fetch_first_value(connection, sql(query), (row,))
        take = (
            "UPDATE {schema}.workspaces SET holder = %s, fencing = fencing + 1 WHERE id = %s "
            "RETURNING fencing"
        )
        fencing = _fetch_first_value(connection, sql(take), (locks.format_lock(info), row))
        return (
            locks.parse_lock(bytes(previous_holder)) if previous_holder is not None else None
        ), fencing

    @contextmanager
    def _convert_errors(self, operation: str) -> Iterator[None]:
        """Convert errors of the database to BackendProblem.

        `operation` is a verb phrase: `read the lock`.
        """
        from psycopg import Error

        try:
            yield
        except Error as problem:
            line = (str(problem).strip() or type(problem).__name__).splitlines()[0]
            raise BackendProblem(
                f"Cannot {operation} in {self._database.location}: {line}"
            ) from None
        except FileTooLarge as problem:
            raise backend_definition.build_size_problem(
                operation, f"in {self._database.location}", problem
            ) from None


class _TableJournal:
    """Rows of the journal of one workspace; concurrent appends share one transaction."""

    def __init__(self, backend: PostgresBackend) -> None:
        self._backend = backend
        self.reset()

    def reset(self) -> None:
        """Forget a failed write."""
        self._batch_writer = LineBatcher(self._backend.write_journal_lines)

    def add_lines(self, lines: Sequence[bytes]) -> None:
        """Append lines, durable on return."""
        self._batch_writer.add_lines(lines)

    def list_lines(self) -> list[bytes]:
        """Return every line, in order."""
        return self._backend.list_journal_lines()

    def has_lines(self) -> bool:
        """Return whether there is any line."""
        return bool(self.list_lines())

    def keep_copy(self, lines: Sequence[bytes]) -> str:
        """Write the lines beside the journal; return their location."""
        return self._backend.keep_journal_copy(lines)


class _HeldLock(Struct):
    """Lock held by this object, and its session."""

    fencing: int
    connection: Connection[Any]
    guard: threading.Lock
    lease: LockLease


class _Database:
    """Location of the tables, and their connections."""

    def __init__(
        self, connection_string: str, schema: str, *, creates_tables: bool, max_bytes: int
    ) -> None:
        """Prepare the location, TLS settings and lock key without connecting.

        `creates_tables` adds missing tables.
        """
        from psycopg.conninfo import conninfo_to_dict

        self._connection_string = connection_string
        self._schema = schema
        self._creates_tables = creates_tables
        # Maximum bytes of a document or a journal that is read.
        self.max_bytes = max_bytes
        parts = conninfo_to_dict(connection_string)
        host = parts.get("host") or "localhost"
        name = get_text(parts, "dbname")
        self.location = f"postgres://{host}/{name}, schema {schema}"
        self._host = host
        self._encryption = _choose_tls_settings(parts)
        # Both halves of an advisory lock's key are signed 32-bit numbers; pg_locks
        # shows them unsigned.
        self.lock_space = zlib.crc32(f"nexusform:{schema}".encode()) & 0x7FFFFFFF

    def format_sql(self, statement: str) -> Any:
        """Return the statement with the schema's name and the column of the lock's holder."""
        from psycopg.sql import SQL, Identifier

        return SQL(statement).format(schema=Identifier(self._schema), holder=SQL(_HOLDER))

    def connect(self, idle_seconds: int = 0) -> Connection[Any]:
        """Open a session; it ends after `idle_seconds` without use (0: never).

        Raises psycopg.Error, BackendProblem.
        """
        import psycopg

        record_server_access(f"postgres://{self._host}")
        connection = psycopg.connect(
            self._connection_string,
            **self._encryption,
            autocommit=True,
            connect_timeout=10,
            application_name="nexusform",
            keepalives_idle=15,
            keepalives_interval=5,
            keepalives_count=3,
            tcp_user_timeout=int(compute_silence_limit() * 1000),
        )
        if not (_is_this_machine(connection.info.host) or connection.pgconn.ssl_in_use):
            connection.close()
            raise BackendProblem(f"{self.location}: {_PLAIN}")
        # 160002 is version 16.2.
        if connection.info.server_version < _MIN_SERVER_VERSION * 10_000:
            connection.close()
            raise BackendProblem(
                f"{self.location}: PostgreSQL {_MIN_SERVER_VERSION} or newer is needed."
            )
        # They may not exist yet.
        if self._creates_tables:
            with connection.transaction():
                # Concurrent creation of the same tables would fail, so it is serialized.
                connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (self.lock_space,))
                connection.execute(self.format_sql("CREATE SCHEMA IF NOT EXISTS {schema}"))
                connection.execute(self.format_sql(_TABLES))
            self._creates_tables = False
        connection.execute(f"SET statement_timeout = '{read_deadline():.0f}s'")
        if idle_seconds:
            connection.execute(f"SET idle_session_timeout = '{idle_seconds}s'")
            connection.execute(f"SET idle_in_transaction_session_timeout = '{idle_seconds}s'")
        return connection


def _choose_tls_settings(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the TLS settings to add: required for another machine, else none.

    Raises BackendProblem for a weak mode. `parts` are the settings of a connection string by name.
    """
    if parts.get("service") or read_variable("PGSERVICE"):
        # The file of the service may set host and encryption; `connect` checks the connection.
        return {}
    host_list = parts.get("hostaddr") or parts.get("host") or read_variable("PGHOST") or "localhost"
    hosts = str(host_list).split(",")
    if all(map(_is_this_machine, hosts)):
        return {}
    mode = parts.get("sslmode") or read_variable("PGSSLMODE")
    if not mode:
        return {"sslmode": "require"}
    if mode in ("disable", "allow", "prefer"):
        raise BackendProblem(f"sslmode is {mode}: {_PLAIN}")
    # The mode is strict enough.
    return {}


def _is_this_machine(host: str) -> bool:
    # No host, or a Unix socket.
    return host[:1] in ("", "/", "@") or is_loopback(host)


def _release_locks(connection: Connection[Any]) -> None:
    """Release the locks of a session before it is closed.

    The server ends a closed session later; until then, others would find the lock held.
    """
    connection.execute("SELECT pg_advisory_unlock_all()")


def _fetch_first_value(connection: Connection[Any], query: Any, parameters: Sequence[Any]) -> Any:
    row = connection.execute(query, parameters).fetchone()
    return row[0] if row is not None else None


def _fetch_limited(
    connection: Connection[Any], query: Any, parameters: Sequence[Any]
) -> bytes | None:
    """Return the content found by a query, None without a row.

    Raises FileTooLarge beyond `parameters[0]` bytes. The row is (size, content): a content too
    large is omitted. The transfer is binary, because text is longer.
    """
    row = connection.execute(query, parameters, binary=True).fetchone()
    size, content = row if row is not None else (None, None)
    ReadByteLimit(int(parameters[0])).reserve(int(size or 0))
    return bytes(content) if content is not None else None


def open_postgres(
    settings: Mapping[str, Any], max_bytes: int = backend_definition.MAXIMUM_SIZE
) -> PostgresBackend:
    """Build the backend of the settings.

    Raises BackendProblem for an invalid connection string.
    """
    with require_backend_package("postgres"):
        import psycopg
    connection_string = settings.get("conn_str") or read_variable("PG_CONN_STR")
    schema = settings.get("schema_name") or "nexusform"
    try:
        creates_tables = not settings.get("skip_table_creation")
        database = _Database(
            connection_string, schema, creates_tables=creates_tables, max_bytes=max_bytes
        )
    except psycopg.ProgrammingError:
        # Its message has parts of the string, possibly a password.
        raise BackendProblem(
            "The setting conn_str (or PG_CONN_STR) is not a connection string. It is not shown "
            "because it may contain a password. In a postgres:// address, write % and @ of a "
            "password as %25 and %40."
        ) from None
    return PostgresBackend(database)
