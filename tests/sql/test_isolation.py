"""Goal:   with InnoDB and ATOLL, the isolation levels prevent exactly the anomalies that docs/isolation.md
        says.
Method: every anomaly is tried at every level on one server with both engines. The resulting table must be the
        one in the document (`make anomalies` writes it anew).
"""

from __future__ import annotations

from harness import anomalies


def test_anomalies_are_what_the_document_says(lab):
    server = lab.server().start()
    assert anomalies.table(anomalies.run_all(server)) == anomalies.documented()


def test_serializable_and_locking_reads_admit_no_anomaly(lab):
    server = lab.server().start()
    verdicts = anomalies.run_all(server, engines=("ATOLL",))
    for scene, cells in verdicts.items():
        assert "possible" not in cells["ATOLL", "SERIALIZABLE"], scene
        if "locked" in scene:
            assert "possible" not in cells["ATOLL", "REPEATABLE READ"], scene
