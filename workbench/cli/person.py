"""Asking the person in front of the terminal: for commands that record what somebody decides or attests.

All of it happens on the controlling terminal, so that standard output keeps to data. There is no way to answer
from elsewhere: without an interactive session the commands are refused before anything is shown.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from .output import Output

if TYPE_CHECKING:
    from workbench.checkpoints import Row
    from workbench.workspace import Workspace

#: Lines of the terminal that a page leaves free: the question below it, and one line of the page before.
_SPARE_LINES = 2
_MIN_LINES = 4


class Shown(NamedTuple):
    """What was shown of ``size`` bytes. ``outside``: the person wants to read the exact copy elsewhere."""

    end: int
    size: int
    outside: bool

    @property
    def whole(self) -> bool:
        return self.end >= self.size


class Person:
    """Whoever sits at the controlling terminal. ``session`` says who that is, as far as it was verified."""

    def __init__(self, output: Output, session: str) -> None:
        self.output = output
        self.session = session

    def ask(self, question: str) -> str:
        """One line of answer without surrounding blanks. Raises click.Abort at the end of the input."""
        self.output.stream.write(question + " ")
        self.output.stream.flush()
        answer = sys.stdin.readline()
        if not answer.endswith("\n"):
            self.output.line()
            raise click.Abort
        return answer.strip()

    def agrees(self, question: str) -> bool:
        return self.ask(f"{question} [y/N]").lower() in ("y", "yes")

    def page(self, rows: Iterable[Row], size: int, *, outside: bool = True) -> Shown:
        """Show rows a page at a time until their end, or until the person stops."""
        import shutil

        height = max(shutil.get_terminal_size((80, 24)).lines - _SPARE_LINES, _MIN_LINES)
        end = on_page = 0
        for row in rows:
            if on_page == height:
                answer = self._more(end, size, outside=outside)
                if answer in ("q", "x"):
                    return Shown(end, size, answer == "x")
                on_page = 0
            self.output.line(row.text)
            end = row.end
            on_page += 1
        return Shown(end, size, False)

    def _more(self, end: int, size: int, *, outside: bool) -> str:
        choices = "enter: the next page, q: stop"
        if outside:
            choices += ", x: read the exact copy outside"
        while True:
            answer = self.ask(f"-- {end:,} of {size:,} bytes -- {choices}:").lower()
            if answer in ("", "q") or (answer == "x" and outside):
                return answer


@contextmanager
def in_person(workspace: Workspace, what: str) -> Iterator[Person]:
    """The person at the controlling terminal. Raises NotPermitted where the session is not interactive."""
    from workbench.host.identity import terminal
    from workflows_core.errors import NotPermitted

    if workspace.config.auth.mode == "disabled":
        raise NotPermitted(
            f"auth.mode is disabled, so nobody can be named on {what}. Set auth.mode to terminal or password"
        )
    if not terminal().interactive:
        raise NotPermitted(
            f"{what} needs an interactive session: standard input, standard output and the controlling terminal "
            "must be one terminal"
        )
    session = _session(workspace)
    tty = Path("/dev/tty")
    with tty.open("w", encoding=sys.stdout.encoding, errors="backslashreplace") as stream:
        yield Person(Output(stream), session)


def _session(workspace: Workspace) -> str:
    """The session in which this process acts. Raises NotPermitted where a log-in is missing."""
    import os

    from workbench.host.identity import terminal_session

    seat = terminal_session(os.getuid())
    if workspace.config.auth.mode != "password":
        return seat.description
    from workbench.login import load_login
    from workflows_core.errors import NotPermitted

    login = load_login(workspace.root)
    if login is None:
        raise NotPermitted("this workspace asks for a log-in; run: workbench login")
    return f"{login.user_id}, logged in with a password"
