"""The numbered steps of the host store's schema; each is applied together with its record."""

from __future__ import annotations

from typing import Final

MIGRATIONS: Final[tuple[tuple[int, str, tuple[str, ...]], ...]] = (
    (
        1,
        "child runs, events, accounts, sessions, settings",
        (
            """CREATE TABLE child_runs (
                run_id TEXT PRIMARY KEY,
                thread_id TEXT NOT NULL,
                agent_ref TEXT NOT NULL,
                owner TEXT NOT NULL,
                workflow_run TEXT NOT NULL,
                step_id TEXT NOT NULL,
                attempt INTEGER NOT NULL,
                backend TEXT NOT NULL,
                badge TEXT NOT NULL,
                durable INTEGER NOT NULL,
                incarnation TEXT NOT NULL,
                status TEXT NOT NULL,
                answer TEXT,
                due INTEGER,
                files TEXT,
                evidence TEXT,
                counted INTEGER,
                created_at INTEGER NOT NULL,
                updated_at INTEGER NOT NULL,
                finished_at INTEGER,
                change INTEGER NOT NULL
            ) STRICT, WITHOUT ROWID""",
            "CREATE UNIQUE INDEX child_runs_change ON child_runs (change)",
            "CREATE UNIQUE INDEX child_runs_active ON child_runs (thread_id) "
            "WHERE status IN ('pending', 'running')",
            "CREATE INDEX child_runs_counted ON child_runs (workflow_run, counted) WHERE counted IS NOT NULL",
            """CREATE TABLE events (
                thread_id TEXT NOT NULL,
                seq INTEGER NOT NULL,
                run_id TEXT NOT NULL,
                event_type TEXT NOT NULL,
                category TEXT NOT NULL,
                content TEXT,
                metadata TEXT NOT NULL,
                created_at INTEGER NOT NULL,
                PRIMARY KEY (thread_id, seq)
            ) STRICT, WITHOUT ROWID""",
            # What must not come again after a deletion: event numbers of a thread ('thread:…') and the
            # change number ('change').
            "CREATE TABLE floors (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID",
            """CREATE TABLE accounts (
                user_id TEXT PRIMARY KEY,
                salt BLOB NOT NULL,
                hash BLOB NOT NULL,
                cost TEXT NOT NULL,
                roles TEXT NOT NULL,
                disabled INTEGER NOT NULL,
                failures INTEGER NOT NULL,
                locked_until INTEGER NOT NULL,
                created_at INTEGER NOT NULL
            ) STRICT, WITHOUT ROWID""",
            """CREATE TABLE sessions (
                session_id TEXT PRIMARY KEY,
                token_hash BLOB NOT NULL UNIQUE,
                user_id TEXT NOT NULL,
                description TEXT NOT NULL,
                created_at INTEGER NOT NULL,
                expires_at INTEGER NOT NULL,
                revoked_at INTEGER
            ) STRICT, WITHOUT ROWID""",
            """CREATE TABLE settings (
                namespace TEXT PRIMARY KEY,
                enabled INTEGER,
                field_values TEXT NOT NULL,
                revision INTEGER NOT NULL,
                author TEXT NOT NULL,
                updated_at INTEGER NOT NULL
            ) STRICT, WITHOUT ROWID""",
        ),
    ),
    # The place of a recorded answer in the order of its run; a process that takes it up later keeps it.
    (2, "turns", ("ALTER TABLE child_runs ADD COLUMN turn INTEGER",)),
)

NEWEST: Final = MIGRATIONS[-1][0]
