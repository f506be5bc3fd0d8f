from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from extension_api import (
    ActionContext,
    BackendAction,
    BrowserModule,
    ExtensionPrincipal,
    ModelTool,
    PluginContribution,
    SettingsField,
    ToolContext,
)
from workbench.host.authorization import PluginAuthorization
from workbench.host.diagnostics import Diagnostics
from workbench.host.handles import LocalAgentRuns
from workbench.host.identity import disabled_session
from workbench.host.plugins import HostPlugins, tool_name
from workbench.host.settings import HostSettings, public_fields
from workbench.host.store import HostStore
from workflows_core.errors import Conflict, NotFound, NotPermitted, Refused, UsageError, WorkflowError

from .kit import Kit, snapshot_of

FIELDS = (
    SettingsField("count", "Count", "integer", 3, minimum=1, maximum=9),
    SettingsField("loud", "Loud", "boolean", False),
    SettingsField("name", "Name", "string", "x", max_length=5),
)


async def act(payload: Mapping[str, Any], context: ActionContext) -> Any:
    if "raise" in payload:
        raise payload["raise"]
    if "return" in payload:
        return payload["return"]
    payload["list"].append(1)  # what it is given is its own
    return {"user": context.principal.user_id, "settings": dict(context.settings), "list": payload["list"]}


async def use(arguments: Mapping[str, Any], context: ToolContext) -> Any:
    return [context.thread_id, context.agent_runs is not None, dict(arguments)]


