"""Goal:   the packages can be installed, upgraded and removed in a clean Debian, and no way of doing that loses a
        table: not a kill, not a lost data directory, not a server of another version.
Method: a Debian root of its own for each test (debian.py), the real packages, MariaDB's own packages, a bucket in a
        directory. `make test-package` runs these tests; they need root rights.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from debian import Debian, build_packages, root_folder
from harness import paths
from harness.process import discard, scratch_directory

pytestmark = pytest.mark.skipif("ATOLL_TEST_PACKAGES" not in os.environ, reason="make test-package runs it")
PLUGIN, TOOLS = "mariadb-plugin-atoll", "atoll-tools"
CONFIGURATION = "etc/mysql/mariadb.conf.d/atoll.cnf"
FIRST_TABLE_S_MAX = 60
NEWER = "9.0.0"


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A folder with the packages in `now`, and those of a higher version in `newer`."""
    folder = scratch_directory("packages")
    build_packages(folder / "now")
    build_packages(folder / "newer", "--version", NEWER)
    yield folder
    discard(folder)


@pytest.fixture(scope="module")
def source() -> Path:
    if os.geteuid() != 0:
        pytest.skip("only root can make a Debian root")
    return root_folder()


@pytest.fixture
def debian(source: Path) -> Iterator[Debian]:
    system = Debian(source)
    yield system
    system.close()
    discard(system.files)


def commands_of(title: str) -> list[str]:
    """Returns the commands for root in a section of docs/install.md."""
    section = (paths.ROOT / "docs/install.md").read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"^# (.*)$", section, re.MULTILINE)


def install_both(debian: Debian, made: Path, which: str = "now") -> str:
    return debian.install(*debian.take(*(made / which).glob("*.deb")))


def use_bucket(debian: Debian, name: str = "bucket") -> str:
    """Makes a bucket in a directory, and names it in the configuration file of the package."""
    bucket = debian.files / "srv" / name
    bucket.mkdir()
    debian.run("chown", "mysql:", f"/srv/{name}")
    configuration = debian.files / CONFIGURATION
    text = configuration.read_text()
    assert "#atoll_url = " in text
    configuration.write_text(re.sub("#atoll_url = .*", f"atoll_url = file:///srv/{name}", text))
    return f"file:///srv/{name}"


def make_table(debian: Debian) -> None:
    debian.sql("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, v TEXT) ENGINE=ATOLL")
    debian.sql("INSERT INTO shop.t VALUES (1, 'first'), (2, 'second')")


def rows(debian: Debian) -> str:
    return debian.sql("SELECT GROUP_CONCAT(v ORDER BY id) FROM shop.t")


def test_from_the_package_to_the_first_table_takes_three_commands(debian, made):
    """Those of docs/install.md, as they are written there."""
    install, restart, create = commands_of("Three commands")
    debian.take(*(made / "now").glob("*.deb"))
    debian.start()
    started = time.monotonic()
    said = debian.run("sh", "-c", f"cd /root && {install} --yes")
    assert restart in said
    assert debian.sql("SELECT COUNT(*) FROM information_schema.engines WHERE engine = 'ATOLL'") == "0"
    debian.stop()  # there is no systemd in the root
    debian.start()
    debian.run("sh", "-c", create)
    seconds = time.monotonic() - started
    print(f"from the package to the first table: {seconds:.1f} s")
    assert seconds < FIRST_TABLE_S_MAX
    debian.sql("CREATE TABLE shop.t LIKE shop.notes; ALTER TABLE shop.t CHANGE body v TEXT")
    debian.sql("INSERT INTO shop.t VALUES (1, 'first'), (2, 'second')")
    assert debian.sql("SELECT @@atoll_url") == "file:///var/lib/mysql/atoll_bucket"
    debian.kill()
    debian.start()
    assert rows(debian) == "first,second"


def test_a_lost_data_directory_comes_back_from_the_bucket(debian, made):
    install_both(debian, made)
    url = use_bucket(debian)
    debian.start("--atoll-durability=sync")
    make_table(debian)
    debian.kill()
    debian.new_data_directory()
    debian.start("--atoll-take-over=ON")
    assert rows(debian) == "first,second"
    debian.stop()
    assert "ok:" in debian.run("atollctl", "verify", "--deep", url)


def test_an_upgrade_keeps_tables_and_settings(debian, made):
    install_both(debian, made)
    use_bucket(debian)
    debian.start()
    make_table(debian)
    said = install_both(debian, made, "newer")
    assert "keeps the version of the engine" in said
    assert debian.state(PLUGIN).startswith(f"ii {NEWER}")
    assert rows(debian) == "first,second", "the running server goes on"
    debian.sql("INSERT INTO shop.t VALUES (3, 'third')")
    assert "atoll_url = file:///srv/bucket" in (debian.files / CONFIGURATION).read_text()
    debian.stop()
    debian.start()
    assert rows(debian) == "first,second,third"


def test_a_removal_warns_and_loses_no_table(debian, made):
    install_both(debian, made)
    debian.start()
    make_table(debian)
    debian.stop()
    done = debian.apt_get("remove", PLUGIN)
    assert done.returncode == 0
    assert "WARNING: 1 ATOLL tables are defined in /var/lib/mysql" in done.stdout
    assert (debian.files / CONFIGURATION).exists()
    # The configuration that is left names a plugin that is gone: the server says so, and starts.
    debian.start()
    assert "Can't open shared library '/usr/lib/mysql/plugin/ha_atoll.so'" in debian.log_text()
    assert "ERROR 1286" in debian.attempt("mariadb", "-e", "SELECT * FROM shop.t").stdout
    # Neither can somebody put another table in the place of one, nor lose one by dropping it.
    assert "ERROR 1050" in debian.attempt("mariadb", "-e", "CREATE TABLE shop.t (id INT)").stdout
    debian.sql("DROP DATABASE shop")
    debian.stop()
    install_both(debian, made)
    debian.start()
    assert rows(debian) == "first,second"
    assert "have been made again from the bucket: shop" in debian.log_text()


