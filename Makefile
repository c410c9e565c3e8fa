# The commands of this project. Each one does the set-up that it needs. `make help` lists them.
#
# No target is a file: cargo and CMake know which products are up to date, and the set-up scripts find out
# what is missing.
SHELL := /bin/bash
.DEFAULT_GOAL := help
# The series of MariaDB for `make build` and `make mtr`: 10.11 (the default) or 11.8.
export SERIES
.PHONY: help setup build ready demo test check check-all fmt cost-mutants cost-queue mtr mtr-conformance conformance-applications unit anomalies integration test-bucket test-crash test-history power-loss random random-alter ddl-crash ddl-walk fuzz sim bench-archive bench-tpch bench-ddl bench-oltp bench-access bench-foreign bench-commit bench-cache bench-past bench-page bench-tpcc bench-linkbench bench-blob bench-neo memory-bound mtr-asan tsan rocksdb-profile sysbench deny package test-package clean

PYTHON := build/bin/python
# What the tests of the packages need of Debian.
PACKAGE_TESTERS := dpkg-dev lintian mmdebstrap
ARCHIVE_ENGINES := InnoDB,ROCKSDB,S3,ATOLL
# The options that all benchmarks with the arguments of bench/common/fleet.py have.
BENCH_ARGS = $(if $(QUICK),--quick) $(if $(ROWS),--rows $(ROWS)) $(if $(REPEAT),--repeat $(REPEAT)) $(if $(SETUPS),--setups "$(SETUPS)") $(if $(RUN_SECONDS),--seconds $(RUN_SECONDS)) $(if $(MEMORY_MIB),--memory-mib $(MEMORY_MIB))

help:                 ## this list
	@echo "Prerequisites: Debian 12, Rust 1.89, Go 1.25, Python 3.10 (or newer), 8 GB of disk."
	@echo "No root rights are needed when the packages of the build are installed; make setup names those that are missing."
	@echo "The first run of any target sets the machine up; that takes 10 to 15 minutes on 2 cores and says what is left."
	@echo
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile

sysbench:
	@tools/setup/system-packages.sh sysbench

setup:                ## MariaDB, its headers, RocksDB, two S3 servers, a Python environment; in the cache, nothing is done twice
	@tools/setup/all.sh

build:                ## build/ha_atoll.so (the engine), build/atollctl (the command line tool), build/atollctl-rows; SERIES=11.8: build/11.8/ha_atoll.so
	@tools/setup/all.sh build
	@tools/build.sh

# What tests and benchmarks need: everything, built.
ready: setup
	@tools/build.sh

demo:                 ## moves real tables into a bucket and back, with crashes on the way; build/demo/result.json
	@tools/setup/all.sh demo
	@tools/build.sh
	@$(PYTHON) demo/run.py

test:                 ## everything that must pass: check, build, unit, mtr, integration
	@tools/test.sh

check: setup          ## formatters, linters, the rules of this code base; changes nothing
	@tools/check.sh

check-all: ready      ## as check, with clang-tidy for all files instead of those that the last commit changed (slow)
	@tools/check.sh --all

deny:                 ## licences and sources of all crates, by cargo-deny (deny.toml); after a change of Cargo.lock
	@"$$(tools/setup/cargo-deny.sh)" --locked check licenses bans sources

fmt: setup            ## formats all sources
	@tools/check.sh --fix

unit: setup           ## C++ and Rust unit tests
	@tools/unit.sh

mtr: ready            ## SQL tests; make mtr T="name suite.name" runs some, MTR_ARGS="--record" goes to the runner
	@tools/mtr.sh $(MTR_ARGS) $(T)

mtr-asan: setup       ## the SQL tests with the plugin under address and undefined-behaviour sanitizers (slow)
	@tools/build.sh --asan
	@tools/mtr.sh --asan $(MTR_ARGS) $(T)

tsan: setup           ## the C++ and Rust unit tests and RocksDB under the thread sanitizer (slow)
	@tools/tsan.sh

rocksdb-profile: setup sysbench  ## counts the branches of RocksDB under sysbench again, for the compiler (after a new version or other flags)
	@tools/rocksdb_profile.sh

mtr-conformance: ready  ## MariaDB's own suites, measured by InnoDB; SUITES="storage_engine parts" MINUTES=30 WORKERS=4 KEEP_REFERENCE=yes
	@$(PYTHON) tools/conformance/run.py $(if $(SUITES),--suites "$(SUITES)") $(if $(MINUTES),--minutes $(MINUTES)) $(if $(WORKERS),--workers $(WORKERS)) $(if $(KEEP_REFERENCE),--keep-reference)

conformance-applications: ready  ## tests of SQLAlchemy and Django on ATOLL tables, measured by InnoDB; SUITES="sqlalchemy django" MINUTES=60 ONLY="migrations"
	@tools/setup/applications.sh
	@$(PYTHON) tools/conformance/applications.py $(if $(SUITES),--suites "$(SUITES)") $(if $(MINUTES),--minutes $(MINUTES)) $(if $(ONLY),--only "$(ONLY)")

