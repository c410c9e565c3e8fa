"""Goal:   tests, demo and benchmarks need no installed MariaDB, and the engine loads with the plugin maturity
        that a user's server demands.
Method: start a server, and check which files it uses and its setting of plugin maturity.
"""

from __future__ import annotations

from pathlib import Path

from harness import paths


def test_a_server_runs_from_the_unpacked_packages_only(lab):
    server = lab.server()
    server.plugins = ("ha_atoll", "ha_rocksdb")
    server.start()
    assert Path(f"/proc/{server.pid}/exe").resolve() == (paths.SERVER / "sbin" / "mariadbd").resolve()
    mapped = {line.split(maxsplit=5)[5] for line in _maps(server.pid) if "/mysql" in line}
    assert mapped == {str(paths.SERVER_PLUGINS / "ha_rocksdb.so")}
    assert server.value("SELECT @@character_sets_dir").startswith(str(paths.SERVER))


def test_the_engine_loads_at_the_default_plugin_maturity(lab):
    server = lab.server().start()
    assert server.value("SELECT @@plugin_maturity") == "gamma"
    assert server.has_engine()


def _maps(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/maps").read_text().splitlines()