def test_a_purge_leaves_nothing_but_the_tables(debian, made):
    before = debian.all_files()
    install_both(debian, made)
    debian.start()
    debian.stop()
    assert debian.all_files() > before
    done = debian.apt_get("purge", PLUGIN, TOOLS)
    assert done.returncode == 0, done.stdout
    assert "WARNING: 0 ATOLL tables" in done.stdout
    assert debian.all_files() - before == set()
    debian.start()
    assert "ERROR" not in debian.log_text()


def test_server_and_plugin_can_be_installed_at_once(debian, made):
    """The set-up of the data directory by the server's package finds the plugin and its configuration."""
    debian.apt_get("purge", "mariadb-server", "mariadb-server-core", "mariadb-client", "mariadb-client-core")
    subprocess.run(["find", debian.files / "var/lib/mysql", "-mindepth", "1", "-delete"], check=True)
    debian.offer("pinned")
    said = debian.install("mariadb-server", *debian.take(*(made / "now").glob("*.deb")))
    assert debian.state(PLUGIN).startswith("ii"), said
    debian.start()
    make_table(debian)
    assert rows(debian) == "first,second"


def test_the_unit_and_the_profile_are_valid(debian, made):
    install_both(debian, made)
    found = debian.attempt("systemd-analyze", "verify", "mariadb.service").stdout
    assert "atoll.conf" not in found, found
    shown = debian.run("systemd-analyze", "cat-config", "systemd/system/mariadb.service")
    assert "EnvironmentFile=-/etc/mysql/atoll.env" in shown
    profile = debian.files / "etc/apparmor.d/test"
    profile.write_text(
        "include <tunables/global>\nprofile mariadbd /usr/sbin/mariadbd {\n  include <abstractions/base>\n"
        "  include <abstractions/atoll>\n}\n"
    )
    debian.run("apparmor_parser", "--skip-kernel-load", "--skip-cache", "/etc/apparmor.d/test")


# ---- a server of another version -----------------------------------------------------------------------


@pytest.fixture
def newest(source: Path) -> str:
    version = (source / "newest.version").read_text().strip()
    if not (source / "pinned").is_dir() or f"_1%3a{version}_" in " ".join(
        path.name for path in (source / "pinned").glob("*.deb")
    ):
        pytest.skip(f"Debian has no newer server than {version}")
    return version


def put_pinned_server_back(debian: Debian) -> None:
    """docs/upgrade.md: the server gets the version again that the plugin was built for."""
    debian.offer("pinned")
    shown = debian.run("apt-cache", "madison", "mariadb-server-core")
    version = next(line.split("|")[1].strip() for line in shown.splitlines() if "file:/srv/pinned" in line)
    names = [path.name.partition("_")[0] for path in (debian.source / "pinned").glob("*.deb")]
    debian.install(*(f"{name}={version}" for name in names))


def test_apt_refuses_the_package_on_a_newer_server(debian, made, newest):
    debian.offer("newest")
    debian.install("mariadb-server", "mariadb-client")
    done = debian.apt_get("install", *debian.take(*(made / "now").glob("mariadb-plugin*.deb")))
    assert done.returncode != 0
    assert re.search(rf"Depends: mariadb-server-core \(= 1:\S+\) but 1:{re.escape(newest)}", done.stdout), (
        done.stdout
    )
    forced = debian.attempt("dpkg", "--install", *debian.take(*(made / "now").glob("mariadb-plugin*.deb")))
    assert forced.returncode != 0
    assert "mariadb-plugin-atoll depends on mariadb-server-core (= 1:" in forced.stdout


def test_apt_keeps_the_server_back_when_a_newer_one_appears(debian, made, newest):
    install_both(debian, made)
    debian.offer("newest")
    done = debian.apt_get("upgrade")
    assert done.returncode == 0
    assert re.search(r"kept back:(\n  .*)*mariadb-server-core", done.stdout), done.stdout
    assert newest not in debian.state("mariadb-server-core")
    debian.start()
    make_table(debian)


def test_a_newer_server_refuses_the_plugin_and_no_table_is_lost(debian, made, newest):
    install_both(debian, made)
    debian.start()
    make_table(debian)
    debian.stop()
    debian.offer("newest")
    done = debian.apt_get("full-upgrade")
    assert done.returncode == 0, done.stdout
    assert newest in debian.state("mariadb-server-core")
    assert re.search(rf"will be REMOVED:\n(  .*)*{PLUGIN}", done.stdout), done.stdout
    assert "WARNING: 1 ATOLL tables are defined" in done.stdout
    debian.run(
        "dpkg", "--force-depends", "--install", *debian.take(*(made / "now").glob("mariadb-plugin*.deb"))
    )
    debian.start()
    assert "API version for STORAGE ENGINE plugin ATOLL not supported by this version" in debian.log_text()
    assert "ERROR 1286" in debian.attempt("mariadb", "-e", "SELECT * FROM shop.t").stdout
    debian.stop()
    # With a setting of the engine that is not loose, this server does not start at all.
    configuration = debian.files / CONFIGURATION
    text = configuration.read_text()
    use_bucket(debian)
    debian.begin_start()
    debian.wait_for_end()
    assert "unknown variable 'atoll_url=" in debian.log_text()
    configuration.write_text(configuration.read_text().replace("\natoll_url", "\nloose-atoll_url"))
    debian.start()
    debian.stop()
    configuration.write_text(text)
    put_pinned_server_back(debian)
    debian.start()
    assert rows(debian) == "first,second"
