"""Loading extensions, hostile ones included. Each test writes its own module into a workspace of its own."""

from __future__ import annotations

import importlib
import itertools
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import extension_api
from workbench.host.config import PluginRecord
from workbench.host.diagnostics import Diagnostics
from workbench.host.loader import LoadResult, load_extensions
from workflows_core.errors import ConfigurationError

_NUMBERS = itertools.count()

HEAD = """
from deerflow_extension_api import *
class Hook:
    async def on_task_start(self, app_store, task_store, info): ...
    async def on_task_stop(self, app_store, task_store, info, outcome): ...
async def handler(payload, context):
    return None
def plugin(namespace="my.plugin", **changes):
    return PluginContribution(namespace, "Title", backend=(BackendAction("do", handler),), **changes)
"""

GOOD = """
@extension(api="0.2.0", name="good")
def install(registry, config):
    registry.task_lifecycle(Hook())
"""


class Loading:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.diagnostics = Diagnostics()

    def module(self, body: str) -> str:
        """Write a module into the workspace and return its name."""
        name = f"ext_under_test_{next(_NUMBERS)}"
        (self.root / f"{name}.py").write_text(HEAD + body)
        return name

    def record(self, body: str, **changes: Any) -> PluginRecord:
        fields = {"name": "ext", "use": f"{self.module(body)}:install"} | changes
        return PluginRecord(**fields)

    def load(self, *records: PluginRecord) -> LoadResult:
        return load_extensions(records, self.root, self.diagnostics)

    def errors(self) -> list[tuple[str, str]]:
        return [(e.source, e.message) for e in self.diagnostics.all() if e.level == "error"]


@pytest.fixture
def loading(tmp_path: Path) -> Iterator[Loading]:
    path, modules = list(sys.path), set(sys.modules)
    yield Loading(tmp_path)
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("ext_under_test_"):
            del sys.modules[name]


def test_the_public_name_is_the_contract() -> None:
    public = importlib.import_module("deerflow_extension_api")
    assert public is extension_api
    for name in ("contracts", "placement", "runtime_bridge", "state", "identity", "run_evidence"):
        module = importlib.import_module(f"deerflow_extension_api.{name}")
        assert module is importlib.import_module(f"extension_api.{name}")
        assert module.__name__ == f"extension_api.{name}"


def test_every_public_name_and_submodule_is_importable_in_a_fresh_interpreter() -> None:
    code = (
        "import workbench.host.loader, sys\n"
        "from deerflow_extension_api import ExtensionData\n"
        "from deerflow_extension_api.state import ExtensionData as same\n"
        "import deerflow_extension_api.contracts as contracts, extension_api.contracts\n"
        "assert ExtensionData is same and contracts is extension_api.contracts\n"
        "assert extension_api.state.__spec__.name == 'extension_api.state'\n"
        "assert not {'textual', 'httpx'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_installed_contract_is_used_and_its_version_reported(tmp_path: Path) -> None:
    package = tmp_path / "deerflow_extension_api"
    package.mkdir()
    (package / "__init__.py").write_text("API_VERSION = '0.2.4'\n")
    metadata = tmp_path / "deerflow_extension_api-0.2.4.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: deerflow-extension-api\nVersion: 0.2.4\n"
    )
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from workbench.host.loader import CONTRACT\n"
        "import deerflow_extension_api, extension_api\n"
        "assert deerflow_extension_api is not extension_api\n"
        "assert tuple(CONTRACT) == ('0.2.4', True), CONTRACT\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_extensions_load_in_order_and_are_attributed(loading: Loading) -> None:
    both = """
def install(registry, config):
    registry.task_lifecycle(Hook())
    assert registry.plugin(plugin()) is True
    registry.routers([object(), object()])
"""
    records = [loading.record(GOOD, name="one"), loading.record(both, name="two")]
    result = loading.load(*records)
    assert [entry.outcome for entry in result.records] == ["loaded", "loaded"]
    assert [(entry.marker, entry.declared_name) for entry in result.records] == [
        ("0.2.0", "good"),
        (None, None),
    ]
    assert [hook.source for hook in result.snapshot.lifecycle] == [record.use for record in records]
    assert result.snapshot.counts(1) == {"lifecycle": 1, "routers": 2, "plugins": 1}
    assert loading.errors() == []


