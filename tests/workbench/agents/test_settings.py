"""The keys of the backends that ask over HTTP, and their secrets."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workbench.agents.base import BackendUnavailable
from workbench.agents.secrets import Scrubber, resolve, secret_problem
from workbench.agents.settings import Price
from workbench.host.config import parse_config
from workflows_core.errors import ConfigurationError

from .contract import PLANTED

OPENAI = {"backend": "openai", "base_url": "https://host:8443/v1", "model": "m"}
DEERFLOW = {"backend": "deerflow", "base_url": "http://127.0.0.1:2026"}


def read(agent: dict[str, Any]) -> dict[str, Any]:
    config = parse_config(f"theme: nord\nagents:\n  writer: {json.dumps(agent)}\n")
    return dict(config.agents["writer"].settings)


@pytest.mark.parametrize(
    "agent",
    [
        OPENAI,
        {**OPENAI, "api_key": {"env": "KEY"}, "system": "Be brief.", "temperature": 0, "max_tokens": 10,
         "timeout_seconds": 1.5, "parameters": {"top_p": 0.5, "response_format": {"type": "json_object"}}},
        {**OPENAI, "base_url": "http://[::1]:8000"},
        DEERFLOW,
        {**DEERFLOW, "assistant": "writer", "username": "ada", "password": {"keyring": "gateway of ada"},
         "timeout_seconds": 10, "context": {"model_name": "m"}, "config": {"recursion_limit": 10}},
    ],
)  # fmt: skip
def test_what_a_backend_knows_is_read(agent: dict[str, Any]) -> None:
    assert read(agent) == {key: value for key, value in agent.items() if key != "backend"}


PRICE = {"input": 2.5, "output": 10, "currency": "USD"}


def test_a_price_is_read_and_is_no_setting_of_the_backend() -> None:
    config = parse_config(f"theme: nord\nagents:\n  writer: {json.dumps({**OPENAI, 'price': PRICE})}\n")
    writer = config.agents["writer"]
    assert writer.price == Price(2.5, 10, "USD")
    assert "price" not in writer.settings


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ({**OPENAI, "price": 3}, "agents.writer.price must be a mapping of keys to values, not the number 3"),
        ({**OPENAI, "price": None}, "agents.writer.price must be a mapping of keys to values, not nothing"),
        ({**OPENAI, "price": {"input": 1, "output": 1}}, "price needs the key 'currency'"),
        ({**OPENAI, "price": {"output": 1, "currency": "USD"}}, "price needs the key 'input'"),
        ({**OPENAI, "price": {**PRICE, "output": -1}}, "price.output is -1; admitted are 0 to 1e+06"),
        ({**OPENAI, "price": {**PRICE, "input": "2"}}, "price.input must be a number, not text"),
        ({**OPENAI, "price": {**PRICE, "input": float("inf")}}, "price.input"),
        ({**OPENAI, "price": {**PRICE, "currency": "usd"}}, "must be three capital letters, such as USD"),
        ({**OPENAI, "price": {**PRICE, "currency": "$"}}, "must be three capital letters, such as USD"),
        ({**OPENAI, "price": {**PRICE, "cached": 1}}, "cached is not a key of a price. Known keys: input"),
        ({**DEERFLOW, "price": PRICE}, "price is not a key of an agent with the deerflow backend"),
        ({"backend": "openai", "model": "m"}, "agents.writer needs the key 'base_url'"),
        ({"backend": "openai", "base_url": "http://h"}, "agents.writer needs the key 'model'"),
        ({**OPENAI, "modle": "m"}, "modle is not a key of an agent with the openai backend. Did you mean 'model'?"),
        ({**OPENAI, "base_url": f"https://ada:{PLANTED}@h/v1"}, "base_url holds credentials"),
        ({**OPENAI, "base_url": f"https://{PLANTED}@h/v1"}, "base_url holds credentials"),
        ({**OPENAI, "base_url": f"https://h/v1?key={PLANTED}"}, "base_url must end with its path"),
        ({**OPENAI, "base_url": f"https://h/v1#{PLANTED}"}, "base_url must end with its path"),
        ({**OPENAI, "base_url": "ftp://h"}, "must start with http:// or https://"),
        ({**OPENAI, "base_url": "https://"}, "must start with http:// or https://"),
        ({**OPENAI, "base_url": "h:8000/v1"}, "must start with http:// or https://"),
        ({**OPENAI, "base_url": "http://h:99999"}, "is not an address"),
        ({**OPENAI, "base_url": "http://h/a b"}, "is not an address"),
        ({**OPENAI, "base_url": "http://h/\x1b"}, "is not an address"),
        ({**OPENAI, "api_key": PLANTED}, "api_key must be {env: NAME} or {keyring: NAME}"),
        ({**OPENAI, "api_key": {"env": ""}}, "api_key must be {env: NAME}"),
        ({**OPENAI, "api_key": {"file": PLANTED}}, "api_key must be {env: NAME}"),
        ({**OPENAI, "api_key": {"env": "A", "keyring": "B"}}, "api_key must be {env: NAME}"),
        ({**OPENAI, "temperature": 3}, "temperature is 3; admitted are 0 to 2"),
        ({**OPENAI, "temperature": True}, "temperature must be a number"),
        ({**OPENAI, "max_tokens": 0}, "max_tokens is 0; admitted are 1 to"),
        ({**OPENAI, "max_tokens": 1.5}, "max_tokens must be a whole number"),
        ({**OPENAI, "timeout_seconds": 0}, "timeout_seconds is 0; admitted are 1 to 600"),
        ({**OPENAI, "system": ""}, "system must be text"),
        ({**OPENAI, "system": "x" * 70_000}, "system takes 70,002 bytes"),
        ({**OPENAI, "parameters": {"stream": True}}, "parameters cannot hold 'stream'"),
        ({**OPENAI, "parameters": {"messages": []}}, "parameters cannot hold 'messages'"),
        ({**OPENAI, "parameters": {"x": [{"a": {"env": "KEY"}}]}}, "parameters.x cannot refer to a secret"),
        ({**OPENAI, "parameters": [1]}, "parameters must be a mapping"),
        ({**OPENAI, "parameters": {"x": "y" * 20_000}}, "parameters takes"),
        ({"backend": "deerflow"}, "agents.writer needs the key 'base_url'"),
        ({**DEERFLOW, "username": "ada"}, "username needs password beside it"),
        ({**DEERFLOW, "password": {"env": "P"}}, "password needs username beside it"),
        ({**DEERFLOW, "username": "ada", "password": PLANTED}, "password must be {env: NAME}"),
        ({**DEERFLOW, "assistant": 5}, "assistant must be text"),
        ({**DEERFLOW, "context": {"token": {"keyring": "x"}}}, "context.token cannot refer to a secret"),
        ({**DEERFLOW, "model": "m"}, "model is not a key of an agent with the deerflow backend"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_at_its_place_and_quotes_no_secret(agent: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(agent)
    assert words in caught.value.message
    assert caught.value.message.startswith("workbench.yaml:3:")
    assert PLANTED not in caught.value.message


async def test_a_secret_is_looked_up_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_KEY", raising=False)
    reference = {"env": "SOME_KEY"}
    assert secret_problem(reference) == "the environment variable SOME_KEY is not set"
    with pytest.raises(BackendUnavailable, match="SOME_KEY is not set"):
        await resolve(reference)
    for value in ("first", "second"):
        monkeypatch.setenv("SOME_KEY", value)
        assert (secret_problem(reference), await resolve(reference)) == (None, value)


async def test_a_keyring_that_is_not_installed_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BackendUnavailable, match="python -m pip install keyring"):
        await resolve({"keyring": "gateway"})


async def test_a_keyring_gives_its_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {("workflow-workbench", "gateway"): PLANTED}

    def get(service: str, name: str) -> str | None:
        if name == "locked":
            raise OSError(f"locked, and {PLANTED}")
        return kept.get((service, name))

    monkeypatch.setitem(sys.modules, "keyring", SimpleNamespace(get_password=get))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert await resolve({"keyring": "gateway"}) == PLANTED
    with pytest.raises(BackendUnavailable, match="python -m keyring set workflow-workbench other"):
        await resolve({"keyring": "other"})
    with pytest.raises(BackendUnavailable) as caught:
        await resolve({"keyring": "locked"})
    assert PLANTED not in str(caught.value) and "OSError" in str(caught.value)


def test_a_scrubber_finds_secrets_as_they_are_written() -> None:
    scrubber = Scrubber('sec"ret\\key', "abc", "")
    assert scrubber.text('a sec"ret\\key b sec\\"ret\\\\key abc') == "a [secret] b [secret] abc"
    assert scrubber.found_in({"a": ['x sec"ret\\key']}) and scrubber.found_in({'sec"ret\\key': 1})
    assert not scrubber.found_in(["abc", None, 5]) and not scrubber.found_in(float("nan"))
    assert "sec" not in repr(scrubber)


PAGE = (Path(__file__).parents[3] / "docs" / "agents.md").read_text("utf-8")


def test_the_example_of_the_page_is_a_configuration() -> None:
    (example,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[:1]
    assert {agent.backend for agent in parse_config(example).agents.values()} == {"deerflow", "openai"}


@pytest.mark.parametrize("agent", [OPENAI, DEERFLOW])
def test_every_key_is_on_the_page(agent: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read({**agent, "no_such_key": 1})
    known = set(caught.value.message.partition("Known keys: ")[2].split(", ")) - {"backend"}
    section = PAGE.partition(f"\n## {agent['backend']}\n")[2].partition("\n## ")[0]
    table = section.partition("| key |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE)))) == known
