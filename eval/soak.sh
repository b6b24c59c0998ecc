#!/usr/bin/env bash
# A long run of the built server under random clients: eval/soak.sh [--minutes N] [--preset NAME] [--seed N] [--json FILE]
# Starts build/PRESET/bin/quire on a free port, runs eval/soak.py, prints what was done and 'N passed, N failed'.
set -euo pipefail
QUIRE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tools/setup.sh
. "$QUIRE_ROOT/tools/setup.sh"
require_packages test
exec python3 "$QUIRE_ROOT/eval/soak.py" "$@"