def test_one_success_line_names_what_loaded(loading: Loading, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="workbench.extensions")
    loading.load(
        loading.record(GOOD, name="one"),
        loading.record("def install(registry, config): 1 / 0", name="two"),
        loading.record(GOOD, name="three", enabled=False),
    )
    assert "host: extensions: loaded 1 of 2 (one)" in caplog.messages


def test_a_disabled_record_is_not_imported_even_when_required(loading: Loading) -> None:
    record = loading.record("raise SystemExit", enabled=False, required=True)
    assert loading.load(record).records[0].outcome == "disabled"
    assert record.use.partition(":")[0] not in sys.modules


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("def install(registry, config): 1 / 0", "install raised ZeroDivisionError: division by zero"),
        ("import nothing_of_that_name", "raised ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("def install(:", "raised SyntaxError"),
        ("install = 5", "is not callable"),
        ("pass", "has no install (AttributeError)"),
        ("async def install(registry, config): ...", "install is asynchronous"),
        ("def install(registry): ...", "install raised TypeError"),
        (GOOD.replace("0.2.0", "0.3.0"), "declares contract 0.3.0 and the host has"),
        (GOOD.replace("0.2.0", "0.2.10"), "deerflow-extension-api>=0.2,<0.3"),
        (GOOD.replace("0.2.0", "x"), "which is not a dotted numeric version"),
        ("def install(registry, config): registry.plugin(plugin(api_version=2))", "api_version must be 1"),
        ("def install(registry, config): registry.plugin(plugin('A'))", "namespace must match"),
        ("def install(registry, config): registry.nothing()", "AttributeError"),
    ],
)
def test_a_failure_is_a_diagnostic_and_the_next_record_is_tried(
    loading: Loading, body: str, words: str
) -> None:
    bad, good = loading.record(body, name="bad"), loading.record(GOOD, name="good")
    result = loading.load(bad, good)
    assert [entry.outcome for entry in result.records] == ["failed", "loaded"]
    assert [source for source, _ in loading.errors()] == [bad.use]
    assert words in loading.errors()[0][1]
    assert words in result.records[0].message
    assert [hook.source for hook in result.snapshot.lifecycle] == [good.use]


def test_a_module_that_is_not_there_is_said_plainly(loading: Loading) -> None:
    loading.load(PluginRecord(name="x", use="nothing_of_that_name.sub:install"))
    assert loading.errors()[0][1] == (
        "there is no module nothing_of_that_name.sub; is the extension installed?"
    )


@pytest.mark.parametrize("getter", ["raise ValueError", "raise AttributeError('no')", "return 5"])
def test_a_marker_that_lies_or_raises_is_handled(loading: Loading, getter: str) -> None:
    body = f"""
class Install:
    @property
    def __deerflow_api__(self):
        {getter}
    def __call__(self, registry, config):
        registry.task_lifecycle(Hook())
install = Install()
"""
    outcome = loading.load(loading.record(body)).records[0].outcome
    assert outcome == ("loaded" if "Attribute" in getter else "failed")


def test_an_install_that_raises_is_rolled_back_by_its_position(loading: Loading) -> None:
    body = """
count = 0
def install(registry, config):
    global count
    count += 1
    registry.task_lifecycle(Hook())
    registry.plugin(plugin(f"ns{count}"))
    registry.routers([object()])
    if config.get("fail"):
        raise RuntimeError("late")
"""
    use = f"{loading.module(body)}:install"
    result = loading.load(
        PluginRecord(name="one", use=use),
        PluginRecord(name="two", use=use, config={"fail": True}),
        PluginRecord(name="three", use=use),
    )
    assert [entry.outcome for entry in result.records] == ["loaded", "failed", "loaded"]
    assert [hook.record for hook in result.snapshot.lifecycle] == [0, 2]
    assert len(result.snapshot.routers) == 2
    assert [p.value.contribution.namespace for p in result.snapshot.plugins] == ["ns1", "ns3"]


