name=world
cat <<END
hello $name $((1 + 1))
END
cat <<'END'
literal $name
END
cat <<-END
	indented
	END
cat <<< "here string $name"
