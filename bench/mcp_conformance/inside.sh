#!/usr/bin/env bash
# Runs a command without other networks than loopback, with the whole host read-only except FOLDER:
#   unshare --mount --net --pid --fork bash inside.sh FOLDER COMMAND…
# With KEEP_CAPABILITIES, the command keeps its capabilities, which an engine that starts boxes needs.
set -euo pipefail

folder=$1
shift
mount --make-rprivate /
mount --bind "$folder" "$folder"
awk '{print $2}' /proc/self/mounts | sort -u | while read -r place; do
    case $place in
    "$folder" | /proc* | /sys* | /dev*) ;;
    *) mount -o remount,bind,ro "$place" ;;
    esac
done
mount -t proc proc /proc
ip link set lo up
[ -z "${KEEP_CAPABILITIES:-}" ] || exec "$@"
exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all -- "$@"
