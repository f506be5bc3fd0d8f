"""Every limit of the engine, its default and its ceiling, in one table that validates configuration.

Limits with a ceiling are settable in the plugin's ``config``; the others are part of the format. Bytes are
bytes of canonical JSON in UTF-8 unless the name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from .errors import ConfigurationError


class Limit(msgspec.Struct, frozen=True):
    """One settable limit: unit in words, default, smallest and largest admitted value."""

    unit: str
    default: int
    floor: int
    ceiling: int
    meaning: str


SETTABLE: Final[Mapping[str, Limit]] = {
    "concurrency": Limit("calls", 2, 1, 4, "Agent calls of one run at the same time"),
    "global_concurrency": Limit("calls", 4, 1, 8, "Agent calls of all runs at the same time"),
    "max_calls": Limit("calls", 16, 1, 32, "Agent calls in one run"),
    "max_workflows": Limit("runs", 4, 1, 8, "active runs"),
    "max_workflows_per_owner": Limit("runs", 2, 1, 4, "active runs of one owner"),
    "timeout_seconds": Limit("s", 300, 1, 600, "wall time of one run, waits for people excluded"),
    "admission_timeout_seconds": Limit("s", 10, 1, 20, "wait for the host to admit one call"),
    "pause_timeout_seconds": Limit("s", 86_400, 1, 604_800, "wait for a person at one pause or checkpoint"),
    "cpu_seconds": Limit("s", 5, 1, 10, "CPU time of one worker"),
    "memory_bytes": Limit("bytes", 16_777_216, 4_194_304, 33_554_432, "JavaScript memory of one worker"),
    "retained_runs": Limit("runs", 100, 1, 10_000, "runs kept for one owner"),
}

SCRIPT_BYTES: Final = 16_000
ARGS_BYTES: Final = 4_000
TASK_BYTES: Final = 16_000
OUTPUT_BYTES: Final = 12_000
FRAME_BYTES: Final = 48 * 1024
JOURNAL_BYTES: Final = 4 * 1024 * 1024
RECORD_BYTES: Final = 8 * 1024 * 1024
LOG_MESSAGES: Final = 20
LOG_BYTES: Final = 160
ROUNDS: Final = 10_000
RESPONSE_BYTES: Final = 60 * 1024
LISTED_RUNS: Final = 20
VERSIONS_PER_OWNER: Final = 100
STEP_ID_LENGTH: Final = 80
REQUEST_ID_LENGTH: Final = 128
NAME_LENGTH: Final = 80

ENTRY_SECONDS: Final = 0.05
TURN_CPU_SECONDS: Final = 0.5
JOBS_PER_TURN: Final = 100_000
STACK_BYTES: Final = 256 * 1024
EXIT_WATCH_SECONDS: Final = 0.02

CAPTURE_BYTES: Final = 2 * 1024 * 1024
CAPTURES_PER_RUN: Final = 16
CAPTURED_BYTES_PER_OWNER: Final = 64 * 1024 * 1024
READ_BYTES: Final = 16 * 1024


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits that one run keeps for its life, as recorded in its start frame."""

    concurrency: int = SETTABLE["concurrency"].default
    global_concurrency: int = SETTABLE["global_concurrency"].default
    max_calls: int = SETTABLE["max_calls"].default
    max_workflows: int = SETTABLE["max_workflows"].default
    max_workflows_per_owner: int = SETTABLE["max_workflows_per_owner"].default
    timeout_seconds: int = SETTABLE["timeout_seconds"].default
    admission_timeout_seconds: int = SETTABLE["admission_timeout_seconds"].default
    pause_timeout_seconds: int = SETTABLE["pause_timeout_seconds"].default
    cpu_seconds: int = SETTABLE["cpu_seconds"].default
    memory_bytes: int = SETTABLE["memory_bytes"].default
    retained_runs: int = SETTABLE["retained_runs"].default


def recorded_limits(given: Mapping[str, int]) -> tuple[Limits, tuple[str, ...]]:
    """The limits of a recorded run as far as they are known here and within their bounds; the rest keep defaults.

    Returns them with the names of those that are not taken over, sorted.
    """
    known = {
        key: value
        for key, value in given.items()
        if key in SETTABLE and SETTABLE[key].floor <= value <= SETTABLE[key].ceiling
    }
    return Limits(**known), tuple(sorted(given.keys() - known.keys()))


class EngineConfig(msgspec.Struct, frozen=True):
    """The workflow plugin's validated ``config``: where it stores, which Agents, which limits."""

    enabled: bool
    storage_path: str
    agents: tuple[str, ...]
    limits: Limits
    #: How many people must attest the same before an uncertain step is settled: 1 or 2.
    reviewers: int = 1


def engine_config(config: Mapping[str, Any]) -> EngineConfig:
    """Validate the plugin's configuration mapping.

    Raises ConfigurationError naming the key, what is wrong with it and what is admitted. Unknown keys are
    refused, among them budgets that nothing here enforces (for example ``max_cost_usd``).
    """
    known = {"enabled", "storage_path", "agents", "reviewers", *SETTABLE}
    for key in config:
        if key not in known:
            raise ConfigurationError(
                f"config.{key} is not a setting of the workflow plugin. Known: {', '.join(sorted(known))}"
            )
    enabled = config.get("enabled", True)
    if not isinstance(enabled, bool):
        raise ConfigurationError("config.enabled must be true or false")
    path = config.get("storage_path", ".workbench/workflows.sqlite")
    if not isinstance(path, str) or not path or "\0" in path:
        raise ConfigurationError("config.storage_path must be the path of a file")
    agents = config.get("agents", ["lead_agent"])
    if (
        not isinstance(agents, (list, tuple))
        or not agents
        or not all(isinstance(name, str) and name for name in agents)
    ):
        raise ConfigurationError("config.agents must be a list of at least one agent name")
    reviewers = config.get("reviewers", 1)
    if isinstance(reviewers, bool) or reviewers not in (1, 2):
        raise ConfigurationError("config.reviewers must be 1 or 2")
    values: dict[str, int] = {}
    for key, limit in SETTABLE.items():
        value = config.get(key, limit.default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigurationError(f"config.{key} must be a whole number ({limit.unit})")
        if not limit.floor <= value <= limit.ceiling:
            raise ConfigurationError(
                f"config.{key} is {value}; admitted are {limit.floor} to {limit.ceiling} ({limit.unit})"
            )
        values[key] = value
    return EngineConfig(enabled, path, tuple(sorted(set(agents))), Limits(**values), reviewers)
