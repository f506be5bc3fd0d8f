"""A first script, and the bundled examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workbench.cli.conftest import Command
from workbench import scripts
from workflows_core.errors import UsageError

ROOT = Path(__file__).parents[3]


def test_new_writes_a_script_that_passes_the_check_and_its_stub_set(command: Command, folder: Path) -> None:
    result = command("new")
    assert result.status == 0
    assert sorted(path.name for path in folder.iterdir()) == ["first.stubs.yaml", "first.workflow.js"]
    assert "workbench run first.workflow.js" in result.out
    assert command("check", "first.workflow.js").out == "first.workflow.js: no problems\n"


def test_new_takes_a_name_with_or_without_its_suffix(command: Command) -> None:
    assert command("new", "a.workflow.js", "--json").document == {
        "script": "a.workflow.js",
        "stubs": "a.stubs.yaml",
    }
    assert command("new", "b", "--json").document["script"] == "b.workflow.js"


@pytest.mark.parametrize("there", ["first.workflow.js", "first.stubs.yaml"])
def test_new_never_overwrites(command: Command, folder: Path, there: str) -> None:
    (folder / there).write_text("mine")
    result = command("new")
    assert result.status == 2
    assert f"{there} exists already" in result.err
    assert [path.name for path in folder.iterdir()] == [there]
    assert (folder / there).read_text() == "mine"


def test_new_does_not_write_through_a_dangling_link(command: Command, folder: Path) -> None:
    (folder / "first.stubs.yaml").symlink_to(folder / "elsewhere")
    assert command("new").status == 2
    assert not (folder / "elsewhere").exists()


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "", "a\nb", "x" * 81])
def test_new_refuses_names_that_are_no_file_names(command: Command, folder: Path, name: str) -> None:
    assert command("new", name).status == 2
    assert list(folder.iterdir()) == []


def test_when_the_second_file_cannot_be_written_the_first_is_taken_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def refuse(path: Path, *arguments: object, **options: object) -> object:
        if path.name.endswith("stubs.yaml") and "x" in arguments:
            raise OSError(28, "No space left on device")
        return opened(path, *arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UsageError, match="No space left on device"):
        scripts.write_starter(folder)
    assert list(folder.iterdir()) == []


def test_the_examples_are_part_of_the_package() -> None:
    for path in (ROOT / "examples").glob("*.*.*"):
        assert scripts.example(path.name) == path.read_text("utf-8")


@pytest.mark.parametrize("name", ["checks", "first"])
def test_the_examples_have_no_problems(command: Command, name: str) -> None:
    result = command("check", ROOT / "examples" / f"{name}.workflow.js", "--json")
    assert result.document == {"problems": []}


def test_the_first_script_has_five_lines() -> None:
    assert len(scripts.example("first.workflow.js").splitlines()) == 5


@pytest.mark.parametrize(
    ("path", "name"), [("a.workflow.js", "a"), ("x/b.js", "b"), ("c", "c"), (".workflow.js", ".workflow.js")]
)
def test_a_run_is_named_after_its_script(path: str, name: str) -> None:
    assert scripts.script_name(Path(path)) == name
