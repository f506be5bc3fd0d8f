from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from extension_api.agent_runs import AgentRunRefused
from workbench.agents.base import AgentDescription, Backends
from workbench.agents.registry import available_backends
from workbench.host.config import WorkbenchConfig, load_config
from workbench.host.revision import Configuration
from workbench.host.secret import load_secret
from workflows_core.errors import StoreFailed

from .kit import InProcessBackend, options

BASE = """
plugins:
  - {name: w, use: "workflows_core.extension:install", config: {max_calls: 3, agents: [lead_agent]}}
agents: {lead_agent: {backend: stub}, writer: {backend: openai, base_url: "http://127.0.0.1/v1", model: m, temperature: 0.5}}
stubs: [a.yaml]
theme: nord
keymap: {a.b: ctrl+x}
"""


def test_the_secret_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    old = os.umask(0)
    try:
        first = load_secret(path)
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_secret(path).sign("a", b"x") == first.sign("a", b"x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["secret"]


def test_purposes_do_not_share_a_key(tmp_path: Path) -> None:
    secret = load_secret(tmp_path / "secret")
    assert secret.key("a") != secret.key("b")
    assert secret.sign("a", b"x") != secret.sign("b", b"x")
    stored = (tmp_path / "secret").read_text().strip()
    assert stored not in repr(secret)
    assert secret.sign("a", b"x") != load_secret(tmp_path / "other").sign("a", b"x")


def test_processes_that_start_together_have_one_secret(tmp_path: Path) -> None:
    signed: list[str] = []
    gate = threading.Barrier(8)

    def start() -> None:
        gate.wait()
        signed.append(load_secret(tmp_path / "secret").sign("a", b"x"))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(signed) == 8 and len(set(signed)) == 1


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    load_secret(path)
    path.chmod(0o640)
    with pytest.raises(StoreFailed, match=r"open to other users \(mode 0640\).*chmod 600"):
        load_secret(path)


@pytest.mark.parametrize("content", ["", "abc", "z" * 64, "a" * 63, "a" * 65])
def test_what_is_no_secret_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "secret"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(StoreFailed, match="does not hold a secret"):
        load_secret(path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    load_secret(tmp_path / "real")
    (tmp_path / "secret").symlink_to(tmp_path / "real")
    with pytest.raises(StoreFailed, match="cannot be read"):
        load_secret(tmp_path / "secret")


def configuration(folder: Path, text: str | None = BASE, backends: Backends | None = None) -> Configuration:
    path = folder / "workbench.yaml"
    if text is not None:
        path.write_text(text)
    config = load_config(path) if text is not None else WorkbenchConfig()
    return Configuration(folder, config, load_secret(folder / "secret"), backends or available_backends())


def changed(folder: Path, old: str, new: str, launch: Mapping[str, Any]) -> tuple[bool, set[str]]:
    """Whether replacing text in the file changes the revision, and which components it changes."""
    first = configuration(folder)
    before, parts = first.revision(launch), first.components(launch)
    assert old in BASE
    (folder / "workbench.yaml").write_text(BASE.replace(old, new))
    after, now = first.revision(launch), first.components(launch)
    assert configuration(folder, BASE.replace(old, new)).revision(launch) == after
    return before != after, {key for key in {*parts, *now} if parts.get(key) != now.get(key)}


@pytest.mark.parametrize(
    ("old", "new", "keys"),
    [
        ("max_calls: 3", "max_calls: 4", {"plugins.0:w.config.max_calls"}),
        ("agents: [lead_agent]}", "agents: [writer]}", {"plugins.0:w.config.agents"}),
        ("temperature: 0.5", "temperature: 0.6", {"agents.writer.settings.temperature"}),
        ("backend: stub", "backend: manual", {"agents.lead_agent.backend"}),
        ("theme: nord", "theme: textual-dark", set()),
        ("temperature: 0.5", "temperature: 0.5, price: {input: 1, output: 2, currency: USD}", set()),
        ("ctrl+x", "ctrl+y", set()),
        ("stubs: [a.yaml]", "stubs: [b.yaml]", set()),
        ("theme: nord", "auth: {mode: disabled}", {"auth"}),
    ],
)
def test_the_revision_covers_what_shapes_agents_and_names_it(
    tmp_path: Path, old: str, new: str, keys: set[str]
) -> None:
    assert changed(tmp_path, old, new, options()) == (bool(keys), keys)


def test_the_stub_set_is_covered_by_its_hash_and_the_label_is_not(tmp_path: Path) -> None:
    config = configuration(tmp_path)
    base = config.revision(options({"reply": 1}))
    assert config.revision(options({"reply": 1}) | {"label": "other"}) == base
    assert config.revision(options({"reply": 2})) != base
    assert config.revision({"agents": "real", "label": "real"}) != base


def test_a_prompt_that_a_backend_reads_is_covered(tmp_path: Path) -> None:
    backend = InProcessBackend()
    config = configuration(tmp_path, backends=Backends({"openai": backend}))
    before = config.components({"agents": "real"})
    backend.description = AgentDescription("model-1", prompt="other")
    after = configuration(tmp_path, backends=Backends({"openai": backend})).components({"agents": "real"})
    assert {key for key in after if before[key] != after[key]} == {"agents.writer.prompt"}


def test_the_revision_is_keyed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert configuration(tmp_path / "a").revision(options()) != configuration(tmp_path / "b").revision(
        options()
    )


def test_a_restored_file_restores_the_revision(tmp_path: Path) -> None:
    config = configuration(tmp_path, None)
    before = config.revision(options())
    (tmp_path / "workbench.yaml").write_text(BASE)
    assert config.revision(options()) != before
    (tmp_path / "workbench.yaml").unlink()
    assert config.revision(options()) == before


def test_a_file_that_became_unreadable_refuses_until_it_is_right_again(tmp_path: Path) -> None:
    config = configuration(tmp_path)
    before = config.revision(options())
    (tmp_path / "workbench.yaml").write_text("nonsense: 1\n")
    for _ in range(2):
        with pytest.raises(AgentRunRefused, match="nonsense is not a key") as caught:
            config.revision(options())
        assert caught.value.code == "configuration_unreadable"
    (tmp_path / "workbench.yaml").write_text(BASE)
    assert config.revision(options()) == before