def plugin(enabled: bool = True) -> PluginContribution:
    return PluginContribution(
        "my.plugin",
        "Mine",
        enabled=enabled,
        fields=FIELDS,
        frontend=BrowserModule("m", "export default 1", public_fields=("count",)),
        backend=(BackendAction("act", act),),
        tools=(ModelTool("use", "Use it", {"type": "object"}, use),),
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[HostStore]:
    opened = HostStore.open(tmp_path / "host.sqlite")
    yield opened
    opened.close()


def test_settings_have_their_defaults_and_are_off(store: HostStore) -> None:
    found = HostSettings(store).get(plugin(enabled=False))
    assert (found.enabled, found.revision, found.author) == (False, 0, None)
    assert dict(found.values) == {"count": 3, "loud": False, "name": "x"}
    with pytest.raises(TypeError):
        found.values["count"] = 4  # type: ignore[index]


def test_a_change_is_kept_with_revision_and_author(tmp_path: Path, store: HostStore) -> None:
    settings = HostSettings(store)
    settings.change(plugin(), "os:1", values={"count": 5})
    found = settings.change(plugin(), "os:2", enabled=False, expected_revision=1)
    assert (found.enabled, found.values["count"], found.revision, found.author) == (False, 5, 2, "os:2")
    again = HostStore.open(tmp_path / "host.sqlite")
    assert HostSettings(again).get(plugin()) == found
    again.close()
    with pytest.raises(Conflict, match="at revision 2, not 1"):
        settings.change(plugin(), "os:1", values={"count": 6}, expected_revision=1)


@pytest.mark.parametrize(
    "values",
    [
        {"other": 1},
        {"count": True},
        {"count": "5"},
        {"count": 0},
        {"count": 10},
        {"loud": 1},
        {"name": "longer"},
    ],
)
def test_a_value_that_is_not_admitted_changes_nothing(store: HostStore, values: dict[str, Any]) -> None:
    settings = HostSettings(store)
    with pytest.raises(UsageError, match=r"^my\.plugin: "):
        settings.change(plugin(), "os:1", values={"name": "ok"} | values)
    assert settings.get(plugin()).revision == 0
    with pytest.raises(UsageError):
        settings.change(plugin(), "os:1", enabled=1)  # type: ignore[arg-type]


def test_a_stored_value_that_is_no_longer_admitted_falls_back(store: HostStore) -> None:
    HostSettings(store).change(plugin(), "os:1", values={"count": 9, "name": "y"})
    narrower = PluginContribution(
        "my.plugin", "Mine", fields=(SettingsField("count", "Count", "integer", 2, maximum=5), FIELDS[2])
    )
    assert dict(HostSettings(store).get(narrower).values) == {"count": 2, "name": "y"}


def test_discovery_shows_public_fields_only(store: HostStore) -> None:
    assert public_fields(plugin(), HostSettings(store).get(plugin()).values) == {"count": 3}


async def host_plugins(kit: Kit, enabled: bool = True) -> tuple[HostPlugins, LocalAgentRuns, Diagnostics]:
    snapshot = snapshot_of(lambda registry: registry.plugin(plugin(enabled)), "mine:install")
    diagnostics = Diagnostics()
    plugins = HostPlugins(snapshot, HostSettings(kit.store), diagnostics)
    session = LocalAgentRuns(
        kit.runs, kit.configuration, ExtensionPrincipal("os:7"), disabled_session(), lambda: None
    )
    return plugins, session, diagnostics


async def test_an_action_gets_principal_settings_and_a_handle(tmp_path: Path) -> None:
    async with Kit(tmp_path) as kit:
        plugins, session, _ = await host_plugins(kit)
        payload = {"list": []}
        result = await plugins.call_action("my.plugin", "act", payload, session)
        assert result == {
            "user": "os:7",
            "settings": {"count": 3, "loud": False, "name": "x"},
            "list": [1],
        }
        assert payload == {"list": []}


async def test_tools_have_host_names_and_a_thread(tmp_path: Path) -> None:
    async with Kit(tmp_path) as kit:
        plugins, session, _ = await host_plugins(kit)
        assert [(tool.name, tool.namespace, tool.source) for tool in plugins.tools()] == [
            ("my_plugin__use", "my.plugin", "mine:install")
        ]
        assert await plugins.call_tool("my_plugin__use", {"a": 1}, session, "t") == ["t", True, {"a": 1}]
        with pytest.raises(NotFound):
            await plugins.call_tool("use", {}, session, None)


async def test_a_plugin_that_is_not_enabled_does_nothing(tmp_path: Path) -> None:
    async with Kit(tmp_path) as kit:
        plugins, session, _ = await host_plugins(kit, enabled=False)
        assert plugins.tools() == ()
        with pytest.raises(Refused, match="is not enabled"):
            await plugins.call_action("my.plugin", "act", {}, session)
        HostSettings(kit.store).change(plugins.plugin("my.plugin"), "os:7", enabled=True)
        assert len(plugins.tools()) == 1


@pytest.mark.parametrize(
    ("payload", "error", "logged"),
    [
        ({"raise": NotFound("no run")}, NotFound, False),
        ({"raise": PermissionError("no")}, NotPermitted, False),
        ({"raise": ValueError("inside")}, WorkflowError, True),
        ({"return": object()}, WorkflowError, True),
        ({"return": float("nan")}, WorkflowError, True),
    ],
)
async def test_what_an_action_raises_becomes_an_error_of_the_tree(
    tmp_path: Path, payload: dict[str, Any], error: type[Exception], logged: bool
) -> None:
    async with Kit(tmp_path) as kit:
        plugins, session, diagnostics = await host_plugins(kit)
        with pytest.raises(error) as caught:
            await plugins.call_action("my.plugin", "act", payload, session)
        assert "inside" not in str(caught.value)
        assert bool(diagnostics.all()) is logged


async def test_unknown_names_are_not_found(tmp_path: Path) -> None:
    async with Kit(tmp_path) as kit:
        plugins, session, _ = await host_plugins(kit)
        for namespace, name in (("other", "act"), ("my.plugin", "other")):
            with pytest.raises(NotFound):
                await plugins.call_action(namespace, name, {}, session)


def test_tool_names_are_bounded() -> None:
    assert tool_name("community.workflows", "launch_workflow") == "community_workflows__launch_workflow"
    assert len(tool_name("a" * 96, "b" * 64)) == 64


ADMIN, USER = ExtensionPrincipal("a", is_admin=True), ExtensionPrincipal("u")


async def test_plugin_management(tmp_path: Path) -> None:
    path = tmp_path / "workbench.yaml"
    async with Kit(tmp_path) as kit:
        authorization = PluginAuthorization(kit.configuration, lambda: {"my.plugin"})

        def answers() -> list[bool]:
            return [authorization.allowed(who, "my.plugin", "write") for who in (ADMIN, USER, None)]

        assert answers() == [True, True, False]
        assert not authorization.allowed(ADMIN, "other", "read")
        assert not authorization.allowed(ADMIN, "my.plugin", "all")  # type: ignore[arg-type]
        path.write_text("authorization: {enabled: true}\n")
        assert answers() == [True, False, False]
        path.write_text("not right: [\n")
        assert answers() == [False, False, False]
        path.write_text("authorization: {enabled: true, fail_closed: false}\n")
        assert answers() == [True, False, False]
        path.write_text("not right either: [\n")
        assert answers() == [True, True, False]
