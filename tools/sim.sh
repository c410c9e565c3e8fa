#!/bin/bash
# Runs seeds of the simulation (docs/internals/bucket.md). Each seed gives one history of several servers with
# one bucket.
#
#   tools/sim.sh SEEDS FIRST [SEED]     seeds FIRST to FIRST+SEEDS-1; with SEED that one only, with its trace
#
# For each seed that fails, the seed and the failure are printed, and the exit status is not 0.
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

cd "$ATOLL_ROOT"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$ATOLL_ROOT/build/cargo}
export ATOLL_SIM_SEEDS=$1 ATOLL_SIM_FIRST=$2
[ -z "${3:-}" ] || export ATOLL_SEED=$3
cargo test --release --locked -p objstore --lib every_seed_keeps -- --nocapture
