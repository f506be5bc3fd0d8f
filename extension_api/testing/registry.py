"""A registry that records what an extension contributes and refuses what a host refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from ..assembly import AgentAssemblyObserver
from ..compaction import ContextCompactionObserver
from ..invalid import InvalidContribution
from ..lifecycle import TaskLifecycleContributor
from ..middleware import MiddlewareContributor
from ..observers import SystemModelCallObserver
from ..plugins import PluginContribution
from ..registry import ExtensionRegistry
from ..services import ExtensionService
from ..validation import PluginSnapshot, validate_plugin
from ..version import check_api_marker

T = TypeVar("T")


@dataclass(frozen=True)
class Registered(Generic[T]):
    """One contribution and the ``use`` string of the extension that made it."""

    use: str
    value: T


@dataclass(frozen=True)
class Diagnostic:
    """What a host would report: a failure of an extension is an error, a spent budget a warning."""

    level: Literal["warning", "error"]
    source: str
    message: str


class FakeRegistry(ExtensionRegistry):
    """Records contributions in registration order.

    Give it to an install function directly, or use ``load``, which does what a host does around that call.
    With ``plugins=False`` it is a host without plugin support: ``plugin()`` answers False.
    """

    def __init__(self, *, plugins: bool = True) -> None:
        self.middleware_contributors: list[Registered[MiddlewareContributor]] = []
        self.task_lifecycles: list[Registered[TaskLifecycleContributor]] = []
        self.system_model_observers: list[Registered[SystemModelCallObserver]] = []
        self.assembly_observers: list[Registered[AgentAssemblyObserver]] = []
        self.compaction_observers: list[Registered[ContextCompactionObserver]] = []
        self.services: list[Registered[ExtensionService]] = []
        self.router_groups: list[Registered[tuple[Any, ...]]] = []
        self.plugins: list[Registered[PluginSnapshot]] = []
        self._accepts_plugins = plugins
        self._use = "test:install"
        self._closed = False

    def load(
        self,
        install: Callable[..., None],
        config: Mapping[str, Any] | None = None,
        *,
        use: str | None = None,
    ) -> str | None:
        """Load one extension: check its marker, install it with a shallow copy of ``config``, close.

        Returns the marker. Whatever raises passes on, after everything that the extension had registered was
        taken back. Registering after ``load`` returned is a RuntimeError.
        """
        marker = check_api_marker(install)
        before = [len(bucket) for bucket in self._buckets()]
        self._use = use or f"{install.__module__}:{install.__qualname__}"
        self._closed = False
        try:
            install(self, dict(config or {}))
        except BaseException:
            for bucket, length in zip(self._buckets(), before, strict=True):
                del bucket[length:]
            raise
        finally:
            self._closed = True
        return marker

    def close(self) -> None:
        """End the registration: what comes later is a RuntimeError."""
        self._closed = True

    def plugin_named(self, namespace: str) -> PluginSnapshot:
        """The plugin of this namespace. Raises LookupError where there is none."""
        for registered in self.plugins:
            if registered.value.contribution.namespace == namespace:
                return registered.value
        raise LookupError(f"no plugin has the namespace {namespace!r}")

    def middlewares(self, contributor: MiddlewareContributor) -> None:
        self._add(self.middleware_contributors, contributor)

    def task_lifecycle(self, contributor: TaskLifecycleContributor) -> None:
        self._add(self.task_lifecycles, contributor)

    def system_model_observer(self, observer: SystemModelCallObserver) -> None:
        self._add(self.system_model_observers, observer)

    def agent_assembly_observer(self, observer: AgentAssemblyObserver) -> None:
        self._add(self.assembly_observers, observer)

    def context_compaction_observer(self, observer: ContextCompactionObserver) -> None:
        self._add(self.compaction_observers, observer)

    def service(self, service: ExtensionService) -> None:
        self._add(self.services, service)

    def routers(self, routers: Sequence[Any]) -> None:
        self._add(self.router_groups, tuple(routers))

    def plugin(self, contribution: PluginContribution) -> bool:
        self._require_open()
        if not self._accepts_plugins:
            return False
        snapshot = validate_plugin(contribution)
        namespace = snapshot.contribution.namespace
        if any(known.value.contribution.namespace == namespace for known in self.plugins):
            raise InvalidContribution("namespace.unique", f"there is a plugin {namespace} already")
        self._add(self.plugins, snapshot)
        return True

    def _add(self, bucket: list[Registered[T]], value: T) -> None:
        self._require_open()
        bucket.append(Registered(self._use, value))

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("the registration of this extension is over: register inside install()")

    def _buckets(self) -> tuple[list[Any], ...]:
        return (
            self.middleware_contributors,
            self.task_lifecycles,
            self.system_model_observers,
            self.assembly_observers,
            self.compaction_observers,
            self.services,
            self.router_groups,
            self.plugins,
        )
