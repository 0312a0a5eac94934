#!/usr/bin/env bash
# tools/in_preset.sh PRESET COMMAND...: runs a command, such as ctest, with the environment of this
# preset. Sanitizers end a program at their first finding.
set -euo pipefail
preset=$1
shift

run=()
case $preset in
  asan | tsan)
    ubsan=halt_on_error=1:print_stacktrace=1
    asan=halt_on_error=1:detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1
    asan+=:check_initialization_order=1:strict_init_order=1:detect_odr_violation=2
    tsan=halt_on_error=1:detect_deadlocks=1:second_deadlock_stack=1
    export ASAN_OPTIONS=${ASAN_OPTIONS:-$asan} TSAN_OPTIONS=${TSAN_OPTIONS:-$tsan}
    export UBSAN_OPTIONS=${UBSAN_OPTIONS:-$ubsan}
    # A kernel with more than 28 random address bits may place the program in the shadow memory of
    # the sanitizers of g++ 12 and clang 14: "FATAL: ThreadSanitizer: unexpected memory mapping".
    # setarch -R disables the randomisation, but some containers forbid this.
    if setarch "$(uname -m)" -R true 2>/dev/null; then
      run=(setarch "$(uname -m)" -R)
    elif [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)" -gt 28 ]; then
      echo "in_preset: address randomisation cannot be switched off" \
        "and vm.mmap_rnd_bits is above 28;" \
        "if programs end at once, root can run: sysctl vm.mmap_rnd_bits=28" >&2
    fi
    ;;
esac
exec "${run[@]}" "$@"
