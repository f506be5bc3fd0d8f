"""What quick commands load (demand 20): each library here costs milliseconds of every such command.

The figures are measured by tests/benchmarks/cli.py; here the modules are pinned, in fresh interpreters.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflows_core.store.builders import SCRIPT, record, start
from workflows_core.journal.frames import JournalWriter
from workflows_core.store.sqlite import SqliteStore

LOADED = """
import sys
from workbench.cli.main import invoke
status = invoke(sys.argv[1:])
print("loaded:", status, *sys.modules)
"""
#: What only screens, the engine's own process and its host need.
HEAVY = {
    "textual", "rich", "pygments", "httpx", "asyncio", "aiosqlite", "yaml", "logging", "platformdirs",
    "workbench.access", "workbench.client", "workbench.host", "workbench.agents", "workflows_core.engine",
}  # fmt: skip
SCRIPTS = {"tree_sitter", "tree_sitter_javascript", "_quickjs", "quickjs", "workflows_core.script"}


@pytest.fixture
def workspace(folder: Path) -> Path:
    """A current folder with one run."""
    store = SqliteStore(folder / ".workbench" / "workflows.sqlite")
    store.create_run(record(run_id="wr_1"), SCRIPT, start(JournalWriter()))
    store.close()
    return folder


def loaded(folder: Path, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOADED, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    status, *modules = done.stdout.rpartition("loaded: ")[2].split()
    assert status == "0", done.stderr
    return set(modules)


@pytest.mark.parametrize("arguments", [("--help",), ("runs", "--help"), ("--version",)])
def test_help_loads_no_more_than_click(folder: Path, arguments: tuple[str, ...]) -> None:
    modules = loaded(folder, *arguments)
    assert "click" in modules
    assert modules.isdisjoint(HEAVY | SCRIPTS | {"msgspec", "sqlite3", "workflows_core", "extension_api"})


@pytest.mark.parametrize("arguments", [("runs",), ("runs", "--json"), ("show", "wr_"), ("log", "wr_")])
def test_looking_at_runs_loads_no_event_loop_no_engine_and_no_parser(
    workspace: Path, arguments: tuple[str, ...]
) -> None:
    modules = loaded(workspace, *arguments)
    assert {"sqlite3", "workflows_core.store.blocking"} <= modules
    assert modules.isdisjoint(HEAVY | SCRIPTS)


@pytest.mark.parametrize("arguments", [("check", "one.workflow.js"), ("check", "one.workflow.js", "--json")])
def test_a_check_loads_no_event_loop_no_engine_and_no_store(folder: Path, arguments: tuple[str, ...]) -> None:
    (folder / "one.workflow.js").write_text("return 1;\n")
    modules = loaded(folder, *arguments)
    assert {"tree_sitter", "workflows_core.script.check"} <= modules
    assert modules.isdisjoint(HEAVY | {"sqlite3", "workflows_core.store"})
