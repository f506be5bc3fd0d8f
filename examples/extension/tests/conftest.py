"""Where no distribution of the contract is installed, this makes ``deerflow_extension_api`` importable."""

from __future__ import annotations

import sys
from pathlib import Path

import workbench.host.loader  # noqa: F401

sys.path.insert(0, str(Path(__file__).parents[1]))
