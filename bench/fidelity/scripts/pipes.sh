seq 10 | grep 1 | sort -r | head -1; false | true; echo "${PIPESTATUS[@]}"; set -o pipefail; false | true; echo $?; yes | head -1; { echo out; echo err >&2; } 2>&1 | sort; echo a |& cat
