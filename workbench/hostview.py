"""What a host is and what it uses, as plain data for a screen.

What only the process that owns the workspace knows (extensions, sessions) is asked of it; everything else is
read from the configuration and the stores, so that any process can show it. A part that cannot be read leaves
its reason in ``problems`` and takes nothing else away. Times are microseconds since the epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from workflows_core.errors import ConfigurationError, NotPermitted, WorkflowError
from workflows_core.model import RunSummary, now

from .hostview_assembly import AgentUse, agent_uses
from .hostview_limits import LimitUse, limit_uses
from .hostview_stores import HostEvent, Stored, StoreFile, read_stores
from .login import NotLoggedIn

if TYPE_CHECKING:
    from .client import Client
    from .host.config import WorkbenchConfig
    from .workspace import Workspace

__all__ = ["AgentUse", "HostEvent", "HostReader", "HostView", "LimitUse", "StoreFile"]


class Diagnostic(NamedTuple):
    """``level`` is info, warning or error; ``message`` is text from outside."""

    level: str
    message: str
    at: int


@dataclass(frozen=True)
class ExtensionUse:
    """One record of ``plugins:``. ``outcome`` is loaded, failed, disabled, or ``configured`` where nobody owns
    the workspace and nothing is loaded. ``longest_hook`` in seconds, of the 3 s that a batch of hooks has."""

    name: str
    use: str
    outcome: str
    message: str = ""
    api: str | None = None
    contributions: Mapping[str, int] = field(default_factory=dict)
    plugins: Sequence[Mapping[str, Any]] = ()
    longest_hook: float | None = None
    diagnostics: Sequence[Diagnostic] = ()


@dataclass(frozen=True)
class SessionUse:
    """A session that holds a handle in the owner's process, or a log-in that has not expired (``expires_at``)."""

    session_id: str
    user_id: str
    mode: str
    description: str
    interactive: bool = False
    created_at: int | None = None
    expires_at: int | None = None


@dataclass(frozen=True)
class HostView:
    """Everything about a host at one moment. ``owner_pid`` is None where nobody owns the workspace.

    ``asked_at`` is when the owner was asked last; None where it was not, or did not answer.
    """

    own: bool
    owner_pid: int | None
    mode: str
    at: int
    asked_at: int | None = None
    generation: int | None = None
    extensions: Sequence[ExtensionUse] = ()
    older: Sequence[tuple[int, Sequence[str]]] = ()
    host: Sequence[Diagnostic] = ()
    sessions: Sequence[SessionUse] = ()
    agents: Sequence[AgentUse] = ()
    limits: Sequence[LimitUse] = ()
    stores: Sequence[StoreFile] = ()
    events: Sequence[HostEvent] = ()
    problems: Mapping[str, str] = field(default_factory=dict)
    #: Whether extensions and handles are not told because nobody is logged in, where accounts are used.
    logged_out: bool = False

    def ownership(self) -> str:
        """Who owns the workspace and what that means for what is shown, in a sentence."""
        if self.own:
            return f"This process ({self.owner_pid}) owns the workspace: engine, extensions and agents run in it."
        if self.owner_pid is None:
            return "Nobody owns the workspace, so no extension is loaded. What the configuration and the stores say is shown."
        who = f"Process {self.owner_pid}" if self.owner_pid else "Another process"
        return f"{who} owns the workspace. Extensions and sessions are as it answers; the rest is read here."


