"""An Agent that is a program: finds relative links of Markdown pages that lead nowhere.

Reads one line of JSON, {"task": {"pages": [NAME, …]}, …}; without names it looks at every page of the folder in its
first argument. Leaves report.md in the current folder and prints {"links": NUMBER, "broken": ["PAGE: LINK", …]}.
"""

import json
import re
import sys
from pathlib import Path

task = json.loads(sys.stdin.readline())["task"]
folder = Path(sys.argv[1])
names = task["pages"] or sorted(path.name for path in folder.glob("*.md"))
links: list[tuple[str, str]] = []
for name in names:
    try:
        text = (folder / name).read_text("utf-8")
    except OSError as error:
        sys.exit(f"{name} cannot be read: {error.strerror}")
    links += [(name, link) for link in re.findall(r"\]\(([^)#:\s]+)\)", text)]
broken = [f"{name}: {link}" for name, link in links if not (folder / link).exists()]
lines = [f"{len(broken)} of {len(links)} links lead nowhere.", "", *(f"- {line}" for line in broken)]
Path("report.md").write_text("\n".join(lines) + "\n", "utf-8")
json.dump({"links": len(links), "broken": broken}, sys.stdout)
