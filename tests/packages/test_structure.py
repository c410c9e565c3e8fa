"""Goal:   the packages have what a user needs and nothing of the machine that made them, and one commit gives the
        same bytes twice.
Method: makes the packages, reads them with dpkg-deb, and checks them with lintian if it is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from debian import build_packages, build_setting
from harness import paths
from harness.process import discard, scratch_directory

PLUGIN, TOOLS = "mariadb-plugin-atoll", "atoll-tools"


@pytest.fixture(scope="module")
def folder():
    made = scratch_directory("packages")
    yield made
    discard(made)


@pytest.fixture(scope="module")
def packages(folder: Path) -> dict[str, Path]:
    return build_packages(folder / "once")


@pytest.fixture(scope="module")
def trees(folder: Path, packages: dict[str, Path]) -> dict[str, Path]:
    """The unpacked packages, with their control files in DEBIAN."""
    for name, file in packages.items():
        subprocess.run(["dpkg-deb", "--raw-extract", file, folder / name], check=True)
    return {name: folder / name for name in packages}


def field(package: Path, name: str) -> str:
    return subprocess.run(
        ["dpkg-deb", "--field", package, name], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_plugin_depends_on_exactly_the_server_that_it_was_built_for(packages):
    wanted = build_setting("MARIADB_PACKAGE")
    assert f"mariadb-server-core (= 1:{wanted})" in field(packages[PLUGIN], "Depends")
    assert field(packages[PLUGIN], "Version").endswith(f"+mdb{build_setting('MARIADB_VERSION')}")


def test_one_commit_gives_the_same_bytes_twice(packages, folder):
    again = build_packages(folder / "twice")
    assert {name: file.read_bytes() for name, file in packages.items()} == {
        name: file.read_bytes() for name, file in again.items()
    }


def test_the_packages_have_the_files_of_their_documents(trees):
    for name in (
        "usr/lib/mysql/plugin/ha_atoll.so",
        "etc/mysql/mariadb.conf.d/atoll.cnf",
        "etc/apparmor.d/abstractions/atoll",
        "usr/lib/systemd/system/mariadb.service.d/atoll.conf",
        "usr/share/man/man7/atoll.7.gz",
        f"usr/share/doc/{PLUGIN}/install.md",
        f"usr/share/doc/{PLUGIN}/upgrade.md",
        f"usr/share/doc/{PLUGIN}/copyright",
        f"usr/share/doc/{PLUGIN}/monitoring/atoll-alerts.yml",
        f"usr/share/doc/{PLUGIN}/monitoring/atoll-dashboard.json",
    ):
        assert (trees[PLUGIN] / name).is_file(), name
    for name in ("usr/bin/atollctl", "usr/bin/atollctl-rows", "usr/share/man/man1/atollctl-verify.1.gz"):
        assert (trees[TOOLS] / name).is_file(), name
    conffiles = (trees[PLUGIN] / "DEBIAN/conffiles").read_text().split()
    assert "/etc/mysql/mariadb.conf.d/atoll.cnf" in conffiles
    version = subprocess.run([trees[TOOLS] / "usr/bin/atollctl", "--version"], capture_output=True, text=True)
    assert version.stdout.split()[1] in field_of_tools(trees)


def field_of_tools(trees: dict[str, Path]) -> str:
    return (trees[TOOLS] / "DEBIAN/control").read_text()


def test_the_documents_of_the_package_link_only_to_files_in_it(trees):
    documents = trees[PLUGIN] / f"usr/share/doc/{PLUGIN}"
    missing = [
        (document.name, target)
        for document in documents.glob("*.md")
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text())
        if not (documents / target).exists()
    ]
    assert not missing


def test_the_copyright_names_each_crate_that_is_linked(trees):
    command = [
        "cargo",
        "tree",
        "--locked",
        "-p",
        "objstore-ffi",
        "-e",
        "normal",
        "--prefix",
        "none",
        "-f",
        "{p}",
    ]
    tree = subprocess.run(command, cwd=paths.ROOT, check=True, capture_output=True, text=True).stdout
    linked = set(re.findall(r"^([\w-]+) v(\S+)", tree, re.MULTILINE))
    text = (trees[PLUGIN] / f"usr/share/doc/{PLUGIN}/copyright").read_text()
    own = {"objstore", "objstore-ffi"}
    assert not [crate for crate in linked if f"\n{crate[0]} {crate[1]}\n" not in text and crate[0] not in own]
    assert "RocksDB" in text
    assert "LevelDB" in text


def test_no_script_of_the_package_starts_or_stops_the_server(trees):
    for script in ("postinst", "prerm"):
        text = (trees[PLUGIN] / "DEBIAN" / script).read_text()
        commands = "\n".join(line for line in text.splitlines() if not re.match(r"\s*(#|echo )", line))
        assert not re.search(r"systemctl|invoke-rc|service |deb-systemd|kill", commands), script
        subprocess.run(["sh", "-n", trees[PLUGIN] / "DEBIAN" / script], check=True)


def test_the_settings_of_the_configuration_file_exist(trees):
    named = re.findall(
        r"^#?(atoll_\w+) =", (trees[PLUGIN] / "etc/mysql/mariadb.conf.d/atoll.cnf").read_text(), re.M
    )
    described = (paths.ROOT / "docs/configuration.md").read_text()
    assert named
    assert not [name for name in named if f"`{name}`" not in described]


@pytest.mark.skipif(shutil.which("lintian") is None, reason="make test-package installs lintian")
def test_lintian_finds_nothing(packages):
    allowed = ["--allow-root"] if os.geteuid() == 0 else []
    command = [
        "lintian",
        *allowed,
        "--fail-on",
        "error,warning",
        "--tag-display-limit",
        "0",
        *packages.values(),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
