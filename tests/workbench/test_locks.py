"""This process keeps its locks on its own stores, whatever else it does with their files.

Closing any descriptor of a file drops every lock that the process holds on it. The next process that opens and closes
the store then believes that it was the last one, and takes the log away from under those that still use it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from workbench.host.store import HostStore
from workbench.login import opened_accounts
from workbench.opening import open_run
from workbench.workspace import Workspace
from workflows_core.errors import NotFound, UsageError
from workflows_core.store.sqlite import SqliteStore

OTHER = """\
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
connection.close()
"""


def another_process_comes_and_goes(path: Path) -> None:
    subprocess.run([sys.executable, "-c", OTHER, path], check=True, timeout=60)


def opened_again(workspace: Workspace) -> None:
    HostStore.open(workspace.host_store_path).close()


def accounts_looked_at(workspace: Workspace) -> None:
    with opened_accounts(workspace):
        pass


def opened_in_replay(name: str) -> Callable[[Workspace], None]:
    def look(workspace: Workspace) -> None:
        with pytest.raises((UsageError, NotFound)):
            open_run(workspace, str(workspace.state_dir / name))

    return look


@pytest.mark.parametrize(
    "act",
    [opened_again, accounts_looked_at, opened_in_replay("host.sqlite"), opened_in_replay("workflows.sqlite")],
    ids=["opened again", "accounts", "the host's store in Replay", "the engine's store in Replay"],
)
def test_the_logs_of_open_stores_stay(tmp_path: Path, act: Callable[[Workspace], None]) -> None:
    workspace = Workspace.find(tmp_path, tmp_path)
    workspace.make_state_dir()
    with (
        closing(HostStore.open(workspace.host_store_path)),
        closing(SqliteStore(workspace.storage_path)),
    ):
        logs = [Path(f"{path}-wal") for path in (workspace.host_store_path, workspace.storage_path)]
        before = [log.stat().st_ino for log in logs]
        act(workspace)
        for path in (workspace.host_store_path, workspace.storage_path):
            another_process_comes_and_goes(path)
        assert [log.stat().st_ino for log in logs] == before
