"""The exact public names, the version that added each, and what importing them loads."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import extension_api

DOCS = Path(extension_api.__file__).parent.parent / "docs" / "extensions.md"

# No release may remove a name: this table only grows.
NAMES_BY_VERSION = {
    "0.1.0": {
        "API_VERSION", "EXTENSION_TASK_STORE_KEY", "AgentBuildContext", "AgentScope", "ExtensionData",
        "ExtensionInstall", "ExtensionRegistry", "HostPolicySnapshot", "MiddlewareContributor",
        "MiddlewarePlacement", "Placement", "extension", "task_store_from_runtime",
    },
    "0.1.1": {
        "SystemModelCallObserver", "SystemModelRequest", "SystemModelResult", "SystemOperationKind", "TaskInfo",
        "TaskLifecycleContributor", "TaskOutcome",
    },
    "0.1.2": {"ExtensionRuntimeDeps", "ExtensionService"},
    "0.2.0": {
        "EXTENSION_PRINCIPAL_RESOLVER_KEY", "MESSAGE_CONTENT_KIND_KEY", "MESSAGE_PRODUCER_ENTITY_ID_KEY",
        "MESSAGE_PRODUCER_KIND_KEY", "PROVENANCE_KEYS", "AgentAssemblyDescriptor", "AgentAssemblyObserver",
        "CompactionEvent", "ContentKind", "ContextCompactionObserver", "ExtensionPrincipal", "MessageProvenance",
        "MiddlewareDescriptor", "ReleasePolicyProvider", "ToolDescriptor", "canonical_hash", "canonical_json",
        "collect_release_policies", "provenance_kwargs", "read_provenance", "require_admin", "resolve_principal",
    },
    "0.2.1": {
        "InvalidRunEvidenceCursor", "RunEventPage", "RunEventView", "RunEvidenceReader", "RunPage",
        "RunStatusView",
    },
    "0.2.2": {
        "ActionContext", "BackendAction", "BrowserModule", "ModelTool", "PluginContribution", "SettingsField",
        "ToolContext",
    },
    "0.2.3": {
        "RUN_EVIDENCE_READER_RESOLVER_KEY", "BrowserAssets", "require_run_evidence_reader",
        "resolve_run_evidence_reader",
    },
    "0.2.4": {
        "EXTENSION_PLUGIN_AUTHZ_RESOLVER_ASYNC_KEY", "EXTENSION_PLUGIN_AUTHZ_RESOLVER_KEY",
        "arequire_plugin_management", "require_plugin_management",
    },
    "0.2.5": {
        "AgentRunRefused", "AgentRunRequest", "AgentRunStatus", "AgentRunUncertain", "AgentRunView", "AgentRuns",
        "SessionView",
    },
    "0.2.6": set[str](),
    "0.2.7": set[str](),
    "0.2.8": {"ExecutionLease", "ExecutionLeaseLost", "ExecutionLeases"},
    "0.2.9": set[str](),
}  # fmt: skip

EVERY_NAME = set().union(*NAMES_BY_VERSION.values())


def test_the_public_names_are_exactly_these_and_none_has_disappeared() -> None:
    assert sorted(extension_api.__all__) == sorted(EVERY_NAME)
    assert len(extension_api.__all__) == len(set(extension_api.__all__))
    for name in extension_api.__all__:
        assert getattr(extension_api, name) is not None


def test_no_name_is_added_by_two_versions() -> None:
    assert sum(map(len, NAMES_BY_VERSION.values())) == len(EVERY_NAME)
    assert list(NAMES_BY_VERSION)[-1] == extension_api.API_VERSION


@pytest.mark.parametrize("version", [v for v, names in NAMES_BY_VERSION.items() if v >= "0.2.5"])
def test_the_docs_name_each_addition_with_its_version(version: str) -> None:
    history = DOCS.read_text(encoding="utf-8").partition("## Version history")[2]
    row = next(line for line in history.splitlines() if line.startswith(f"| {version} "))
    for name in NAMES_BY_VERSION[version]:
        assert f"`{name}`" in row
    assert len(row) > 20


def test_the_docs_mention_every_public_name() -> None:
    mentioned = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", DOCS.read_text(encoding="utf-8")))
    assert EVERY_NAME - mentioned == set()


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("placement", {"AgentScope", "MiddlewarePlacement", "Placement"}),
        ("runtime_bridge", {"EXTENSION_TASK_STORE_KEY", "task_store_from_runtime"}),
        ("state", {"ExtensionData"}),
        ("contracts", {name for name in EVERY_NAME if name[0].isupper() and not name.isupper()}),
    ],
)
def test_public_submodules_give_the_same_objects_as_the_root(module: str, names: set[str]) -> None:
    loaded = importlib.import_module(f"extension_api.{module}")
    for name in names:
        assert getattr(loaded, name) is getattr(extension_api, name)


def test_contracts_exports_exactly_the_types() -> None:
    contracts = importlib.import_module("extension_api.contracts")
    types = {name for name in EVERY_NAME if name[0].isupper() and not name.isupper()}
    assert set(contracts.__all__) == types


@pytest.mark.parametrize("module", ["extension_api", "extension_api.contracts", "extension_api.testing"])
def test_importing_loads_nothing_but_the_standard_library(module: str) -> None:
    code = f"import json, sys; from {module} import *; print(json.dumps(sorted(sys.modules)))"
    root = str(Path(extension_api.__file__).parent.parent)
    path = f"import sys; sys.path.insert(0, {root!r}); "
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", path + code], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    foreign = loaded - set(sys.stdlib_module_names) - {"__main__", "extension_api"}
    assert foreign == set()


def test_a_submodule_loads_alone_and_a_name_of_the_root_loads_them_all() -> None:
    root = str(Path(extension_api.__file__).parent.parent)
    code = (
        f"import sys; sys.path.insert(0, {root!r})\n"
        "import extension_api.hashing\n"
        "ours = lambda: sorted(name for name in sys.modules if name.startswith('extension_api.'))\n"
        "print(ours())\n"
        "assert {'AgentRuns', 'extension', 'registry'} <= set(dir(extension_api))\n"
        "assert extension_api.registry.ExtensionRegistry is extension_api.ExtensionRegistry\n"
        "assert set(extension_api.__all__) <= vars(extension_api).keys()\n"
        "assert not hasattr(extension_api, 'nothing')\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['extension_api.hashing']\n"


def test_the_root_does_not_load_the_test_kit() -> None:
    root = str(Path(extension_api.__file__).parent.parent)
    code = (
        f"import sys; sys.path.insert(0, {root!r}); from extension_api import *; "
        "sys.exit(any(name.startswith('extension_api.testing') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False).returncode == 0


def test_the_package_is_marked_as_typed() -> None:
    assert (Path(extension_api.__file__).parent / "py.typed").is_file()


async def test_the_example_of_the_docs_runs_as_it_stands() -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    namespace: dict[str, Any] = {"__name__": "example"}
    for block in blocks:
        exec(compile(block, str(DOCS), "exec"), namespace)
    await namespace["test_outcomes_are_counted"]()
