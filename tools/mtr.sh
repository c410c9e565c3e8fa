#!/bin/bash
# Runs the project's SQL tests with MariaDB's own runner, against the unpacked server and the built plugin.
#
#   tools/mtr.sh [--asan] [runner option]... [test]...
#
#   tools/mtr.sh                      all suites under mysql-test/
#   tools/mtr.sh basic atoll.ddl      these tests
#   tools/mtr.sh --record basic       writes the new result back to mysql-test/<suite>/r/
#   tools/mtr.sh --asan               with the instrumented plugin of `make mtr-asan`
#
# With SERIES=11.8, on that series of MariaDB. mysql-test/<suite>/r-11.8 says in which lines its results differ; they
# are applied to the copies of the results. --record writes these differences then.
#
# The unpacked server is not changed: the runner gets a private tree of links in build/mtr/<slot>
# (tools/mtr-root.sh), into which our suites are copied. Concurrent runs use different slots. The last line
# says how many tests passed and failed. The exit status is 1 when one has failed. Logs: build/mtr/<slot>/.
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

plugin=$SERIES_BUILD/ha_atoll.so
runner_options=()
tests=()
recording=""
sanitized=""
for argument in "$@"; do
  case $argument in
    --asan) sanitized=yes plugin=$ATOLL_ROOT/build/asan/ha_atoll.so ;;
    --record) recording=yes runner_options+=("$argument") ;;
    --*) runner_options+=("$argument") ;;
    *) tests+=("$argument") ;;
  esac
done

take_slot() {
  local number
  for number in 0 1 2 3 4 5 6 7; do
    slot=$SERIES_BUILD/mtr/$number
    mkdir -p "$slot"
    exec 8>"$slot/lock"
    flock -n 8 && return
  done
  die "eight test runs are at work already" "wait for one of them, or remove a stale build/mtr/*/lock holder"
}

make_root() {
  "$ATOLL_ROOT/tools/mtr-root.sh" "$root" "$plugin"
  [ -z "$sanitized" ] || wrap_server
  local suite
  for suite in $suites; do
    rm -rf "$root/share/mysql/mysql-test/suite/$suite"
    cp -r "$ATOLL_ROOT/mysql-test/$suite" "$root/share/mysql/mysql-test/suite/$suite"
    apply_differences "$root/share/mysql/mysql-test/suite/$suite"
  done
}

# Changes the copied results of a suite to those of the series.
apply_differences() {  # apply_differences SUITE
  local difference
  for difference in "$1/r-$SERIES"/*.rdiff; do
    [ -e "$difference" ] || continue
    patch -s "$1/r/$(basename "$difference" .rdiff).result" "$difference" || die "$difference does not fit the result"
  done
}

# The sanitizer's library must be loaded first in the server's process, but not in those of the runner and the
# client. So mariadbd becomes a script that sets LD_PRELOAD.
wrap_server() {
  rm "$root/sbin/mariadbd"
  cat >"$root/sbin/mariadbd" <<END
#!/bin/sh
# No stack-use-after-return: the server measures its stack by the addresses of local variables. No user poisoning: the
# headers poison freed memory in our code, and the server, which is not instrumented, would not take it back.
export LD_PRELOAD=$(g++ -print-file-name=libasan.so)
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:detect_stack_use_after_return=0:handle_segv=0:allow_user_poisoning=0
export UBSAN_OPTIONS=print_stacktrace=1
exec $MARIADB_SERVER/sbin/mariadbd "\$@"
END
  chmod 755 "$root/sbin/mariadbd"
}

suites_of_project() {
  local folder
  for folder in "$ATOLL_ROOT"/mysql-test/*/; do
    [ ! -d "$folder/t" ] || basename "$folder"
  done
}

# The servers' files are in memory if /dev/shm has room for them; in containers it often has only 64 MB.
make_var() {
  local free_mb
  free_mb=$(df -Pm /dev/shm 2>/dev/null | awk 'NR==2 {print $4}')
  rm -rf "${slot:?}/var"
  var=$slot/var
  if [ "${free_mb:-0}" -ge 2000 ]; then
    var=/dev/shm/atoll-mtr-$(id -u)-$(cksum <<<"$slot" | cut -d' ' -f1)
    rm -rf "$var"
    mkdir -p "$var"
    ln -s "$var" "$slot/var"
  fi
}

