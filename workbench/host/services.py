"""Services of extensions: started in registration order, stopped in reverse, within a time limit each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from extension_api.services import ExtensionRuntimeDeps, ExtensionService
from workflows_core.errors import ConfigurationError, WorkflowError

from ..inert import inert
from .diagnostics import Diagnostics, name_of
from .registry import Contribution

SECONDS: Final = 30.0


class Services:
    """The services of one host. ``fatal`` holds the records whose failure stops the host."""

    def __init__(
        self,
        services: tuple[Contribution[ExtensionService], ...],
        diagnostics: Diagnostics,
        fatal: Collection[int],
        seconds: float = SECONDS,
    ) -> None:
        self._services = services
        self._diagnostics = diagnostics
        self._fatal = fatal
        self._seconds = seconds
        self._attempted: list[Contribution[ExtensionService]] = []
        self._closed = False

    async def start(self, deps: ExtensionRuntimeDeps) -> None:
        """Start all. A failure is a diagnostic and the next service is started.

        Raises the failure of a fatal record: as it is where it is an error of the tree, else ConfigurationError.
        Raises KeyboardInterrupt as it is, and ConfigurationError for any other exception that is meant to end the
        program (SystemExit): like one that loads, such an extension is not one to go on with.
        """
        for contribution in self._services:
            found = await self._start(contribution, deps, self._seconds)
            if found is None:
                continue
            words, error = found
            required = contribution.record in self._fatal
            if isinstance(error, KeyboardInterrupt) or (required and isinstance(error, WorkflowError)):
                raise error
            if required or not _contained(error):
                why = "is required, and" if required else "would end the program:"
                raise ConfigurationError(
                    f"the extension {inert(contribution.source)} {why} its service {inert(words)}"
                ) from error

    async def start_more(
        self,
        contributions: Sequence[Contribution[ExtensionService]],
        deps: ExtensionRuntimeDeps,
        seconds: float,
    ) -> list[str]:
        """Start services of a reload, ``seconds`` for all; what went wrong, whatever it is, in words.

        The runs that are live do not end with an extension.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        problems = []
        for contribution in contributions:
            found = await self._start(contribution, deps, max(0.0, end - loop.time()))
            if found is not None:
                problems.append(f"its service {found[0]}")
        return problems

    async def stop_these(self, contributions: Sequence[Contribution[ExtensionService]]) -> None:
        """Stop those of the services whose start was attempted, last first. Never raises."""
        chosen = {id(contribution.value) for contribution in contributions}
        for contribution in reversed(self._attempted.copy()):
            if id(contribution.value) in chosen and contribution in self._attempted:
                self._attempted.remove(contribution)
                await self._stop(contribution)

    async def stop(self) -> None:
        """Stop every service whose start was attempted, last first; none is started any more.

        Raises, once all are stopped, the first exception among theirs that is no Exception.
        """
        self._closed = True
        passed: BaseException | None = None
        while self._attempted:
            error = await self._stop(self._attempted.pop())
            if passed is None and error is not None and not _contained(error):
                passed = error
        if passed is not None:
            raise passed

    async def _start(
        self, contribution: Contribution[ExtensionService], deps: ExtensionRuntimeDeps, seconds: float
    ) -> tuple[str, BaseException] | None:
        """Start one service; what went wrong, in words, which are a diagnostic too."""
        if self._closed:
            return "was not started, the host is closing", RuntimeError("the host is closing")
        self._attempted.append(contribution)
        error = await self._within(lambda: contribution.value.start(deps), seconds)
        if error is None:
            return None
        words = "did not start in time" if isinstance(error, _Late) else f"start raised {name_of(error)}"
        self._diagnostics.add("error", contribution.source, words, error)
        return words, error

    async def _stop(self, contribution: Contribution[ExtensionService]) -> BaseException | None:
        """Stop one service; what it raised, which is a diagnostic too."""
        error = await self._within(lambda: contribution.value.stop(), self._seconds)
        if error is not None:
            words = "did not stop in time" if isinstance(error, _Late) else f"stop raised {name_of(error)}"
            self._diagnostics.add("error", contribution.source, words, error)
        return error

    async def _within(self, call: Callable[[], Awaitable[None]], seconds: float) -> BaseException | None:
        """What ``call`` raised, a _Late where it took too long, or None. It is left behind when it does not end."""
        task = asyncio.ensure_future(_outcome(call))
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if done:
            return asyncio.CancelledError() if task.cancelled() else task.result()
        task.cancel()
        return _Late(f"it took longer than {seconds:g} s")


class _Late(RuntimeError):
    pass


def _contained(error: BaseException) -> bool:
    """Whether an exception stays with its service; a cancellation of its own making does."""
    return isinstance(error, (Exception, asyncio.CancelledError))


async def _outcome(call: Callable[[], Awaitable[None]]) -> BaseException | None:
    try:
        await call()
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - what is not contained passes in order, not through the loop
        return error
    return None
