a=(one "two words" three); echo "${#a[@]}" "${a[1]}"; a+=(four); printf '%s\n' "${a[@]:1:2}"
declare -A m=([x]=1 [y]=2); for k in $(printf '%s\n' "${!m[@]}" | sort); do echo "$k=${m[$k]}"; done
