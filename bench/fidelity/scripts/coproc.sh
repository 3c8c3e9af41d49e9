coproc CAT { cat; }; echo hi >&"${CAT[1]}"; read -r line <&"${CAT[0]}"; echo "$line"; eval "exec ${CAT[1]}>&-"; wait; echo "$?"
