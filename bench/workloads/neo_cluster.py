"""Runs a NEO cluster with one MariaDB server: one master, one storage node and one admin node, all NEO's own
programs.

    cluster = Cluster(running, home)
    cluster.start()
    cluster.migrate("Data.fs", cluster.master)
    cluster.stop()

NEO is GPL software. It runs in processes of its own, with a Python 2.7 of its own; tools/setup/neo.sh
installs both. Errors: NeoFailed when one of its programs fails or ends too early.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from common.measure import cpu_clock_s
from common.rig import Running
from harness import paths
from harness.process import Child, free_port, wait_until

NAME = "atoll"
DATABASE = "neo"
PARTITIONS = 12  # of NEO's, the value in its example configuration
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60
IMPORT_TIMEOUT_S = 3600
POLL_S = 0.05
IMPORTED = "All data are imported"  # the storage node logs this at the end of an import
# Setup.engine -> the engine's name in NEO. NEO uses column families only for the name "RocksDB".
ENGINES = {"InnoDB": "InnoDB", "ROCKSDB": "RocksDB", "ATOLL": "ATOLL"}
SCRIPTS = Path(__file__).resolve().parents[1] / "neo27"


class NeoFailed(RuntimeError):
    """One of NEO's programs failed. The message has the end of its output."""


def environment() -> Path:
    """Returns the folder of NEO's programs. Errors: paths.Missing when tools/setup/neo.sh has not run."""
    folder = paths.BUILD / "bin" / "neo" / "bin"
    if not (folder / "neomaster").exists():
        raise paths.Missing("NEO is not here: tools/setup/neo.sh makes it")
    return folder


def run_script(name: str, *arguments: object) -> str:
    """Runs a script of bench/neo27 to its end; returns its output."""
    return _run([environment() / "python", SCRIPTS / name, *arguments])


def _run(command: list[object]) -> str:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=IMPORT_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise NeoFailed(f"{Path(str(command[0])).name} ended with {done.returncode}: {done.stderr[-1500:]}")
    return done.stdout.strip()


class Cluster:
    """The programs of one cluster. The storage node's tables are in the database `neo` of the MariaDB
    server."""

    def __init__(self, running: Running, home: Path):
        self.running = running
        self.home = home
        self.master = f"127.0.0.1:{free_port()}"
        self.admin = f"127.0.0.1:{free_port()}"
        self.nodes: dict[str, Child] = {}
        home.mkdir(parents=True, exist_ok=True)

    # ---- life --------------------------------------------------------------------------------------------

    def create_database(self) -> None:
        self.running.execute(f"CREATE DATABASE {DATABASE}")

    def start(self, source: Path | None = None) -> None:
        """Starts the nodes and waits until the cluster runs.

        `source`: a FileStorage that NEO's Importer backend imports. No other cluster may use it.
        """
        engine = ENGINES[self.running.engine]
        database = f"root@{DATABASE}{self.running.socket}"
        storage: list[object] = [environment() / "python", SCRIPTS / "neostorage.py", engine]
        if source:
            storage += ["-a", "Importer", "-d", self._importer_file(source, database, engine)]
        else:
            storage += ["-d", database, "-e", engine]
        self._start_node("master", [environment() / "neomaster", "-b", self.master, "-p", PARTITIONS])
        self._start_node("storage", storage)
        self._start_node("admin", [environment() / "neoadmin", "-b", self.admin])
        wait_until(self._runs, START_TIMEOUT_S, "NEO's cluster runs", POLL_S)

    def _importer_file(self, source: Path, database: str, engine: str) -> Path:
        file = self.home / "importer.conf"
        storage = f"<filestorage>\n    path {source}\n  </filestorage>"
        file.write_text(
            f"[neo]\nadapter=MySQL\ndatabase={database}\nengine={engine}\n\n[root]\nstorage=\n  {storage}\n"
        )
        return file

    def _start_node(self, name: str, command: list[object]) -> None:
        self._log(name).unlink(missing_ok=True)
        arguments = [str(part) for part in (*command, "-c", NAME, "-m", self.master)]
        self.nodes[name] = Child(arguments, self._log(name), cwd=self.home)

    def _log(self, name: str) -> Path:
        return self.home / f"{name}.log"

    def _check_nodes(self) -> None:
        for name, node in self.nodes.items():
            if not node.running():
                text = self._log(name).read_text(errors="replace")
                raise NeoFailed(f"the {name} node ended with {node.exit_code()}: {text[-1500:]}")

    def _runs(self) -> bool:
        """Starts the cluster as soon as its storage node is ready. Returns whether the cluster runs."""
        self._check_nodes()
        state = self._control("print", "cluster")
        if state == "RECOVERING":
            self._control("start")
        return state == "RUNNING"

    def _control(self, *command: str) -> str:
        """Runs neoctl and returns its output, even when it fails, because it fails while the nodes are still
        starting."""
        arguments = [environment() / "neoctl", "-a", self.admin, *command]
        done = subprocess.run(
            [str(part) for part in arguments],
            capture_output=True,
            text=True,
            timeout=START_TIMEOUT_S,
            check=False,
        )
        return done.stdout.strip()

    def cpu_s(self) -> float:
        """Returns the CPU seconds of the nodes so far. Requires: they run."""
        return sum(cpu_clock_s(node.pid) for node in self.nodes.values())

    def stop(self) -> None:
        """Stops the cluster as its manual says, so that everything is committed."""
        self._control("set", "cluster", "STOPPING")
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while any(node.running() for node in self.nodes.values()) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        self.kill()

    def kill(self) -> None:
        for node in self.nodes.values():
            node.kill()
        self.nodes.clear()

    # ---- work --------------------------------------------------------------------------------------------

    def migrate(self, source: object, target: object) -> float:
        """Copies with neomigrate from a FileStorage to the cluster (given by its master's address), or back.
        Returns the seconds."""
        started = time.perf_counter()
        _run([environment() / "neomigrate", "-q", "-c", NAME, source, target])
        return time.perf_counter() - started

    def wait_imported(self) -> None:
        """Waits until the Importer backend has imported everything. Errors: NeoFailed, TimeoutError."""

        def imported() -> bool:
            self._check_nodes()
            return IMPORTED in self._log("storage").read_text(errors="replace")

        wait_until(imported, IMPORT_TIMEOUT_S, "NEO's import", POLL_S)
