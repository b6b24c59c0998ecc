#!/usr/bin/env bash
# ./serve.sh [MODEL] [flags]: install what is missing (Debian 12, as root), build, serve on port 8000.
# MODEL: a Hugging Face folder or a hub id that is in the local cache; models/gsm-tiny when left out. Flags go to `quire serve`.
set -euo pipefail
QUIRE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tools/setup.sh
. "$QUIRE_ROOT/tools/setup.sh"

model=$QUIRE_ROOT/models/gsm-tiny
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then model=$1; shift; fi
port=(--port 8000)
for argument in "$@"; do
  case $argument in --port|--port=*) port=() ;; esac
done

say "serve.sh: install what is missing, build the release preset, serve $model"
require_packages build
configure release
build release quire
say "Serving $model: build/release/bin/quire serve $model ${port[*]} $*"
exec "$QUIRE_ROOT/build/release/bin/quire" serve "$model" ${port[@]+"${port[@]}"} "$@"
