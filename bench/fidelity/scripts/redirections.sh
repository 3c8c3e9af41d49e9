exec 3> file; echo three >&3; exec 3>&-; cat file; echo more >> file; wc -l < file; { echo x; } 2> /dev/null 1>&2; exec 4<> file; read -r line <&4; echo "$line"; set -C; echo y > file; echo $?
echo dev > /dev/stdout; echo tty > /dev/fd/1; ls -l /dev/stdin > /dev/null && echo stdin
