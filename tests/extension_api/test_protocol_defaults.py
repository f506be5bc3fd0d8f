"""What the protocols of the contract do by default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import extension_api as api


class TestDefaultsOfProtocols:
    """A class that derives from a protocol and overrides nothing does nothing, as an older extension would."""

    def test_registry_registers_nothing_and_only_plugin_tells(self) -> None:
        class OldHost(api.ExtensionRegistry):
            pass

        registry = OldHost()
        for method in ("middlewares", "task_lifecycle", "system_model_observer", "service", "routers"):
            assert getattr(registry, method)(object()) is None
        assert registry.agent_assembly_observer(object()) is None  # type: ignore[func-returns-value, arg-type]
        assert registry.context_compaction_observer(object()) is None  # type: ignore[func-returns-value, arg-type]
        assert registry.plugin(api.PluginContribution("a", "A")) is False

    def test_registry_is_checkable_at_run_time(self) -> None:
        class OldHost(api.ExtensionRegistry):
            pass

        assert isinstance(OldHost(), api.ExtensionRegistry)
        assert not isinstance(object(), api.ExtensionRegistry)

    def test_middleware_contributor_contributes_nothing(self) -> None:
        class Nothing(api.MiddlewareContributor):
            pass

        store = api.ExtensionData("app")
        assert Nothing().contribute_middlewares(store, api.AgentBuildContext(api.AgentScope.LEAD)) == ()

    async def test_observers_and_services_do_nothing(self) -> None:
        class Quiet(
            api.TaskLifecycleContributor,
            api.SystemModelCallObserver,
            api.AgentAssemblyObserver,
            api.ContextCompactionObserver,
            api.ExtensionService,
        ):
            pass

        quiet: Any = Quiet()
        assert await quiet.on_task_start(None, None, None) is None
        assert await quiet.on_task_stop(None, None, None, None) is None
        assert await quiet.on_system_model_call(None, None, None, None, None) is None
        assert await quiet.on_context_compacted(None, None, None) is None
        assert quiet.on_agent_assembled(None, None) is None
        assert await quiet.start(api.ExtensionRuntimeDeps()) is None
        assert await quiet.stop() is None

    async def test_readers_and_capabilities_are_not_implemented(self) -> None:
        class Reader(api.RunEvidenceReader):
            pass

        class Runs(api.AgentRuns):
            pass

        class Leases(api.ExecutionLeases):
            pass

        # To mypy a body that only raises is abstract; at run time it is the default.
        reader: Any = Reader()  # type: ignore[abstract]
        runs: Any = Runs()  # type: ignore[abstract]
        leases: Any = Leases()  # type: ignore[abstract]
        lease = api.ExecutionLease("e", "o", 1, 0, 1)
        for call in (
            reader.list_changed_runs(cursor=None, limit=1),
            reader.list_run_events(thread_id="t", run_id="r", after_seq=None, limit=1),
            reader.get_run_status(thread_id="t", run_id="r"),
            runs.admit(api.AgentRunRequest("a", "t", "k", {})),
            runs.find("k"),
            runs.observe("r"),
            runs.interrupt("r"),
            runs.read_file("r", "p", max_bytes=1),
            runs.delete_runs("wr_1"),
            leases.acquire("e", owner_id="o", seconds=5),
            leases.renew(lease, seconds=5),
            leases.release(lease),
            leases.holder("e"),
        ):
            with pytest.raises(NotImplementedError):
                await call
        calls: tuple[Callable[[], object], ...] = (
            lambda: runs.principal,
            lambda: runs.session,
            lambda: runs.authorize("a"),
            lambda: runs.check_options({}),
            lambda: runs.configuration_revision({}),
            lambda: runs.configuration_components({}),
        )
        for synchronous in calls:
            with pytest.raises(NotImplementedError):
                synchronous()

    def test_release_policy_provider_is_checkable_at_run_time(self) -> None:
        class Declares:
            def release_policy_parameters(self) -> dict[str, object]:
                return {}

        assert isinstance(Declares(), api.ReleasePolicyProvider)
        assert not isinstance(object(), api.ReleasePolicyProvider)
