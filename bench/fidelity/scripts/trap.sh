trap 'echo usr1' USR1; kill -USR1 $$; trap - USR1
(trap 'echo exit trap' EXIT; exit 4); echo $?
trap 'echo err' ERR; false; trap - ERR
(trap 'echo term; exit 9' TERM; kill -TERM $BASHPID; sleep 5); echo $?
