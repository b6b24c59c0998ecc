#!/usr/bin/env bash
# ./test.sh [--full]: install what is missing (Debian 12, as root), build, test. The test runner's own closing lines come last.
# Without a flag: release build, every test that is not labelled `long` or `soak`.
# --full: also the long and soak tests, the end-to-end checks, a soak of the server, the same with AddressSanitizer + UBSan and
# ThreadSanitizer, and fuzzing. --soak-minutes N (10): of the release build; --fuzz-seconds N (300): for each target.
set -uo pipefail
QUIRE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tools/setup.sh
. "$QUIRE_ROOT/tools/setup.sh"

full=no soak_minutes=10 fuzz_seconds=300
while [ $# -gt 0 ]; do
  case $1 in
    --full) full=yes ;;
    --soak-minutes) soak_minutes=${2:?--soak-minutes needs a number}; shift ;;
    --fuzz-seconds) fuzz_seconds=${2:?--fuzz-seconds needs a number}; shift ;;
    -h|--help) sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) fail "unknown argument '$1'; allowed: --full, --soak-minutes N, --fuzz-seconds N" ;;
  esac
  shift
done

if [ $full = yes ]; then say "test.sh --full: release, asan and tsan builds, all tests, end-to-end checks, soak, fuzzing"
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

# run_script TITLE SCRIPT [ARGUMENT...]: one that ends with 'N passed, N failed'.
run_script() {
  local title=$1 log="$logs/${1// /-}.log"; shift
  "$@" 2>&1 | tee "$log"
  [ "${PIPESTATUS[0]}" -eq 0 ] || failures=$((failures + 1))
  closing+=("$title" "$log")
}

configure release
build release
if [ $full = no ]; then
  # One run: ctest's closing lines are the last thing printed.
  run_ctest release -LE '^(long|soak)$'
  exit $((failures > 0))
fi

run_ctest release
run_script "end-to-end release" "$QUIRE_ROOT/eval/e2e.sh"
run_script "soak release" "$QUIRE_ROOT/eval/soak.sh" --minutes "$soak_minutes"
run_script "fuzzing" "$QUIRE_ROOT/tools/fuzz.sh" --seconds "$fuzz_seconds"
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS="suppressions=$QUIRE_ROOT/src/text/ffi/tsan.supp:second_deadlock_stack=1"
for preset in asan tsan; do
  configure "$preset"
  build "$preset"
  run_ctest "$preset" -LE '^soak$'
  run_script "end-to-end $preset" "$QUIRE_ROOT/eval/e2e.sh" --preset "$preset" --quick
  run_script "soak $preset" "$QUIRE_ROOT/eval/soak.sh" --preset "$preset" --minutes 2
done

for ((i = 0; i < ${#closing[@]}; i += 2)); do
  printf '\n---- %s\n' "${closing[i]}"
  sed -n '/tests passed\|^[0-9]* passed, [0-9]* failed/,$p' "${closing[i + 1]}"
done
exit $((failures > 0))
