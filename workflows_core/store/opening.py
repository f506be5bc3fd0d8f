"""Opening a SQLite store: its folder and file, the pragmas of a writer, its schema, and errors in words."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path
from typing import Final

from ..errors import StoreError, StoreFailed, StoreTooNew
from ..model import now
from . import space
from .migrations import MIGRATIONS, NEWEST

BUSY_MILLISECONDS: Final = 5_000
#: Pages of the log before it is moved into the database. Small on purpose: a log that has wrapped is overwritten
#: in place, and a flush that grows no file takes two thirds of the time.
WAL_PAGES: Final = 250
MINIMUM_SQLITE: Final = (3, 37, 0)


def private_directory(path: Path) -> None:
    """Create a directory 0700 where it is missing; raise StoreFailed in words."""
    try:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreFailed(
            f"the folder {path} cannot be created: {error.strerror}. Choose another workspace, or free the path"
        ) from None


def make_private(path: Path) -> None:
    """Create a file 0600 where it is missing; take one that is there away from everybody but its owner.

    A file that is there is not opened: closing it again would drop the locks that SQLite holds on it for this
    process, and another process could then take its log away. Raises OSError.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode) and mode & 0o077:
            path.chmod(0o600)


def failed(error: sqlite3.Error, path: Path, doing: str) -> StoreError:
    """The store error for what SQLite reported, recognised by its code and never by its text."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StoreFailed(f"{doing} failed: the disk is full at {path}. Free some space; nothing was lost")
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return StoreFailed(
            f"{path} is not a readable store: it is damaged or no SQLite file. "
            "Move it away, or restore it from a copy"
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return StoreFailed(f"{path} cannot be opened for {doing}: check its owner and permissions")
    if code == sqlite3.SQLITE_BUSY:
        return StoreFailed(f"{doing} failed: {path} has been locked by another program for 5 s")
    return StoreFailed(f"{doing} failed at {path}: {error}")


def connect(path: Path) -> sqlite3.Connection:
    """A writer connection with the pragmas every writer of this file needs."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_MILLISECONDS / 1000)
    try:
        if space.pages(connection) == 0:  # the pragma writes to a file that has pages already
            space.prepare(connection)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA trusted_schema=OFF")
    except BaseException:
        connection.close()
        raise
    return connection


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the schema to the newest number; refuse a store that is newer than this program."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations "
        "(number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT"
    )
    have = connection.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchone()[0]
    if have > NEWEST:
        raise StoreTooNew(
            f"{path} has schema {have}, and this version knows {NEWEST}. Use the newer workbench that wrote it; "
            "nothing was changed"
        )
    for number, name, statements in MIGRATIONS:
        if number <= have:
            continue
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements:
                connection.execute(statement)
            connection.execute("INSERT INTO migrations VALUES (?, ?, ?)", (number, name, now()))
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
