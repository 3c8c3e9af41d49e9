mkfifo pipe; (echo through > pipe) & read -r line < pipe; echo "$line"; wait; [ -p pipe ] && echo fifo; rm pipe
