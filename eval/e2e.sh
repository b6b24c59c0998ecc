#!/usr/bin/env bash
# End-to-end checks of the built server: eval/e2e.sh [--quick] [--preset NAME] [--only CHECK,...]
# Starts build/PRESET/bin/quire on a free port, runs each check of eval/e2e.py, prints a table and 'N passed, N failed'.
set -euo pipefail
QUIRE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tools/setup.sh
. "$QUIRE_ROOT/tools/setup.sh"
require_packages end-to-end
python_environment
exec "$QUIRE_ROOT/build/venv/bin/python" "$QUIRE_ROOT/eval/e2e.py" "$@"
