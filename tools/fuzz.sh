#!/usr/bin/env bash
# tools/fuzz.sh: runs every fuzz_* program of build/asan for FUZZ_SECONDS each. The default is a
# minute for fuzz_codec, which has many decoders, and some seconds for every other program.
# fuzz_NAME starts from the files of tests/fuzz/corpus/NAME and writes its findings and its log to
# build/asan/fuzz/findings.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t programs < <(find build/asan/tests/fuzz -type f -name 'fuzz_*' -perm -u+x | sort)
[ ${#programs[@]} -gt 0 ] || { echo "fuzz: no fuzz_* program in build/asan" >&2; exit 1; }
seconds=${FUZZ_SECONDS:-$((60 / ${#programs[@]} > 5 ? 60 / ${#programs[@]} : 5))}
[ "$seconds" -gt 0 ] || { echo "fuzz: FUZZ_SECONDS must be positive" >&2; exit 2; }

mkdir -p build/asan/fuzz/findings
fuzz_one() {
  local program=$1 name grown seeds own=$seconds log
  name=$(basename "$program")
  grown=build/asan/fuzz/corpus/${name#fuzz_}
  seeds=tests/fuzz/corpus/${name#fuzz_}
  log=build/asan/fuzz/findings/$name.log
  mkdir -p "$grown"
  local corpus=("$grown")
  [ ! -d "$seeds" ] || corpus+=("$seeds")
  [ "$name" != fuzz_codec ] || own=${FUZZ_SECONDS:-60}
  if tools/in_preset.sh asan "$program" -max_total_time="$own" -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 -verbosity=0 -artifact_prefix="build/asan/fuzz/findings/$name-" \
    "${corpus[@]}" >"$log" 2>&1; then
    echo "fuzz: $name: $own s, $(awk '/number_of_executed_units/ { print $2 }' "$log") inputs"
  else
    cat "$log"
    echo "fuzz: $name FAILED" >&2
    return 1
  fi
}
export -f fuzz_one
export seconds
# One program per processor at a time.
printf '%s\0' "${programs[@]}" |
  xargs -0 -n 1 -P "$(nproc)" bash -c 'set -euo pipefail; fuzz_one "$0"'
