"""Starts local S3 servers of two independent implementations: MinIO and versitygw."""

from __future__ import annotations

import http.client
import secrets
import subprocess
import time
from pathlib import Path
from typing import TypeVar

from harness import paths
from harness.process import Child, free_port, wait_until
from harness.s3 import Credentials, S3Client, S3Error

Started = TypeVar("Started", bound="ObjectStore")


class ObjectStore:
    """An S3 server whose objects are in a directory. Subclasses define the program and its arguments."""

    program_name = ""

    def __init__(self, home: Path, bucket: str = "atoll"):
        self.home = home
        self.bucket = bucket
        self.port = free_port()
        self.endpoint = f"127.0.0.1:{self.port}"
        self.credentials = Credentials("atolltest", secrets.token_hex(16))
        self.client = S3Client(self.endpoint, bucket, self.credentials)
        self._child: Child | None = None
        home.mkdir(parents=True, exist_ok=True)
        (home / "objects").mkdir(exist_ok=True)

    def start(self: Started) -> Started:
        """Starts the server and makes the bucket. Errors: TimeoutError with the log's end."""
        self._child = Child(
            self._arguments(), self.home / "server.log", env=self._environment(), cwd=self.home
        )
        try:
            wait_until(self._answers, 60, f"{self.program_name} on {self.endpoint}", interval_s=0.05)
        except TimeoutError as error:
            tail = (self.home / "server.log").read_text(errors="replace")[-2000:]
            raise TimeoutError(f"{error}\n{tail}") from None
        return self

    def stop(self) -> None:
        if self._child:
            self._child.stop(timeout_s=10)

    def kill(self) -> None:
        if self._child:
            self._child.kill()

    def pause(self) -> None:
        if self._child:
            self._child.pause()

    def resume(self) -> None:
        if self._child:
            self._child.resume()

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def version(self) -> str:
        raise NotImplementedError

    def _arguments(self) -> list[str]:
        raise NotImplementedError

    def _environment(self) -> dict[str, str]:
        return {}

    def _answers(self) -> bool:
        if self._child is None or not self._child.running():
            raise TimeoutError(
                f"{self.program_name} ended with code {self._child.exit_code() if self._child else None}"
            )
        try:
            self.client.create_bucket()
            return True
        except (OSError, http.client.HTTPException, S3Error):
            time.sleep(0.05)
            return False


class Minio(ObjectStore):
    program_name = "minio"

    def _arguments(self) -> list[str]:
        return [
            str(paths.program("minio")),
            "server",
            str(self.home / "objects"),
            "--address",
            self.endpoint,
            "--console-address",
            f"127.0.0.1:{free_port()}",
            "--quiet",
        ]

    def _environment(self) -> dict[str, str]:
        return {
            "MINIO_ROOT_USER": self.credentials.access_key,
            "MINIO_ROOT_PASSWORD": self.credentials.secret_key,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            "HOME": str(self.home),
        }

    def version(self) -> str:
        return _first_line([str(paths.program("minio")), "--version"])


class Versitygw(ObjectStore):
    program_name = "versitygw"

    def _arguments(self) -> list[str]:
        return [
            str(paths.program("versitygw")),
            "--access",
            self.credentials.access_key,
            "--secret",
            self.credentials.secret_key,
            "--port",
            self.endpoint,
            "posix",
            str(self.home / "objects"),
        ]

    def version(self) -> str:
        return _first_line([str(paths.program("versitygw")), "--version"])


def _first_line(arguments: list[str]) -> str:
    output = subprocess.run(arguments, capture_output=True, text=True, timeout=30, check=False).stdout
    return output.splitlines()[0] if output else "unknown"
