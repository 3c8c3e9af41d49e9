#!/usr/bin/env bash
# `make test-aarch64`: makes the attempts of the escape suite in an emulated aarch64 machine, with both kinds of process 1.
# It needs no aarch64 hardware: QEMU emulates a machine with Debian's kernel, Python and libraries, all in memory. The
# machine has control groups of version 2. Usage: `aarch64.sh VENV [FAMILY...]`; without families, all but "exhaustion".
set -euo pipefail

venv=${1:?usage: aarch64.sh VENV [FAMILY...]}
shift
cd "$(dirname "$0")/.."
. scripts/debian.sh
folder=${AARCH64_FOLDER:-/var/tmp/knackbox-aarch64} # the unpacked packages, kept for the next run
recipe=2 # increase it when a change below changes what is unpacked
limit_s=${AARCH64_SECONDS:-3600}

stop() { printf 'test-aarch64: %s\n' "$1" >&2; exit 1; }
say() { printf 'test-aarch64: %s\n' "$1"; }

[ "$(id -u)" = 0 ] || stop "this installs packages: run it as root (sudo make test-aarch64)"
install_missing qemu-system-arm gcc-aarch64-linux-gnu libc6-dev-arm64-cross debootstrap cpio

find_mirror
base=$folder/$release-$recipe
if [ ! -s "$base/system.gz" ]; then
    say "unpacking Debian's packages for aarch64 to $base (a few minutes the first time)"
    rm -rf "$base" && mkdir -p "$base"
    # The packages are unpacked, but not configured: that would run their scripts in the emulator, which is slow.
    debootstrap --arch=arm64 --foreign --variant=minbase --include=python3,linux-image-cloud-arm64 \
        "$release" "$base/root" "$mirror" >"$base/log" 2>&1 ||
        { tail -n 5 "$base/log" >&2; stop "debootstrap failed; its last messages are above, all of them in $base/log"; }
    for package in "$base"/root/var/cache/apt/archives/*.deb; do
        dpkg-deb --extract "$package" "$base/root"
    done
    cp "$base"/root/boot/vmlinuz-* "$base/kernel"
    # Boxes with a copy of a workspace need overlayfs. It is the only module that anything here needs.
    find "$base/root" -name overlay.ko -exec cp {} "$base/overlay.ko" \;
    [ -s "$base/overlay.ko" ] || stop "the kernel's package has no overlay.ko"
    (cd "$base/root" && rm -rf boot debootstrap lib/modules usr/lib/modules var/cache/apt var/lib/apt \
        usr/share/{doc,man,locale,zoneinfo} && mkdir -p usr/local/lib mnt &&
        find . -print0 | cpio --null --create --format newc --quiet | gzip -1 >"$base/system.part")
    rm -rf "$base/root"
    mv "$base/system.part" "$base/system.gz"
fi

# A second archive with the project, which the kernel unpacks over the first.
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir -p "$made/tree/knackbox/uv"
cp -r sandbox "$made/tree/knackbox/"
find "$made/tree" -name __pycache__ -prune -exec rm -rf {} +
aarch64-linux-gnu-gcc -std=c11 -O2 -Wall -Wextra -Werror -static -s \
    -o "$made/tree/knackbox/sandbox/namespace/native/box_init" sandbox/namespace/native/box_init.c
packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cp -r "$packages/platformdirs" "$made/tree/knackbox/"
cp "$packages"/uv/*.py "$made/tree/knackbox/uv/"
cp tests/sandbox/aarch64/attempts.py "$made/tree/knackbox/"
install -m 0755 tests/sandbox/aarch64/init "$made/tree/init"
cp "$base/overlay.ko" "$made/tree/knackbox/"
printf '%s\n' "$@" >"$made/tree/knackbox/families"
(cd "$made/tree" && find . -print0 | cpio --null --create --format newc --quiet | gzip -1) |
    cat "$base/system.gz" - >"$made/initrd"

say "starting the machine (an emulated one: expect ten minutes)"
timeout "$limit_s" qemu-system-aarch64 -machine virt -cpu max,pauth-impdef=on -smp 2 -m 3072 -nographic -nic none -no-reboot \
    -kernel "$base/kernel" -initrd "$made/initrd" -append "console=ttyAMA0 quiet panic=-1 rdinit=/init" |
    tee "$made/console"
grep -q '^ended with 0' "$made/console" || stop "an attempt did not fail as it should, or the machine did not come to its end; see above"
