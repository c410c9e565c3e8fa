"""The paths of the work tree, the machine-wide cache outside it, the plugin and the programs.

Importing this module sets the environment so that the libraries of the unpacked MariaDB are found by this
process and by those that it starts.
"""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
# Where the link to the server and the plugin are. SERIES names another series of MariaDB than the first one.
SERIES_BUILD = BUILD / "11.8" if os.environ.get("SERIES") == "11.8" else BUILD
# The MariaDB server that tools/setup/mariadb.sh has unpacked. ATOLL_SERVER overrides the path.
SERVER = Path(os.environ.get("ATOLL_SERVER", SERIES_BUILD / "mariadb")).resolve()
SERVER_PLUGINS = Path(os.environ.get("ATOLL_SERVER_PLUGINS", SERVER / "lib" / "mysql" / "plugin"))


class Missing(Exception):
    """A program or file that the set-up should have installed is missing."""


def cache_dir() -> Path:
    """Returns the machine-wide cache directory, which `make` fills once. It is never inside the work tree."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "atoll"


def plugin() -> Path:
    """Returns the path of the built plugin. ATOLL_PLUGIN overrides it."""
    return Path(os.environ.get("ATOLL_PLUGIN", SERIES_BUILD / "ha_atoll.so"))


def program(name: str) -> Path:
    """Looks for the program `name` in the unpacked server, the cache, build/, then on PATH. Programs of
    MariaDB are looked for only in the unpacked server.

    Errors: Missing, saying which make target provides it.
    """
    override = os.environ.get("ATOLL_" + name.upper().replace("-", "_"))
    candidates = [Path(override)] if override else []
    candidates += [SERVER / "sbin" / name, SERVER / "bin" / name]
    if not name.startswith("mariadb"):
        candidates += [cache_dir() / "bin" / name, BUILD / name, BUILD / "bin" / name]
        candidates += [Path(found)] if (found := shutil.which(name)) else []
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    raise Missing(f"{name} is not in {SERVER}, {cache_dir()}/bin, build/ or PATH; run `make build` first")


def _find_libraries() -> None:
    known = [str(SERVER / "lib" / f"{platform.machine()}-linux-gnu"), os.environ.get("LD_LIBRARY_PATH", "")]
    os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, known))


_find_libraries()
