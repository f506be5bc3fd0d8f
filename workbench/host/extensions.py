"""The extensions of one host: loaded at its start, listed for people, and reloaded in place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from extension_api.agent_runs import AgentRunRefused
from extension_api.middleware import HostPolicySnapshot
from extension_api.services import ExtensionRuntimeDeps
from extension_api.state import ExtensionData
from workflows_core.errors import ConfigurationError, Conflict, NotFound, Refused

from ..workspace import Workspace
from .assembly import Assembler
from .config import PluginRecord
from .describing import describe_record
from .diagnostics import Diagnostics
from .generations import FIRST, Generation, Generations
from .loader import HOST, LoadedRecord, LoadResult, load_extensions
from .modules import ModuleSwap, drop_values, package_of, reloadable
from .notifications import DetachedLoop, Notifier
from .registry import Contribution, ExtensionSnapshot, merged
from .reloading import (
    AffectedRun,
    Group,
    Loading,
    Place,
    ReloadFailure,
    ReloadPlan,
    ReloadResult,
    arrange,
    groups_of,
)
from .services import Services

if TYPE_CHECKING:
    from workflows_core.model import RunRecord

    from .driver import Live
    from .revision import Configuration
    from .runs import ChildRuns

#: For everything that a reload waits for: less than a command waits for the owner's answer.
RELOAD_SECONDS: Final = 8.0
#: The latest diagnostics of each source that a listing holds.
SHOWN: Final = 20


class Extensions:
    """Use from the host's loop. ``changed`` is called with each snapshot that takes the place of another."""

    def __init__(
        self,
        workspace: Workspace,
        app_store: ExtensionData,
        diagnostics: Diagnostics,
        policy: HostPolicySnapshot,
        detached: DetachedLoop,
        seconds: float = RELOAD_SECONDS,
    ) -> None:
        self._workspace = workspace
        self._app_store = app_store
        self._diagnostics = diagnostics
        self._seconds = seconds
        self.loaded: LoadResult = load_extensions(workspace.config.plugins, workspace.root, diagnostics)
        snapshot = self.loaded.snapshot
        self.generations = Generations(
            Generation(
                FIRST,
                snapshot,
                Notifier(snapshot, app_store, diagnostics, detached),
                Assembler(snapshot, app_store, diagnostics, policy),
            )
        )
        fatal = {loaded.index for loaded in self.loaded.records if loaded.record.fatal}
        self._services = Services(snapshot.services, diagnostics, fatal)
        self._deps = ExtensionRuntimeDeps()
        self._runs: ChildRuns | None = None
        self._configuration: Configuration | None = None
        self.changed: Callable[[ExtensionSnapshot], None] | None = None
        self._loading: Loading | None = None
        self._reloading = False
        self._closing = asyncio.Event()
        self._moved = asyncio.Event()
        self._retiring: set[asyncio.Task[None]] = set()

    async def start(self, deps: ExtensionRuntimeDeps, runs: ChildRuns, configuration: Configuration) -> None:
        """Start the services. Raises what a required one raises (see ``Services.start``)."""
        self._deps, self._runs, self._configuration = deps, runs, configuration
        await self._services.start(deps)

    async def stop(self) -> None:
        """Stop every service, those of replaced extensions included."""
        self._closing.set()
        self._moved.set()
        if self._retiring:
            await asyncio.wait(self._retiring)
        await self._services.stop()

    # Listing

    def describe(self) -> dict[str, Any]:
        """Each record with what it contributed, its diagnostics and its longest hook; JSON."""
        snapshot, notifier = self.generations.current.snapshot, self.generations.current.notifier
        entries = self._diagnostics.all()

        def about(source: str) -> list[dict[str, Any]]:
            found = [entry for entry in entries if entry.source == source][-SHOWN:]
            return [{"level": entry.level, "message": entry.message, "at": entry.at} for entry in found]

        return {
            "generation": self.generations.current.number,
            "extensions": [
                describe_record(loaded, snapshot)
                | {
                    "longest_hook_seconds": _rounded(notifier.spent.get(loaded.record.use)),
                    "diagnostics": about(loaded.record.use),
                }
                for loaded in self.loaded.records
            ],
            "host": about(HOST),
            "older": [
                {"generation": each.number, "runs": self.generations.bound(each)}
                for each in self.generations.older()
            ],
        }

    # Reloading

    def plan(self, use: str | None = None) -> ReloadPlan:
        """What ``reload`` would do now, the live runs that keep what they have first of all.

        ``use`` is that of one extension, or its record's name; None is every extension but those that are part
        of the workbench. Raises NotFound, and Refused for what cannot be reloaded while the program runs.
        """
        places, notes = self._arrange(use)
        return ReloadPlan(
            tuple(place.record.use for place in places if place.fresh), tuple(self._affected()), tuple(notes)
        )

    async def reload(self, use: str | None = None) -> ReloadResult:
        """Load extensions anew: what fails stays as it was; live runs keep what they have.

        New services are started before old ones are stopped, and old ones are stopped once the last run that
        is bound to them has ended. Raises as ``plan`` does, and Conflict while another reload is going on.
        """
        if self._closing.is_set():
            raise Conflict("this workbench is closing; nothing is reloaded any more")
        if self._reloading or (self._loading is not None and self._loading.busy):
            at = self._loading.at if self._loading is not None else ""
            raise Conflict(f"another reload is going on{f', at {at}' if at else ''}; wait until it has ended")
        places, notes = self._arrange(use)
        self._reloading = True
        try:
            return await self._reload(places, notes)
        finally:
            self._reloading = False

    async def _reload(self, places: list[Place], notes: list[str]) -> ReloadResult:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._seconds
        snapshot = self.generations.current.snapshot
        groups = groups_of(places)
        self._loading = Loading(places, groups, snapshot, self._workspace.root, self._diagnostics)
        if not await self._loading.run(self._seconds / 2):
            words = f"loading did not end within {self._seconds / 2:g} s; everything stays as it was"
            self._diagnostics.add("error", self._loading.at, words)
            return ReloadResult((), (ReloadFailure(self._loading.at, words),), (), tuple(notes))
        for group in groups:
            if group.failure is None:
                await self._start_services(group, places, end - loop.time())
        fresh = [group for group in groups if group.failure is None]
        failed = tuple(group.failure for group in groups if group.failure is not None)
        uses = tuple(places[index].record.use for index in sorted(i for group in fresh for i in group.places))
        if not fresh and not _dropped(places, self.loaded.records):
            self._note_failures(groups)
            return ReloadResult((), failed, (), tuple(notes))
        # Nothing awaits between here and the end of _switch: a run is bound to one side or to the other.
        affected = tuple(self._affected())
        retiring = self._switch(places, groups)
        self._diagnostics.add("info", HOST, f"extensions: reloaded {', '.join(uses) or 'none'}")
        await asyncio.wait({retiring}, timeout=0 if affected else max(0.0, end - loop.time()))
        return ReloadResult(uses, failed, affected, tuple(notes))

    def _arrange(self, use: str | None) -> tuple[list[Place], list[str]]:
        assert self._configuration is not None
        try:
            configured = self._configuration.current.plugins
        except AgentRunRefused as error:
            raise ConfigurationError(error.message) from None
        known = [*configured, *(loaded.record for loaded in self.loaded.records)]
        packages: set[str] | None = None
        if use is not None:
            packages = {package_of(each.use) for each in known if use in (each.use, each.name)}
            if not packages:
                names = ", ".join(dict.fromkeys(each.use for each in known)) or "none"
                raise NotFound(f"there is no extension {use}; the list has {names}")
            self._check_reloadable([each for each in known if package_of(each.use) in packages])

        def selected(record: PluginRecord) -> bool:
            return reloadable(record.use) if packages is None else package_of(record.use) in packages

        return arrange(self.loaded.records, configured, selected)

    def _check_reloadable(self, records: Sequence[PluginRecord]) -> None:
        for record in records:
            if not reloadable(record.use):
                live = [run.run_id for run in self._live()]
                because = f"; {len(live)} live runs depend on it: {', '.join(live)}" if live else ""
                raise Refused(
                    f"{record.use} is part of the workbench and is not reloaded while it runs{because}. "
                    "Restart the workbench",
                    code="not_reloadable",
                )

    async def _start_services(self, group: Group, places: Sequence[Place], seconds: float) -> None:
        """Start the services of a group; where one fails and an older version is there, that one stays."""
        fresh = [service for _, snapshot in group.loaded.values() for service in snapshot.services]
        problems = await self._services.start_more(fresh, self._deps, max(0.0, seconds))
        if problems and any(_running(places[index].old) for index in group.places):
            await self._services.stop_these(fresh)
            group.loaded.clear()
            group.give_up(places[group.places[0]].record.use, problems[0])

    def _note_failures(self, groups: Sequence[Group]) -> None:
        """Say at the records of failed groups that what they were goes on."""
        words = {
            group.failure.use: f"not reloaded: {group.failure.message}" for group in groups if group.failure
        }
        records = tuple(
            replace(loaded, message=words[loaded.record.use]) if loaded.record.use in words else loaded
            for loaded in self.loaded.records
        )
        self.loaded = replace(self.loaded, records=records)

    def _switch(self, places: Sequence[Place], groups: Sequence[Group]) -> asyncio.Task[None]:
        """Put the new snapshot in place and begin to retire what it replaces."""
        old = self.generations.current
        records: list[LoadedRecord] = []
        parts: list[tuple[int, ExtensionSnapshot, int]] = []
        kept: set[int] = set()
        of_place = {index: group for group in groups for index in group.places}
        for index, place in enumerate(places):
            group = of_place.get(index)
            if group is not None and group.failure is None:
                loaded, snapshot = group.loaded[index]
                records.append(loaded)
                parts.append((index, snapshot, index))
                continue
            records.append(_unchanged(place, index, group.failure if group is not None else None))
            if place.old is not None and place.goes_on:
                parts.append((index, old.snapshot, place.old.index))
                kept.add(place.old.index)
        snapshot = merged(parts)
        live = {run.run_id for run in self._live()} | {
            child.row.workflow_run for child in self._children(old) if child.row.workflow_run
        }
        self.generations.replace(
            Generation(
                old.number + 1,
                snapshot,
                old.notifier.with_snapshot(snapshot),
                old.assembler.with_snapshot(snapshot),
            ),
            live,
        )
        before, self.loaded = self.loaded, LoadResult(snapshot, tuple(records), self.loaded.contract)
        if self.changed is not None:
            self.changed(snapshot)
        swaps = [group.swap for group in groups if group.failure is None]
        gone = {package_of(each.record.use) for each in _dropped(places, before.records)}
        gone -= {package_of(each.record.use) for each in records if each.outcome == "loaded"}
        if gone:
            swaps.append(ModuleSwap(gone))
            swaps[-1].take()
        services = [service for service in old.snapshot.services if service.record not in kept]
        task = asyncio.get_running_loop().create_task(self._retire(old, services, swaps))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)
        return task

    async def _retire(
        self, old: Generation, services: Sequence[Contribution[Any]], swaps: Sequence[ModuleSwap]
    ) -> None:
        """Once no run uses ``old`` any more: stop its services that were replaced, and drop its values."""
        unsubscribe = self._watch()
        try:
            while not self._closing.is_set():
                self._moved.clear()
                self.generations.release({run.run_id for run in self._live()})
                if not self.generations.bound(old) and not self._children(old):
                    break
                await self._moved.wait()
        finally:
            unsubscribe()
        if self._closing.is_set():
            return  # the end of the host stops them, in order with all others
        await self._services.stop_these(services)
        dropped = sum(drop_values(self._app_store, swap) for swap in swaps)
        self._diagnostics.add(
            "info", HOST, f"extensions: the version {old.number} is over, {dropped} values were dropped"
        )

    def _live(self) -> list[RunRecord]:
        """The workflow runs that the engine supervises."""
        from workflows_core.engine.service import WorkflowService

        service = self._app_store.get(WorkflowService)
        return [] if service is None else service.live()

    def _children(self, generation: Generation) -> list[Live]:
        return [] if self._runs is None else self._runs.driven_by(generation)

    def _affected(self) -> list[AffectedRun]:
        return [
            AffectedRun(record.run_id, record.name, record.state.value, self._note(record))
            for record in self._live()
        ]

    def _note(self, record: RunRecord) -> str:
        assert self._configuration is not None
        try:
            same = self._configuration.revision(record.options) == record.configuration_revision
        except AgentRunRefused as error:
            return error.message
        return (
            "" if same else "the configuration has changed since its launch; its next Agent call is refused"
        )

    def _watch(self) -> Callable[[], None]:
        """Notice the ends of workflow runs and of child runs; returns how to stop that."""
        from workflows_core.engine.service import WorkflowService

        if self._runs is not None:
            self._runs.ended = self._moved.set
        service = self._app_store.get(WorkflowService)
        return (lambda: None) if service is None else service.subscribe(lambda _: self._moved.set())


def _dropped(places: Sequence[Place], running: Sequence[LoadedRecord]) -> list[LoadedRecord]:
    """What is loaded and will not be any more."""
    stays = {place.old.index for place in places if place.old is not None and (place.fresh or place.goes_on)}
    return [loaded for loaded in running if loaded.outcome == "loaded" and loaded.index not in stays]


def _unchanged(place: Place, index: int, failure: ReloadFailure | None) -> LoadedRecord:
    """The fate of a record that was not loaded anew."""
    if not place.goes_on:
        return LoadedRecord(place.record, index, "disabled")
    if place.old is None or place.old.outcome != "loaded":
        message = failure.message if failure is not None else "" if place.old is None else place.old.message
        return LoadedRecord(place.record, index, "failed", message)
    message = f"not reloaded: {failure.message}" if failure is not None else place.old.message
    return replace(place.old, index=index, message=message)


def _running(loaded: LoadedRecord | None) -> bool:
    return loaded is not None and loaded.outcome == "loaded"


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
