"""Help is complete, documented, and loads nothing of weight."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.workbench.cli.conftest import Command
from tests.workbench.cli.seat import seat
from workbench.cli.main import COMMANDS, cli

ROOT = Path(__file__).parents[3]


def the(name: str) -> click.Command:
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return found


VISIBLE = [name for name in COMMANDS if not the(name).hidden]


def leaves() -> list[tuple[str, click.Command]]:
    """Every command that does something, by the words that name it."""
    found: list[tuple[str, click.Command]] = []
    for name in VISIBLE:
        each = the(name)
        if isinstance(each, click.Group):
            found += [(f"{name} {word}", part) for word, part in each.commands.items()]
        else:
            found.append((name, each))
    return found


LEAVES = dict(leaves())

PROBE = """
import json, sys
from workbench.cli.main import invoke
status = invoke(sys.argv[1:])
print(json.dumps([status, sorted(sys.modules)]), file=sys.stderr)
"""


def loaded(*arguments: str, cwd: Path) -> tuple[int, set[str]]:
    """Exit code of a command in a fresh interpreter, and the modules that it has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    status, modules = json.loads(done.stderr.splitlines()[-1])
    return status, {name.partition(".")[0] for name in modules} | set(modules)


def test_help_loads_click_and_nothing_of_weight(tmp_path: Path) -> None:
    for arguments in (["--help"], ["run", "--help"]):
        status, modules = loaded(*arguments, cwd=tmp_path)
        assert status == 0
        heavy = {
            "textual",
            "rich",
            "tree_sitter",
            "quickjs",
            "_quickjs",
            "msgspec",
            "yaml",
            "asyncio",
            "sqlite3",
        }
        assert not heavy & (modules - {"asyncio"})


@pytest.mark.parametrize("arguments", [["check", "a.workflow.js"], ["runs"], ["runs", "--json"]])
def test_check_and_runs_do_not_load_the_screens(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "a.workflow.js").write_text("return 1;\n")
    status, modules = loaded(*arguments, cwd=tmp_path)
    assert status == 0
    assert not {"textual", "rich", "pygments", "workbench.tui", "httpx"} & modules


def test_the_commands_of_this_version_and_no_others() -> None:
    assert VISIBLE == [
        "new", "demo", "check", "run", "runs", "show", "step", "log", "compare", "review", "resume", "decide", "answer", "recover", "reconcile",
        "cancel", "delete", "artifact", "save", "library", "export", "replay", "fork",
        "export-test", "stubs", "explore", "coverage", "extension", "host", "notices", "login", "logout",
        "sessions", "doctor",
    ]  # fmt: skip


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_and_every_option_explains_itself(name: str, command: Command) -> None:
    each = LEAVES[name]
    assert each.help
    for parameter in each.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts}"
    result = command(*name.split(), "--help")
    assert result.status == 0
    assert each.help.splitlines()[0] in result.out
    assert {"--json", "--workspace"} <= {option for parameter in each.params for option in parameter.opts}


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_and_every_option_is_documented(name: str) -> None:
    text = (ROOT / "docs" / "commands.md").read_text("utf-8")
    shared = text[: text.index("\n## workbench ")]
    sections = {
        match[1]: match[2]
        for match in re.finditer(
            r"^###? workbench ((?:extension )?[\w-]+)([^\n]*\n(?:(?!^###? workbench).*\n?)*)",
            text,
            re.MULTILINE,
        )
    }
    for parameter in LEAVES[name].params:
        if isinstance(parameter, click.Option):
            where = shared if parameter.name in ("workspace", "as_json") else sections[name]
            assert f"`{parameter.opts[0]}" in where, f"{name} {parameter.opts[0]}"
        else:
            assert parameter.name is not None and parameter.name.upper() in sections[name].splitlines()[0]


def test_the_page_documents_no_command_that_does_not_exist() -> None:
    text = (ROOT / "docs" / "commands.md").read_text("utf-8")
    assert re.findall(r"^## workbench ([\w-]+)", text, re.MULTILINE) == VISIBLE


def test_help_names_every_command(command: Command) -> None:
    result = command("--help")
    listed = re.findall(r"^  ([\w-]+) +\S", result.out.partition("Commands:")[2], re.MULTILINE)
    assert listed == VISIBLE
    assert "..." not in result.out.partition("Commands:")[2]


def test_version(command: Command) -> None:
    assert re.fullmatch(r"workbench \d+\.\d+\.\d+\n", command("--version").out)


def test_the_package_runs_as_a_module(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "workbench", "runs", "--json"],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout) == {"runs": []}


def test_without_a_terminal_the_application_says_what_to_do(command: Command) -> None:
    result = command()
    assert result.status == 2
    assert "the application needs a terminal" in result.err


def test_where_standard_error_is_no_terminal_the_application_does_not_open(folder: Path) -> None:
    with (
        (folder / "elsewhere").open("wb") as elsewhere,
        seat(folder=folder, error=elsewhere.fileno()) as sitting,
    ):
        assert sitting.finish() == 2
        assert sitting.raw == b""
    assert (
        "the application draws on standard error, which is no terminal" in (folder / "elsewhere").read_text()
    )