def test_a_namespace_belongs_to_one_plugin(loading: Loading) -> None:
    body = "def install(registry, config): registry.plugin(plugin())"
    result = loading.load(loading.record(body), loading.record(body))
    assert [entry.outcome for entry in result.records] == ["loaded", "failed"]
    assert "my.plugin is already registered" in loading.errors()[0][1]


def test_a_rolled_back_namespace_is_free_again(loading: Loading) -> None:
    bad = "def install(registry, config):\n    registry.plugin(plugin())\n    1 / 0"
    good = "def install(registry, config): registry.plugin(plugin())"
    result = loading.load(loading.record(bad), loading.record(good))
    assert [entry.outcome for entry in result.records] == ["failed", "loaded"]


@pytest.mark.parametrize("fails", [False, True])
def test_registering_late_is_an_error(loading: Loading, fails: bool) -> None:
    body = f"""
kept = []
def install(registry, config):
    kept.append(registry)
    if {fails}:
        raise ValueError
"""
    record = loading.record(body)
    result = loading.load(record)
    registry = sys.modules[record.use.partition(":")[0]].kept[0]
    for register in (lambda: registry.task_lifecycle(object()), lambda: registry.plugin(object())):
        with pytest.raises(RuntimeError, match="registers after its install function has ended"):
            register()
    assert result.snapshot.lifecycle == ()


def test_a_snapshot_cannot_be_changed(loading: Loading) -> None:
    snapshot = loading.load(loading.record(GOOD)).snapshot
    with pytest.raises(AttributeError):
        snapshot.lifecycle = ()  # type: ignore[misc]


def test_an_extension_cannot_change_the_configuration(loading: Loading) -> None:
    body = """
def install(registry, config):
    config["added"] = 1
    config["inner"]["list"].append(2)
"""
    record = loading.record(body, config={"inner": {"list": [1]}})
    assert loading.load(record).records[0].outcome == "loaded"
    assert record.config == {"inner": {"list": [1]}}


def test_a_required_record_that_fails_is_fatal(loading: Loading) -> None:
    record = loading.record("def install(registry, config): 1 / 0", required=True)
    with pytest.raises(ConfigurationError) as caught:
        loading.load(loading.record(GOOD), record)
    assert caught.value.message == (
        f"workbench.yaml: plugins[1] ({record.use}) cannot load: install raised ZeroDivisionError: "
        "division by zero"
    )


def test_a_wrong_setting_of_the_workflow_plugin_is_fatal(loading: Loading) -> None:
    record = PluginRecord(name="w", use="workflows_core.extension:install", config={"max_cost_usd": 1})
    with pytest.raises(ConfigurationError, match="max_cost_usd is not a setting of the workflow plugin"):
        loading.load(record)


@pytest.mark.parametrize(
    "body", ["raise SystemExit(3)", "def install(registry, config): raise SystemExit(3)"]
)
def test_an_extension_that_ends_the_program_is_named(loading: Loading, body: str) -> None:
    record = loading.record(body)
    with pytest.raises(ConfigurationError, match=rf"plugins\[0\] \({record.use}\) raised SystemExit while"):
        loading.load(record)


def test_a_workspace_module_never_shadows_an_installed_one(loading: Loading) -> None:
    (loading.root / "json.py").write_text("raise SystemExit")
    (loading.root / "msgspec.py").write_text("raise SystemExit")
    loading.load(loading.record("import json, msgspec" + GOOD))
    assert loading.errors() == []


def test_a_package_may_name_a_folder(loading: Loading) -> None:
    name = loading.module(GOOD)
    folder = loading.root / "elsewhere" / "src"
    folder.mkdir(parents=True)
    (loading.root / f"{name}.py").rename(folder / f"{name}.py")
    record = PluginRecord(name="x", use=f"{name}:install", package="elsewhere/src")
    assert loading.load(record).records[0].outcome == "loaded"
