#!/bin/sh
# Builds what measurements beside llama.cpp need: build_tools.sh LLAMA_CPP_FOLDER BUILD_FOLDER [TARGET...]. The tree is vendor/llama.cpp
# of the source distribution of llama-cpp-python (`pip download --no-deps --no-binary :all: llama-cpp-python`); programs land in
# BUILD_FOLDER/bin. For this machine's CPU, static, without network code for downloads and without the web page.
set -eu
tree=$1
build=$2
shift 2
[ $# -gt 0 ] || set -- llama-perplexity llama-bench llama-batched-bench llama-server llama-tokenize llama-quantize
cmake -S "$tree" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON -DGGML_CCACHE=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF \
  -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF
ninja -C "$build" "$@"
