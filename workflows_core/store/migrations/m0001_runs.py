"""Runs with their journals, the control inbox, owners and tombstones.

``contents`` keeps scripts, arguments and launch options once, by SHA-256. ``runs.record`` is the JSON of the
fields that no query needs. ``admissions`` has one row for each admission intent: its primary key is what makes
a second admission of the same (run, step, attempt) impossible.
"""

STATEMENTS = (
    """
    CREATE TABLE contents (
        hash TEXT NOT NULL PRIMARY KEY,
        body BLOB NOT NULL
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE runs (
        run_id TEXT NOT NULL PRIMARY KEY,
        owner TEXT NOT NULL,
        request_id TEXT NOT NULL,
        name TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'completed', 'failed', 'cancelled',
            'paused', 'waiting_approval', 'waiting_input', 'needs_reconciliation', 'recoverable',
            'interrupted')),
        revision INTEGER NOT NULL CHECK (revision > 0),
        created_at INTEGER NOT NULL,
        since INTEGER NOT NULL,
        script_hash TEXT NOT NULL REFERENCES contents (hash),
        options_hash TEXT NOT NULL REFERENCES contents (hash),
        identity_hash TEXT NOT NULL,
        cancel_requested_at INTEGER,
        owner_incarnation TEXT NOT NULL,
        record BLOB NOT NULL,
        UNIQUE (owner, request_id)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX runs_newest ON runs (created_at DESC, run_id DESC)",
    "CREATE INDEX runs_of_owner ON runs (owner, state)",
    "CREATE INDEX runs_by_script ON runs (script_hash)",
    "CREATE INDEX runs_by_options ON runs (options_hash)",
    """
    CREATE TABLE frames (
        run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
        number INTEGER NOT NULL CHECK (number >= 0),
        kind TEXT NOT NULL CHECK (kind IN ('start', 'request', 'response', 'end')),
        body BLOB NOT NULL,
        hash BLOB NOT NULL CHECK (length(hash) = 32),
        at INTEGER NOT NULL,
        side BLOB NOT NULL,
        PRIMARY KEY (run_id, number)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE marks (
        run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
        seq INTEGER NOT NULL CHECK (seq >= 0),
        after_frame INTEGER NOT NULL,
        at INTEGER NOT NULL,
        side BLOB NOT NULL,
        PRIMARY KEY (run_id, seq)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE admissions (
        run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
        step_id TEXT NOT NULL,
        attempt INTEGER NOT NULL CHECK (attempt > 0),
        at INTEGER NOT NULL,
        PRIMARY KEY (run_id, step_id, attempt)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE inbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        run_id TEXT,
        body BLOB NOT NULL,
        actor BLOB NOT NULL,
        created_at INTEGER NOT NULL,
        settled_at INTEGER,
        outcome TEXT CHECK (outcome IN ('applied', 'obsolete', 'refused')),
        detail BLOB,
        CHECK ((settled_at IS NULL) = (outcome IS NULL))
    ) STRICT
    """,
    "CREATE INDEX inbox_open ON inbox (id) WHERE settled_at IS NULL",
    """
    CREATE TABLE owners (
        incarnation TEXT NOT NULL PRIMARY KEY,
        pid INTEGER NOT NULL,
        started_at INTEGER NOT NULL,
        ended_at INTEGER
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE tombstones (
        run_id TEXT NOT NULL PRIMARY KEY,
        owner TEXT NOT NULL,
        request_id TEXT NOT NULL,
        identity_hash TEXT NOT NULL,
        deleted_at INTEGER NOT NULL,
        UNIQUE (owner, request_id)
    ) STRICT, WITHOUT ROWID
    """,
)
