from __future__ import annotations

import os
from pathlib import Path

import pytest

from extension_api.hashing import canonical_hash
from workbench.workspace import Workspace
from workflows_core.errors import ConfigurationError, StoreFailed, UsageError


def test_the_nearest_folder_upwards_is_the_workspace(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "workbench.yaml").write_text("")
    assert Workspace.find(inner).root == tmp_path
    (tmp_path / "a" / ".workbench").mkdir()
    assert Workspace.find(inner).root == tmp_path / "a"
    assert Workspace.find(inner, inner).root == inner
    assert Workspace.find(inner).config_path is None


def test_without_any_the_start_is_the_workspace(tmp_path: Path) -> None:
    workspace = Workspace.find(tmp_path, tmp_path)
    assert workspace.root == tmp_path
    assert workspace.storage_path == tmp_path / ".workbench" / "workflows.sqlite"
    assert workspace.config_path is None
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        Workspace.find(explicit=tmp_path / "missing")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is not a folder"):
        Workspace.find(explicit=tmp_path / "file")


def test_the_state_folder_is_private(tmp_path: Path) -> None:
    workspace = Workspace.find(explicit=tmp_path)
    old = os.umask(0)
    try:
        state = workspace.make_state_dir()
    finally:
        os.umask(old)
    assert state.stat().st_mode & 0o777 == 0o700
    state.chmod(0o755)
    workspace.make_state_dir()
    assert state.stat().st_mode & 0o777 == 0o700


def test_a_state_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".workbench").touch()
    with pytest.raises(StoreFailed, match="cannot be made"):
        Workspace.find(explicit=tmp_path).make_state_dir()


def test_the_storage_path_and_limits_come_from_the_plugin_record(tmp_path: Path) -> None:
    (tmp_path / "workbench.yaml").write_text(
        "plugins: [{name: w, use: 'workflows_core.extension:install',"
        " config: {storage_path: other/runs.sqlite, agents: [b, a], max_calls: 3}}]\n"
    )
    workspace = Workspace.find(tmp_path)
    assert workspace.storage_path == tmp_path / "other" / "runs.sqlite"
    assert (workspace.max_calls, workspace.allowed_agents) == (3, ("b", "a"))


def test_a_broken_configuration_is_reported_at_its_first_use(tmp_path: Path) -> None:
    (tmp_path / "workbench.yaml").write_text("nope: 1\n")
    workspace = Workspace.find(tmp_path)
    with pytest.raises(ConfigurationError, match="nope is not a key"):
        _ = workspace.config


def test_options_hold_the_stub_set_by_content(tmp_path: Path) -> None:
    (tmp_path / "a.stubs.yaml").write_text("- step: x\n  reply: {a: 1}\n")
    (tmp_path / "b.stubs.yaml").write_text("- reply: hello\n")
    (tmp_path / "workbench.yaml").write_text("stubs: [a.stubs.yaml, b.stubs.yaml]\n")
    workspace = Workspace.find(tmp_path)
    entries = [{"step": "x", "reply": {"a": 1}}, {"reply": "hello"}]
    assert workspace.options() == {
        "agents": "stub",
        "stubs": entries,
        "stubs_hash": canonical_hash(entries),
        "label": "a.stubs.yaml, b.stubs.yaml",
    }
    assert workspace.options(stubs=tmp_path / "b.stubs.yaml")["stubs"] == entries[1:]


def test_options_without_a_stub_set_echo(tmp_path: Path) -> None:
    options = Workspace.find(explicit=tmp_path).options()
    assert options == {
        "agents": "stub",
        "stubs": [],
        "stubs_hash": canonical_hash([]),
        "label": "no stub set",
    }


def test_a_stub_set_that_is_missing_or_wrong_is_refused(tmp_path: Path) -> None:
    workspace = Workspace.find(explicit=tmp_path)
    with pytest.raises(UsageError, match=r"the stub set .*missing\.yaml cannot be read"):
        workspace.options(stubs=tmp_path / "missing.yaml")
    (tmp_path / "s.yaml").write_text("- repy: x\n")
    with pytest.raises(UsageError, match=r"^s\.yaml:1:3: \[0\]\.repy is not a key of a stub entry"):
        workspace.options(stubs=tmp_path / "s.yaml")
    with pytest.raises(UsageError, match="cannot be read"):
        workspace.options(stubs=tmp_path)


def test_a_missing_default_stub_set_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "workbench.yaml").write_text("stubs: [missing.yaml]\n")
    with pytest.raises(ConfigurationError, match=r"workbench\.yaml: stubs: the stub set .* cannot be read"):
        Workspace.find(tmp_path).options()


def test_real_agents_need_a_backend_that_is_there(tmp_path: Path) -> None:
    workspace = Workspace.find(explicit=tmp_path)
    with pytest.raises(UsageError, match="lead_agent has only the stub backend"):
        workspace.options(real=True)
    with pytest.raises(UsageError, match="takes no stub set"):
        workspace.options(real=True, stubs=Path("x"))
    (tmp_path / "workbench.yaml").write_text("agents: {writer: {backend: langchain}}\n")
    with pytest.raises(UsageError, match="the backend langchain of writer is not part of this workbench yet"):
        Workspace.find(tmp_path).options(real=True)
