#!/usr/bin/env bash
# Starts and stops a Docker engine for tests. `docker_engine.sh start FOLDER` starts one unless an engine already
# answers, and prints its address for DOCKER_HOST on standard output. `docker_engine.sh stop FOLDER` stops only an
# engine that this script started.
set -euo pipefail

action=${1:?usage: docker_engine.sh start|stop FOLDER}
folder=$(realpath -m "${2:?usage: docker_engine.sh start|stop FOLDER}")
wait_s=60

stop() { printf 'docker-engine: %s\n' "$1" >&2; exit 1; }
say() { printf 'docker-engine: %s\n' "$1" >&2; }
answers() { DOCKER_HOST=$1 docker version >/dev/null 2>&1; }
alive() { [ -s "$folder/pid" ] && kill -0 "$(cat "$folder/pid")" 2>/dev/null; }

if [ "$action" = stop ]; then
    alive || { say "no engine started by this script is running in $folder"; exit 0; }
    pid=$(cat "$folder/pid")
    kill "$pid"
    for _ in $(seq $((wait_s * 10))); do
        kill -0 "$pid" 2>/dev/null || { say "stopped; its data is kept in $folder"; exit 0; }
        sleep 0.1
    done
    stop "process $pid did not end within $wait_s s after SIGTERM"
fi
[ "$action" = start ] || stop "unknown action $action: use start or stop"

for address in "${DOCKER_HOST:-unix:///var/run/docker.sock}" "unix://$folder/docker.sock"; do
    if command -v docker >/dev/null && answers "$address"; then
        say "an engine answers at $address"
        printf '%s\n' "$address"
        exit 0
    fi
done

[ "$(id -u)" = 0 ] || stop "no engine answers, and starting one requires root: sudo $0 start $folder"
available() { apt-cache show "$1" >/dev/null 2>&1; }
packages=()
if ! command -v dockerd >/dev/null || ! command -v docker >/dev/null; then
    command -v apt-get >/dev/null || stop "installing an engine requires apt-get: run this on Debian or Ubuntu, or start an engine yourself"
    apt-get update -qq || stop "apt-get update failed; its message is above. Check the network"
    packages=(docker.io)
    ! available docker-cli || packages+=(docker-cli) # a separate package since Debian 13
fi
command -v runsc >/dev/null || ! available runsc || packages+=(runsc) # gVisor, if Debian has it
if [ ${#packages[@]} -gt 0 ]; then
    say "installing ${packages[*]}"
    # Prevents the package from starting an engine with default settings, which adds a bridge and firewall rules.
    [ -e /usr/sbin/policy-rc.d ] || { printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d; ours=1; }
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null && status=0 || status=$?
    [ -z "${ours:-}" ] || rm /usr/sbin/policy-rc.d
    [ "$status" = 0 ] || stop "apt-get could not install ${packages[*]}; its message is above"
fi

mkdir -p "$folder"
# gVisor, if it is installed; without a network stack, because the containers of the tests have no network.
runsc=$(command -v runsc || true)
printf '{"runtimes": {%s}}\n' "${runsc:+\"runsc\": {\"path\": \"$runsc\", \"runtimeArgs\": [\"--network=none\"]\}}" >"$folder/daemon.json"
# No bridge and no firewall rules: the containers of the tests have no network, and the machine's network is unchanged.
setsid dockerd --bridge=none --iptables=false --ip-forward=false --config-file "$folder/daemon.json" \
    --data-root "$folder/data" --exec-root "$folder/exec" --pidfile "$folder/pid" \
    --host "unix://$folder/docker.sock" >"$folder/log" 2>&1 </dev/null &
daemon=$!
for _ in $(seq $((wait_s * 10))); do
    if answers "unix://$folder/docker.sock"; then
        say "started an engine; to stop it: $0 stop $folder"
        printf 'unix://%s/docker.sock\n' "$folder"
        exit 0
    fi
    kill -0 "$daemon" 2>/dev/null || { tail -n 5 "$folder/log" >&2; stop "dockerd ended at once; its last messages are above, all of them in $folder/log"; }
    sleep 0.1
done
tail -n 5 "$folder/log" >&2
kill "$daemon"
stop "dockerd did not answer within $wait_s s; its last messages are above, all of them in $folder/log"
