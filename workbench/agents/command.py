"""The command backend: a local program answers, JSON on its standard input, its answer on its standard output.

The program runs once for each call, in a private folder of that call, without a terminal, and with an environment
that the configuration lists. It has the rights of whoever runs the workbench: this is no sandbox. It lives inside
this process: when this process ends, in whatever way, the program and all that it started are killed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from extension_api.agent_runs import AgentRunStatus
from workflows_core import jsontext

from ..inert import inert, shorten
from ..workspace import STATE_NAME
from .base import (
    AgentDescription,
    Answer,
    BackendUnavailable,
    Call,
    ChildRef,
    EarlierCalls,
    FileRefused,
    Started,
)
from .command_process import STDERR_KEPT, CommandProcess, Ended
from .folder import read_inside, remove
from .names import COMMAND
from .secrets import Scrubber, resolve, secret_problem
from .settings import COMMAND_OUTPUT, COMMAND_SECONDS, COMMAND_STOP
from .stub import media_type

logger = logging.getLogger(__name__)

#: The whole environment, beside what the configuration lists.
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_KEPT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
#: How much of what a program wrote to standard error an error tells.
_LINES: Final = 5
_LINE_CELLS: Final = 160


class _Program(NamedTuple):
    """One configured program. ``argv[0]`` is an absolute path."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    timeout_seconds: float
    stop_seconds: float
    max_output: int


class CommandBackend:
    """Runs programs. ``root`` is the workspace; without one nothing can be started."""

    name = COMMAND
    durable = False

    def __init__(self, root: Path | None = None) -> None:
        self._root = root
        self._children = None if root is None else root / STATE_NAME / "children"

    def describe(
        self, agent_ref: str, settings: Mapping[str, Any], options: Mapping[str, Any]
    ) -> AgentDescription:
        argv = [str(part) for part in settings.get("argv", ())]
        program = argv[0] if argv else ""
        return AgentDescription(
            effective_model=f"command/{Path(program).name}",
            model_parameters={
                "timeout_seconds": settings.get("timeout_seconds", COMMAND_SECONDS[2]),
                "max_output_bytes": settings.get("max_output_bytes", COMMAND_OUTPUT[2]),
            },
            policies={"program": program, "argv_sha256": jsontext.sha256(jsontext.encode(argv))},
        )

    def start(self, call: Call, earlier: EarlierCalls, now: int) -> Started:
        self._program(call.settings)
        for reference in call.settings.get("secrets", {}).values():
            problem = secret_problem(reference)
            if problem is not None:
                raise BackendUnavailable(problem)
        return Started(badge="live", durable=False)

    async def observe(self, child: ChildRef, call: Call | None) -> Answer:
        if call is None or self._children is None:
            return _unknown("a program runs only in the workbench process that started it")
        agent_ref = call.agent_ref
        try:
            program = self._program(call.settings)
            secrets = await _resolved(call.settings)
            process = CommandProcess(
                program.argv,
                folder=_make_folder(self._children, call.child_run_id),
                environment=program.environment | secrets,
                max_output=program.max_output,
                stop_seconds=program.stop_seconds,
            )
            ended = await process.run(_given(call), program.timeout_seconds)
        except BackendUnavailable as error:
            return _failed("not_started", f"{agent_ref} was not started: {error}")
        except OSError as error:
            why = error.strerror or type(error).__name__
            return _failed("not_started", f"{agent_ref} could not be started: {why}")
        return _answer(agent_ref, program, Scrubber(*secrets.values()), ended)

    async def interrupt(self, child: ChildRef) -> None:
        """Nothing outlives this process; cancelling the observation stops the program."""

    async def read_file(
        self, child: ChildRef, files: Mapping[str, str] | None, path: str, *, max_bytes: int
    ) -> tuple[bytes, str]:
        """A file that the program left in its folder, read in a thread: a slow disk holds up nothing else."""
        if self._children is None:
            raise BackendUnavailable("without a workspace there is no folder of a command agent")
        folder = self._children / child.child_run_id
        body = await asyncio.to_thread(read_inside, folder, path, max_bytes=max_bytes)
        try:
            scrubber = Scrubber(*(await _resolved(child.settings)).values())
        except BackendUnavailable:
            scrubber = Scrubber()  # it cannot be looked up any more, so it cannot be looked for either
        if scrubber.found_in(body.decode("utf-8", "replace")):
            raise FileRefused(
                "secret_in_file", f"{path[:80]} holds one of its Agent's secrets; it is not kept"
            )
        return body, media_type(path)

    def discard(self, child_run_ids: Sequence[str]) -> None:
        """Remove the folders of child runs whose records are gone; in a thread, and never raises."""
        if self._children is not None and child_run_ids:
            folders = [self._children / name for name in child_run_ids]
            asyncio.get_running_loop().run_in_executor(None, _remove_all, folders)

    def sweep(self, known: Callable[[str], bool]) -> None:
        """Remove the folders that no recorded child run has any more: a removal was cut off by a crash."""
        if self._children is None:
            return
        try:
            names = [entry.name for entry in self._children.iterdir()]
        except OSError:
            return
        self.discard([name for name in names if not known(name)])

    def _program(self, settings: Mapping[str, Any]) -> _Program:
        """The settings, made usable. Raises BackendUnavailable in words where they are not."""
        if self._root is None:
            raise BackendUnavailable("without a workspace no command agent can run")
        argv = _argv(settings, self._root)
        return _Program(
            argv=(_found(argv[0], self._root), *argv[1:]),
            environment=_environment(settings),
            timeout_seconds=float(settings.get("timeout_seconds", COMMAND_SECONDS[2])),
            stop_seconds=float(settings.get("stop_seconds", COMMAND_STOP[2])),
            max_output=int(settings.get("max_output_bytes", COMMAND_OUTPUT[2])),
        )


