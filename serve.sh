#!/usr/bin/env bash
# ./serve.sh [MODEL] [flags]: install what is missing (Debian 12, as root), build, serve on port 8000 (the default of --port).
# MODEL: a Hugging Face folder, a .gguf file, or a hub id that is in the local cache. Left out: SmolLM2-135M-Instruct, downloaded once
# into build/models, or models/gsm-tiny where it cannot be had. Flags go to `quire serve`.
set -euo pipefail
QUIRE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tools/setup.sh
. "$QUIRE_ROOT/tools/setup.sh"
# shellcheck source=tools/default_model.sh
. "$QUIRE_ROOT/tools/default_model.sh"

# The default model is served under a short name, since a path of this machine would be its name otherwise. Flags given win.
model='' name=''
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then model=$1; shift; else default_model; fi
for argument in "$@"; do
  case $argument in --served-model-name*|--served_model_name*) name='' ;; esac
done
command=("$QUIRE_ROOT/build/release/bin/quire" serve "$model" ${name:+--served-model-name "$name"} "$@")

say "serve.sh: install what is missing, build the release preset, serve $model"
require_packages build
configure release
build release quire
say "Serving: ${command[*]}"
exec "${command[@]}"
