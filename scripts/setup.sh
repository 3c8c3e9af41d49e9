#!/usr/bin/env bash
# Creates the virtual environment VENV and installs this checkout into it, with everything that tests and demo need.
# PYTHON selects the interpreter. The default is the first Python 3.11 or newer on the path.
# If uv is on the path, it is used, since it is much faster than pip. UV= (empty) selects pip.
# Versions come from requirements.lock. CONSTRAINTS selects another file; CONSTRAINTS= (empty) selects the newest ones.
set -euo pipefail

venv=${1:?usage: setup.sh VENV}
cd "$(dirname "$0")/.."

stop() { printf 'setup: %s\n' "$1" >&2; exit 1; }
recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

python=""
for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
    if recent "$candidate"; then python=$candidate && break; fi
done
if [ -z "$python" ]; then
    found=$("${PYTHON:-python3}" --version 2>&1 || true)
    stop "Python 3.11 or newer is required, but ${PYTHON:-python3} is: ${found:-missing}. Install one, or give its path: make setup PYTHON=/path/to/python3.12"
fi

uv=${UV-uv}
if [ -n "$uv" ] && ! "$uv" --version >/dev/null 2>&1; then uv=""; fi

make_with_pip() {
    # Debian has ensurepip in a separate package; without it, an installed pip can install pip into the environment.
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        "$python" -m venv --clear "$venv"
    elif "$python" -c 'import venv' 2>/dev/null && "$python" -m pip --version >/dev/null 2>&1; then
        "$python" -m venv --clear --without-pip "$venv"
        "$python" -m pip --python "$venv/bin/python" install -qq pip
    else
        stop "$python has neither venv with ensurepip nor pip. On Debian or Ubuntu: apt-get install python3-venv; elsewhere: install Python from python.org, or uv"
    fi
}

if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    if [ -n "$uv" ]; then "$uv" venv -q --clear --seed --python "$python" "$venv"; else make_with_pip; fi
fi

constraints=()
if [ -n "${CONSTRAINTS-requirements.lock}" ]; then constraints=(--constraint "${CONSTRAINTS-requirements.lock}"); fi

if [ -n "$uv" ]; then
    printf 'setup: installing into %s, with uv\n' "$venv"
    installer=uv
    "$uv" pip install -q --compile-bytecode --python "$venv/bin/python" "${constraints[@]}" --editable '.[dev]'
else
    printf 'setup: installing into %s (a few minutes the first time; with uv on the path, seconds)\n' "$venv"
    installer=pip
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check "${constraints[@]}" --editable '.[dev]'
fi || stop "$installer could not install the dependencies; its message is above. Check the network and its configuration, then run make setup again"
printf 'setup: ready, with %s\n' "$("$venv/bin/python" --version)"
