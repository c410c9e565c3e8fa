"""One private MariaDB server: its own data directory, socket, port and plugin directory.

The plugin directory has links to the server's plugins and to the built engine. So nothing has to be
installed, and several builds can be tested side by side.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import pymysql
import pymysql.cursors

from harness import paths
from harness.process import Child, discard, free_port, scratch_directory

START_TIMEOUT_S = 90
_template: Path | None = None


class ServerFailed(Exception):
    """The server did not start, or ended by itself. The message has the end of its error log."""


def initialize_data_directory(directory: Path) -> None:
    """Runs mariadb-install-db. Redo log and system tablespace are small, because tests make many data
    directories.

    The temporary directory is a private one, because a starting server deletes the temporary tables that it
    finds there. In /tmp these could be the tables of other tests.
    """
    temporary = directory.with_name(f"{directory.name}.tmp")
    temporary.mkdir(parents=True)
    command = [
        str(paths.program("mariadb-install-db")),
        "--no-defaults",
        f"--basedir={paths.SERVER}",
        *(["--user=root"] if os.geteuid() == 0 else []),
        f"--datadir={directory}",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        f"--tmpdir={temporary}",
        "--innodb-log-file-size=16M",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise ServerFailed(f"mariadb-install-db failed:\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}")
    shutil.rmtree(temporary)


def copy_initialized(directory: Path) -> None:
    """Makes an initialised data directory by copying one that is made once per process. A copy takes 0.1 s
    instead of 1 s."""
    global _template
    if _template is None:
        _template = scratch_directory("template") / "data"
        initialize_data_directory(_template)
    shutil.copytree(_template, directory)


class Server:
    """A mariadbd under test. `options` are command line options without the leading dashes."""

    def __init__(
        self, home: Path, options: dict[str, object] | None = None, plugins: Iterable[str] = ("ha_atoll",)
    ):
        self.home = home
        self.data = home / "data"
        self.options: dict[str, object] = dict(options or {})
        self.plugins = tuple(plugins)
        self.run_by: tuple[str, ...] = ()  # a command that executes the server with its own process id
        self.socket = home / "s.sock"
        self.port = free_port()
        self.error_log_path = home / "error.log"
        self._child: Child | None = None
        home.mkdir(parents=True, exist_ok=True)

    # ---- life -------------------------------------------------------------------------------------

    def initialize(self) -> Server:
        """Makes an empty, initialised data directory."""
        copy_initialized(self.data)
        return self

    def wipe(self) -> None:
        """Deletes the whole data directory, as if the machine were lost."""
        shutil.rmtree(self.data)

    def start(self, **extra: object) -> Server:
        """Starts the server and waits until it answers.

        Errors: ServerFailed. `extra` adds or replaces options for this start only.
        """
        if not self.data.exists():
            self.initialize()
        self._link_plugins()
        self._child = Child(self._arguments(extra), self.error_log_path, cwd=self.home)
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            if not self._child.running():
                raise ServerFailed(f"mariadbd ended with {self._child.exit_code()}:\n{self.log_tail()}")
            try:
                self.connect().close()
                return self
            except pymysql.Error:
                if time.monotonic() > deadline:
                    self._child.kill()
                    raise ServerFailed(f"no answer in {START_TIMEOUT_S} s:\n{self.log_tail()}") from None
                time.sleep(0.03)

    def stop(self, timeout_s: float = 90) -> None:
        """Shuts the server down cleanly. Errors: ServerFailed when it had to be killed or its exit code is
        not 0."""
        if self._child is None:
            return
        code = self._child.stop(timeout_s)
        self._child = None
        if code != 0:
            raise ServerFailed(f"shutdown ended with {code}:\n{self.log_tail()}")

    def kill(self) -> None:
        """Kills the server with SIGKILL."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def restart(self, **extra: object) -> Server:
        self.stop()
        return self.start(**extra)

    def running(self) -> bool:
        return self._child is not None and self._child.running()

    def innodb_cannot_recover(self) -> bool:
        """Returns whether a start failed with an assertion of InnoDB.

        After kill -9 under load, InnoDB of MariaDB 10.11.18 fails to recover in about one of a thousand
        starts, even without ATOLL. Further starts from the same files then fail, too.
        """
        log = self.error_log_path.read_text(errors="replace")
        return "Assertion failure in file ./storage/innobase/" in log

    def destroy(self) -> None:
        """Kills the server and removes its home directory."""
        self.kill()
        discard(self.home)

    # ---- talking to it ------------------------------------------------------------------------------

    def connect(
        self, database: str | None = None, autocommit: bool = True, timeout_s: int = 600
    ) -> pymysql.Connection:
        return pymysql.connect(
            unix_socket=str(self.socket),
            user="root",
            database=database,
            charset="utf8mb4",
            autocommit=autocommit,
            read_timeout=timeout_s,
            write_timeout=timeout_s,
        )

    def run(self, *statements: str, database: str | None = None) -> list[tuple]:
        """Runs the statements on a new connection. Returns the rows of the last one."""
        connection = self.connect(database)
        try:
            rows: list[tuple] = []
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                    rows = list(cursor.fetchall())
            return rows
        finally:
            connection.close()

    def value(self, statement: str, database: str | None = None):
        return self.run(statement, database=database)[0][0]

    def status(self, pattern: str = "Atoll%") -> dict[str, str]:
        """Returns the global status variables whose names match `pattern`. The names are in lower case."""
        rows = self.run(f"SHOW GLOBAL STATUS LIKE '{pattern}'")
        return {name.lower(): value for name, value in rows}

    def counter(self, name: str) -> int:
        """Returns the value of a numeric status variable. Errors: KeyError when there is none with this
        name."""
        return int(self.status(name)[name.lower()])

    def version(self) -> str:
        return str(self.value("SELECT VERSION()"))

    def has_engine(self, engine: str = "ATOLL") -> bool:
        rows = self.run(f"SELECT support FROM information_schema.engines WHERE engine = '{engine}'")
        return bool(rows) and rows[0][0] in ("YES", "DEFAULT")

    # ---- looking at it ------------------------------------------------------------------------------

    def log(self) -> str:
        return self.error_log_path.read_text(errors="replace") if self.error_log_path.exists() else ""

    def log_mark(self) -> int:
        """Returns the present length of the error log, for log_since()."""
        return len(self.log())

    def log_since(self, mark: int) -> str:
        return self.log()[mark:]

    def log_tail(self, size: int = 3000) -> str:
        return self.log()[-size:]

    def rss_peak_bytes(self) -> int:
        return self._child.rss_peak_bytes() if self._child else 0

    def rss_bytes(self) -> int:
        return self._child.rss_bytes() if self._child else 0

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    # ---- inner --------------------------------------------------------------------------------------

    def _link_plugins(self) -> None:
        directory = self.home / "plugin"
        directory.mkdir(exist_ok=True)
        links = {source.name: source for source in paths.SERVER_PLUGINS.glob("*.so")}
        if any("ha_atoll" in name for name in self.plugins):
            links["ha_atoll.so"] = paths.plugin()
        for name, source in links.items():
            link = directory / name
            if not link.is_symlink():
                link.symlink_to(source)

    def _arguments(self, extra: dict[str, object]) -> list[str]:
        temporary = self.home / "tmp"
        temporary.mkdir(exist_ok=True)
        options: dict[str, object] = {
            "basedir": paths.SERVER,
            "datadir": self.data,
            "socket": self.socket,
            "port": self.port,
            "bind-address": "127.0.0.1",
            "pid-file": self.home / "pid",
            "log-error": self.error_log_path,
            "plugin-dir": self.home / "plugin",
            "tmpdir": temporary,
            "secure-file-priv": "",
            "skip-name-resolve": 1,
            "user": "root" if os.geteuid() == 0 else None,
            "innodb-log-file-size": "16M",
            "innodb-buffer-pool-size": "64M",
            **self.options,
            **extra,
        }
        loads = [f"--plugin-load-add={name}" for name in self.plugins]
        rendered = [
            f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value is not None
        ]
        return [*self.run_by, str(paths.program("mariadbd")), "--no-defaults", *loads, *rendered]


def s3_options(endpoint: str, bucket: str, credentials, prefix: str = "db") -> dict[str, object]:
    """Returns the Atoll options that point a server at a bucket of an S3 server."""
    return {
        "atoll_url": f"s3://{bucket}/{prefix}",
        "atoll_s3_endpoint": f"http://{endpoint}",
        "atoll_s3_region": credentials.region,
        "atoll_s3_access_key": credentials.access_key,
        "atoll_s3_secret_key": credentials.secret_key,
    }
