#!/usr/bin/env bash
# tools/run_ctest.sh PRESET [CTEST-ARGUMENT...]: runs the tests of build/PRESET and counts them. An
# entry of ctest is a whole test suite; this script reports the skipped tests inside it. With
# NO_SKIPS=1 a skipped or disabled test is a failure as well. Twice as many suites as processors run
# at a time, because tests of processes spend most of their time waiting.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift

report=$PWD/build/$preset/ctest.xml
log=$PWD/build/$preset/Testing/Temporary/LastTest.log
rm -f "$log"
status=0
tools/in_preset.sh "$preset" ctest --test-dir "build/$preset" --output-on-failure --no-tests=error \
  --parallel "$((2 * $(nproc)))" --output-junit "$report" "$@" || status=$?

[ -s "$log" ] || { echo "run_ctest: ctest left no log at $log" >&2; exit 1; }
skipped=$({
  grep -aoE '^\[  SKIPPED \] [^ ]+( |$)' "$log" | grep -vE '\] [0-9]+ ' | awk '{ print $4 }'
  grep -oE '^\s*<testcase name="[^"]*".*status="(notrun|disabled)"' "$report" | cut -d'"' -f2
} | sort -u || true)
awk -v preset="$preset" '
  /^\[==========\] [0-9]+ tests? from [0-9]+ test suites? ran/ { tests += $2; entries += 1 }
  END { printf "run_ctest: %s: %d tests in %d suites\n", preset, tests, entries }' "$log"
if [ -n "$skipped" ]; then
  sed 's/^/run_ctest: skipped: /' <<<"$skipped"
  [ "${NO_SKIPS:-0}" != 1 ] || { echo "run_ctest: not every test of $preset ran" >&2; exit 1; }
fi
exit "$status"
