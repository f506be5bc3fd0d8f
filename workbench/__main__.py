"""``python -m workbench``: the same as the command ``workbench``."""

from __future__ import annotations

from .cli.main import main

if __name__ == "__main__":
    main()
