"""A small S3 client (signature version 4, path style) with which tests create buckets and examine their
objects.

Tests do not use the engine's own client for this, because it is the code under test.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import http.client
import time
import urllib.parse
import xml.etree.ElementTree
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


class S3Error(Exception):
    """An answer other than success; `status` is the HTTP code, `code` the S3 code ("" if none)."""

    def __init__(self, status: int, code: str, message: str):
        super().__init__(f"HTTP {status} {code}: {message}")
        self.status = status
        self.code = code


@dataclass(frozen=True)
class ObjectInfo:
    key: str
    size_bytes: int
    etag: str


@dataclass(frozen=True)
class Credentials:
    access_key: str
    secret_key: str
    region: str = "us-east-1"


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _parse(body: bytes) -> xml.etree.ElementTree.Element:
    """Parses an XML answer, and removes the namespace from its tags."""
    root = xml.etree.ElementTree.fromstring(body)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _error_from(status: int, body: bytes) -> S3Error:
    try:
        fields = {child.tag: child.text or "" for child in _parse(body)}
    except xml.etree.ElementTree.ParseError:
        fields = {}
    return S3Error(
        status, fields.get("Code", ""), fields.get("Message", body[:200].decode("utf8", "replace"))
    )


@dataclass(frozen=True)
class ObjectVersion:
    key: str
    id: str


def _exchange(
    connection: http.client.HTTPConnection, method: str, target: str, body: bytes, headers: dict[str, str]
) -> tuple[dict[str, str], bytes]:
    """Sends a request over the connection; returns headers and body of the answer. Errors: S3Error."""
    connection.request(method, target, body=body, headers=headers)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status >= 300:
        raise _error_from(answer.status, content)
    return dict(answer.getheaders()), content


class S3Client:
    """Requests against one bucket of one endpoint ("host:port", plain HTTP)."""

    def __init__(self, endpoint: str, bucket: str, credentials: Credentials):
        self.endpoint = endpoint
        self.bucket = bucket
        self._credentials = credentials

    def create_bucket(self, object_lock: bool = False) -> None:
        headers = {"x-amz-bucket-object-lock-enabled": "true"} if object_lock else None
        try:
            self._request("PUT", "", headers=headers)
        except S3Error as error:
            if error.code not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
                raise

    def list(self, prefix: str = "") -> list[ObjectInfo]:
        """Returns every object under `prefix`, in key order."""
        found: list[ObjectInfo] = []
        token = None
        while True:
            query = {"list-type": "2", "prefix": prefix}
            if token:
                query["continuation-token"] = token
            root = _parse(self._request("GET", "", query)[1])
            for item in root.iter("Contents"):
                found.append(
                    ObjectInfo(
                        item.findtext("Key") or "",
                        int(item.findtext("Size") or 0),
                        (item.findtext("ETag") or "").strip('"'),
                    )
                )
            token = root.findtext("NextContinuationToken")
            if not token:
                return found

    def get(self, key: str) -> bytes:
        return self._request("GET", key)[1]

    def exists(self, key: str) -> bool:
        try:
            self._request("HEAD", key)
        except S3Error as error:
            if error.status == 404:
                return False
            raise
        return True

    def put(self, key: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        self._request("PUT", key, body=body, headers=headers)

    def put_times_ms(self, size: int, count: int) -> Sequence[float]:
        """Sends `count` PUTs of `size` bytes one after the other over one connection. Returns the
        milliseconds that each took."""
        took = []
        connection = http.client.HTTPConnection(self.endpoint, timeout=30)
        for number in range(count):
            path, body = f"/{self.bucket}/bare-put/{number}", b"x" * size
            headers = self._sign("PUT", path, "", body)
            begin = time.perf_counter()
            _exchange(connection, "PUT", path, body, headers)
            took.append((time.perf_counter() - begin) * 1000)
        connection.close()
        return took

    def delete(self, key: str) -> None:
        self._request("DELETE", key)

    def versions(self) -> Iterable[ObjectVersion]:
        """Returns the versions and delete markers of every object, if the bucket keeps versions."""
        found: list[ObjectVersion] = []
        query = {"versions": ""}
        while True:
            root = _parse(self._request("GET", "", query)[1])
            for item in (*root.iter("Version"), *root.iter("DeleteMarker")):
                found.append(ObjectVersion(item.findtext("Key") or "", item.findtext("VersionId") or ""))
            if root.findtext("IsTruncated") != "true":
                return found
            query["key-marker"] = root.findtext("NextKeyMarker") or ""
            query["version-id-marker"] = root.findtext("NextVersionIdMarker") or ""

    def gives_up(self, version: ObjectVersion) -> bool:
        """Deletes a version of an object permanently. Returns False if the version is locked."""
        try:
            self._request("DELETE", version.key, {"versionId": version.id})
        except S3Error as error:
            if "WORM" in str(error) or error.code == "ObjectLocked":
                return False
            raise
        return True

    def lock_mode(self, key: str) -> str:
        """Returns the mode of the object's lock."""
        return _parse(self._request("GET", key, {"retention": ""})[1]).findtext("Mode") or ""

    def limited(self, policy: str) -> tuple[Credentials, str]:
        """Returns temporary credentials that have only the permissions of the policy, and their session token
        (MinIO)."""
        form = {"Action": "AssumeRole", "Version": "2011-06-15", "Policy": policy}
        body = urllib.parse.urlencode(form).encode()
        headers = self._sign("POST", "/", "", body, service="sts")
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        _, content = self._send("POST", "/", body, headers)
        fields = {each.tag: each.text or "" for each in _parse(content).iter()}
        made = Credentials(fields["AccessKeyId"], fields["SecretAccessKey"], self._credentials.region)
        return made, fields["SessionToken"]

    def total_bytes(self, prefix: str = "") -> int:
        return sum(item.size_bytes for item in self.list(prefix))

    def _request(
        self,
        method: str,
        key: str,
        query: dict[str, str] | None = None,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
    ) -> tuple[dict[str, str], bytes]:
        path = urllib.parse.quote(f"/{self.bucket}/{key}" if key else f"/{self.bucket}", safe="/-_.~")
        pairs = sorted((query or {}).items())
        encoded = "&".join(
            f"{urllib.parse.quote(name, safe='')}={urllib.parse.quote(value, safe='')}"
            for name, value in pairs
        )
        signed = self._sign(method, path, encoded, body)
        target = path + ("?" + encoded if encoded else "")
        return self._send(method, target, body, {**(headers or {}), **signed})

    def _send(
        self, method: str, target: str, body: bytes, headers: dict[str, str]
    ) -> tuple[dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.endpoint, timeout=30)
        try:
            return _exchange(connection, method, target, body, headers)
        finally:
            connection.close()

    def _sign(self, method: str, path: str, query: str, body: bytes, service: str = "s3") -> dict[str, str]:
        """Returns the headers that authenticate the request.

        Source: AWS General Reference, "Signature Version 4 signing process".
        """
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        region, secret = self._credentials.region, self._credentials.secret_key
        digest = hashlib.sha256(body).hexdigest()
        headers = {"host": self.endpoint, "x-amz-content-sha256": digest, "x-amz-date": now}
        names = ";".join(sorted(headers))
        canonical = "\n".join(
            [method, path, query, *(f"{name}:{headers[name]}" for name in sorted(headers)), "", names, digest]
        )
        scope = f"{now[:8]}/{region}/{service}/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        key = _hmac(_hmac(_hmac(_hmac(b"AWS4" + secret.encode(), now[:8]), region), service), "aws4_request")
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        credential = f"{self._credentials.access_key}/{scope}"
        return {
            **headers,
            "Authorization": f"AWS4-HMAC-SHA256 Credential={credential}, "
            f"SignedHeaders={names}, Signature={signature}",
        }