class HostReader:
    """Reads a HostView again and again, for one front end. Use from one loop."""

    def __init__(self, client: Client, workspace: Workspace, clock: Callable[[], int] = now) -> None:
        self._client = client
        self._workspace = workspace
        self._clock = clock
        self._asked: HostView | None = None

    async def read(self, runs: Sequence[RunSummary], *, ask: bool = True) -> HostView:
        """The host as it is now; ``runs`` are all runs of the store.

        With ``ask`` an owner that is another process is asked through its inbox, which may take seconds; else
        its last answer stands. The owner itself is always asked: that is a call in this process.
        """
        pid, own = self._client.owner_pid(), self._client.owner
        config, problems = await asyncio.to_thread(self._configuration)
        view = HostView(own=own, owner_pid=pid, mode=config.auth.mode, at=self._clock())
        if pid is None:
            view, self._asked = replace(view, extensions=_configured(config)), None
        else:
            if own or ask or self._asked is None or self._asked.owner_pid != pid:
                self._asked = await self._ask(view)
            asked = self._asked
            view = replace(asked, own=own, mode=view.mode, at=view.at)
        stored = await self._stored(problems)
        host = self._client.host
        limits = await limit_uses(self._client, config, runs, stored, problems)
        return replace(
            view,
            sessions=(*view.sessions, *_log_ins(stored, view)),
            agents=agent_uses(config, stored.assemblies, None if host is None else host.runs.incarnation),
            limits=limits,
            stores=stored.files,
            events=stored.events,
            problems={**problems, **view.problems},
        )

    def _configuration(self) -> tuple[WorkbenchConfig, dict[str, str]]:
        """The file as it is now; where it is broken, as it was read last, with the reason."""
        from .host.config import load_config

        path = self._workspace.config_path
        try:
            return (self._workspace.config if path is None else load_config(path)), {}
        except ConfigurationError as error:
            return self._workspace.config, {"agents": str(error), "limits": str(error)}

    async def _ask(self, view: HostView) -> HostView:
        """What the owner says. A session that may not ask, or an owner that is silent, is a problem in words.

        That nobody is logged in is a state: what to do about it is known.
        """
        problems: dict[str, str] = {}
        try:
            listed = await self._client.extensions()
            view = replace(
                view,
                asked_at=self._clock(),
                generation=listed["generation"],
                extensions=[_extension(entry) for entry in listed["extensions"]],
                older=[(each["generation"], tuple(each["runs"])) for each in listed["older"]],
                host=_diagnostics(listed["host"]),
            )
        except WorkflowError as error:
            if isinstance(error, NotLoggedIn):
                return replace(view, logged_out=True)
            problems["extensions"] = f"{error.title}. {error}"
            if not isinstance(error, NotPermitted):
                problems["sessions"] = problems["extensions"]
                return replace(view, problems=problems)
        try:
            view = replace(view, sessions=[_session(entry) for entry in await self._client.sessions()])
        except WorkflowError as error:
            problems["sessions"] = f"{error.title}. {error}"
        return replace(view, problems=problems)

    async def _stored(self, problems: dict[str, str]) -> Stored:
        try:
            stored = await asyncio.to_thread(read_stores, self._workspace, self._clock())
        except WorkflowError as error:
            for section in ("stores", "events"):
                problems[section] = f"{error.title}. {error}"
            return Stored()
        problems.update(stored.problems)
        return stored


def _configured(config: WorkbenchConfig) -> list[ExtensionUse]:
    return [
        ExtensionUse(record.name, record.use, "configured" if record.enabled else "disabled")
        for record in config.plugins
    ]


def _extension(entry: Mapping[str, Any]) -> ExtensionUse:
    return ExtensionUse(
        name=entry["name"],
        use=entry["use"],
        outcome=entry["outcome"],
        message=entry["message"] or "",
        api=entry["api"],
        contributions=entry["contributions"],
        plugins=entry["plugins"],
        longest_hook=entry["longest_hook_seconds"],
        diagnostics=_diagnostics(entry["diagnostics"]),
    )


def _diagnostics(entries: Sequence[Mapping[str, Any]]) -> list[Diagnostic]:
    return [Diagnostic(entry["level"], entry["message"], entry["at"]) for entry in entries]


def _session(entry: Mapping[str, Any]) -> SessionUse:
    return SessionUse(
        session_id=entry["session_id"],
        user_id=entry["user_id"],
        mode=entry["mode"],
        description=entry["description"],
        interactive=entry["interactive"],
    )


def _log_ins(stored: Stored, view: HostView) -> list[SessionUse]:
    """The log-ins that hold no handle at the moment."""
    if view.mode != "password":
        return []
    held = {session.session_id for session in view.sessions}
    return [
        SessionUse(
            each.session_id,
            each.user_id,
            "password",
            each.description,
            created_at=each.created_at,
            expires_at=each.expires_at,
        )
        for each in stored.log_ins
        if each.session_id not in held
    ]
