"""What extensions register with, and the immutable snapshot of what they registered."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from extension_api.assembly import AgentAssemblyObserver
from extension_api.compaction import ContextCompactionObserver
from extension_api.invalid import InvalidContribution
from extension_api.lifecycle import TaskLifecycleContributor
from extension_api.middleware import MiddlewareContributor
from extension_api.observers import SystemModelCallObserver
from extension_api.plugins import PluginContribution
from extension_api.registry import ExtensionRegistry
from extension_api.services import ExtensionService
from extension_api.validation import PluginSnapshot, validate_plugin

T = TypeVar("T")
V = TypeVar("V")


@dataclass(frozen=True)
class Contribution(Generic[T]):
    """One contribution: the ``use`` string of its extension, and the place of the record in ``plugins:``."""

    value: T
    source: str
    record: int


@dataclass(frozen=True)
class ExtensionSnapshot:
    """Everything that was loaded, each kind in registration order. A run keeps the one it began with."""

    middlewares: tuple[Contribution[MiddlewareContributor], ...] = ()
    lifecycle: tuple[Contribution[TaskLifecycleContributor], ...] = ()
    system_observers: tuple[Contribution[SystemModelCallObserver], ...] = ()
    assembly_observers: tuple[Contribution[AgentAssemblyObserver], ...] = ()
    compaction_observers: tuple[Contribution[ContextCompactionObserver], ...] = ()
    services: tuple[Contribution[ExtensionService], ...] = ()
    routers: tuple[Contribution[Any], ...] = ()
    plugins: tuple[Contribution[PluginSnapshot], ...] = ()

    @property
    def needs_task_store(self) -> bool:
        """Whether anything is registered that is given a live task's store."""
        return bool(self.lifecycle or self.system_observers)

    @property
    def observes_runs(self) -> bool:
        """Whether anything is told of child runs at all."""
        return bool(
            self.lifecycle
            or self.system_observers
            or self.assembly_observers
            or self.compaction_observers
            or self.middlewares
        )

    def counts(self, source_record: int) -> dict[str, int]:
        """How many contributions of each kind one record made; kinds without any are left out."""
        found: dict[str, int] = {}
        for name, bucket in self._buckets():
            number = sum(1 for contribution in bucket if contribution.record == source_record)
            if number:
                found[name] = number
        return found

    def _buckets(self) -> Iterator[tuple[str, tuple[Contribution[Any], ...]]]:
        for name in BUCKETS:
            yield name, getattr(self, name)


def namespaces(plugins: Iterable[Contribution[PluginSnapshot]]) -> frozenset[str]:
    """The namespaces of plugins."""
    return frozenset(plugin.value.contribution.namespace for plugin in plugins)


def merged(parts: Iterable[tuple[int, ExtensionSnapshot, int]]) -> ExtensionSnapshot:
    """One snapshot of single records: ``(place, snapshot, record)`` takes what ``record`` made to ``place``."""
    buckets: dict[str, list[Contribution[Any]]] = {name: [] for name in BUCKETS}
    for place, snapshot, record in parts:
        for name, bucket in snapshot._buckets():
            buckets[name].extend(replace(each, record=place) for each in bucket if each.record == record)
    return ExtensionSnapshot(**{name: tuple(bucket) for name, bucket in buckets.items()})


BUCKETS = tuple(ExtensionSnapshot.__dataclass_fields__)


class Collector:
    """The buckets that all records of one load fill, in order. ``reserved`` are namespaces of other plugins."""

    def __init__(self, reserved: Collection[str] = ()) -> None:
        self._buckets: dict[str, list[Contribution[Any]]] = {name: [] for name in BUCKETS}
        self._reserved = frozenset(reserved)

    def add(self, bucket: str, value: Any, source: str, record: int) -> None:
        self._buckets[bucket].append(Contribution(value, source, record))

    def lengths(self) -> dict[str, int]:
        return {name: len(bucket) for name, bucket in self._buckets.items()}

    def roll_back(self, lengths: dict[str, int]) -> None:
        """Drop what was registered since ``lengths`` were taken."""
        for name, length in lengths.items():
            del self._buckets[name][length:]

    def namespaces(self) -> frozenset[str]:
        """The namespaces that are taken."""
        return self._reserved | namespaces(self._buckets["plugins"])

    def snapshot(self) -> ExtensionSnapshot:
        return ExtensionSnapshot(**{name: tuple(bucket) for name, bucket in self._buckets.items()})


class RecordRegistry(ExtensionRegistry):
    """The registry as one record's ``install`` sees it. Registering after ``seal`` is a RuntimeError."""

    def __init__(self, collector: Collector, source: str, record: int) -> None:
        self._collector: Collector | None = collector
        self._source = source
        self._record = record

    def seal(self) -> None:
        """Called when ``install`` has returned or raised."""
        self._collector = None

    def middlewares(self, contributor: MiddlewareContributor) -> None:
        self._add("middlewares", contributor)

    def task_lifecycle(self, contributor: TaskLifecycleContributor) -> None:
        self._add("lifecycle", contributor)

    def system_model_observer(self, observer: SystemModelCallObserver) -> None:
        self._add("system_observers", observer)

    def agent_assembly_observer(self, observer: AgentAssemblyObserver) -> None:
        self._add("assembly_observers", observer)

    def context_compaction_observer(self, observer: ContextCompactionObserver) -> None:
        self._add("compaction_observers", observer)

    def service(self, service: ExtensionService) -> None:
        self._add("services", service)

    def routers(self, routers: Sequence[Any]) -> None:
        for router in routers:
            self._add("routers", router)

    def plugin(self, contribution: PluginContribution) -> bool:
        collector = self._open()
        snapshot = validate_plugin(contribution)
        namespace = snapshot.contribution.namespace
        if namespace in collector.namespaces():
            raise InvalidContribution("namespace.unique", f"the namespace {namespace} is already registered")
        collector.add("plugins", snapshot, self._source, self._record)
        return True

    def _add(self, bucket: str, value: Any) -> None:
        self._open().add(bucket, value, self._source, self._record)

    def _open(self) -> Collector:
        if self._collector is None:
            raise RuntimeError(f"{self._source} registers after its install function has ended")
        return self._collector
