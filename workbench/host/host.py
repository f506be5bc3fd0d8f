"""The local host: one thread with one asyncio loop, in which engine, services and child runs live.

The engine is an extension like any other; it is reached as ``host.app_store.get(WorkflowService)``.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
import weakref
from collections.abc import Coroutine, Mapping
from typing import Any, Final, TypeVar

from extension_api.agent_runs import AgentRunRefused, AgentRuns, SessionView
from extension_api.identity import ExtensionPrincipal
from extension_api.middleware import HostPolicySnapshot
from extension_api.services import ExtensionRuntimeDeps
from extension_api.state import ExtensionData
from workflows_core.engine.host_controls import HostControls
from workflows_core.errors import NotPermitted, StoreFailed

from ..agents.registry import available_backends
from ..workspace import Workspace
from . import identity
from .accounts import Accounts, LogIn
from .answers import KIND as ANSWER
from .answers import Answers
from .assembly import Assembler
from .authorization import PluginAuthorization
from .calls import CallsLog
from .controls import control
from .diagnostics import Diagnostics
from .evidence import LocalRunEvidence
from .extensions import Extensions
from .handles import Authority, LocalAgentRuns
from .loader import LoadResult
from .notifications import DetachedLoop, Notifier
from .plugins import HostPlugins, HostTool
from .registry import ExtensionSnapshot
from .reloading import ReloadPlan, ReloadResult
from .revision import Configuration
from .runs import ChildRuns
from .secret import Secret, load_secret
from .settings import HostSettings
from .store import HostStore

logger = logging.getLogger(__name__)

DRAIN_SECONDS: Final = 5.0
_NOTIFY_SECONDS: Final = 0.5
_LEFT_BEHIND_SECONDS: Final = 1.0

T = TypeVar("T")


class LocalHost:
    """A running host. Attributes may be read from any thread; everything else goes through ``submit``."""

    loop: asyncio.AbstractEventLoop
    secret: Secret
    store: HostStore
    configuration: Configuration
    runs: ChildRuns
    extensions: Extensions
    settings: HostSettings
    plugins: HostPlugins
    accounts: Accounts
    authorization: PluginAuthorization

    def __init__(self, workspace: Workspace, *, only_look: bool = False) -> None:
        """Use ``open``."""
        self.workspace = workspace
        self._only_look = only_look
        self.config = workspace.config
        self.app_store = ExtensionData("app")
        self.diagnostics = Diagnostics()
        self.policy = HostPolicySnapshot(max_subagents_per_run=workspace.max_calls)
        self._mode = self.config.auth.mode
        self._detached = DetachedLoop()
        self._calls = CallsLog.from_environment()
        self._handles: weakref.WeakSet[LocalAgentRuns] = weakref.WeakSet()
        self._ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._stopping = threading.Event()
        self._finish = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="workbench-host", daemon=True)

    @classmethod
    def open(cls, workspace: Workspace, *, only_look: bool = False) -> LocalHost:
        """Load the extensions and start their services; return once the last one has started.

        With ``only_look`` the engine can be asked and changes nothing (see HostControls).
        Raises ConfigurationError, StoreError and whatever else of the tree a required service raises, after
        everything that had started was stopped again.
        """
        host = cls(workspace, only_look=only_look)
        workspace.make_state_dir()
        host._thread.start()
        try:
            host._ready.result()
        except BaseException:
            host.close()  # an interruption of the waiting too
            raise
        return host

    @property
    def loaded(self) -> LoadResult:
        """The fate of each extension."""
        return self.extensions.loaded

    @property
    def snapshot(self) -> ExtensionSnapshot:
        """What is loaded."""
        return self.loaded.snapshot

    @property
    def notifier(self) -> Notifier:
        """The one that new runs are told with."""
        return self.extensions.generations.current.notifier

    @property
    def assembler(self) -> Assembler:
        """The one that new runs are assembled with."""
        return self.extensions.generations.current.assembler

    def submit(self, coro: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine in the host's loop. Raises StoreFailed once the host is closed."""
        if self._stopping.is_set():
            coro.close()
            raise StoreFailed("this workbench is closing; open it again")
        return asyncio.run_coroutine_threadsafe(coro, self.loop)

    # Sessions

    def session(self, *, interactive: bool | None = None, token: str | None = None) -> LocalAgentRuns:
        """A handle for the session of this process.

        ``interactive=False`` gives the ability to decide away; nothing can bring it. ``token`` is that of a
        log-in, where ``auth.mode`` is password. Raises NotPermitted where there is no session.
        """
        if self._mode == "disabled":
            return self._handle(identity.local_principal(), identity.disabled_session(), _anybody)
        if self._mode == "password":
            if token is None:
                raise NotPermitted("this workspace asks for a log-in; run: workbench login")
            return self._password_handle(self._call(self.accounts.resume, token), interactive)
        uid = os.getuid()
        authority = self._owner_authority(uid)
        problem = authority()
        if problem is not None:
            raise NotPermitted(problem)
        return self._handle(
            identity.terminal_principal(uid, self.workspace.state_dir),
            identity.terminal_session(uid, interactive=interactive),
            authority,
        )

    def session_for(self, row: Mapping[str, Any]) -> AgentRuns:
        """A handle for the session that a control record of another process describes. In the host's loop.

        Raises AgentRunRefused where the session is not one of this workspace.
        """
        if self._mode == "disabled":
            return self._handle(identity.local_principal(), identity.disabled_session(), _anybody)
        principal, session = identity.control_session(row, self.workspace.state_dir)
        if self._mode == "password":
            found = self.accounts.by_session(row.get("session_id"))
            if found is None:
                raise AgentRunRefused(
                    "not_permitted", "the control record names no session that is logged in"
                )
            principal = found.principal
            session = SessionView(
                found.session.session_id, "password", session.interactive, found.session.description
            )
            return self._handle(principal, session, self._account_authority(session.session_id))
        return self._handle(principal, session, self._owner_authority(row["uid"]))

    def revoke(self, session_id: str) -> int:
        """End every handle of a session; how many there were."""
        handles = [handle for handle in list(self._handles) if handle.session.session_id == session_id]
        for handle in handles:
            handle.revoke()
        return len(handles)

    def sessions(self) -> list[tuple[ExtensionPrincipal, SessionView]]:
        """The sessions that hold a handle, each once."""
        handles = sorted(self._handles, key=lambda handle: handle.session.session_id)
        found = {handle.session.session_id: (handle.principal, handle.session) for handle in handles}
        return list(found.values())

    def _password_handle(self, log_in: LogIn, interactive: bool | None) -> LocalAgentRuns:
        can_decide = identity.terminal().interactive and interactive is not False
        view = log_in.session
        session = SessionView(view.session_id, view.mode, can_decide, view.description)
        return self._handle(log_in.principal, session, self._account_authority(view.session_id))

    def _handle(
        self, principal: ExtensionPrincipal, session: SessionView, authority: Authority
    ) -> LocalAgentRuns:
        handle = LocalAgentRuns(self.runs, self.configuration, principal, session, authority)
        self._handles.add(handle)
        return handle

    def _owner_authority(self, uid: int) -> Authority:
        state_dir = str(self.workspace.state_dir)

        def authority() -> str | None:
            try:
                owner = os.stat(state_dir).st_uid  # noqa: PTH116 - before each child; a Path takes twice as long
            except OSError:
                return f"the folder {state_dir} is gone"
            return None if owner == uid else f"user {uid} does not own this workspace"

        return authority

    def _account_authority(self, session_id: str) -> Authority:
        return lambda: None if self.accounts.valid(session_id) else "this session has ended; log in again"

    # Extensions

    def plan_reload(self, use: str | None = None) -> ReloadPlan:
        """What ``reload`` would do, the live runs that it affects first of all (see ``Extensions.plan``)."""
        plan: ReloadPlan = self._call(self.extensions.plan, use)
        return plan

    def reload(self, use: str | None = None) -> concurrent.futures.Future[ReloadResult]:
        """Load one extension, or all, anew in the host's loop (see ``Extensions.reload``)."""
        return self.submit(self.extensions.reload(use))

    def describe_extensions(self) -> dict[str, Any]:
        """What is loaded, as JSON (see ``Extensions.describe``)."""
        described: dict[str, Any] = self._call(self.extensions.describe)
        return described

    async def control(self, kind: str, body: Mapping[str, Any], session: AgentRuns) -> Mapping[str, Any]:
        """A command of a front end about the host itself, in the host's loop.

        ``host.extensions`` and ``host.sessions`` list, ``host.plan_reload`` and ``host.reload`` take ``{"use": text or null}``,
        ``host.answer`` is a person's answer (see ``Answers.apply``).
        Raises UsageError for anything else.
        """
        if kind == ANSWER:
            return self._answers.apply(body, session)
        if kind == "host.sessions":
            return {"sessions": [_session(principal, view) for principal, view in self.sessions()]}
        return await control(self.extensions, self._mode, kind, body, session)

    # Plugins and evidence

    def call_action(
        self, namespace: str, name: str, payload: Mapping[str, Any], session: AgentRuns
    ) -> concurrent.futures.Future[Any]:
        """Call a plugin's action in the host's loop (see ``HostPlugins.call_action``)."""
        return self.submit(self.plugins.call_action(namespace, name, payload, session))

    def call_tool(
        self, name: str, arguments: Mapping[str, Any], session: AgentRuns, thread_id: str | None = None
    ) -> concurrent.futures.Future[Any]:
        """Call a model tool in the host's loop (see ``HostPlugins.call_tool``)."""
        return self.submit(self.plugins.call_tool(name, arguments, session, thread_id))

    def tools(self) -> tuple[HostTool, ...]:
        """The model tools of the enabled plugins."""
        found: tuple[HostTool, ...] = self._call(self.plugins.tools)
        return found

    def evidence_reader(self, principal: ExtensionPrincipal) -> LocalRunEvidence:
        """A reader of the caller's own runs, for administrators too."""
        return LocalRunEvidence(self.store, self.secret, principal.user_id)

    def _call(self, function: Any, *arguments: Any) -> Any:
        """Call something that uses the store, in the host's thread."""
        if threading.current_thread() is self._thread:
            return function(*arguments)

        async def call() -> Any:
            return function(*arguments)

        return self.submit(call()).result()

    # Life

    def close(self) -> None:
        """Shut down in order and return when everything is closed. Calling it again waits for the same end."""
        if not self._stopping.is_set():
            self._stopping.set()
            if self._ready.done() and self._ready.exception() is None:
                try:
                    self.loop.call_soon_threadsafe(self._finish.set)
                except RuntimeError:
                    pass  # the loop has ended by itself
        self._thread.join()

    def _serve(self) -> None:
        self.loop = loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self._live())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            else:
                logger.exception("the host ended with %s", type(error).__name__)
        finally:
            self._stopping.set()
            _leave_behind(loop)
            asyncio.set_event_loop(None)
            loop.close()

    async def _live(self) -> None:
        try:
            await self._start()
            self._ready.set_result(None)
            # Somebody who gave up waiting for the start had no loop to tell.
            if not self._stopping.is_set():
                await self._finish.wait()
        finally:
            await self._stop()

    async def _start(self) -> None:
        workspace = self.workspace
        self.secret = load_secret(workspace.secret_path)
        backends = available_backends(workspace.root)
        self.store = HostStore.open(workspace.host_store_path)
        self.configuration = Configuration(workspace.root, self.config, self.secret, backends)
        self.extensions = Extensions(workspace, self.app_store, self.diagnostics, self.policy, self._detached)
        self.settings = HostSettings(self.store)
        self.accounts = Accounts(self.store)
        self.plugins = HostPlugins(self.snapshot, self.settings, self.diagnostics)
        self.extensions.changed = self.plugins.replace
        self.authorization = PluginAuthorization(self.configuration, self.plugins.namespaces)
        self.runs = ChildRuns(
            store=self.store,
            backends=backends,
            configuration=self.configuration,
            generations=self.extensions.generations,
            calls=self._calls,
        )
        self._answers = Answers(self.runs, backends)
        self.app_store.set(HostControls(self.control, self._only_look))
        await self.extensions.start(
            ExtensionRuntimeDeps(
                app_store=self.app_store,
                policy=self.policy,
                run_evidence_reader=LocalRunEvidence(self.store, self.secret, None),
                workspace_root=str(workspace.root),
                agent_runs_for=self.session_for,
            ),
            self.runs,
            self.configuration,
        )
        # The engine's service owns the workspace by now, so nobody else's children are touched.
        if not self._only_look:
            self.runs.sweep()

    async def _stop(self) -> None:
        self._detached.suspend()
        try:
            if hasattr(self, "runs"):
                await self.runs.drain(DRAIN_SECONDS)
            await self._detached.drain(_NOTIFY_SECONDS)
            try:
                if hasattr(self, "extensions"):
                    await self.extensions.stop()
            finally:
                for handle in list(self._handles):
                    handle.revoke()
                if hasattr(self, "runs"):
                    await self.runs.close()
        finally:
            self._detached.close()
            self._calls.close()
            if hasattr(self, "store"):
                self.store.close()


def _session(principal: ExtensionPrincipal, view: SessionView) -> dict[str, Any]:
    return {
        "session_id": view.session_id,
        "user_id": principal.user_id,
        "mode": view.mode,
        "interactive": view.interactive,
        "description": view.description,
    }


def _anybody() -> str | None:
    return None


def _leave_behind(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what still runs. Something that ignores its cancellation is not waited for."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        _, stubborn = loop.run_until_complete(asyncio.wait(tasks, timeout=_LEFT_BEHIND_SECONDS))
        for task in stubborn:
            logger.warning("%s did not end with the host", task.get_coro())
    loop.run_until_complete(loop.shutdown_asyncgens())
