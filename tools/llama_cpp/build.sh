#!/bin/sh
# Compiles tokenise.cpp against a source tree of llama.cpp: build.sh LLAMA_CPP_FOLDER OUTPUT. Only what vocabularies need; the loader's
# other references (models, backends) stay unresolved and are never called, hence the static link.
set -eu
tree=$1
output=$2
here=$(cd "$(dirname "$0")" && pwd)
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
printf '#define GGML_VERSION "0"\n#define GGML_COMMIT "0"\n' > "$objects/ggml-version.h"
compile() { # COMPILER STANDARD SOURCE OBJECT
  "$1" "-std=$2" -O1 -w -D_GNU_SOURCE -I"$objects" -I"$tree/include" -I"$tree/src" -I"$tree/ggml/include" -I"$tree/ggml/src" -c "$3" -o "$objects/$4.o"
}
for source in ggml.c ggml-quants.c ggml-alloc.c; do compile gcc c11 "$tree/ggml/src/$source" "$source"; done
for source in ggml.cpp gguf.cpp ggml-backend.cpp ggml-threading.cpp; do compile g++ c++17 "$tree/ggml/src/$source" "$source"; done
for source in llama-vocab llama-model-loader llama-hparams llama-arch llama-impl llama-mmap unicode unicode-data; do compile g++ c++17 "$tree/src/$source.cpp" "$source"; done
compile g++ c++17 "$here/tokenise.cpp" tokenise
g++ -static "$objects"/*.o -Wl,--unresolved-symbols=ignore-all -pthread -o "$output"
