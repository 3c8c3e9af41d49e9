set -m
sleep 5 & pid=$!
kill -STOP $pid; sleep 0.1; jobs | sed 's/ .*sleep/ sleep/'; kill -CONT $pid; kill $pid; wait $pid; echo "ended $?"
sleep 0.1 & fg %% > /dev/null; echo "fg $?"