record_difference() {  # record_difference SUITE TEST RESULT
  local folder=$ATOLL_ROOT/mysql-test/$1/r-$SERIES base=$ATOLL_ROOT/mysql-test/$1/r/$2.result
  if [ ! -e "$base" ]; then  # the test is for this series only
    cp "$3" "$base"
    return
  fi
  mkdir -p "$folder"
  if diff -u --label "r/$2.result" --label "r/$2.result" "$base" "$3" >"$folder/$2.rdiff"; then rm "$folder/$2.rdiff"; fi
}

copy_results_back() {
  local suite file
  for suite in $suites; do
    for file in "$root/share/mysql/mysql-test/suite/$suite"/r/*.result; do
      [ -e "$file" ] || continue
      if [ "$SERIES" = 11.8 ]; then
        record_difference "$suite" "$(basename "$file" .result)" "$file"
        continue
      fi
      cmp -s "$file" "$ATOLL_ROOT/mysql-test/$suite/r/$(basename "$file")" || {
        mkdir -p "$ATOLL_ROOT/mysql-test/$suite/r"
        cp "$file" "$ATOLL_ROOT/mysql-test/$suite/r/"
        say "recorded mysql-test/$suite/r/$(basename "$file")"
      }
    done
  done
}

count() { grep -cE "^[A-Za-z0-9_./-]+( '[^']*')*[[:space:]]+(w[0-9]+[[:space:]]+)?\[ $1 \]" "$slot/runner.log" || true; }

report() {  # report RUNNER_STATUS
  local passed failed skipped
  passed=$(count pass)
  failed=$(count fail)
  skipped=$(count skipped)
  if [ "$failed" -gt 0 ]; then
    say "failed tests:"
    grep -E '\[ fail \]' "$slot/runner.log" | awk '{print "  " $1}' | sort -u >&2
    # Shows the differences from the expected result, or the statement that failed.
    grep -E '^(mysqltest: |[-+][^-+])' "$slot/runner.log" | head -10 | cut -c1-200 >&2 || true
    say "logs: ${slot#"$ATOLL_ROOT"/}/var/log, ${slot#"$ATOLL_ROOT"/}/runner.log"
  elif [ "$1" != 0 ]; then
    say "no test failed, but the runner did (a server that did not stop, or a warning in its log);" \
      "see ${slot#"$ATOLL_ROOT"/}/runner.log"
    failed=1
  elif [ "$((passed + skipped))" = 0 ]; then
    say "no test was run"
    failed=1
  fi
  [ "$skipped" = 0 ] || say "$skipped skipped"
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ]
}

suites=$(suites_of_project)
[ -n "$suites" ] || die "there is no suite under mysql-test/"
[ -e "$plugin" ] || die "${plugin#"$ATOLL_ROOT"/} is not built" "run: make build (or make mtr-asan)"
[ -f "$SERIES_BUILD/setup.env" ] || die "this machine is not set up" "run: make setup"
# shellcheck disable=SC1091
. "$SERIES_BUILD/setup.env"
export LD_LIBRARY_PATH=$MARIADB_LIBRARIES${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
take_slot
root=$slot/root
make_root
make_var

# The results are those of a server with 10.11's defaults: its collations, and InnoDB without snapshot isolation, which
# refuses a change of a row that is newer than the snapshot.
if [ "$SERIES" = 11.8 ]; then
  echo "ALTER DATABASE test CHARACTER SET latin1 COLLATE latin1_swedish_ci;" >"$slot/init.sql"
  runner_options+=(--mysqld=--character-set-server=latin1 --mysqld=--collation-server=latin1_swedish_ci
    --mysqld=--character-set-collations= --mysqld=--loose-innodb-snapshot-isolation=OFF "--mysqld=--init-file=$slot/init.sql")
fi

status=0
cd "$root/share/mysql/mysql-test"
perl mariadb-test-run.pl --suite="$(tr '\n' , <<<"$suites" | sed 's/,$//')" --vardir="$var" \
  --parallel="$(($(nproc) < 8 ? $(nproc) : 8))" --force --max-test-fail=0 --retry=0 --testcase-timeout=10 \
  --suite-timeout=360 "${runner_options[@]}" "${tests[@]}" </dev/null 2>&1 | tee "$slot/runner.log" || status=$?
[ -z "$recording" ] || copy_results_back
report "$status"
# No test has failed, so nobody needs the servers' files: free their memory.
rm -rf "$var" "${slot:?}/var"
