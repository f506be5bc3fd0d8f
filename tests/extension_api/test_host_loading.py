"""The test kit's host and registry: actions, tools, settings, loading, and taking back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from extension_api import (
    ActionContext,
    AgentRunRequest,
    BackendAction,
    ExtensionPrincipal,
    ExtensionRegistry,
    ModelTool,
    PluginContribution,
    SettingsField,
    ToolContext,
    extension,
)
from extension_api.invalid import InvalidContribution
from extension_api.testing import FakeAgentRuns, FakeRegistry, HostDriver, Registered
from extension_api.version import IncompatibleExtension


async def greet(payload: Mapping[str, Any], context: ActionContext) -> Any:
    return {"who": context.principal.user_id, "limit": context.settings["limit"], "payload": payload}


async def start(arguments: Mapping[str, Any], context: ToolContext) -> Any:
    assert context.agent_runs is not None
    request = AgentRunRequest("lead_agent", "thread-2", "key-1", {"task": arguments["task"]})
    view = await context.agent_runs.admit(request)
    return (context.thread_id, view.output)


async def odd(payload: Mapping[str, Any], context: ActionContext) -> Any:
    return object()


PLUGIN = PluginContribution(
    "my.plugin",
    "Mine",
    fields=(SettingsField("limit", "Limit", "integer", 3, maximum=5),),
    backend=(BackendAction("greet", greet), BackendAction("odd", odd)),
    tools=(ModelTool("start", "Starts.", {"type": "object"}, start),),
)


@extension(api="0.2.6")
def install(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
    assert registry.plugin(PLUGIN)


class TestActionsAndTools:
    def host(self) -> HostDriver:
        host = HostDriver(agent_runs=FakeAgentRuns({"lead_agent": [{"n": 1}]}))
        host.load(install)
        return host

    async def test_an_action_gets_caller_settings_and_payload(self) -> None:
        host = self.host()
        assert await host.call_action("my.plugin", "greet", {"a": (1,)}) == {
            "who": "tester",
            "limit": 3,
            "payload": {"a": [1]},
        }
        host.configure("my.plugin", {"limit": 4})
        answer = await host.call_action("my.plugin", "greet", principal=ExtensionPrincipal("ada"))
        assert (answer["who"], answer["limit"]) == ("ada", 4)

    async def test_a_tool_starts_an_agent_through_the_handle(self) -> None:
        answer = await self.host().call_tool("my.plugin", "start", {"task": "go"}, thread_id="t")
        assert answer == ["t", {"n": 1}]

    async def test_what_does_not_exist_is_a_look_up_error(self) -> None:
        host = self.host()
        for call in (
            host.call_action("other", "greet"),
            host.call_action("my.plugin", "start"),
            host.call_tool("my.plugin", "greet"),
        ):
            with pytest.raises(LookupError):
                await call
        with pytest.raises(LookupError):
            host.configure("other")

    async def test_a_disabled_plugin_refuses(self) -> None:
        host = self.host()
        host.configure("my.plugin", enabled=False)
        with pytest.raises(PermissionError, match="disabled"):
            await host.call_action("my.plugin", "greet")
        with pytest.raises(PermissionError, match="disabled"):
            await host.call_tool("my.plugin", "start")
        host.configure("my.plugin")
        assert (await host.call_action("my.plugin", "greet"))["limit"] == 3

    async def test_a_setting_that_is_not_admitted_leaves_the_others(self) -> None:
        host = self.host()
        host.configure("my.plugin", {"limit": 4})
        with pytest.raises(InvalidContribution):
            host.configure("my.plugin", {"limit": 6})
        assert (await host.call_action("my.plugin", "greet"))["limit"] == 4

    async def test_an_answer_that_is_not_json_is_a_type_error(self) -> None:
        with pytest.raises(TypeError, match="odd returned what is not JSON"):
            await self.host().call_action("my.plugin", "odd")


class TestFakeRegistry:
    def test_it_may_be_given_to_an_install_function_directly(self) -> None:
        registry = FakeRegistry()
        install(registry, {})
        assert registry.plugin_named("my.plugin").contribution.title == "Mine"
        assert isinstance(registry, ExtensionRegistry)

    def test_a_host_without_plugins_answers_false(self) -> None:
        assert FakeRegistry(plugins=False).plugin(PLUGIN) is False

    def test_namespaces_are_unique(self) -> None:
        registry = FakeRegistry()
        registry.plugin(PLUGIN)
        with pytest.raises(InvalidContribution, match=r"my\.plugin already") as refused:
            registry.plugin(PLUGIN)
        assert refused.value.rule == "namespace.unique"

    def test_a_failing_install_takes_back_only_its_own(self) -> None:
        registry = FakeRegistry()

        def good(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
            registry.service(object())  # type: ignore[arg-type]

        def bad(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
            registry.service(object())  # type: ignore[arg-type]
            registry.plugin(PLUGIN)
            raise RuntimeError("after registering")

        registry.load(good, use="same:install")
        with pytest.raises(RuntimeError, match="after registering"):
            registry.load(bad, use="same:install")
        assert len(registry.services) == 1
        assert registry.plugins == []

    def test_late_registration_is_a_runtime_error(self) -> None:
        kept: list[ExtensionRegistry] = []

        def keeps(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
            kept.append(registry)

        FakeRegistry().load(keeps)
        for call in (lambda: kept[0].routers([]), lambda: kept[0].plugin(PLUGIN)):
            with pytest.raises(RuntimeError, match="over"):
                call()
        closed = FakeRegistry()
        closed.close()
        with pytest.raises(RuntimeError):
            install(closed, {})

    def test_the_configuration_is_a_shallow_copy(self) -> None:
        config: dict[str, Any] = {"a": 1, "deep": []}

        def changes(registry: ExtensionRegistry, given: Mapping[str, Any]) -> None:
            assert isinstance(given, dict)
            given["b"] = 2
            given["deep"].append(1)

        FakeRegistry().load(changes, config)
        assert config == {"a": 1, "deep": [1]}

    def test_an_incompatible_marker_stops_before_install(self) -> None:
        @extension(api="0.3.0")
        def newer(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
            raise AssertionError("it was installed")

        with pytest.raises(IncompatibleExtension):
            FakeRegistry().load(newer)

    def test_contributions_are_attributed_in_order(self) -> None:
        registry = FakeRegistry()

        def one(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
            registry.routers(["r1", "r2"])

        registry.load(one, use="a:install")
        registry.load(one, use="b:install")
        assert registry.router_groups == [
            Registered("a:install", ("r1", "r2")),
            Registered("b:install", ("r1", "r2")),
        ]
