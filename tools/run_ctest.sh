#!/usr/bin/env bash
# tools/run_ctest.sh PRESET [CTEST-ARGUMENT...]: runs the tests of build/PRESET. With NO_SKIPS=1 a test
# that was skipped or disabled is a failure as well.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift

report=$PWD/build/$preset/ctest.xml
tools/in_preset.sh "$preset" ctest --test-dir "build/$preset" --output-on-failure --no-tests=error \
  --parallel "$(nproc)" --output-junit "$report" "$@"

if [ "${NO_SKIPS:-0}" = 1 ]; then
  [ -s "$report" ] || { echo "run_ctest: ctest left no report at $report" >&2; exit 1; }
  if grep -oE '^\s*<testcase name="[^"]*".*status="(notrun|disabled)"' "$report" | cut -d'"' -f2; then
    echo "run_ctest: not every test of $preset ran" >&2
    exit 1
  fi
fi
