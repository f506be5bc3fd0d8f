"""Each act of each screen has a plain twin on the command line, so that nobody needs the screens.

An act that is new on a screen fails here until the command that does the same is named.
"""

from __future__ import annotations

import click
import pytest

from workbench.cli.main import COMMANDS, cli
from workbench.tui import keymap
from workbench.tui.app import SCREENS
from workbench.tui.commands import is_command

#: What only concerns the screen itself: where its cursor is, what it shows, its copies (a command prints).
ON_SCREEN = "the screen itself"
#: What a person does in an editor, which edits the same files.
EDITOR = "an editor"

TWINS = {
    "author.check": "check",
    "author.launch": "run",
    "author.save": EDITOR,
    "author.again": "run --request-id",
    "author.fix": "check --fix",
    "author.fix_here": "check --fix",
    "author.problem_next": ON_SCREEN,
    "author.problem_previous": ON_SCREEN,
    "author.tab_next": ON_SCREEN,
    "author.tab_previous": ON_SCREEN,
    "author.save_version": "save --name",
    "author.compare": "library --compare-with",
    "author.compare_here": "library --compare-with",
    "author.arguments": "run --args",
    "author.new": "new",
    "author.outside": EDITOR,
    "author.close": ON_SCREEN,
    "author.step": "step",
    "author.step_next": ON_SCREEN,
    "author.step_previous": ON_SCREEN,
    "runs.state": "runs",
    "runs.mark": ON_SCREEN,
    "runs.watch": "show",
    "runs.replay": "replay",
    "runs.resume": "resume",
    "runs.review": "review",
    "runs.recover": "recover --preview",
    "runs.reconcile": "reconcile",
    "runs.answer": "answer",
    "runs.cancel": "cancel",
    "runs.delete": "delete",
    "runs.compare": "compare",
    "runs.fork": "fork",
    "runs.child": "host",
    "runs.child_copy": ON_SCREEN,
    "runs.export": "export -o",
    "runs.copy": ON_SCREEN,
    "review.group": "runs",
    "review.unseen": "decide",
    "review.approve": "decide",
    "review.reject": "decide --reason",
    "review.resume": "resume",
    "review.viewed": "decide",
    "review.compare": "artifact --compare",
    "review.outside": "artifact -o",
    "review.export": "artifact -o",
    "review.show_run": "show",
    "review.copy": ON_SCREEN,
    "replay.back": "replay --at",
    "replay.on": "replay --at",
    "replay.step_back": "replay --at",
    "replay.step": "replay --at",
    "replay.left": "replay --at",
    "replay.right": "replay --at",
    "replay.run_back": "replay --at",
    "replay.run_on": "replay --at",
    "replay.breakpoint": "replay --at",
    "replay.watch": "replay --watch",
    "replay.unwatch": ON_SCREEN,
    "replay.history": "replay --watch",
    "replay.console": "replay --watch",
    "replay.go_to": "replay --at",
    "replay.divergence": "replay --headless",
    "replay.what_if": "fork --reply",
    "replay.compare": "compare",
    "replay.open": "replay",
    "replay.copy": ON_SCREEN,
    "host.reload": "extension reload --preview",
    "host.log_in": "login",
    "host.log_out": "logout",
    "host.end": "sessions --end",
    "host.show_run": "show",
    "host.copy": ON_SCREEN,
}

#: What stands on a screen without a key of its own.
SHOWN = {
    "notices": "notices",
    "agents, limits, stores, events": "host",
    "extensions": "extension list",
    "sessions": "sessions",
    "the library": "library",
    "steps": "show",
    "log": "log",
    "an output": "artifact",
    "coverage": "coverage",
    "crash points": "explore",
    "a test of a run": "export-test",
    "a stub set of a run": "stubs",
}


def acts() -> list[str]:
    return [row.id for row in keymap.TABLE if is_command(row) and row.pane.partition(".")[0] in SCREENS]


def test_every_act_of_every_screen_has_a_twin() -> None:
    known = {id for id in acts() if not id.startswith("edit.")}
    assert known - set(TWINS) == set()


@pytest.mark.parametrize("words", sorted({*TWINS.values(), *SHOWN.values()} - {ON_SCREEN, EDITOR}))
def test_every_twin_exists(words: str) -> None:
    name, *rest = words.split(" ")
    assert name in COMMANDS
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    if isinstance(command, click.Group):
        command = command.commands[rest.pop(0)]
    options = {option for parameter in command.params for option in parameter.opts}
    assert set(rest) <= options
