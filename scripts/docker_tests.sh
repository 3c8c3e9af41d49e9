#!/usr/bin/env bash
# `make test-docker`: the tests marked `docker`, on an engine and an image made here, with what else goes to pytest.
# `docker_tests.sh VENV [ARGUMENT...]`. An engine that was started here is stopped at the end; one that ran goes on.
set -euo pipefail

venv=${1:?usage: docker_tests.sh VENV [ARGUMENT...]}
shift
cd "$(dirname "$0")/.."
folder=${DOCKER_TESTS_FOLDER:-/var/tmp/knackbox-docker} # the engine's data: the image in it is used again

say() { printf 'test-docker: %s\n' "$1"; }

if ! { [ -s "$folder/pid" ] && kill -0 "$(cat "$folder/pid")" 2>/dev/null; }; then
    trap 'bash scripts/docker_engine.sh stop "$folder"' EXIT
fi
DOCKER_HOST=$(bash scripts/docker_engine.sh start "$folder")
export DOCKER_HOST
bash scripts/docker_image.sh "$venv"

chosen=docker
if ! docker info --format '{{range $name, $_ := .Runtimes}}{{println $name}}{{end}}' | grep -qx runsc; then
    say "NOT TESTED: gVisor, since the engine at $DOCKER_HOST has no runtime runsc (one started here has, where Debian has the package)"
    chosen="docker and not gvisor"
fi
"$venv/bin/python" -m pytest -m "$chosen" "$@"
