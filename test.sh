#!/usr/bin/env bash
# ./test.sh [--full]: install what is missing (Debian 12, as root), build, test. The test runner's own closing lines come last.
# Without a flag: release build, every test that is not labelled `long` or `soak`.
# --full: also the long and soak tests, the end-to-end checks, and the same with AddressSanitizer + UBSan and ThreadSanitizer.
set -uo pipefail
QUIRE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tools/setup.sh
. "$QUIRE_ROOT/tools/setup.sh"

full=no
for argument in "$@"; do
  case $argument in
    --full) full=yes ;;
    -h|--help) sed -n '2,4s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) fail "unknown argument '$argument'; allowed: --full" ;;
  esac
done

if [ $full = yes ]; then say "test.sh --full: release, asan and tsan builds, all tests, end-to-end checks"
else say "test.sh: install what is missing, build the release preset, run the quick tests (--full runs all)"; fi
require_packages test

closing=() failures=0
logs=$QUIRE_ROOT/build/test-logs
mkdir -p "$logs"

# run_ctest PRESET [CTEST_ARGUMENT...]: output goes to the terminal and to a log whose closing lines are repeated at the end.
run_ctest() {
  local preset=$1 log=$logs/ctest-$1.log; shift
  say "Testing preset $preset"
  ctest --test-dir "$QUIRE_ROOT/build/$preset" --output-on-failure --no-tests=error -j "$(nproc)" "$@" 2>&1 | tee "$log"
  [ "${PIPESTATUS[0]}" -eq 0 ] || failures=$((failures + 1))
  closing+=("$preset" "$log")
}

# run_end_to_end PRESET [ARGUMENT...]
run_end_to_end() {
  local preset=$1 log=$logs/e2e-$1.log; shift
  "$QUIRE_ROOT/eval/e2e.sh" --preset "$preset" "$@" 2>&1 | tee "$log"
  [ "${PIPESTATUS[0]}" -eq 0 ] || failures=$((failures + 1))
  closing+=("end-to-end $preset" "$log")
}

configure release
build release
if [ $full = no ]; then
  # One run: ctest's closing lines are the last thing printed.
  run_ctest release -LE '^(long|soak)$'
  exit $((failures > 0))
fi

run_ctest release
run_end_to_end release
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS="suppressions=$QUIRE_ROOT/src/text/ffi/tsan.supp:second_deadlock_stack=1"
for preset in asan tsan; do
  configure "$preset"
  build "$preset"
  run_ctest "$preset" -LE '^soak$'
  run_end_to_end "$preset" --quick
done

for ((i = 0; i < ${#closing[@]}; i += 2)); do
  printf '\n---- %s\n' "${closing[i]}"
  sed -n '/tests passed\|^[0-9]* passed, [0-9]* failed/,$p' "${closing[i + 1]}"
done
exit $((failures > 0))