def program_problem(settings: Mapping[str, Any], root: Path) -> str | None:
    """Why the program of a command agent cannot be executed in this workspace, or None."""
    try:
        _found(_argv(settings, root)[0], root)
    except BackendUnavailable as error:
        return str(error)
    return None


def _argv(settings: Mapping[str, Any], root: Path) -> list[str]:
    argv = [str(part).replace("{workspace}", str(root)) for part in settings.get("argv", ())]
    if not argv:
        raise BackendUnavailable("its argv in workbench.yaml names no program")
    return argv


def _found(program: str, root: Path) -> str:
    """The absolute path of a program: a bare name by PATH, a path from the workspace."""
    shown = inert(program)
    if "/" not in program:
        found = shutil.which(program, path=os.environ.get("PATH", _PATH))
        if found is None:
            raise BackendUnavailable(f"there is no program {shown} on the PATH of this workbench")
        return str(Path(found).absolute())
    path = root / program
    if not path.is_file():
        raise BackendUnavailable(f"there is no program {shown}; a path is relative to the workspace")
    if not os.access(path, os.X_OK):
        raise BackendUnavailable(f"the file {shown} cannot be executed; chmod +x makes it a program")
    return str(path)


def _environment(settings: Mapping[str, Any]) -> dict[str, str]:
    """The program's whole environment, but for its secrets."""
    environment = {"PATH": os.environ.get("PATH", _PATH), "LANG": "C.UTF-8"}
    for name in (*_KEPT, *settings.get("env", ())):
        if name in os.environ:
            environment[name] = os.environ[name]
    return environment


async def _resolved(settings: Mapping[str, Any]) -> dict[str, str]:
    """The secrets that the program is given, by the names that it knows them under."""
    return {name: await resolve(reference) for name, reference in settings.get("secrets", {}).items()}


def _make_folder(children: Path, child_run_id: str) -> Path:
    children.mkdir(mode=0o700, exist_ok=True)
    folder = children / child_run_id
    folder.mkdir(mode=0o700)
    return folder


def _given(call: Call) -> bytes:
    """What the program reads: one JSON object on one line."""
    return (
        jsontext.encode(
            {
                "agent": call.agent_ref,
                "artifacts": call.input.get("artifacts", []),
                "attempt": call.attempt,
                "run_id": call.run_id,
                "step_id": call.step_id,
                "task": call.input.get("task"),
                "thread_id": call.thread_id,
            }
        )
        + b"\n"
    )


def _answer(agent_ref: str, program: _Program, scrubber: Scrubber, ended: Ended) -> Answer:
    said = _last_words(ended.stderr, scrubber)
    if ended.too_much:
        return _failed(
            "output_too_large",
            f"{agent_ref} wrote more than {program.max_output:,} bytes (max_output_bytes) and was killed",
        )
    if ended.timed_out:
        within = f"within {program.timeout_seconds:g} s (timeout_seconds)"
        return Answer(
            AgentRunStatus.TIMEOUT,
            error_code="agent_timeout",
            error_message=f"{agent_ref} did not end {within} and was killed{said}",
        )
    if ended.unstarted is not None:
        return _failed("not_started", f"{agent_ref} could not be started: {ended.unstarted}")
    if ended.code is not None:
        if ended.code == 0:
            return _output(agent_ref, scrubber, ended.stdout)
        return _failed("program_failed", f"{agent_ref} ended with exit code {ended.code}{said}")
    if ended.signal is not None:
        return _failed("program_failed", f"{agent_ref} was killed by {_signal_name(ended.signal)}{said}")
    return _unknown(f"the process that guards {agent_ref} was killed, so nobody knows how it ended")


def _output(agent_ref: str, scrubber: Scrubber, stdout: bytes) -> Answer:
    """JSON where it is JSON, else the text without the line ends after it."""
    try:
        text = stdout.decode("utf-8")
    except UnicodeDecodeError as error:
        return _failed(
            "output_not_text", f"the output of {agent_ref} is not UTF-8: byte {error.start} is invalid"
        )
    try:
        output = jsontext.parse(text)
    except jsontext.JsonRefused:
        output = text.rstrip("\r\n")
    if scrubber.found_in(output):
        return _failed(
            "secret_in_output", f"the output of {agent_ref} holds one of its secrets, so it was not kept"
        )
    return Answer(AgentRunStatus.SUCCESS, output=output)


def _failed(code: str, message: str) -> Answer:
    return Answer(AgentRunStatus.ERROR, error_code=code, error_message=message)


def _unknown(message: str) -> Answer:
    return Answer(AgentRunStatus.UNKNOWN, error_code="uncertain", error_message=message)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_words(stderr: bytes, scrubber: Scrubber) -> str:
    """The last lines of standard error, inert and without a secret; nothing where there are none."""
    text = stderr.decode("utf-8", "replace")
    if len(stderr) >= STDERR_KEPT:
        text = text.partition("\n")[2]  # the first line may begin in the middle of a secret
    lines = [line.strip() for line in scrubber.text(text).splitlines() if line.strip()][-_LINES:]
    if not lines:
        return ""
    return ". It said: " + " | ".join(shorten(line, _LINE_CELLS) for line in lines)


def _remove_all(folders: Sequence[Path]) -> None:
    for folder in folders:
        try:
            remove(folder)
        except OSError as error:
            logger.warning("the folder %s was not removed: %s", folder.name, error.strerror)
