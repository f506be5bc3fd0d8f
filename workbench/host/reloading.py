"""What a reload is made of: which records, in which groups, loaded aside from what is running.

Records whose modules are in one package are loaded anew together or not at all. Loading happens in a thread of
its own, so that an extension that hangs holds up nobody; then its modules are put back.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from .config import PluginRecord
from .diagnostics import Diagnostics, name_of
from .loader import LoadedRecord, LoadFailed, load_record
from .modules import ModuleSwap, package_of
from .registry import Collector, ExtensionSnapshot, namespaces


@dataclass(frozen=True)
class AffectedRun:
    """A live workflow run, which keeps the extensions it began with. ``note`` says what else a reload means."""

    run_id: str
    name: str
    state: str
    note: str = ""


@dataclass(frozen=True)
class ReloadPlan:
    """What a reload would do: ``uses`` are loaded anew in this order, ``runs`` keep what they have."""

    uses: tuple[str, ...]
    runs: tuple[AffectedRun, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReloadFailure:
    """An extension that could not be loaded anew; what it was before goes on, where there was something."""

    use: str
    message: str


@dataclass(frozen=True)
class ReloadResult:
    """What became of a plan. ``runs`` are those that are bound to what was replaced."""

    reloaded: tuple[str, ...]
    failed: tuple[ReloadFailure, ...]
    runs: tuple[AffectedRun, ...] = ()
    notes: tuple[str, ...] = ()


class Place(NamedTuple):
    """A record of the list to come: ``old`` is what runs of it now, ``fresh`` whether it is loaded anew.

    Neither: it is not loaded.
    """

    record: PluginRecord
    old: LoadedRecord | None
    fresh: bool

    @property
    def goes_on(self) -> bool:
        """Whether what runs of it now may stay."""
        return self.record.enabled


def arrange(
    running: Sequence[LoadedRecord],
    configured: Sequence[PluginRecord],
    selected: Callable[[PluginRecord], bool],
) -> tuple[list[Place], list[str]]:
    """The records after a reload, in the order of the file, and notes on what the file says and is not done."""
    waiting: defaultdict[str, deque[LoadedRecord]] = defaultdict(deque)
    for loaded in running:
        waiting[loaded.record.use].append(loaded)
    places: list[Place] = []
    notes: list[str] = []
    for record in configured:
        old = waiting[record.use].popleft() if waiting[record.use] else None
        if selected(record):
            places.append(Place(record, old, record.enabled))
            if not record.enabled and old is not None and old.outcome == "loaded":
                notes.append(f"the record {record.name} is disabled now and ends")
        elif old is not None:
            places.append(Place(old.record, old, False))
            if record != old.record:
                notes.append(f"the record {record.name} has changed and stays as it was loaded")
        else:
            notes.append(f"the record {record.name} is new and is not loaded yet")
    for left in waiting.values():
        for old in left:
            if selected(old.record):
                notes.append(f"the record {old.record.name} was taken out of the file and ends")
            else:
                places.append(Place(old.record, old, False))
                notes.append(f"the record {old.record.name} was taken out of the file and stays loaded")
    return places, notes


@dataclass
class Group:
    """Records that are loaded anew together: their places, and what came of it."""

    places: list[int]
    swap: ModuleSwap
    loaded: dict[int, tuple[LoadedRecord, ExtensionSnapshot]] = field(default_factory=dict)
    failure: ReloadFailure | None = None

    def give_up(self, use: str, message: str) -> None:
        """Leave in place what was there before."""
        self.failure = ReloadFailure(use, message)
        self.swap.restore()


def groups_of(places: Sequence[Place]) -> list[Group]:
    """The groups of the records that are loaded anew, by their first place."""
    by_package: dict[str, list[int]] = {}
    for index, place in enumerate(places):
        if place.fresh:
            by_package.setdefault(package_of(place.record.use), []).append(index)
    return [Group(indices, ModuleSwap([package])) for package, indices in by_package.items()]


class Loading:
    """Loads groups aside, in a daemon thread."""

    def __init__(
        self,
        places: Sequence[Place],
        groups: Sequence[Group],
        snapshot: ExtensionSnapshot,
        root: Path,
        diagnostics: Diagnostics,
    ) -> None:
        self._places = places
        self._groups = groups
        self._snapshot = snapshot
        self._root = root
        self._diagnostics = diagnostics
        self._lock = threading.Lock()
        self._abandoned = False
        self._finished = False
        #: The record that is being loaded.
        self.at = ""

    async def run(self, seconds: float) -> bool:
        """Load. False, with everything put back as soon as it ends, where that takes longer."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def work() -> None:
            self._load_all()
            try:
                loop.call_soon_threadsafe(done.set)
            except RuntimeError:
                pass  # the host has ended meanwhile

        threading.Thread(target=work, name="workbench-reload", daemon=True).start()
        try:
            await asyncio.wait_for(done.wait(), seconds)
        except TimeoutError:
            pass
        with self._lock:
            self._abandoned = not self._finished
            return self._finished

    @property
    def busy(self) -> bool:
        """Whether the thread is still loading."""
        with self._lock:
            return not self._finished

    def _load_all(self) -> None:
        taken = namespaces(self._snapshot.plugins)
        for group in self._groups:
            own = {old.index for index in group.places if (old := self._places[index].old) is not None}
            theirs = namespaces(each for each in self._snapshot.plugins if each.record in own)
            reserved = taken - theirs
            self._load(group, reserved)
            for _, snapshot in group.loaded.values():
                taken |= namespaces(snapshot.plugins)
        with self._lock:
            self._finished = True
            if self._abandoned:
                for group in self._groups:
                    group.swap.restore()

    def _load(self, group: Group, reserved: frozenset[str]) -> None:
        group.swap.take()
        for index in group.places:
            record = self._places[index].record
            self.at = record.use
            collector = Collector(reserved)
            try:
                loaded = load_record(record, index, self._root, collector)
            except BaseException as error:  # noqa: BLE001 - the runs that are live must not end with an extension
                message = str(error) if isinstance(error, LoadFailed) else f"loading raised {name_of(error)}"
                self._diagnostics.add("error", record.use, f"not reloaded: {message}", error)
                group.loaded.clear()
                group.give_up(record.use, message)
                return
            snapshot = collector.snapshot()
            reserved |= namespaces(snapshot.plugins)
            group.loaded[index] = (loaded, snapshot)
