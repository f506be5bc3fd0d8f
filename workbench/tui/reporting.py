"""What the application tells a person: notices, failures, copies, and its last words after a mistake of its own."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from rich.text import Text
from textual import work
from textual._context import active_message_pump
from textual.app import App
from textual.message_pump import MessagePump
from textual.widget import Widget
from textual.worker import Worker, WorkerState

from workflows_core.errors import WorkflowError

from .. import words
from ..inert import inert
from ..noticebook import Notice
from . import copying
from .widgets.spans import drawn

if TYPE_CHECKING:
    from .context import AppContext


_LOG = logging.getLogger(__name__)


def _is_leaving(node: MessagePump | None) -> bool:
    """Whether a widget, or one that it lies in, is being removed."""
    while node is not None and not isinstance(node, App):
        if node._closing or (isinstance(node, Widget) and node._pruning):
            return True
        node = node._parent
    return False


class Reporting(App[int], inherit_bindings=False):
    """The part of the application that reports. ``context`` is set by whoever derives from it."""

    context: AppContext

    # Notices and failures

    def notice(
        self,
        message: str,
        *,
        title: str = "",
        severity: Literal["information", "warning", "error"] = "information",
        floats: bool = True,
    ) -> None:
        """Say something in passing. It is kept and can be read again; any text is inert.

        Without ``floats`` it is only kept: the screen says it in its own place, which nothing is to lie over.
        """
        message, title = inert(message, newlines=True), inert(title)
        self.context.settings.notices.add(Notice(self.context.clock(), title, message, severity))
        self._write_notices()
        if floats:
            lines = "\n".join(drawn(line, self) for line in message.split("\n"))
            self.notify(lines, title=drawn(title, self), severity=severity, markup=False)

    @property
    def notices(self) -> Sequence[Notice]:
        """The latest notices, of earlier sessions too, the oldest first."""
        return self.context.settings.notices.all

    @work(group="keep", exit_on_error=False)
    async def _read_notices(self) -> None:
        await asyncio.to_thread(self.context.settings.notices.load)

    @work(group="keep", exit_on_error=False)
    async def _write_notices(self) -> None:
        await asyncio.to_thread(self.context.settings.notices.write)

    def failure(self, error: BaseException) -> None:
        """Report an error that ended some work but not the application."""
        if isinstance(error, WorkflowError):
            self.notice(str(error), title=error.title, severity="error")
        else:
            self.notice(
                f"{type(error).__name__}: {error}", title="The workbench made a mistake", severity="error"
            )

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            self.failure(event.worker.error)

    # Copying

    def copy(self, what: str, text: str) -> None:
        """Copy ``text``, and say what was sent and what was confirmed; ``what`` names it (``the script``)."""
        self.copy_to_clipboard(text, what)

    def copy_to_clipboard(self, text: str, what: str | None = None) -> None:
        """Copy ``text``. Nothing is said without ``what``, as where an editor or a field cuts or copies."""
        self._clipboard = text.encode("utf-8", "replace").decode()
        self._copy(text, what)

    @work(group="copy", exit_on_error=False)
    async def _copy(self, text: str, what: str | None) -> None:
        told = await copying.copy(text, self._send)
        if what is not None:
            size = words.kib(len(text.encode("utf-8", "replace")))
            title = "Copied" if told.confirmed else "Copy sent"
            self.notice(f"{what} ({size})\n{told.text}", title=title)

    def _send(self, sequence: str) -> None:
        if self._driver is not None:
            self._driver.write(sequence)

    @property
    def ending(self) -> bool:
        """Whether the application is on its way out, for whatever reason.

        Its widgets go one after the other then, screens that were just opened get none, and workers are cancelled.
        """
        return self._exit or self._exception is not None or (self._is_mounted and not self._running)

    def _handle_exception(self, error: Exception) -> None:
        """What raises out of a handler, a timer or a worker comes here.

        Where the widget that it belongs to is being removed, or the application ends, it may miss what it works on:
        a dialog that is closed while it opens gets no widgets. That concerns nobody any more, and must not change how
        the application ends: it is written down.
        """
        if self.ending or _is_leaving(active_message_pump.get(None)):
            _LOG.warning("what was being closed did not come to its end", exc_info=error)
        else:
            super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """End after an error that nothing handled: words and a traceback without values.

        Values of variables could hold secrets or control characters of others, so none is shown.
        """
        lines = traceback.format_exc().splitlines()
        report = "\n".join(inert(line) for line in lines)
        self._exit_renderables.append(
            Text(
                f"The workbench stopped because of a mistake in itself. Runs are kept.\n{report}\n",
                no_wrap=True,
                overflow="ignore",
            )
        )
        self._close_messages_no_wait()
