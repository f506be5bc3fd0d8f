"""How a front end reaches a workspace: its store for reading, and the engine wherever it runs.

An owner reaches the engine through the host in its own thread. Any other process reads the store itself and
posts every change to the control inbox, which the owner watches. All methods run on the caller's own loop.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, TypeVar

from workflows_core import errors
from workflows_core.errors import NotPermitted, StoreError, StoreInUse, WorkflowError
from workflows_core.store.lock import lock_path, owner_pid
from workflows_core.store.reader import StoreReader

from .workspace import Workspace

if TYPE_CHECKING:
    from extension_api.agent_runs import AgentRuns
    from workflows_core.engine.service import WorkflowService

    from .host.host import LocalHost
    from .login import StoredLogin

T = TypeVar("T")

#: How long a command waits for the owner to settle its control row.
ANSWER_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.02
_WATCH_SECONDS: Final = 0.1


class OwnerSilent(StoreError):
    """The owner did not settle a control in time. The row stays recorded and may still be applied."""

    code = "owner_silent"
    title = "The owner does not answer"


class OwnerGone(StoreError):
    """The owner ended before it settled a control. The row stays recorded for the next owner."""

    code = "owner_gone"
    title = "The owner has ended"


#: Whether a client hosts the engine.
HostMode: TypeAlias = Literal["never", "later", "if_free", "to_look", "required"]


class Access:
    """One front end's access to a workspace. Build it with :meth:`open`, end it with :meth:`close`."""

    def __init__(self, workspace: Workspace, host: LocalHost | None, *, may_host: bool = False) -> None:
        self.workspace = workspace
        self._host = host
        self._may_host = may_host
        self._reader: StoreReader | None = None
        self._opening = asyncio.Lock()
        self._hosting = asyncio.Lock()
        self._subscribers: list[Callable[[str], None]] = []
        self._pending: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self._watcher: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._session: AgentRuns | None = None

    @classmethod
    async def open(cls, workspace: Workspace, *, host: HostMode = "never") -> Self:
        """Open a workspace, hosting the engine where asked and nobody does.

        With ``to_look`` an engine that is hosted here can be asked and changes nothing, and lets nothing go on.
        With ``later`` nothing is loaded yet: ``start_hosting`` hosts the engine, or the first command that needs it.
        Raises ConfigurationError, StoreTooNew, StoreFailed; with ``required`` also StoreInUse.
        """
        local: LocalHost | None = None
        free = owner_pid(lock_path(workspace.storage_path)) is None
        if host == "required" or (host in ("if_free", "to_look") and free):
            local = await cls._open_host(workspace, required=host == "required", only_look=host == "to_look")
        return cls(workspace, local, may_host=host != "never")

    @staticmethod
    async def _open_host(
        workspace: Workspace, *, required: bool, only_look: bool = False
    ) -> LocalHost | None:
        from .host.host import LocalHost

        try:
            return await asyncio.to_thread(LocalHost.open, workspace, only_look=only_look)
        except StoreInUse:
            if required:
                raise
            return None

    async def start_hosting(self) -> bool:
        """Host the engine here where nobody does, and let it tell of changes. True: this process hosts it.

        Raises what opening a host raises.
        """
        async with self._hosting:
            if self._host is None and owner_pid(lock_path(self.workspace.storage_path)) is None:
                self._host = await self._open_host(self.workspace, required=False)
            if self._host is not None and self._watcher is not None:
                self._unsubscribe = self._service.subscribe(self._from_engine)
                watcher, self._watcher = self._watcher, None
                watcher.cancel()
                await asyncio.wait({watcher})
            return self.owner

    @property
    def owner(self) -> bool:
        """Whether this process hosts the engine."""
        return self._host is not None

    @property
    def host(self) -> LocalHost | None:
        return self._host

    def owner_pid(self) -> int | None:
        """The pid of the process that hosts the engine; None where nobody does."""
        return os.getpid() if self.owner else owner_pid(lock_path(self.workspace.storage_path))

    # The engine in this process.

    @property
    def _service(self) -> WorkflowService:
        from workflows_core.engine.service import WorkflowService

        service = self._host.app_store.get(WorkflowService) if self._host is not None else None
        if service is None:
            raise errors.ConfigurationError(
                "this workspace loads no workflow engine: its plugins list has no enabled record for it"
            )
        return service

    async def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        assert self._host is not None
        result: T = await asyncio.wrap_future(self._host.submit(coroutine))
        return result

    def _runs(self) -> AgentRuns:
        assert self._host is not None
        login = self._login()
        known = self._session
        if known is None or (login is not None and known.session.session_id != login.session_id):
            known = self._session = self._host.session(token=None if login is None else login.token)
        return known

    def _login(self) -> StoredLogin | None:
        """The log-in of this person, where accounts are used. Raises NotPermitted where there is none."""
        if self.workspace.config.auth.mode != "password":
            return None
        from .login import NotLoggedIn, load_login

        login = load_login(self.workspace.root)
        if login is None:
            raise NotLoggedIn("this workspace asks for a log-in; run: workbench login")
        return login

    # Reading.

    async def _read(self) -> StoreReader | None:
        async with self._opening:
            if self._reader is None:
                self._reader = await StoreReader.open(self.workspace.storage_path)
            return self._reader

    async def _reading(self) -> StoreReader:
        reader = await self._read()
        if reader is None:
            raise self.workspace.without_runs()
        return reader

    # Changes.

    def subscribe(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call ``callback(run_id)`` on this loop after changes; several changes may be told at once."""
        self._subscribers.append(callback)
        if self._watcher is None and self._unsubscribe is None:
            if self._host is not None:
                self._unsubscribe = self._service.subscribe(self._from_engine)
            else:
                self._watcher = self._loop.create_task(self._watch())

        def unsubscribe() -> None:
            if callback in self._subscribers:
                self._subscribers.remove(callback)

        return unsubscribe

    def _from_engine(self, run_id: str) -> None:
        # Called in the engine's thread: one wake-up of this loop for any number of changes.
        wake = not self._pending
        self._pending.add(run_id)
        if wake:
            try:
                self._loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:
                self._pending.clear()  # The front end's loop has ended; nobody listens any more.

    def _deliver(self) -> None:
        changed, self._pending = self._pending, set()
        for run_id in changed:
            for callback in tuple(self._subscribers):
                callback(run_id)

    async def _watch(self) -> None:
        """Without the engine in this process: notice other processes' writes, and the owner's death."""
        seen: dict[str, tuple[int, int, int]] = {}
        version: tuple[int, int | None] = (-1, None)
        while True:
            try:
                reader = await self._read()
                if reader is not None:
                    latest = (await reader.data_version(), reader.owner_pid())
                    if latest != version:
                        current = await reader.revisions()
                        changed = {run for run in current if current[run] != seen.get(run)}
                        changed |= set(seen) - set(current)
                        if latest[1] != version[1]:
                            changed |= set(current)
                        seen, version = current, latest
                        self._pending |= changed
                        self._deliver()
            except StoreError:
                pass  # A reader's own commands show the error; watching goes on.
            await asyncio.sleep(_WATCH_SECONDS)

    # Commands.

    async def _control(self, kind: str, run_id: str | None, body: dict[str, Any]) -> dict[str, Any]:
        """Apply a command in this process's engine, or post it to the owner's.

        What the host refuses is NotPermitted from here as it is through the inbox.
        """
        if self._host is None:
            return await self._post(kind, run_id, body)
        from extension_api.agent_runs import AgentRunRefused

        try:
            return await self._apply(kind, run_id, body)
        except AgentRunRefused as error:
            raise NotPermitted(error.message, code=error.code) from None

    async def _apply(self, kind: str, run_id: str | None, body: dict[str, Any]) -> dict[str, Any]:
        assert self._host is not None
        if kind.startswith("host."):
            return dict(await self._call(self._host.control(kind, body, self._runs())))
        from workflows_core.engine.controls import apply

        return await self._call(apply(self._service, kind, run_id, body, self._runs()))

    async def _post(self, kind: str, run_id: str | None, body: dict[str, Any]) -> dict[str, Any]:
        from .host.identity import describe_control, terminal_session

        reader = await self._posting()
        uid = os.getuid()
        login = self._login()
        actor = describe_control(terminal_session(uid), uid, None if login is None else login.session_id)
        row_id = await reader.post(kind, run_id, body, actor)
        deadline = self._loop.time() + ANSWER_SECONDS
        while True:
            pid = self.owner_pid()  # Before the row: what an owner settled last is seen.
            row = await reader.inbox_row(row_id)
            if row is not None and row.settled_at is not None:
                return _settled(row.outcome, dict(row.detail or {}))
            if pid is None:
                await self._take_over(row_id)
                deadline = self._loop.time() + ANSWER_SECONDS
            elif self._loop.time() >= deadline:
                who = f"process {pid}" if pid else "the owner"
                raise OwnerSilent(
                    f"recorded as control {row_id}; {who} has not answered for {ANSWER_SECONDS:.0f} s. "
                    "The record stays and is applied when an owner runs"
                )
            await asyncio.sleep(_POLL_SECONDS)

    async def _posting(self) -> StoreReader:
        """The store to post to; an owner that has just taken the workspace may still be making it."""
        deadline = self._loop.time() + ANSWER_SECONDS
        while (reader := await self._read()) is None:
            if self.owner_pid() is None or self._loop.time() >= deadline:
                return await self._reading()
            await asyncio.sleep(_POLL_SECONDS)
        return reader

    async def _take_over(self, row_id: int) -> None:
        """The owner ended before it answered: host the engine here, which then settles the row.

        Raises OwnerGone where this process must not host, and what opening a host raises.
        """
        if not self._may_host:
            raise OwnerGone(
                f"recorded as control {row_id}; the process that owned the workspace ended before it answered. "
                "The record stays and is applied when an owner runs"
            )
        await self.start_hosting()

    async def wait_idle(self) -> None:
        """Wait until the engine in this process supervises nothing and finishes no cancel."""
        if self._host is None:
            return
        service = self._service
        while service.busy:  # noqa: ASYNC110 - the engine's state lives in another thread's loop
            await asyncio.sleep(_POLL_SECONDS)

    # The end.

    async def close(self) -> None:
        """Stop watching and, as the owner, shut down in order: live runs stay recoverable."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait({self._watcher})
            self._watcher = None
        if self._reader is not None:
            await self._reader.close()
            self._reader = None
        if self._host is not None:
            host, self._host = self._host, None
            await asyncio.to_thread(host.close)


def _settled(outcome: str | None, detail: dict[str, Any]) -> dict[str, Any]:
    if outcome == "applied":
        return detail
    error = detail.get("error") or {}
    kind = getattr(errors, str(error.get("type", "")), WorkflowError)
    if not (isinstance(kind, type) and issubclass(kind, WorkflowError)):
        kind = WorkflowError
    raised = kind(str(error.get("message", "the owner refused it")))
    if isinstance(error.get("code"), str):
        raised.code = error["code"]
    raise raised
