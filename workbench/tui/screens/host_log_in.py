"""Logging in on the Host screen. A password is typed unseen, handed over once, and kept nowhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from rich.text import Text
from textual import on, work
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input

from workflows_core.errors import WorkflowError

from .. import keymap
from ..widgets.choice import Choice
from ..widgets.editor_form import TextBlock
from ..widgets.lines import Span
from ..widgets.pane import Field, Pane
from .dialogs import Modal


class SecretField(Field):
    """A field whose text is never drawn, copied, cut or changed on its way."""

    def __init__(self, *, mark: str, id: str | None = None) -> None:
        super().__init__(id=id)
        self._mark = mark

    @property
    def _value(self) -> Text:
        return Text(self._mark * len(self.value), no_wrap=True, overflow="ignore", end="")

    def validate_value(self, value: str) -> str:
        """A password is what was typed."""
        return value

    def action_copy(self) -> None:
        """A password is not copied."""

    def action_cut(self) -> None:
        """A password is not copied."""


class LogInDialog(Modal[str | None]):
    """Asks for account and password until ``attempt`` takes them. The result is the account, or None.

    ``attempt`` raises WorkflowError in words where it does not; the dialog says so and stays.
    """

    BINDINGS = keymap.bindings("dialog")

    def __init__(
        self, name: str, attempt: Callable[[str, str], Awaitable[None]], *, unicode: bool = True
    ) -> None:
        super().__init__(id="log-in")
        self._name_field = Field(name, id="account")
        self._secret = SecretField(mark="•" if unicode else "*", id="password")
        self._told = TextBlock(id="told")
        self._attempt = attempt

    def content(self) -> Iterable[Widget]:
        yield TextBlock(id="text")
        yield TextBlock(id="account-label")
        yield self._name_field
        yield TextBlock(id="password-label")
        yield self._secret
        yield self._told
        yield Horizontal(Choice("Do not log in", name="leave"), Choice("Log in", name="log_in"), id="answers")

    def on_mount(self) -> None:
        frame = self.query_one("#frame", Pane)
        frame.set_title("Log in")
        frame.styles.width, frame.styles.height = 60, "auto"
        self.query_one("#text", TextBlock).show(
            Span("Commands and this application act as the account for twelve hours, or until you log out.")
        )
        for label in ("account", "password"):
            block = self.query_one(f"#{label}-label", TextBlock)
            block.show(Span(label.capitalize(), "quiet"))
            block.styles.margin = (1, 0, 0, 0)
        self._told.styles.margin = (1, 0, 0, 0)
        answers = self.query_one("#answers")
        answers.styles.margin, answers.styles.height = (1, 0, 0, 0), 1
        self._say("")
        (self._secret if self._name_field.value else self._name_field).focus()

    def on_unmount(self) -> None:
        self._secret.value = ""

    @on(Input.Submitted)
    def _submitted(self, message: Input.Submitted) -> None:
        message.stop()
        if message.input is self._name_field:
            self._secret.focus()
        else:
            self._try()

    @on(Choice.Pressed)
    def _pressed(self, message: Choice.Pressed) -> None:
        message.stop()
        if message.name == "leave":
            self.finish(None)
        else:
            self._try()

    @work(group="log in", exit_on_error=False)
    async def _try(self) -> None:
        name, password = self._name_field.value.strip(), self._secret.value
        if not name or not password:
            self._say("Account and password are both needed.")
            (self._secret if name else self._name_field).focus()
            return
        if self._secret.disabled:
            return  # one attempt at a time
        self._secret.disabled = True
        self._say("Checking the password", "quiet")
        try:
            await self._attempt(name, password)
        except WorkflowError as error:
            self._secret.value = ""
            self._say(error.message[:1].upper() + error.message[1:] + ".")
        else:
            self.finish(name)
            return
        finally:
            self._secret.disabled = False
        self._secret.focus()

    def _say(self, text: str, tone: str = "bad") -> None:
        self._told.display = bool(text)
        self._told.show(Span(text, tone))
