diff <(printf 'a\nb\n') <(printf 'a\nc\n'); echo "diff $?"; paste <(seq 3) <(seq 4 6); seq 5 | tee >(wc -l > count) > /dev/null; sleep 0.2; cat count
