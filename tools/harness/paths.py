"""Where things are: the work tree, the cache outside it, the plugin, the servers' binaries."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
SERVER_PLUGINS = Path(os.environ.get("ATOLL_SERVER_PLUGINS", "/usr/lib/mysql/plugin"))


class Missing(Exception):
    """A program or file that the set-up should have made is not there."""


def cache_dir() -> Path:
    """Returns the machine-wide cache that `make` fills once (never inside the work tree)."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "atoll"


def plugin() -> Path:
    """Returns the built engine; ATOLL_PLUGIN overrides the place."""
    return Path(os.environ.get("ATOLL_PLUGIN", BUILD / "ha_atoll.so"))


def program(name: str) -> Path:
    """Finds `name` in the cache, in build/, then on PATH (and in /usr/sbin).

    Errors: Missing, saying which make target provides it.
    """
    override = os.environ.get("ATOLL_" + name.upper().replace("-", "_"))
    candidates = [Path(override)] if override else []
    candidates += [cache_dir() / "bin" / name, BUILD / name, BUILD / "bin" / name]
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    candidates += [Path(found)] if found else []
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    raise Missing(f"{name} is not in {cache_dir()}/bin, build/ or PATH; run `make build` first")
