"""``make bench``: every benchmark, a table, and ``bench.json``.

Each bar is a ratio inside one run, because machines are noisy. Names after the command run only those modules.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import time
from pathlib import Path
from typing import Any


def modules() -> list[str]:
    """The benchmark modules: those with a ``run()`` that returns rows."""
    here = str(Path(__file__).parent)
    return sorted(info.name for info in pkgutil.iter_modules([here]) if not info.name.startswith("_"))


def main(wanted: list[str]) -> int:
    """Run the modules and print their rows. 1 where a bar is missed, so that a script can tell."""
    rows: list[dict[str, Any]] = []
    for name in wanted or modules():
        module = importlib.import_module(f"{__package__}.{name}")
        if not hasattr(module, "run"):
            continue
        begin = time.monotonic()
        rows += module.run()
        print(f"{name}: {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    rows.sort(key=lambda row: (int(str(row["demand"]).split()[0]), str(row["name"])))
    width = max((len(str(row["name"])) for row in rows), default=0)
    for row in rows:
        bar = "" if row.get("bar") is None else f"at most {row['bar']:g}"
        verdict = "" if row.get("ok") is None else ("ok" if row["ok"] else "MISSED")
        print(
            f"{row['demand']!s:>3}  {row['name']!s:<{width}}  {row['value']:>10.3f} {row['unit']:<4} {bar:<14}{verdict}"
        )
    Path("bench.json").write_text(json.dumps(rows, indent=2) + "\n")
    return int(any(row.get("ok") is False for row in rows))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