anomalies: ready      ## which anomalies each isolation level admits, InnoDB and ATOLL; writes the table in docs/isolation.md
	@$(PYTHON) tools/anomalies.py --write

integration: ready    ## kill -9, recovery from the bucket, two servers on one bucket (Python)
	@$(PYTHON) -m pytest tests $(PYTEST_ARGS)

test-bucket: ready    ## the windows of docs/internals/windows.md, each on real servers and two S3 servers; make test has a short form
	@tools/test_bucket.sh

test-crash: ready     ## ROUNDS=1000 SEED=7: server and S3 server killed under checked transfers, sync and async; make test has 12 rounds
	@ATOLL_CRASH_ROUNDS=$(or $(ROUNDS),1000) $(if $(SEED),ATOLL_CRASH_SEED=$(SEED)) $(PYTHON) -m pytest -q -s tests/crash/test_crash.py

test-history: ready   ## ROUNDS=1000 SEED=7: random snapshots, clones, mounts, restores, kills and outages on a directory and an S3 server; make test has 40
	@ATOLL_HISTORY_ROUNDS=$(or $(ROUNDS),1000) $(if $(SEED),ATOLL_HISTORY_SEED=$(SEED)) $(PYTHON) -m pytest -q -s tests/history/test_random_history.py

power-loss: ready     ## LIVES=400 SEED=7: the power goes at each sync of a server's directory, unsynced bytes and names are lost or torn; make test has 24
	@ATOLL_POWER_LIVES=$(or $(LIVES),400) $(if $(SEED),ATOLL_POWER_SEED=$(SEED)) $(PYTHON) -m pytest -q -s tests/crash/test_power_loss.py

ddl-crash: ready      ## kill -9 in every kind of DDL, 200 rounds; make test has 40
	@ATOLL_DDL_KILL_ROUNDS=200 $(PYTHON) -m pytest tests/crash/test_ddl_kill.py -s

ddl-walk: ready       ## kill -9 at every system call of every kind of DDL; ENGINE=InnoDB EVERY=5 for comparison; make test has some
	@$(PYTHON) tests/harness/crash_walk/walk.py $(if $(ENGINE),--engine $(ENGINE)) $(if $(EVERY),--every $(EVERY)) $(if $(ONLY),--only "$(ONLY)") $(if $(AGAIN),--again $(AGAIN)) $(if $(LOST),--lost)

fuzz: setup           ## MINUTES=10: everything that comes from a bucket, through libFuzzer; prints the runs of each (fuzz/README.md)
	@tools/fuzz.sh --minutes $(or $(MINUTES),10)

sim: setup            ## SEEDS=10000 FIRST=0: servers on one bucket in virtual time, a history per seed; SEED=7 prints the trace of one
	@tools/sim.sh $(or $(SEEDS),10000) $(or $(FIRST),0) $(SEED)

random: ready         ## MINUTES=60 SEED=7: random SQL, the same on InnoDB and ATOLL; REPLAY=FILE runs a failure again
	@$(PYTHON) tests/harness/random_sql/rounds.py --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED)) $(if $(REPLAY),--replay $(REPLAY))

random-alter: ready   ## MINUTES=60 SEED=7: random ALTERs between all column types, in place, by copy and on InnoDB; CASE=123 prints one case
	@$(PYTHON) tests/harness/random_alter/run.py --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED)) $(if $(CASE),--case $(CASE))

cost-mutants: setup   ## switches each bound of the engine off in turn: the cost contracts must fail
	@tools/cost_mutants.sh $(MUTANTS)

cost-queue: ready     ## a queue table, a million steps: deleted entries that a read of its head passes (make test: 20,000)
	@ATOLL_QUEUE_STEPS=1000000 $(PYTHON) -m pytest tests/cost/test_cost.py -k queue -s

bench-archive: ready  ## ROWS=4000000 ENGINES=InnoDB,ROCKSDB,S3,ATOLL REPEAT=3: the comparison; build/bench/archive.json
	@$(PYTHON) bench/archive.py --rows $(or $(ROWS),4000000) --engines $(or $(ENGINES),$(ARCHIVE_ENGINES)) --repeat $(or $(REPEAT),3)

bench-tpch: ready     ## SCALE=0.1 REPEAT=3: plans, answers and times of TPC-H beside InnoDB; build/bench/tpch.json
	@$(PYTHON) bench/tpch.py --scale $(or $(SCALE),0.1) --repeat $(or $(REPEAT),3)

bench-ddl: ready      ## TABLES=5000 GIGABYTES=10 REPEAT=3: drop, truncate and instant ALTER of a large table; build/bench/ddl.json
	@$(PYTHON) bench/ddl.py --tables $(or $(TABLES),5000) --gigabytes $(or $(GIGABYTES),10) --repeat $(or $(REPEAT),3)

bench-oltp: ready sysbench ## QUICK=1 ROWS=200000 THREADS=1,4 REPEAT=3 RUN_SECONDS=5 SETUPS="InnoDB,MyRocks,Atoll": sysbench's scripts, CPU per transaction
	@$(PYTHON) bench/oltp.py $(BENCH_ARGS) $(if $(THREADS),--threads $(THREADS)) $(if $(ONLY),--only "$(ONLY)")

