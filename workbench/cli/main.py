"""The command ``workbench``: its group, and the one place where errors become exit codes.

Each command imports what it needs when it runs, so that ``--help`` loads click and nothing else of weight.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from .common import Stopped, err, find_workspace, workspace_option
from .exits import Exit, Relayed, of_error, report, report_defect


class _ReaderLeft(Exception):
    """Whoever read standard output has left."""


#: Commands in the order of the help, each with the module that holds it.
COMMANDS: Final = {
    "new": "author",
    "demo": "demo",
    "check": "author",
    "run": "launch",
    "runs": "runs",
    "show": "runs",
    "step": "runs",
    "log": "runs",
    "compare": "compare",
    "review": "inbox",
    "resume": "people",
    "decide": "people",
    "answer": "answer",
    "recover": "recovery",
    "reconcile": "reconcile",
    "cancel": "runs",
    "delete": "runs",
    "artifact": "library",
    "save": "library",
    "library": "library",
    "export": "replay",
    "replay": "replay",
    "fork": "fork",
    "export-test": "made",
    "stubs": "made",
    "explore": "explore",
    "coverage": "explore",
    "extension": "extension",
    "host": "host",
    "notices": "host",
    "login": "login",
    "logout": "login",
    "sessions": "login",
    "doctor": "doctor",
    "_own": "owner",
}


class _Commands(click.Group):
    """Imports a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"workbench.cli.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, cmd_name.lstrip("_").replace("-", "_"))
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # As it is, click would end the process with 1, which is the code of a failed run.
            raise _ReaderLeft from None


@click.group(
    cls=_Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@workspace_option
@click.option("--version", is_flag=True, help="Print the version.")
@click.pass_context
def cli(context: click.Context, workspace: Path | None, version: bool) -> int:
    """Write, run and inspect durable script workflows.

    Without a command: open the application.
    """
    if version:
        from importlib.metadata import version as installed

        click.echo(f"workbench {installed('workflow-workbench')}")
        context.exit(Exit.DONE)
    if context.invoked_subcommand is not None:
        return Exit.DONE
    from .demo import open_application

    return open_application(find_workspace(workspace))


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with a code of ``Exit``."""
    # What a command imports is no garbage: looking for some after every 700 new objects costs it 3 to 5 ms.
    gc.set_threshold(50_000)
    given = sys.argv[1:] if arguments is None else arguments
    sys.exit(invoke(given))


def invoke(arguments: list[str]) -> int:
    """Run one command line and return its exit code; every error has been reported then."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A glyph that the terminal's encoding lacks must not stop a command.
            stream.reconfigure(errors="backslashreplace")
    as_json = "--json" in arguments
    try:
        status = cli.main(args=arguments, prog_name="workbench", standalone_mode=False)
        sys.stdout.flush()
        return int(status or Exit.DONE)
    except Stopped as stop:
        err().line(stop.note or "Stopped.")
        return Exit.STOPPED if stop.signum == signal.SIGINT else 128 + stop.signum
    except (KeyboardInterrupt, click.Abort):
        err().line("Stopped.")
        return Exit.STOPPED
    except Relayed as error:
        report(error.title, error.message, error.code, json=as_json)
        return error.status
    except click.ClickException as error:
        return _usage(error, as_json=as_json)
    except (BrokenPipeError, _ReaderLeft):
        # Nothing more can be said, and Python must not try at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE
    except Exception as error:  # noqa: BLE001  the last resort: it becomes a sentence and an exit code
        return _unexpected(error, as_json=as_json)


def _usage(error: click.ClickException, *, as_json: bool) -> int:
    message = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    if context is not None:
        message += f". See: {context.command_path} --help"
    report("That cannot be used", message, "usage", json=as_json)
    return Exit.USAGE


def _unexpected(error: Exception, *, as_json: bool) -> int:
    from extension_api.agent_runs import AgentRunRefused
    from workflows_core.errors import ScriptRefused, WorkflowError

    if isinstance(error, WorkflowError):
        message = error.message
        if isinstance(error, ScriptRefused) and error.line is not None:
            message += f" (line {error.line}, column {error.column})"
        report(error.title, message, error.code, json=as_json)
        return of_error(error)
    if isinstance(error, AgentRunRefused):
        report("Not permitted", error.message, "not_permitted", json=as_json)
        return Exit.REFUSED
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        report("The disk refused", f"{place}{error.strerror or type(error).__name__}", "disk", json=as_json)
        return Exit.WORKSPACE
    report_defect(error, json=as_json)
    return Exit.DEFECT


if __name__ == "__main__":
    main()
