tty; [ -t 0 ]; echo $?; script -qec 'tty > /dev/null && echo a terminal' /dev/null < /dev/null | tr -d '\r'; stty size 2> /dev/null; echo $?
