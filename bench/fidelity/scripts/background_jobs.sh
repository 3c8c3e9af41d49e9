(sleep 0.2; echo late) & first=$!
(exit 3) & second=$!
wait $second; echo "second $?"; wait $first; echo "first $?"; jobs | wc -l
