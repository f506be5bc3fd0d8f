"""What the pages claim agrees with the tables in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workbench import words
from workbench.cli.exits import Exit
from workflows_core import limits
from workflows_core.model import RunState, StepKind, StepStatus
from workflows_core.script.problem import RULES

ROOT = Path(__file__).parents[3]
SCRIPTING = (ROOT / "docs" / "scripting.md").read_text("utf-8")
COMMANDS = (ROOT / "docs" / "commands.md").read_text("utf-8")
FLOWING = " ".join(COMMANDS.split())


def test_every_rule_is_documented_with_its_severity() -> None:
    rows = re.findall(r"^\| (`.*?) \| (error|warning) \|", SCRIPTING, re.MULTILINE)
    documented = {rule: severity for rules, severity in rows for rule in re.findall(r"`([a-z-]+)`", rules)}
    assert documented == {rule: info.severity for rule, info in RULES.items()}


@pytest.mark.parametrize("key", limits.SETTABLE)
def test_every_settable_limit_is_documented_with_default_and_ceiling(key: str) -> None:
    limit = limits.SETTABLE[key]
    assert f"| `{key}` | {limit.default:,} | {limit.ceiling:,} |" in SCRIPTING


def test_the_fixed_limits_are_documented() -> None:
    for line in (
        f"| the script | {limits.SCRIPT_BYTES:,} bytes |",
        f"| arguments | {limits.ARGS_BYTES:,} bytes |",
        f"| one task, wrapping included | {limits.TASK_BYTES:,} bytes |",
        f"| one output; the result | {limits.OUTPUT_BYTES:,} bytes |",
        f"| log | {limits.LOG_MESSAGES} lines of {limits.LOG_BYTES} bytes |",
        f"| turns of a run | {limits.ROUNDS:,} |",
        f"| stack | {limits.STACK_BYTES // 1024} KiB |",
    ):
        assert line in SCRIPTING


def test_every_exit_code_is_documented() -> None:
    documented = [int(code) for code in re.findall(r"^\| (\d+) \|", COMMANDS, re.MULTILINE)]
    assert documented == sorted(Exit)


def test_every_state_kind_and_status_is_documented() -> None:
    for enum in (RunState, StepKind, StepStatus):
        for value in enum:
            assert re.search(rf"\b{value.value}\b", COMMANDS), value


def test_every_ascii_form_is_documented() -> None:
    for mark in words.RUN_MARKS.values():
        assert f"`{mark.ascii}` {mark.word.replace('waiting ', 'waiting for ')}" in FLOWING


def test_the_readme_shows_the_two_commands_first() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    block = readme.split("```")[1]
    assert [line.split("#")[0].strip() for line in block.strip().splitlines()] == ["make demo", "make test"]


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    text = page.read_text("utf-8")
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)\s]+)\)", prose)
    assert "](" not in prose or links
    for link in links:
        target, _, place = link.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{page.name}: {link}"
        if place:
            assert place in _anchors(found.read_text("utf-8")), f"{page.name}: {link}"


def test_the_readme_leads_to_every_page() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    for page in PAGES[1:]:
        assert f"](docs/{page.name})" in readme, page.name


def _anchors(text: str) -> set[str]:
    """The places of a page that a link can name: its headings, as GitHub spells them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
