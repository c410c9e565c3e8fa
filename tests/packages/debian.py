"""A clean Debian 12 with MariaDB's server, in a directory: packages are installed there as on a machine of its own.

Each command runs in the directory as its root (chroot), with its own processes and without a network: only apt's
repositories that are files in the directory are there. Needs root rights.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from harness import paths
from harness.process import Child, scratch_directory, wait_until

SERVER_PACKAGE = "mariadb-server-core"
ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "DEBIAN_FRONTEND": "noninteractive",
    "LC_ALL": "C.UTF-8",
    "HOME": "/root",
}
COMMAND_TIMEOUT_S = 180


def build_setting(name: str) -> str:
    found = re.search(rf"^{name}=(.*)$", (paths.BUILD / "setup.env").read_text(), re.MULTILINE)
    assert found is not None, name
    return found.group(1)


def build_packages(output: Path, *options: str) -> dict[str, Path]:
    """Makes the packages. Returns their files by the packages' names."""
    command = [paths.ROOT / "packages/build.sh", "--fast", "--output", output, *options]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return {path.name.partition("_")[0]: path for path in output.glob("*.deb")}


def root_folder() -> Path:
    """Returns the folder with the files of a Debian root; tools/setup/debian-root.sh says what it holds."""
    command = [paths.ROOT / "tools/setup/debian-root.sh", build_setting("MARIADB_PACKAGE")]
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Path(made.stdout.strip())


class Debian:
    """One such root. `files` is its directory."""

    def __init__(self, source: Path):
        self.source = source
        self.files = scratch_directory("debian")
        subprocess.run(["tar", "-C", self.files, "-xf", source / "root.tar"], check=True)
        (self.files / "run/mysqld").mkdir(exist_ok=True)
        self.log = self.files / "root/server.log"
        self._server: Child | None = None
        self.run("chown", "mysql:", "/run/mysqld")

    # ---- commands ------------------------------------------------------------------------------------

    def _inside(self, *command: str) -> list[str]:
        alone = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", f"--root={self.files}"]
        return [*alone, "--mount-proc", "env", "-i", *(f"{k}={v}" for k, v in ENVIRONMENT.items()), *command]

    def attempt(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Runs a command, and returns its outcome; stdout has what it printed to stderr, too."""
        return subprocess.run(
            self._inside(*command),
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
        )

    def run(self, *command: str) -> str:
        """Runs a command, and returns what it prints. Errors: AssertionError when it fails."""
        done = self.attempt(*command)
        assert done.returncode == 0, f"{' '.join(command)}\nexit status {done.returncode}\n{done.stdout}"
        return done.stdout

    # ---- packages ------------------------------------------------------------------------------------

    def take(self, *files: Path) -> list[str]:
        """Copies packages into the root. Returns their names for `apt_get install`."""
        for file in files:
            shutil.copy(file, self.files / "root" / file.name)
        return [f"/root/{file.name}" for file in files]

    def offer(self, name: str) -> None:
        """Makes the packages of the server, `pinned` or `newest`, those that apt knows."""
        shutil.copytree(self.source / name, self.files / "srv" / name, dirs_exist_ok=True)
        listed = self.files / "etc/apt/sources.list.d/server.list"
        listed.write_text(f"deb [trusted=yes] file:/srv/{name} ./\n")
        self.run("apt-get", "update")

    def apt_get(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.attempt("apt-get", "-y", "-o", "Dpkg::Use-Pty=0", *arguments)

    def install(self, *names: str) -> str:
        done = self.apt_get("install", "--allow-downgrades", *names)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def state(self, package: str) -> str:
        """Returns the state and version of a package, such as `ii 1.0`; empty: it was never there."""
        done = self.attempt("dpkg-query", "-W", "-f", "${db:Status-Abbrev}${Version}", package)
        return done.stdout if done.returncode == 0 else ""

    def all_files(self) -> set[str]:
        """Returns all files of the root that do not belong to the running system."""
        passing = (
            "proc/",
            "dev/",
            "run/",
            "root/",
            "srv/",
            "tmp/",
            "var/log/",
            "var/cache/",
            "var/lib/dpkg/",
        )
        passing = (*passing, "var/lib/apt/", "var/lib/mysql/")
        names = {str(path.relative_to(self.files)) for path in self.files.rglob("*")}
        return {name for name in names if not name.startswith(passing)}

    # ---- the server ------------------------------------------------------------------------------------

    def start(self, *options: str) -> None:
        """Starts the server as its unit does, and waits until it answers."""
        self.begin_start(*options)
        wait_until(lambda: self._answers() or self._ended(), 60, "the server")
        assert not self._ended(), self.log_text()[-3000:]

    def begin_start(self, *options: str) -> None:
        self.log.unlink(missing_ok=True)
        self._server = Child(self._inside("mariadbd", "--user=mysql", *options), self.log)

    def _answers(self) -> bool:
        return self.attempt("mariadb", "-e", "SELECT 1").returncode == 0

    def _ended(self) -> bool:
        return self._server is None or not self._server.running()

    def wait_for_end(self) -> None:
        wait_until(self._ended, 60, "the end of the server")

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Sends a signal to the server itself, and waits until it has ended."""
        assert self._server is not None
        children = Path(f"/proc/{self._server.pid}/task/{self._server.pid}/children").read_text().split()
        for child in children:
            os.kill(int(child), number)
        self.wait_for_end()

    def stop(self) -> None:
        if not self._ended():
            self.kill(signal.SIGTERM)

    def sql(self, text: str) -> str:
        return self.run("mariadb", "-N", "-e", text).strip()

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def new_data_directory(self) -> None:
        """Makes the data directory anew, as on a new machine."""
        shutil.rmtree(self.files / "var/lib/mysql")
        (self.files / "var/lib/mysql").mkdir()
        self.run("chown", "mysql:", "/var/lib/mysql")
        self.run("mariadb-install-db", "--user=mysql", "--skip-test-db", "--force")

    def close(self) -> None:
        if not self._ended():
            self.kill()
        time.sleep(0.1)
