"""The sample extension in examples/: by its own test, in the real host on stubs, and as what a check says."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import workbench.host.loader  # noqa: F401 - makes the contract importable under its public name
from extension_api.testing import FakeRegistry
from tests.workbench.cli.conftest import Command, command, folder, own_environment
from workbench.host.checking import _check
from workbench.workspace import Workspace

__all__ = ["command", "folder", "own_environment"]

SAMPLE = Path(__file__).parents[2] / "examples" / "extension"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path, str(SAMPLE)])
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "run_ledger"]:
        del sys.modules[name]


@pytest.fixture
def sample(folder: Path) -> Path:
    """The sample as a workspace of its own."""
    for path in SAMPLE.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
        elif path.name == "run_ledger":
            shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


async def test_its_own_test_passes() -> None:
    path = SAMPLE / "tests" / "test_run_ledger.py"
    spec = importlib.util.spec_from_file_location("sample_test", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    await module.test_a_task_is_counted_and_can_be_asked_for()
    body = path.read_text("utf-8").partition("async def")[2]
    assert len(body.rstrip().splitlines()) <= 10


def test_it_contributes_one_of_every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    class Router:
        def __init__(self, prefix: str) -> None:
            self.routes: list[Any] = []

        def get(self, path: str) -> Any:
            return lambda function: self.routes.append((path, function))

    fastapi: Any = ModuleType("fastapi")
    fastapi.APIRouter, fastapi.HTTPException, fastapi.Request = Router, RuntimeError, SimpleNamespace
    monkeypatch.setitem(sys.modules, "fastapi", fastapi)
    from run_ledger import install  # type: ignore[import-not-found]

    registry = FakeRegistry()
    assert registry.load(install) == "0.2.4"
    assert [len(bucket) for bucket in registry._buckets()] == [1] * 8
    plugin = registry.plugin_named("samples.run_ledger")
    assert plugin.assets is not None and plugin.transport == "assets-v1"
    assert {field.kind for field in plugin.contribution.fields} == {"string", "integer", "boolean"}


def test_the_check_finds_nothing() -> None:
    (record,) = [each for each in Workspace(SAMPLE).config.plugins if each.name == "run-ledger"]
    report = _check(record, SAMPLE)
    assert (report["loaded"], report["problems"]) == (True, [])


def test_it_hears_everything_on_stubs(sample: Path, command: Command) -> None:
    ran = command("run", "greet.workflow.js", "--args", '{"name": "Ada"}', "--json")
    assert (ran.status, ran.document["result"]) == (0, "Good day, Ada")
    assert json.loads((sample / "ledger.json").read_text())["counts"] == {
        "lead completed": 1,
        "memory failed": 1,
        "messages compacted": 2,
        "subagent completed": 1,
        "title ok": 1,
    }
    listed = command("extension", "list", "--json").document["extensions"]
    assert [each["outcome"] for each in listed] == ["loaded", "loaded"]
