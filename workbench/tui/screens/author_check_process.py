"""The process that checks scripts for the Author screen, so that reading a long one delays no key.

Both ends of a pipe are here. A message is its length in four bytes, big-endian, and that much JSON: a question
``{"script", "args", "agents", "max_calls"}`` or an answer ``{"problems", "bound", "words"}``. The child ends with its
standard input. It imports nothing of the screens.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from workflows_core.errors import ScriptRefused, WorkflowError
from workflows_core.script.problem import Problem

from ...completing import Word

#: A check that takes longer is given up.
PATIENCE_SECONDS: Final = 30.0
_ANSWER_BYTES: Final = 16 * 1024 * 1024


class Question(msgspec.Struct, frozen=True):
    """One check. ``args`` None: they are not known."""

    script: str
    args: Any
    agents: tuple[str, ...]
    max_calls: int


class Answer(msgspec.Struct, frozen=True):
    """The problems, the bound on Agent calls as ``calls_bound`` gives it (None: not known), and completions."""

    problems: tuple[Problem, ...]
    bound: tuple[int, bool] | None
    words: tuple[Word, ...] = ()


class CheckFailed(WorkflowError):
    """The process ended or did not answer; the next check starts another one."""

    code = "check_failed"
    title = "The script was not checked"


def answer(question: Question) -> Answer:
    """Check a script, the engine's own compiler included. Blocks."""
    from workflows_core.script.check import api_completions, calls_bound, check_script

    problems = asyncio.run(
        check_script(
            question.script, agents=question.agents, max_calls=question.max_calls, args=question.args
        )
    )
    try:
        bound: tuple[int, bool] | None = calls_bound(question.script)
    except (ScriptRefused, RecursionError):
        bound = None
    try:
        words = tuple(
            Word(it.label, it.kind, it.detail, it.insert) for it in api_completions(question.script)
        )
    except (ScriptRefused, RecursionError):
        words = ()
    return Answer(tuple(problems), bound, words)


class CheckProcess:
    """The parent's end: starts the child when it is first asked, and again after it died."""

    def __init__(self, command: Sequence[str] | None = None) -> None:
        # -P keeps the current folder off the module path: a workspace's files must not become our modules.
        self._command = tuple(command or (sys.executable, "-P", "-m", __name__))
        self._child: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._asked: set[asyncio.Task[Answer]] = set()
        self._closed = False

    async def ask(self, question: Question) -> Answer:
        """The answer of the child; one question at a time. Raises CheckFailed.

        Who is cancelled while waiting leaves the exchange going on, so that the child need not be started anew.
        """
        task = asyncio.get_running_loop().create_task(self._ask(question))
        self._asked.add(task)
        task.add_done_callback(self._answered)
        return await asyncio.shield(task)

    def _answered(self, task: asyncio.Task[Answer]) -> None:
        self._asked.discard(task)
        if not task.cancelled():
            task.exception()  # taken, also where nobody waits any more

    async def _ask(self, question: Question) -> Answer:
        async with self._turn:
            if self._closed:
                raise CheckFailed("checking has ended with the application")
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    return await self._exchange(question)
            except TimeoutError:
                await self._end()
                raise CheckFailed(
                    f"the check took longer than {PATIENCE_SECONDS:.0f} s and was given up"
                ) from None
            except (OSError, asyncio.IncompleteReadError, msgspec.DecodeError) as error:
                await self._end()
                raise CheckFailed(
                    f"the process that checks scripts ended ({type(error).__name__}); "
                    "checking again starts it anew"
                ) from None

    async def _exchange(self, question: Question) -> Answer:
        if self._child is None:
            self._child = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
            if self._closed:  # while it was being started
                await self._end()
                raise CheckFailed("checking has ended with the application")
        stdin, stdout = self._child.stdin, self._child.stdout
        assert stdin is not None and stdout is not None
        body = msgspec.json.encode(question)
        stdin.write(len(body).to_bytes(4, "big") + body)
        await stdin.drain()
        length = int.from_bytes(await stdout.readexactly(4), "big")
        if length > _ANSWER_BYTES:
            raise msgspec.DecodeError("the answer is too long")
        return msgspec.json.decode(await stdout.readexactly(length), type=Answer)

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()
        # The pipes close only once the loop has seen their end.
        if child.stdin is not None:
            child.stdin.close()
            with contextlib.suppress(OSError):
                await child.stdin.wait_closed()

    async def close(self) -> None:
        """End the child and wait for it; what is being asked fails."""
        self._closed = True
        await self._end()
        if self._asked:
            await asyncio.wait(self._asked)


def serve() -> None:
    """The child: answer questions until standard input ends."""
    with contextlib.suppress(OSError):
        os.nice(5)  # keys go first
    # Whatever a library prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.close(quiet)
    questions = sys.stdin.buffer
    while len(head := questions.read(4)) == 4:
        length = int.from_bytes(head, "big")
        body = questions.read(length)
        if len(body) < length:
            return
        reply = msgspec.json.encode(answer(msgspec.json.decode(body, type=Question)))
        answers.write(len(reply).to_bytes(4, "big") + reply)
        answers.flush()


if __name__ == "__main__":
    serve()
