# Shared shell of serve.sh, test.sh and .ci/run: find or install what a build needs, configure, build. Sourced, never run.
# Must not know: what is served or tested. Everything here is cheap when there is nothing to do: two dpkg-free file tests,
# one dpkg-query, no network.
# shellcheck shell=bash

# The text crate states the oldest Rust that builds it.
QUIRE_CARGO_MINIMUM=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' "$QUIRE_ROOT/src/text/ffi/Cargo.toml")

say() { printf '==> %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Debian 12 packages. python3 is used by tests only, so serve.sh does not ask for it.
quire_build_packages=(g++ cmake ninja-build pkg-config libboost1.81-dev libboost-json1.81-dev libspdlog-dev
  libyaml-dev libhwy-dev prometheus-cpp-dev libgtest-dev libgmock-dev ccache mold ca-certificates)
quire_test_packages=(python3 python3-venv)
# libFuzzer: only when fuzzing is asked for.
quire_fuzz_packages=(clang-14 libclang-rt-14-dev)
# A browser for the page at "/", and promtool for /metrics: end-to-end checks only.
quire_end_to_end_packages=(chromium chromium-driver prometheus)

is_debian_12() {
  [ -r /etc/os-release ] && command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || return 1
  # shellcheck disable=SC1091
  ( . /etc/os-release; [ "${ID:-}" = debian ] && [ "${VERSION_ID:-}" = 12 ] )
}

# version_at_least HAVE WANT: dotted numbers, as sort -V orders them.
version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

cargo_version() { cargo --version 2>/dev/null | awk '{print $2}'; }

# A new enough cargo on PATH, or in rustup's usual place.
have_cargo() {
  if ! command -v cargo >/dev/null && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
    PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"; export PATH
  fi
  local version; version=$(cargo_version)
  [ -n "$version" ] && version_at_least "$version" "$QUIRE_CARGO_MINIMUM"
}

# missing_packages NAME...: prints those that dpkg does not list as installed.
missing_packages() {
  local installed
  installed=$(dpkg-query -W -f='${db:Status-Abbrev}${Package}\n' "$@" 2>/dev/null | sed -n 's/^ii *//p' || true)
  local name
  for name in "$@"; do grep -qxF -- "$name" <<<"$installed" || printf '%s\n' "$name"; done
}

# Elsewhere than Debian 12 the packages have other names: check the programs, leave the libraries to CMake's own messages.
require_programs() {
  local missing=() program
  for program in g++ cmake ninja pkg-config "$@"; do command -v "$program" >/dev/null || missing+=("$program"); done
  have_cargo || missing+=("cargo>=$QUIRE_CARGO_MINIMUM")
  [ ${#missing[@]} -eq 0 ] && return 0
  printf 'error: this is not Debian 12, so nothing was installed. Missing programs: %s\n' "${missing[*]}" >&2
  printf 'Install these with your package manager, and the libraries that Debian 12 calls:\n  %s\n' "${quire_build_packages[*]}" >&2
  printf 'then run the same command again.\n' >&2
  exit 1
}

# require_packages build|test|end-to-end|fuzz: what that needs is installed afterwards, or the script has ended with a reason. All but the
# first include what tests need. Elsewhere than Debian 12 the end-to-end checks leave out what lacks its program.
require_packages() {
  local wanted=("${quire_build_packages[@]}") programs=() missing=()
  if [ "$1" != build ]; then wanted+=("${quire_test_packages[@]}"); programs=(python3); fi
  if [ "$1" = end-to-end ]; then wanted+=("${quire_end_to_end_packages[@]}"); fi
  if [ "$1" = fuzz ]; then wanted+=("${quire_fuzz_packages[@]}"); programs+=(clang++-14); fi
  if ! is_debian_12; then require_programs ${programs[@]+"${programs[@]}"}; return; fi
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  if ! have_cargo; then
    local rust=(); mapfile -t rust < <(missing_packages cargo-web rustc-web)
    missing+=(${rust[@]+"${rust[@]}"})
  fi
  if [ ${#missing[@]} -gt 0 ]; then install_packages "${missing[@]}"; fi
  hash -r
  have_cargo || fail "cargo $(cargo_version) is on PATH, but cargo >= $QUIRE_CARGO_MINIMUM is needed: run 'rustup update', or remove it from PATH so that Debian's cargo-web is used"
}

install_packages() {
  local command="apt-get install -y --no-install-recommends $*"
  if [ "$(id -u)" -ne 0 ]; then
    printf 'error: %d packages are missing, and installing them needs root. Run:\n  sudo apt-get update && sudo %s\nthen run the same command again.\n' "$#" "$command" >&2
    exit 1
  fi
  say "Installing $# missing packages: $*"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q || fail "apt-get update failed (output above): check the network and the package sources"
  apt-get install -y -q --no-install-recommends -o Dpkg::Use-Pty=0 "$@" || fail "this failed (output above): $command"
}

# configure PRESET [CMAKE_ARGUMENT...]: only when presets or arguments changed; Ninja re-runs CMake for its own files.
configure() {
  local preset=$1; shift
  local folder=$QUIRE_ROOT/build/$preset stamp
  stamp="$(cksum < "$QUIRE_ROOT/CMakePresets.json") $*"
  export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$QUIRE_ROOT}"
  if [ -f "$folder/build.ninja" ] && [ "$(cat "$folder/.configured" 2>/dev/null)" = "$stamp" ]; then return 0; fi
  say "Configuring preset $preset"
  ( cd "$QUIRE_ROOT" && cmake --preset "$preset" "$@" ) || fail "configuring preset $preset failed (output above)"
  printf '%s\n' "$stamp" > "$folder/.configured"
}

# build PRESET [TARGET...]: Ninja's own progress line, with elapsed seconds.
build() {
  local preset=$1; shift
  local folder=$QUIRE_ROOT/build/$preset
  say "Building preset $preset${*:+ ($*)} in build/$preset"
  NINJA_STATUS='[%f/%t, %e s] ' ninja -C "$folder" "$@" || fail "building preset $preset failed (output above)"
}

# python_environment: build/venv holds eval/requirements.txt; pip runs again only when that file changed.
python_environment() {
  local venv=$QUIRE_ROOT/build/venv stamp
  stamp=$(cksum < "$QUIRE_ROOT/eval/requirements.txt")
  if [ -x "$venv/bin/python" ] && [ "$(cat "$venv/.installed" 2>/dev/null)" = "$stamp" ]; then return 0; fi
  say "Installing the Python packages of eval/requirements.txt into build/venv (evaluation clients; used by tests only)"
  mkdir -p "$QUIRE_ROOT/build"
  python3 -m venv "$venv" || fail "python3 -m venv failed (output above); Debian's package is python3-venv"
  "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off -q -r "$QUIRE_ROOT/eval/requirements.txt" \
    || fail "pip install -r eval/requirements.txt failed (output above)"
  printf '%s\n' "$stamp" > "$venv/.installed"
}
