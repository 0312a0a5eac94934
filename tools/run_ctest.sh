#!/usr/bin/env bash
# tools/run_ctest.sh PRESET [CTEST-ARGUMENT...]: runs the tests of build/PRESET. With NO_SKIPS=1 a test
# that was skipped or disabled is a failure as well.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift

report=$PWD/build/$preset/ctest.xml
transcript=$PWD/build/$preset/ctest.txt
tools/in_preset.sh "$preset" ctest --test-dir "build/$preset" --output-on-failure --no-tests=error \
  --parallel "$(nproc)" --repeat until-pass:2 --output-junit "$report" "$@" | tee "$transcript"

# Tests of real processes depend on real clocks: one that fails on a busy machine is repeated once and
# named. No other test is repeated.
names='Test +#[0-9]+: ([^ ]+)'
again=$(sed -nE "s/^.* $names .*\*\*\*(Failed|Timeout|Exception).*$/\1/p" "$transcript" | sort -u)
if [ -n "$again" ]; then
  processes=$(ctest --test-dir "build/$preset" -N -L '^process$' |
    sed -nE "s/^ *$names.*$/\1/p" | sort -u)
  sed 's/^/run_ctest: passed only when run again: /' <<<"$again"
  others=$(comm -23 <(echo "$again") <(echo "$processes"))
  if [ -n "$others" ]; then
    sed 's/^/run_ctest: must pass the first time: /' <<<"$others" >&2
    exit 1
  fi
fi

if [ "${NO_SKIPS:-0}" = 1 ]; then
  [ -s "$report" ] || { echo "run_ctest: ctest left no report at $report" >&2; exit 1; }
  if grep -oE '^\s*<testcase name="[^"]*".*status="(notrun|disabled)"' "$report" | cut -d'"' -f2; then
    echo "run_ctest: not every test of $preset ran" >&2
    exit 1
  fi
fi
