#!/usr/bin/env bash
# Coverage-guided fuzzing of everything that reads files and requests: tools/fuzz.sh [--seconds N] [--only NAME,...] [--keep]
# Installs clang on Debian 12 (as root), builds the targets of tests/fuzz/targets.def with libFuzzer, AddressSanitizer and UBSan, runs each
# for N seconds (60), prints a table and 'N passed, N failed'. Inputs that failed lie in build/fuzz/failures. --keep: see tools/fuzz.py.
set -euo pipefail
QUIRE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tools/setup.sh
. "$QUIRE_ROOT/tools/setup.sh"
require_packages fuzz
configure fuzz
mapfile -t targets < <(python3 "$QUIRE_ROOT/tools/fuzz.py" --programs)
build fuzz "${targets[@]}"
exec python3 "$QUIRE_ROOT/tools/fuzz.py" "$@"
