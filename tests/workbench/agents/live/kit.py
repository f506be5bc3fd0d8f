"""Scripts for real Agents, and looks at what a workspace keeps."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

SCRIPT = """\
const facts = await agent({stepId: 'facts', agentRef: 'remote', task: {product: args.product}});
const text = await agent({stepId: 'text', agentRef: 'writer', task: {facts: facts.output}});
return {facts: facts.output, text: text.output};
"""
ARGS = ("--args", '{"product": "soap"}')


def write(folder: Path, text: str = SCRIPT, name: str = "soap") -> Path:
    path = folder / f"{name}.workflow.js"
    path.write_text(text)
    return path


def one_step(folder: Path, agent: str, name: str = "soap") -> Path:
    return write(folder, f"return await agent({{stepId: 'only', agentRef: '{agent}', task: 'go'}});\n", name)


def steps(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {step["step_id"]: step for step in run["steps"]}


def stored(folder: Path) -> str:
    """Everything that the workspace keeps: rows of both stores, and every file as it is."""
    found: list[str] = []
    for path in sorted((folder / ".workbench").rglob("*")):
        if path.is_file():
            found.append(path.read_bytes().decode("latin-1"))
        if path.suffix == ".sqlite":
            with closing(sqlite3.connect(path)) as connection:
                tables = [
                    row[0]
                    for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                ]
                found += [repr(connection.execute(f"SELECT * FROM {table}").fetchall()) for table in tables]
    return "\n".join(found)
