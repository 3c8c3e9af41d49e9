ulimit -n 100; ulimit -n; (ulimit -f 1; head -c 5000 /dev/zero > big 2> /dev/null); echo $?; ulimit -c; ulimit -s > /dev/null && echo stack
