f() { local x=inner; echo "$x $# $1"; return 5; }; x=outer; f a b; echo "$? $x"; g() (x=sub; echo $x); g; echo $x
fact() { if (( $1 < 2 )); then echo 1; else echo $(( $1 * $(fact $(( $1 - 1 ))) )); fi; }; fact 10
