from __future__ import annotations

from pathlib import Path

import pytest

from workbench.host.config import CONFIG_BYTES, WORKFLOWS_USE, WorkbenchConfig, load_config, parse_config
from workflows_core.errors import ConfigurationError
from workflows_core.limits import engine_config

FULL = """
plugins:
  - name: workflows
    use: workflows_core.extension:install
    enabled: true
    config: {enabled: true, agents: [lead_agent], concurrency: 2}
  - {name: mine, use: "mine.ext:install", enabled: false, package: ./mine, required: true}
agents:
  lead_agent: {backend: stub}
  writer: {backend: openai, base_url: "http://localhost:8000/v1", model: some-model, api_key: {env: WRITER_KEY}}
stubs: [checks.stubs.yaml]
auth: {mode: password}
authorization: {enabled: true, fail_closed: false}
keymap: {author.launch: ctrl+l}
theme: nord
"""


def test_a_full_file_is_read() -> None:
    config = parse_config(FULL)
    assert [record.name for record in config.plugins] == ["workflows", "mine"]
    assert config.plugins[0].config["concurrency"] == 2
    assert (config.plugins[1].enabled, config.plugins[1].required) == (False, True)
    assert config.agents["writer"].settings == {
        "base_url": "http://localhost:8000/v1",
        "model": "some-model",
        "api_key": {"env": "WRITER_KEY"},
    }
    assert config.stubs == ("checks.stubs.yaml",)
    assert (config.auth.mode, config.theme) == ("password", "nord")
    assert (config.authorization.enabled, config.authorization.fail_closed) == (True, False)
    assert config.keymap == {"author.launch": "ctrl+l"}


def test_without_a_file_the_workflow_plugin_and_one_stub_agent_are_there() -> None:
    config = WorkbenchConfig()
    assert [record.use for record in config.plugins] == [WORKFLOWS_USE]
    assert config.plugins[0].fatal
    assert engine_config(config.plugins[0].config).agents == ("lead_agent",)
    assert {name: agent.backend for name, agent in config.agents.items()} == {"lead_agent": "stub"}
    assert config == parse_config("")


def test_a_file_may_leave_parts_out() -> None:
    config = parse_config("theme: nord\n")
    assert config.workflows is not None
    assert parse_config("plugins: []\n").workflows is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "workbench.yaml:1:1: must be a mapping"),
        ("them: x", "workbench.yaml:1:1: them is not a key of the configuration. Did you mean 'theme'?"),
        ("plugins: {a: 1}", "workbench.yaml:1:1: plugins must be a list of records, not a mapping"),
        ("plugins: [1]", "plugins[0] must be a mapping"),
        ("plugins:\n  - use: a:b", "2:5: plugins[0] needs the key 'name'"),
        ("plugins: [{name: a, use: a}]", "plugins[0].use is 'a'; it must have the form module:attribute"),
        ("plugins: [{name: a, use: 'a-b:c'}]", "plugins[0].use is 'a-b:c'"),
        (
            "plugins: [{name: a, use: 'a:b', enabled: yes}]",
            "plugins[0].enabled must be true or false, not text",
        ),
        ("plugins: [{name: a, use: 'a:b', config: 1}]", "plugins[0].config must be a mapping"),
        ("plugins: [{name: a, use: 'a:b', extra: 1}]", "plugins[0].extra is not a key of a plugin record"),
        ("plugins: [{name: a, use: 'a:b', package: 1}]", "plugins[0].package must be text"),
        (
            f"plugins:\n  - name: w\n    use: {WORKFLOWS_USE}\n    config:\n      concurrencyy: 2",
            "workbench.yaml:5:7: plugins[0].config.concurrencyy is not a setting of the workflow plugin. Known: ",
        ),
        (
            f"plugins: [{{name: w, use: '{WORKFLOWS_USE}', config: {{concurrency: 99}}}}]",
            "workbench.yaml:1:71: plugins[0].config.concurrency is 99; admitted are 1 to ",
        ),
        (
            f"plugins: [{{name: a, use: 'a:b'}}, {{name: w, use: '{WORKFLOWS_USE}', config: {{agents: []}}}}]",
            "plugins[1].config.agents must be a list of at least one agent name",
        ),
        (
            f"plugins: [{{name: w, use: '{WORKFLOWS_USE}', config: {{enabled: true, 'enabled is not': 5}}}}]",
            "plugins[0].config.enabled is not is not a setting of the workflow plugin",
        ),
        ("agents: {}", "agents must name at least one agent"),
        ("agents: {lead_agent: stub}", "agents.lead_agent must be a mapping"),
        (
            "agents: {lead_agent: {backend: telepathy}}",
            "agents.lead_agent.backend is 'telepathy'; admitted are",
        ),
        (
            "agents: {lead_agent: {model: x}}",
            "agents.lead_agent.model is not a key of an agent with the stub",
        ),
        ("agents: {a: {backend: langchain, key: {env: ''}}}", "agents.a.key must be {env: NAME}"),
        ("agents: {a: {backend: langchain, key: {env: A, b: 1}}}", "agents.a.key must be {env: NAME}"),
        ("agents: {' a': {}}", "is not usable as the name of an agent"),
        ("stubs: checks.yaml", "stubs must be a list of paths of stub sets, not text"),
        ("stubs: [1]", "stubs[0] must be the path of a stub set, not the number 1"),
        ("auth: {mode: none}", "auth.mode is 'none'; admitted are terminal, password, disabled"),
        ("auth: {kind: x}", "auth.kind is not a key of auth"),
        ("authorization: {enabled: 1}", "authorization.enabled must be true or false, not the number 1"),
        ("keymap: {a: 1}", "keymap.a must be a key such as ctrl+r"),
        ("theme: ''", "theme must be text, not empty text"),
        ("theme: [", "not valid YAML"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_config(text)
    assert message in caught.value.message
    assert caught.value.message.startswith("workbench.yaml")


def test_the_settings_of_a_workflow_plugin_that_is_off_are_not_judged() -> None:
    text = f"plugins: [{{name: w, use: '{WORKFLOWS_USE}', enabled: false, config: {{concurrency: 99}}}}]"
    assert parse_config(text).workflows is None


def test_a_file_that_cannot_be_read_or_is_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_config(tmp_path / "workbench.yaml")
    (tmp_path / "big.yaml").write_text("#" * (CONFIG_BYTES + 1))
    with pytest.raises(ConfigurationError, match="larger than"):
        load_config(tmp_path / "big.yaml")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_config(tmp_path)
