"""The page of all keys, made from the keymap: ``python -m workbench.tui.keypage docs/keys.md``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from . import keymap, remap
from .keys.row import Key

_HEAD: Final = """\
# Keys

Made from the table of keys by `python -m workbench.tui.keypage docs/keys.md`; a test says when it is out of date. In the
application `?` shows the same, the keys of the focused pane first, and the palette (`ctrl+p`) finds every act by typing.

Single letters act outside text fields only. The same letter means the same verb everywhere. Any key can be changed: give
its id with another key, or several with commas between them, under `keymap:` in `workbench.yaml`, or in `settings.yaml` in
your own configuration folder, which wins:

```yaml
keymap: {runs.cancel: f7, list.down: "down,ctrl+n"}
hjkl: true        # in settings.yaml: h, j, k and l wherever arrows act and no letters are typed
```

A conflict, an unknown id and a key that terminals send as another are reported at the start, and the key keeps its place.
With `hjkl`, a letter that means something else in a pane keeps that meaning there.
"""


def page() -> str:
    """The page as Markdown."""
    parts = [_HEAD]
    keys = remap.load({})
    for pane, heading in keymap.PANES.items():
        rows = keymap.rows((pane,))
        if rows:
            parts.append(
                f"## {heading}\n\n| key | what it does | id |\n| --- | --- | --- |\n{_table(rows, keys)}"
            )
    return "\n".join(parts)


def _table(rows: Sequence[Key], keys: remap.Keymap) -> str:
    return "".join(f"| {_label(row, keys)} | {row.tooltip} | `{row.id}` |\n" for row in rows)


def _label(row: Key, keys: remap.Keymap) -> str:
    shown = (remap.display(key) for key in keys.keys(row.id).split(","))
    return ", ".join(f"`{key}`" for key in shown)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
