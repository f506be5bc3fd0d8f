"""Giving deleted bytes back to the file system, and leaving nothing of them behind in the file.

A store is made with incremental vacuuming, so that pages which a deletion freed are cut off its end in steps. One
that was made without it is written anew, as a whole, the first time that this pays; from then on it can do steps.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: Free pages that are cut off in one step: 1 MiB, a few milliseconds.
STEP_PAGES: Final = 256
#: Free pages from which on a store without incremental vacuuming is written anew.
WORTH_PAGES: Final = 256

_INCREMENTAL: Final = 2
_SECURE: Final = ("OFF", "ON", "FAST")


def prepare(connection: sqlite3.Connection) -> None:
    """Ask for incremental vacuuming. It takes effect where the file is empty yet, else with the next rewriting.

    A file that has it is not asked again, which would write to it, whatever version it is of.
    """
    if _number(connection, "auto_vacuum") != _INCREMENTAL:
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")


@contextmanager
def erasing(connection: sqlite3.Connection) -> Iterator[None]:
    """What is deleted or made shorter inside is overwritten with zeros. Enter it outside a transaction."""
    before = _number(connection, "secure_delete")
    connection.execute("PRAGMA secure_delete=ON").fetchall()
    try:
        yield
    finally:
        connection.execute(f"PRAGMA secure_delete={_SECURE[before]}").fetchall()


def pages(connection: sqlite3.Connection) -> int:
    return _number(connection, "page_count")


def free_pages(connection: sqlite3.Connection) -> int:
    return _number(connection, "freelist_count")


def give_back(connection: sqlite3.Connection, *, rewrite: bool) -> bool:
    """Do one step; whether another one may follow. Raises sqlite3.Error; then nothing is lost.

    With ``rewrite`` a store without incremental vacuuming may be written anew, which holds this thread for as long
    as its size takes and needs that much room for a moment. The last step empties the log, so that the file itself
    gets shorter and no deleted byte stays in the log; readers that are at work meanwhile put that off.
    """
    free = free_pages(connection)
    incremental = _number(connection, "auto_vacuum") == _INCREMENTAL
    if free and incremental:
        # It frees a page with each step of the statement and gives no rows, so that execute would stop after one.
        connection.executescript(f"PRAGMA incremental_vacuum({STEP_PAGES})")
        if 0 < free_pages(connection) < free:
            return True
    elif free >= WORTH_PAGES and rewrite:
        prepare(connection)
        connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return False


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])