bench-access: ready   ## QUICK=1 ROWS=200000 REPEAT=3 ONLY="ref join": the statements of the cost contracts, CPU of each
	@$(PYTHON) bench/access.py $(BENCH_ARGS) $(if $(ONLY),--only "$(ONLY)")

bench-bulk: ready     ## QUICK=1 ROWS=200000 REPEAT=3 ONLY="UPDATE": statements that read or change many rows
	@$(PYTHON) bench/bulk.py $(BENCH_ARGS) $(if $(ONLY),--only "$(ONLY)")

bench-foreign: ready  ## QUICK=1 ROWS=1000000 REPEAT=5 ONLY="CASCADE": constraints FOREIGN KEY beside InnoDB's, CPU of each statement
	@$(PYTHON) bench/foreign.py $(BENCH_ARGS) $(if $(ONLY),--only "$(ONLY)")

bench-commit: ready sysbench ## QUICK=1 THREADS=1,8,32,128 LATENCIES=0,20,50 BINLOG=both: commits a second by durability and distance of the bucket
	@$(PYTHON) bench/commit.py $(BENCH_ARGS) $(if $(THREADS),--threads $(THREADS)) $(if $(LATENCIES),--latencies $(LATENCIES)) $(if $(BINLOG),--binlog $(BINLOG))

bench-past: ready      ## QUICK=1 BYTES=1073741824 HISTORY_S=600 REPEAT=3: snapshots under load, clones of a table and of a database, mounts, a restore to a moment
	@$(PYTHON) bench/past.py $(BENCH_ARGS) $(if $(BYTES),--bytes $(BYTES)) $(if $(HISTORY_S),--history-s $(HISTORY_S))

bench-cache: ready sysbench ## QUICK=1 ROWS=1000000: reads with the block cache from all of the data to none, parts cached or not
	@$(PYTHON) bench/cache.py $(BENCH_ARGS) $(if $(THREADS),--threads $(THREADS))

bench-tpcc: ready sysbench ## QUICK=1 WAREHOUSES=10 CLIENTS=4 SECONDS=120 REPEAT=3 SETUPS="InnoDB,Atoll" MEMORY=512 LONG=1 FOREIGN_KEYS=1: TPC-C; with MEMORY (MiB) larger than it, LONG half an hour, FOREIGN_KEYS also with constraints
	@$(PYTHON) bench/tpcc.py $(BENCH_ARGS) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(MEMORY),--memory-mib $(MEMORY)) $(if $(WAREHOUSES),--warehouses $(WAREHOUSES)) $(if $(CLIENTS),--clients $(CLIENTS)) $(if $(LONG),--long) $(if $(FOREIGN_KEYS),--foreign-keys)

bench-linkbench: ready sysbench ## QUICK=1 NODES=300000 CLIENTS=4 SECONDS=120 REPEAT=3 SETUPS="InnoDB,Atoll" MEMORY=512 PARTITIONS=16: LinkBench; with MEMORY (MiB) the data are four times as large
	@$(PYTHON) bench/linkbench.py $(BENCH_ARGS) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(MEMORY),--memory-mib $(MEMORY)) $(if $(NODES),--nodes $(NODES)) $(if $(CLIENTS),--clients $(CLIENTS)) $(if $(PARTITIONS),--partitions $(PARTITIONS))

bench-blob: ready     ## QUICK=1 BYTES=1073741824 REPEAT=3: objects of 1 KiB to 10 MiB are imported, scanned, deleted
	@$(PYTHON) bench/blob.py $(BENCH_ARGS) $(if $(BYTES),--bytes $(BYTES))

bench-neo: ready      ## QUICK=1 TRANSACTIONS=5000 REPEAT=3: NEO's own import of a FileStorage, then all read back (needs Python 2.7)
	@tools/setup/neo.sh
	@$(PYTHON) bench/neo.py $(BENCH_ARGS) $(if $(TRANSACTIONS),--transactions $(TRANSACTIONS))

bench-page: ready     ## docs/benchmarks.md of what the benchmarks wrote to build/bench
	@$(PYTHON) bench/page.py

memory-bound: ready   ## ROWS=10000000: statements over very many rows in a server limited to 512 MiB; prints times and peaks
	@$(PYTHON) bench/memory_bound.py --rows $(or $(ROWS),10000000)

package: build        ## build/packages: Debian packages of the plugin and of the tools, for the server version of the build
	@packages/build.sh

test-package: ready   ## installs, upgrades and removes the packages in clean Debian roots (as root); kills, a newer server, take-over
	@tools/setup/system-packages.sh $(PACKAGE_TESTERS)
	@tools/setup/monitoring.sh
	@ATOLL_TEST_PACKAGES=1 $(PYTHON) -m pytest -v tests/packages

clean:                ## removes build/; the cache under ~/.cache/atoll stays
	rm -rf build
