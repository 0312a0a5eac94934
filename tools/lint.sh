#!/usr/bin/env bash
# tools/lint.sh changed|all|form|format
#   changed  checks format and runs clang-tidy on what differs from main: commits, edits and new files
#   all      the same for every source
#   form     checks the format of every source, without clang-tidy
#   format   formats every source in place
# clang-tidy skips tests, because the macros of gtest confuse it and its headers take most of the time,
# and files that include torch, because it cannot use the precompiled header of g++.
set -euo pipefail
cd "$(dirname "$0")/.."

list_all() {
  local folder
  for folder in include src apps adapters recipes bench tests examples; do
    [ ! -d "$folder" ] || find "$folder" -type f \( -name '*.h' -o -name '*.cc' \)
  done | sort
}

list_changed() {
  local base=HEAD main
  for main in main origin/main; do
    if git rev-parse -q --verify "$main^{commit}" >/dev/null; then
      base=$(git merge-base HEAD "$main")
      break
    fi
  done
  comm -12 <(list_all) <({
    git diff --name-only --diff-filter=d "$base"
    git ls-files --others --exclude-standard
  } | sort -u)
}

# The .cc files, and those of changed headers, that are part of the build.
list_tidy() {
  local file
  for file in "$@"; do
    case $file in
      tests/* | *_test.cc) ;;
      *.cc) echo "$file" ;;
      *.h) [ ! -f "${file%.h}.cc" ] || echo "${file%.h}.cc" ;;
    esac
  done | sort -u | while read -r file; do
    if grep -F -- " -c $PWD/$file\"" build/release/compile_commands.json | grep -qvF tally_torch_pch; then
      echo "$file"
    fi
  done
}

case ${1:-} in
  changed) mapfile -t files < <(list_changed) ;;
  all | form | format) mapfile -t files < <(list_all) ;;
  *) sed -n '2,6s/^# //p' "$0" >&2; exit 2 ;;
esac
if [ ${#files[@]} -eq 0 ]; then
  echo "lint: nothing to check"
  exit 0
fi
if [ "$1" = format ]; then
  clang-format -i "${files[@]}"
  exit 0
fi

bad=0
if ! clang-format --dry-run --Werror "${files[@]}" 2>&1 |
  sed -nE 's/^([^: ]+:[0-9]+):[0-9]+: error: .*/\1: not as clang-format has it/p; /^(Error reading|error:)/p' | uniq; then
  echo "lint: 'make format' mends the format"
  bad=1
fi
units=()
[ "$1" = form ] || mapfile -t units < <(list_tidy "${files[@]}")
if [ ${#units[@]} -gt 0 ]; then
  # One file per call, so that all processors stay busy to the end.
  printf '%s\0' "${units[@]}" |
    xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p build/release \
      2> >(grep -vE '^[0-9]+ (warnings?|errors?).* generated|^Suppressed' >&2) || bad=1
fi
[ "$bad" = 0 ] && echo "lint: ${#files[@]} files formatted, ${#units[@]} through clang-tidy"
exit "$bad"
