"""What people say and what is kept for them: decisions, captures, saved versions, attestations.

The primary key of ``decisions`` is what makes a second decision on a wait impossible. Captured bytes are keyed
by the step that captured them.
"""

STATEMENTS = (
    """
    CREATE TABLE decisions (
        run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
        step_id TEXT NOT NULL,
        attempt INTEGER NOT NULL CHECK (attempt > 0),
        decision TEXT NOT NULL CHECK (decision IN ('approve', 'reject', 'resume')),
        sha256 TEXT,
        reason TEXT,
        actor BLOB NOT NULL,
        review BLOB NOT NULL,
        decided_at INTEGER NOT NULL,
        PRIMARY KEY (run_id, step_id, attempt),
        CHECK ((sha256 IS NULL) = (decision = 'resume'))
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE captures (
        capture_id INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
        step_id TEXT NOT NULL,
        attempt INTEGER NOT NULL CHECK (attempt > 0),
        source_step_id TEXT NOT NULL,
        path TEXT NOT NULL,
        version TEXT NOT NULL CHECK (length(version) = 64),
        media_type TEXT NOT NULL,
        size INTEGER NOT NULL CHECK (size = length(body)),
        body BLOB NOT NULL,
        captured_at INTEGER NOT NULL,
        UNIQUE (run_id, step_id, attempt)
    ) STRICT
    """,
    "CREATE INDEX captures_by_version ON captures (run_id, version)",
    """
    CREATE TABLE definitions (
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        version TEXT NOT NULL REFERENCES contents (hash),
        saved_at INTEGER NOT NULL,
        PRIMARY KEY (owner, name, version)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX definitions_by_version ON definitions (version)",
    """
    CREATE TABLE attestations (
        attestation_id INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
        step_id TEXT NOT NULL,
        attempt INTEGER NOT NULL CHECK (attempt > 0),
        outcome TEXT NOT NULL CHECK (outcome IN ('did_not_run', 'succeeded', 'failed')),
        reason TEXT NOT NULL CHECK (length(reason) > 0),
        statement_hash TEXT NOT NULL,
        evidence_hash TEXT NOT NULL,
        actor BLOB NOT NULL,
        settles INTEGER NOT NULL CHECK (settles IN (0, 1)),
        attested_at INTEGER NOT NULL
    ) STRICT
    """,
    "CREATE INDEX attestations_of_step ON attestations (run_id, step_id, attempt)",
)
