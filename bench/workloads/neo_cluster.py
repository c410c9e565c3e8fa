"""A NEO cluster of one master, one storage node and one admin node, all NEO's own programs, on one MariaDB server.

    cluster = Cluster(running, home)
    cluster.start()
    cluster.migrate("Data.fs", cluster.master)
    cluster.stop()

NEO is GPL software and runs in processes and with a Python (2.7) of its own; tools/setup/neo.sh makes both. Errors:
NeoFailed where one of its programs ends or does not get there.
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
IMPORTED = "All data are imported"  # the storage node of the Importer backend says so at the end
# Setup.engine -> the engine's name in NEO, which gives MyRocks column families under the second one.
ENGINES = {"InnoDB": "InnoDB", "ROCKSDB": "RocksDB", "ATOLL": "ATOLL"}
SCRIPTS = Path(__file__).resolve().parents[1] / "neo27"


class NeoFailed(RuntimeError):
    """One of NEO's programs failed; the message has the end of what it said."""


def environment() -> Path:
    """Returns the folder of NEO's programs. Errors: paths.Missing before tools/setup/neo.sh has run."""
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
    """The programs of one cluster. The storage node's tables are in the database `neo` of that server."""

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

        `source`: a FileStorage of the cluster's own, which NEO's Importer backend then imports.
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
        """Tells the cluster to start as soon as its storage node is there; returns whether it runs."""
        self._check_nodes()
        state = self._control("print", "cluster")
        if state == "RECOVERING":
            self._control("start")
        return state == "RUNNING"

    def _control(self, *command: str) -> str:
        """Runs neoctl; returns what it says, also when it fails: nodes that still start are no error."""
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
        """Stops the cluster as its manual says: all is committed then."""
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
        """Copies with neomigrate, from a FileStorage to the cluster (its master's address) or back; returns seconds."""
        started = time.perf_counter()
        _run([environment() / "neomigrate", "-q", "-c", NAME, source, target])
        return time.perf_counter() - started

    def wait_imported(self) -> None:
        """Waits until the Importer backend has stored all. Errors: NeoFailed, TimeoutError."""

        def imported() -> bool:
            self._check_nodes()
            return IMPORTED in self._log("storage").read_text(errors="replace")

        wait_until(imported, IMPORT_TIMEOUT_S, "NEO's import", POLL_S)
