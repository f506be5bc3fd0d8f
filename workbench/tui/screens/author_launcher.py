"""Launching from the Author screen: what is sent, under which request id, and what an unchanged launch shows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workflows_core.errors import Deleted, NotFound
from workflows_core.limits import EngineConfig

from ...drafts import AuthorSession, Draft, LaunchForm, VersionDraft, launch_key
from ...forecast import calls_at_most
from ...scripts import script_name, stubs_beside
from ..context import AppContext
from .ask_real import ask_real
from .author_launch import StubChoice
from .author_scripts import Found
from .dialogs import Dialog

if TYPE_CHECKING:
    from workflows_core.engine.requests import LaunchOutcome, LaunchRequest
    from workflows_core.model import RunSummary, RunView

    from ...client import Client
    from ...host.config import WorkbenchConfig
    from .author_editors import OpenFile


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything of one launch but its request id."""

    script: str
    args: dict[str, Any]
    name: str
    options: dict[str, Any]
    settings: EngineConfig
    #: ``NAME@HASH`` of the saved version whose script this is.
    definition: str | None = None

    @property
    def key(self) -> str:
        return launch_key(
            script=self.script,
            args=self.args,
            name=self.name,
            options=self.options,
            agents=self.settings.agents,
            of=self.settings.limits,
            definition=self.definition,
        )


def launch_options(context: AppContext, script: Path, form: LaunchForm) -> dict[str, Any]:
    """The launch options of a form, the stub set read. Blocks; raises UsageError or ConfigurationError."""
    workspace = context.workspace
    if form.real:
        return workspace.options(real=True)
    if form.stubs is not None:
        return workspace.options(stubs=workspace.root / form.stubs)
    if workspace.config.stubs:
        return workspace.options()
    return workspace.options(stubs=stubs_beside(script))


def stub_choices(context: AppContext, script: Path, found: Found) -> list[StubChoice]:
    """What can answer on stubs: the default by its name first, then every stub set of the workspace."""
    beside = stubs_beside(script)
    if context.workspace.config.stubs:
        default = ", ".join(Path(name).name for name in context.workspace.config.stubs)
    elif beside is not None:
        default = beside.name
    else:
        default = "none: they echo"
    return [StubChoice(None, default), *(StubChoice(path, str(path)) for path in found.stub_sets)]


async def send(
    context: AppContext,
    session: AuthorSession,
    launch: Launch,
    *,
    again: bool,
    remember: Callable[[], None],
) -> LaunchOutcome:
    """Launch under the content's remembered request id, or with ``again`` under a new one.

    The id is remembered before it is sent, so that a launch whose answer got lost is found by a repeat. A run
    that was deleted since gives way to a new one. Raises what ``Client.launch`` raises.
    """
    key = launch.key
    launched = session.request_for(key, again=again)
    remember()
    try:
        outcome = await context.client.launch(_request(launch, launched.request_id))
    except Deleted:
        launched = session.request_for(key, again=True)
        remember()
        outcome = await context.client.launch(_request(launch, launched.request_id))
    launched.run_id = outcome.run_id
    remember()
    return outcome


def _request(launch: Launch, request_id: str) -> LaunchRequest:
    from workflows_core.engine.requests import LaunchRequest

    return LaunchRequest(
        script=launch.script if launch.definition is None else "",
        definition=launch.definition,
        args=launch.args,
        name=launch.name,
        request_id=request_id,
        options=launch.options,
    )


async def prepare(
    context: AppContext,
    draft: Draft,
    form: LaunchForm,
    text: str,
    args: dict[str, Any],
    settings: EngineConfig,
) -> Launch:
    """Read what a launch needs; ``text`` is what was checked. Raises UsageError or ConfigurationError in words."""
    options = await asyncio.to_thread(launch_options, context, draft.path, form)
    version = isinstance(draft, VersionDraft) and text == draft.saved
    definition = draft.definition if isinstance(draft, VersionDraft) and version else None
    return Launch(text, args, script_name(draft.path), options, settings, definition)


async def confirm_real(
    ask: Callable[[Dialog], Awaitable[str | None]],
    launch: Launch,
    bound: tuple[int, bool] | None,
    config: WorkbenchConfig,
) -> bool:
    """Ask before real Agents are called, with the bound on calls and what is known of their cost."""
    calls = calls_at_most(bound, launch.settings.limits.max_calls)
    return await ask_real(ask, launch.name, config, launch.settings.agents, calls)


async def last_run(client: Client, runs: Sequence[RunSummary], file: OpenFile) -> RunView | None:
    """The run launched from ``file`` last, or a newer one of its name that was launched elsewhere; ``runs``: newest first."""
    name = script_name(file.draft.path)
    newest = next((run for run in runs if run.name == name), None)
    run_id = newest.run_id if newest is not None else None
    if file.pinned is not None and (newest is None or newest.created_at <= file.pinned[1]):
        run_id = file.pinned[0]
    try:
        return await client.view(run_id) if run_id is not None else None
    except (NotFound, Deleted):
        file.pinned = None
        return None
