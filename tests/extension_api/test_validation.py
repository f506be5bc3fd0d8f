"""What a host accepts as a plugin, and which values its settings take."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from extension_api import (
    ActionContext,
    BackendAction,
    BrowserAssets,
    BrowserModule,
    ModelTool,
    PluginContribution,
    SettingsField,
    ToolContext,
)
from extension_api.invalid import InvalidContribution
from extension_api.settings import check_setting, settings_snapshot
from extension_api.validation import validate_plugin


async def act(payload: Mapping[str, Any], context: ActionContext) -> Any:
    return None


async def use(arguments: Mapping[str, Any], context: ToolContext) -> Any:
    return None


def plain(payload: Mapping[str, Any], context: ActionContext) -> Any:
    return None


class AsyncCallable:
    async def __call__(self, payload: Mapping[str, Any], context: ActionContext) -> Any:
        return None


ACTION = BackendAction("start", act)
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
TOOL = ModelTool("start_run", "Starts a run.", SCHEMA, use)
FLAG = SettingsField("flag", "A flag", "boolean", False)
LIMIT = SettingsField("limit", "A limit", "integer", 5, minimum=1, maximum=10)
LABEL = SettingsField("label", "A label", "string", "none", max_length=8)
FIELDS = (FLAG, LIMIT, LABEL)


def plugin(**changes: Any) -> PluginContribution:
    fields: dict[str, Any] = {
        "namespace": "my.plugin",
        "title": "Mine",
        "fields": FIELDS,
        "backend": (ACTION,),
    }
    return PluginContribution(**(fields | changes))


def tool(**changes: Any) -> PluginContribution:
    fields: dict[str, Any] = {"name": "t", "description": "d", "input_schema": SCHEMA, "handler": use}
    return plugin(tools=(ModelTool(**(fields | changes)),))


def module(**changes: Any) -> PluginContribution:
    return plugin(frontend=BrowserModule(**({"module": "m", "code": "export default 1"} | changes)))


def field(**changes: Any) -> PluginContribution:
    fields: dict[str, Any] = {"key": "k", "title": "K", "kind": "integer", "default": 1}
    return plugin(fields=(SettingsField(**(fields | changes)),))


recursive: dict[str, Any] = {"type": "object"}
recursive["self"] = recursive

BAD: dict[str, tuple[Any, str]] = {
    "not a contribution": ({"namespace": "a"}, "type"),
    "api 2": (plugin(api_version=2), "api_version"),
    "api true": (plugin(api_version=True), "api_version"),
    "api as a string": (plugin(api_version="1"), "api_version"),
    "no namespace": (plugin(namespace=""), "namespace"),
    "namespace in capitals": (plugin(namespace="My.plugin"), "namespace"),
    "namespace with a line end": (plugin(namespace="a\n"), "namespace"),
    "namespace too long": (plugin(namespace="a" * 97), "namespace"),
    "namespace is a number": (plugin(namespace=7), "namespace"),
    "no title": (plugin(title=" "), "title"),
    "title is None": (plugin(title=None), "title"),
    "description is None": (plugin(description=None), "description"),
    "enabled is 1": (plugin(enabled=1), "enabled"),
    "nothing to offer": (plugin(backend=()), "empty"),
    "frontend is a path": (plugin(frontend=Path("x")), "frontend"),
    "module is empty": (module(module=""), "frontend.module"),
    "code is empty": (module(code=""), "frontend.code"),
    "code is bytes": (module(code=b"1"), "frontend.code"),
    "code over 512 KiB": (module(code="ä" * (256 * 1024) + "1"), "frontend.code"),
    "code with a lone surrogate": (module(code="\ud800"), "frontend.code"),
    "public field unknown": (module(public_fields=("other",)), "frontend.public_fields"),
    "public fields are a string": (module(public_fields="flag"), "frontend.public_fields"),
    "public field is a number": (module(public_fields=(1,)), "frontend.public_fields"),
    "backend is an action": (plugin(backend=ACTION), "backend"),
    "backend holds a function": (plugin(backend=(act,)), "backend"),
    "action without a name": (plugin(backend=(BackendAction("", act),)), "backend.name"),
    "action with a separator": (plugin(backend=(BackendAction("a/b", act),)), "backend.name"),
    "action twice": (plugin(backend=(ACTION, ACTION)), "backend.unique"),
    "action not async": (plugin(backend=(BackendAction("a", plain),)), "backend.handler"),
    "action handler is None": (plugin(backend=(BackendAction("a", None),)), "backend.handler"),  # type: ignore[arg-type]
    "tools are a tool": (plugin(tools=TOOL), "tools"),
    "tools hold a function": (plugin(tools=(use,)), "tools"),
    "tool with a dot": (tool(name="a.b"), "tools.name"),
    "tool name too long": (tool(name="a" * 65), "tools.name"),
    "tool twice": (plugin(tools=(TOOL, TOOL)), "tools.unique"),
    "tool without a description": (tool(description=""), "tools.description"),
    "tool without a group": (tool(group=""), "tools.group"),
    "tool not async": (tool(handler=plain), "tools.handler"),
    "schema of a string": (tool(input_schema={"type": "string"}), "tools.input_schema"),
    "schema is a list": (tool(input_schema=["object"]), "tools.input_schema"),
    "schema without a type": (tool(input_schema={}), "tools.input_schema"),
    "schema is not JSON": (tool(input_schema={"type": "object", "x": object()}), "tools.input_schema"),
    "schema is a cycle": (tool(input_schema=recursive), "tools.input_schema"),
    "schema refers elsewhere": (
        tool(input_schema={"type": "object", "properties": {"n": [{"$ref": "file:///x.json"}]}}),
        "tools.input_schema",
    ),
    "fields is a field": (plugin(fields=FLAG), "settings.type"),
    "fields hold a dictionary": (plugin(fields=({"key": "k"},)), "settings.type"),
    "field twice": (plugin(fields=(FLAG, FLAG)), "settings.unique"),
    "field without a key": (field(key=""), "settings.key"),
    "field without a title": (field(title=""), "settings.title"),
    "field with a bad description": (field(description=None), "settings.description"),
    "field of another kind": (field(kind="number"), "settings.kind"),
    "field with a kind that cannot be hashed": (field(kind=[]), "settings.kind"),
    "default is a bool for an integer": (field(default=True), "settings.kind"),
    "default is a string for an integer": (field(default="1"), "settings.kind"),
    "default is a number for a bool": (field(kind="boolean", default=1), "settings.kind"),
    "default below the minimum": (field(minimum=2), "settings.range"),
    "default above the maximum": (field(maximum=0), "settings.range"),
    "minimum above maximum": (field(minimum=2, maximum=1), "settings.range"),
    "minimum is a bool": (field(minimum=True), "settings.range"),
    "maximum is a float": (field(maximum=2.5), "settings.range"),
    "default too long": (field(kind="string", default="ab", max_length=1), "settings.length"),
    "max_length is negative": (field(max_length=-1), "settings.length"),
    "max_length is a bool": (field(max_length=True), "settings.length"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_contribution_is_refused_and_the_rule_is_named(case: str) -> None:
    contribution, rule = BAD[case]
    with pytest.raises(InvalidContribution) as refused:
        validate_plugin(contribution)
    assert refused.value.rule == rule
    message = str(refused.value)
    assert message.isascii()
    assert message.isprintable()
    assert message == refused.value.message


@pytest.mark.parametrize(
    "contribution",
    [
        plugin(),
        plugin(backend=(), tools=(TOOL,)),
        plugin(backend=(), frontend=BrowserModule("m", "1", ("flag",))),
        plugin(namespace="a" * 96),
        plugin(backend=(BackendAction("a", AsyncCallable()), BackendAction("b", functools.partial(act)))),
        tool(input_schema={"type": "object", "$defs": {"x": {}}, "properties": {"n": {"$ref": "#/$defs/x"}}}),
        module(code="x" * (512 * 1024)),
        plugin(fields=list(FIELDS), backend=[ACTION], tools=[TOOL]),
    ],
)
def test_good_contributions(contribution: PluginContribution) -> None:
    snapshot = validate_plugin(contribution)
    assert snapshot.contribution.namespace == contribution.namespace
    for sequence in (
        snapshot.contribution.fields,
        snapshot.contribution.backend,
        snapshot.contribution.tools,
    ):
        assert isinstance(sequence, tuple)


def test_the_transport_is_named_as_discovery_names_it(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("1", encoding="utf-8")
    (tmp_path / "ui_manifest.json").write_text(
        '{"schema_version": 1, "entry": "a.js", "files": ["a.js"]}', encoding="utf-8"
    )
    assets = validate_plugin(plugin(frontend=BrowserAssets("m", tmp_path)))
    assert assets.transport == "assets-v1"
    assert assets.assets is not None
    assert validate_plugin(module()).transport == "inline-v1"
    assert validate_plugin(plugin()).transport is None


def test_the_snapshot_is_detached_from_the_schema_of_its_author() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    snapshot = validate_plugin(tool(input_schema=schema))
    schema["properties"]["late"] = {}
    assert snapshot.contribution.tools[0].input_schema == {"type": "object", "properties": {}}


class TestSettings:
    def test_a_snapshot_holds_every_setting_and_cannot_be_changed(self) -> None:
        snapshot = settings_snapshot(FIELDS, {"limit": 7})
        assert dict(snapshot) == {"flag": False, "limit": 7, "label": "none"}
        with pytest.raises(TypeError):
            snapshot["limit"] = 8  # type: ignore[index]

    @pytest.mark.parametrize(
        ("values", "rule"),
        [
            ({"other": 1}, "settings.key"),
            ({7: 1}, "settings.key"),
            ({"flag": 1}, "settings.kind"),
            ({"flag": "true"}, "settings.kind"),
            ({"flag": None}, "settings.kind"),
            ({"limit": True}, "settings.kind"),
            ({"limit": 5.0}, "settings.kind"),
            ({"limit": "5"}, "settings.kind"),
            ({"limit": 0}, "settings.range"),
            ({"limit": 11}, "settings.range"),
            ({"limit": 10**400}, "settings.range"),
            ({"label": 1}, "settings.kind"),
            ({"label": "x" * 9}, "settings.length"),
        ],
    )
    def test_values_that_are_refused(self, values: Any, rule: str) -> None:
        with pytest.raises(InvalidContribution) as refused:
            settings_snapshot(FIELDS, values)
        assert refused.value.rule == rule

    @pytest.mark.parametrize(
        ("setting", "value"),
        [(FLAG, True), (LIMIT, 1), (LIMIT, 10), (LABEL, ""), (LABEL, "x" * 8), (LABEL, "ä" * 8)],
    )
    def test_values_at_the_edges(self, setting: SettingsField, value: Any) -> None:
        assert check_setting(setting, value) == value
