#!/usr/bin/env bash
# tools/fuzz.sh: runs every fuzz_* program of build/fuzz for FUZZ_SECONDS each. The default is a
# minute for fuzz_codec, which has many decoders, and about a minute for all others together.
# fuzz_NAME starts from the files of tests/fuzz/corpus/NAME and writes its findings to
# build/fuzz/findings.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t programs < <(find build/fuzz -type f -name 'fuzz_*' -perm -u+x | sort)
[ ${#programs[@]} -gt 0 ] || { echo "fuzz: no fuzz_* program in build/fuzz" >&2; exit 1; }
seconds=${FUZZ_SECONDS:-$((60 / ${#programs[@]} > 5 ? 60 / ${#programs[@]} : 5))}
[ "$seconds" -gt 0 ] || { echo "fuzz: FUZZ_SECONDS must be positive" >&2; exit 2; }

mkdir -p build/fuzz/findings
for program in "${programs[@]}"; do
  name=$(basename "$program")
  grown=build/fuzz/corpus/${name#fuzz_}
  seeds=tests/fuzz/corpus/${name#fuzz_}
  mkdir -p "$grown"
  corpus=("$grown")
  [ ! -d "$seeds" ] || corpus+=("$seeds")
  own=$seconds
  [ "$name" != fuzz_codec ] || own=${FUZZ_SECONDS:-60}
  echo "fuzz: $name for $own s"
  tools/in_preset.sh fuzz "$program" -max_total_time="$own" -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 -verbosity=0 -artifact_prefix="build/fuzz/findings/$name-" "${corpus[@]}"
done
