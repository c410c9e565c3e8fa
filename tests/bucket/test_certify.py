"""Goal:   `atollctl certify` finds S3 servers with the properties that Atoll relies on fit, and refuses all
        others.
Method: two real S3 servers, directly and behind a proxy that breaks one property: a create-only PUT
        overwrites, or checks first and writes later; uploads are not checked; the answer is "slow down", or
        there is none. The bucket must be clean afterwards.
"""

from __future__ import annotations

import itertools
import json
import subprocess

import pytest
from harness.atollctl import atollctl
from harness.objectstores import Minio, ObjectStore, Versitygw
from harness.proxy import Fault, FaultProxy, Request

pytestmark = pytest.mark.no_plugin

RACE = "create-only PUT, in a race"
SEQUENCE = "create-only PUT, one after another"


def is_create_only(request: Request) -> bool:
    return request.method == "PUT" and "if-none-match" in request.headers


class Case:
    """A store behind a proxy, and the results of `atollctl certify` for it."""

    def __init__(self, lab, kind: type[ObjectStore] = Minio):
        self.store = lab.store(kind)
        self.proxy: FaultProxy = lab.proxy(self.store)
        self._server = lab.s3_server(self.store, endpoint=self.proxy.endpoint)

    def certify(self, *options: str) -> subprocess.CompletedProcess[str]:
        return atollctl(self._server, "certify", *options)

    def found(self) -> tuple[int, dict, dict[str, dict]]:
        """Returns exit status, certificate and findings by property."""
        ended = self.certify("--json")
        certificate = json.loads(ended.stdout)
        print(json.dumps(certificate, indent=1))
        return ended.returncode, certificate, {each["property"]: each for each in certificate["findings"]}

    def is_clean(self) -> bool:
        return self.store.client.list() == []


@pytest.mark.parametrize("kind", [Minio, Versitygw])
def test_good_servers_are_fit(lab, kind):
    case = Case(lab, kind)
    status, certificate, findings = case.found()
    assert (status, certificate["fitness"]) == (0, "fit")
    assert {each["verdict"] for each in findings.values()} <= {"ok", "note"}
    for needed in (RACE, SEQUENCE, "listing", "ranged reads", "checksum of an upload", "checksum of a piece"):
        assert findings[needed]["verdict"] == "ok", needed
    assert case.is_clean()
    table = case.certify("--rounds", "2")
    assert table.returncode == 0
    assert "FIT" in table.stdout and RACE in table.stdout


@pytest.mark.parametrize("kind", [Minio, Versitygw])
def test_create_only_that_is_not_atomic_is_refused(lab, kind):
    case = Case(lab, kind)
    case.proxy.add(Fault(is_create_only, looks_first=case.store.client))
    status, certificate, findings = case.found()
    assert (status, certificate["fitness"]) == (1, "unfit")
    assert findings[SEQUENCE]["verdict"] == "ok", "one after another such a server behaves"
    assert findings[RACE]["verdict"] == "failed"
    assert "not atomic" in findings[RACE]["text"]
    assert case.is_clean()


def test_create_only_that_overwrites_is_refused(lab):
    case = Case(lab)
    case.proxy.add(Fault(is_create_only, unconditional=case.store.client))
    status, _certificate, findings = case.found()
    assert status == 1
    assert findings[SEQUENCE]["verdict"] == "failed"
    assert "If-None-Match" in findings[SEQUENCE]["text"]


def test_create_only_that_is_not_implemented_is_refused(lab):
    case = Case(lab)
    case.proxy.add(Fault(is_create_only, status=501, code="NotImplemented"))
    ended = case.certify()
    assert ended.returncode == 1
    assert "UNFIT" in ended.stdout


def test_uploads_that_nobody_checks_are_a_warning(lab):
    case = Case(lab)
    case.proxy.add(
        Fault(lambda r: r.method == "PUT" and r.target.endswith("/damaged"), unconditional=case.store.client)
    )
    status, certificate, findings = case.found()
    assert (status, certificate["fitness"]) == (0, "fit")
    assert findings["checksum of an upload"]["verdict"] == "warning"


def test_slow_down_is_waited_for(lab):
    case = Case(lab)
    count = itertools.count()
    slow = case.proxy.add(Fault(lambda _request: next(count) % 8 == 5, status=503, code="SlowDown"))
    status, certificate, findings = case.found()
    assert (status, certificate["fitness"]) == (0, "fit")
    assert findings["throttling"]["verdict"] == "ok"
    assert findings["throttling"]["text"].startswith(f"{slow.acted} of ")


def test_silence_is_no_verdict(lab):
    case = Case(lab)
    case.proxy.add(
        Fault(lambda r: "uploadId=" in r.target and r.method == "PUT", status=403, code="AccessDenied")
    )
    status, certificate, findings = case.found()
    assert (status, certificate["fitness"]) == (2, "unknown")
    assert findings["multipart upload"]["verdict"] == "unknown"
    case.proxy.down()
    ended = case.certify()
    assert ended.returncode == 2
    assert "atollctl:" in ended.stderr
