x=7; echo $((x * 6)) $((x ** 2)) $((x > 3 ? 1 : 0)); let y=x+1; echo $y; ((x++)); echo $x; printf '%05.2f|%x|%s\n' 3.14159 255 end
