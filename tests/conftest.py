"""The option ``--soak``: with it, tests marked ``soak`` run too.

In CI the property tests draw the same examples each time, so that a change is judged by what it changed; on a
person's machine and under ``--soak`` they draw new ones.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

#: A property holds or not; how fast the machine draws examples says nothing about it.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
settings.register_profile("ci", settings.default, derandomize=True, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soak", action="store_true", help="also run the tests marked soak, with their full counts"
    )


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("CI") and not config.getoption("--soak"):
        settings.load_profile("ci")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--soak"):
        return
    soak = [item for item in items if item.get_closest_marker("soak") is not None]
    if soak:
        config.hook.pytest_deselected(items=soak)
        items[:] = [item for item in items if item.get_closest_marker("soak") is None]
