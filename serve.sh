#!/usr/bin/env bash
# ./serve.sh [MODEL] [flags]: install what is missing (Debian 12, as root), build, serve on port 8000 (the default of --port).
# MODEL: a Hugging Face folder or a hub id that is in the local cache; models/gsm-tiny when left out. Flags go to `quire serve`.
set -euo pipefail
QUIRE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tools/setup.sh
. "$QUIRE_ROOT/tools/setup.sh"

# The shipped model is served under a short name, since a path of this machine would be its name otherwise. Flags given win.
model=$QUIRE_ROOT/models/gsm-tiny name=(--served-model-name gsm-tiny)
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then model=$1; name=(); shift; fi
for argument in "$@"; do
  case $argument in --served-model-name*|--served_model_name*) name=() ;; esac
done
command=("$QUIRE_ROOT/build/release/bin/quire" serve "$model" ${name[@]+"${name[@]}"} "$@")

say "serve.sh: install what is missing, build the release preset, serve $model"
require_packages build
configure release
build release quire
say "Serving: ${command[*]}"
exec "${command[@]}"
