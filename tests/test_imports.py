"""What a package brings into a process: the engine must work without the screens' and the commands' libraries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMPORT_ALL = """
import importlib, json, pkgutil, sys
names = [module.name for module in pkgutil.walk_packages([sys.argv[1]], sys.argv[2] + ".")]
names = [name for name in names if name not in sys.argv[3:]]
for name in names:
    importlib.import_module(name)
print(json.dumps({"names": names, "loaded": sorted({name.partition(".")[0] for name in sys.modules})}))
"""


#: Sources of the worker's own process: they are sent to it in one piece and imported nowhere.
INSIDE_WORKERS = {"workflows_core.worker.child", "workflows_core.worker.probe_child"}


def imported(package: str) -> tuple[set[str], set[str]]:
    """The modules of a package, all imported in a fresh interpreter, and the top-level names loaded then."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", IMPORT_ALL, str(ROOT / package), package, *INSIDE_WORKERS],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=ROOT,
    )
    report = json.loads(done.stdout)
    return set(report["names"]), set(report["loaded"])


def modules(package: str) -> set[str]:
    """Every module of a package by its file."""
    found = set()
    for path in (ROOT / package).rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found.add(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


def test_the_engine_loads_no_screen_no_http_no_command_line_and_no_yaml() -> None:
    names, loaded = imported("workflows_core")
    assert names == modules("workflows_core") - {"workflows_core"} - INSIDE_WORKERS, (
        "every module was imported"
    )
    assert loaded.isdisjoint({"textual", "rich", "httpx", "click", "yaml", "pygments", "workbench"})
    assert {"msgspec", "extension_api"} <= loaded


def test_the_contract_loads_the_standard_library_only() -> None:
    names, loaded = imported("extension_api")
    assert names == modules("extension_api") - {"extension_api"}
    foreign = loaded - set(sys.stdlib_module_names) - {"extension_api", "__main__", "__mp_main__"}
    assert not {name for name in foreign if not name.startswith(("_", "sitecustomize"))}
