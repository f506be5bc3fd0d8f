"""Services of extensions: started in registration order, stopped in reverse, within a time limit each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
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

    async def start(self, deps: ExtensionRuntimeDeps) -> None:
        """Start all. A failure is a diagnostic and the next service is started.

        Raises the failure of a fatal record: as it is where it is an error of the tree, else ConfigurationError.
        """
        for contribution in self._services:
            self._attempted.append(contribution)
            service = contribution.value
            error = await self._within(lambda service=service: service.start(deps))  # type: ignore[misc]
            if error is None:
                continue
            words = "did not start in time" if isinstance(error, _Late) else f"start raised {name_of(error)}"
            self._diagnostics.add("error", contribution.source, words, error)
            if contribution.record in self._fatal:
                if isinstance(error, WorkflowError):
                    raise error
                raise ConfigurationError(
                    f"the extension {inert(contribution.source)} is required, and its service {inert(words)}"
                ) from error

    async def stop(self) -> None:
        """Stop every service whose start was attempted, last first. Never raises."""
        while self._attempted:
            contribution = self._attempted.pop()
            error = await self._within(contribution.value.stop)
            if error is not None:
                words = (
                    "did not stop in time" if isinstance(error, _Late) else f"stop raised {name_of(error)}"
                )
                self._diagnostics.add("error", contribution.source, words, error)

    async def _within(self, call: Callable[[], Awaitable[None]]) -> BaseException | None:
        """What ``call`` raised, a _Late where it took too long, or None. It is left behind when it does not end."""
        task = asyncio.ensure_future(_outcome(call))
        done, _ = await asyncio.wait({task}, timeout=self._seconds)
        if done:
            return asyncio.CancelledError() if task.cancelled() else task.result()
        task.cancel()
        return _Late(f"it took longer than {self._seconds:g} s")


class _Late(RuntimeError):
    pass


async def _outcome(call: Callable[[], Awaitable[None]]) -> BaseException | None:
    try:
        await call()
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - SystemExit in a service would end the host's loop
        return error
    return None
