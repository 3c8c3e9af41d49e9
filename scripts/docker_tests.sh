#!/usr/bin/env bash
# `make test-docker`: runs the tests marked `docker`, and starts an engine and builds an image for them if necessary.
# Usage: `docker_tests.sh VENV [ARGUMENT...]`; the arguments are passed to pytest. An engine that was started here is
# stopped at the end.
set -euo pipefail

venv=${1:?usage: docker_tests.sh VENV [ARGUMENT...]}
shift
cd "$(dirname "$0")/.."
folder=${DOCKER_TESTS_FOLDER:-/var/tmp/knackbox-docker} # the engine's data, with the image, is kept for the next run

say() { printf 'test-docker: %s\n' "$1"; }

if ! { [ -s "$folder/pid" ] && kill -0 "$(cat "$folder/pid")" 2>/dev/null; }; then
    trap 'bash scripts/docker_engine.sh stop "$folder"' EXIT
fi
DOCKER_HOST=$(bash scripts/docker_engine.sh start "$folder")
export DOCKER_HOST
bash scripts/docker_image.sh "$venv"

chosen=docker
if ! docker info --format '{{range $name, $_ := .Runtimes}}{{println $name}}{{end}}' | grep -qx runsc; then
    say "NOT TESTED: gVisor, because the engine at $DOCKER_HOST has no runtime runsc (install Debian's package runsc, if it has one)"
    chosen="docker and not gvisor"
fi
"$venv/bin/python" -m pytest -m "$chosen" "$@"
