"""The table of limits validates configuration: defaults, ceilings, unknown keys."""

from __future__ import annotations

from typing import Any

import pytest

from workflows_core.errors import ConfigurationError
from workflows_core.limits import SETTABLE, engine_config

#: The defaults and ceilings of the specification.
SPECIFIED = {
    "concurrency": (2, 4),
    "global_concurrency": (4, 8),
    "max_calls": (16, 32),
    "max_workflows": (4, 8),
    "max_workflows_per_owner": (2, 4),
    "timeout_seconds": (300, 600),
    "admission_timeout_seconds": (10, 20),
    "pause_timeout_seconds": (86_400, 604_800),
    "cpu_seconds": (5, 10),
    "memory_bytes": (16_777_216, 33_554_432),
    "retained_runs": (100, 10_000),
}


def test_the_table_holds_the_specified_defaults_and_ceilings() -> None:
    assert {key: (limit.default, limit.ceiling) for key, limit in SETTABLE.items()} == SPECIFIED


@pytest.mark.parametrize("key", sorted(SPECIFIED))
def test_each_limit_admits_its_ceiling_and_refuses_one_more(key: str) -> None:
    ceiling = SETTABLE[key].ceiling
    assert getattr(engine_config({key: ceiling}).limits, key) == ceiling
    with pytest.raises(ConfigurationError, match=f"config.{key} is {ceiling + 1}"):
        engine_config({key: ceiling + 1})
    with pytest.raises(ConfigurationError, match=key):
        engine_config({key: SETTABLE[key].floor - 1})


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"max_cost_usd": 5}, "max_cost_usd is not a setting"),
        ({"max_calls": True}, "max_calls must be a whole number"),
        ({"max_calls": 3.0}, "max_calls must be a whole number"),
        ({"max_calls": "3"}, "max_calls must be a whole number"),
        ({"agents": []}, "at least one agent"),
        ({"agents": "lead_agent"}, "list of at least one"),
        ({"agents": [1]}, "list of at least one"),
        ({"enabled": 1}, "true or false"),
        ({"storage_path": ""}, "path of a file"),
        ({"storage_path": "a\0b"}, "path of a file"),
    ],
)
def test_wrong_settings_are_refused_in_words(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        engine_config(config)


def test_the_order_of_the_allowlist_does_not_matter() -> None:
    assert engine_config({"agents": ["b", "a", "b"]}).agents == ("a", "b")
