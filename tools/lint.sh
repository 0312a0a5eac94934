#!/usr/bin/env bash
# tools/lint.sh changed|all|form|format
#   changed  checks the form of files that differ from main, and runs clang-tidy on their sources
#   all      does the same for every file
#   form     checks the form of every file, without clang-tidy
#   format   formats every C++ source in place
# The form of a C++ source is that of clang-format. No line of a source, script, CMake file or
# document may be longer than 100 columns. `changed` includes uncommitted edits and new files.
# clang-tidy skips tests, because the macros of gtest confuse it and its headers take most of the
# time, and files that include torch, because it cannot use the precompiled header of g++.
set -euo pipefail
cd "$(dirname "$0")/.."

code_folders=(include src apps adapters recipes bench tests examples)

# find_files FOLDER... -- TEST...: the files of those folders that exist.
find_files() {
  local folders=()
  while [ "$1" != -- ]; do
    [ ! -d "$1" ] || folders+=("$1")
    shift
  done
  shift
  find "${folders[@]}" -type f "$@" | sort
}

# The C++ sources that clang-format and clang-tidy check.
list_sources() {
  find_files "${code_folders[@]}" -- \( -name '*.h' -o -name '*.cc' \)
}

# The files whose lines are limited to 100 columns.
list_limited() {
  {
    find_files "${code_folders[@]}" .ci cmake deploy docs tools --
    find . -maxdepth 1 -type f -printf '%f\n'
  } | grep -E -e '\.(cc|h|cu|cuh|inc|c|py|sh|cmake|in|md)$' -e '(^|/)(CMakeLists\.txt|Makefile)$' \
    -e '^(\.ci/run|\.clang-tidy|tools/packages\.txt)$' | sort
}

# list_changed LIST: the files of list_LIST that differ from main.
list_changed() {
  local base=HEAD main
  for main in main origin/main; do
    if git rev-parse -q --verify "$main^{commit}" >/dev/null; then
      base=$(git merge-base HEAD "$main")
      break
    fi
  done
  comm -12 <("list_$1") <({
    git diff --name-only --diff-filter=d "$base"
    git ls-files --others --exclude-standard
  } | sort -u)
}

# list_tidy SOURCE...: the .cc files, and those of the headers, that are part of the build. The
# preset standalone compiles each file alone; in the others, files are in batches, which clang-tidy
# does not know.
database=build/standalone
list_tidy() {
  local file
  for file in "$@"; do
    case $file in
      tests/* | *_test.cc) ;;
      *.cc) echo "$file" ;;
      *.h) [ ! -f "${file%.h}.cc" ] || echo "${file%.h}.cc" ;;
    esac
  done | sort -u | while read -r file; do
    if grep -F -- " -c $PWD/$file\"" "$database/compile_commands.json" |
      grep -qvF tally_torch_pch; then
      echo "$file"
    fi
  done
}

# Reports the lines of these files that are too long; fails if there is one. Columns are characters,
# not bytes.
check_columns() {
  local status=0
  LC_ALL=C.UTF-8 grep -aHnE '^.{101,}' -- "$@" |
    sed -E 's/^([^:]+:[0-9]+):.*/\1: longer than 100 columns/' || status=$?
  [ "$status" -eq 1 ] # grep found no such line and had no error
}

case ${1:-} in
  changed)
    mapfile -t files < <(list_changed sources)
    mapfile -t limited < <(list_changed limited)
    ;;
  all | form | format)
    mapfile -t files < <(list_sources)
    mapfile -t limited < <(list_limited)
    ;;
  *) sed -n '2,6s/^# //p' "$0" >&2; exit 2 ;;
esac
if [ "$1" = format ]; then
  clang-format -i "${files[@]}"
  exit 0
fi
# The sources are a part of the limited files.
if [ ${#limited[@]} -eq 0 ]; then
  echo "lint: nothing to check"
  exit 0
fi

bad=0
form_error='s/^([^: ]+:[0-9]+):[0-9]+: error: .*/\1: not as clang-format has it/p'
if [ ${#files[@]} -gt 0 ] && ! clang-format --dry-run --Werror "${files[@]}" 2>&1 |
  sed -nE -e "$form_error" -e '/^(Error reading|error:)/p' | uniq; then
  echo "lint: 'make format' mends the format"
  bad=1
fi
check_columns "${limited[@]}" || bad=1
units=()
if [ "$1" != form ]; then
  cmake --preset standalone >/dev/null
  mapfile -t units < <(list_tidy "${files[@]}")
  if [ "$1" = all ] && [ ${#units[@]} -eq 0 ]; then
    echo "lint: $database has no command for any file, so clang-tidy would check nothing"
    bad=1
  fi
fi
if [ ${#units[@]} -gt 0 ]; then
  # One file per call, so that all processors stay busy to the end.
  printf '%s\0' "${units[@]}" |
    xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p "$database" \
      2> >(grep -vE '^[0-9]+ (warnings?|errors?).* generated|^Suppressed' >&2) || bad=1
fi
[ "$bad" = 0 ] && echo "lint: ${#files[@]} sources formatted, ${#units[@]} through clang-tidy;" \
  "${#limited[@]} files within 100 columns"
exit "$bad"
