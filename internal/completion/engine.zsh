#compdef @program@ @names@
# Completions of @program@ for zsh 5, made from its description of its command line.

@data@

# __@function@_step sets command to the subcommand that the cursor is in, or state to what stands there instead: start,
# next (a step of a chain), help, or program (another program at the end of the chain, at the position first).
__@function@_step() {
	local i word lines
	state=start command=${words[1]:t}
	__@function@_commands $command
	[[ $lines == "is one" ]] || command=
	for ((i = 2; i < CURRENT; i++)); do
		word=${words[i]}
		if [[ -n $command ]]; then
			[[ $word != -- ]] || { state=next; command= }
			continue
		fi
		__@function@_commands $word
		if [[ $state == program || $state == help ]]; then
			continue
		elif [[ $lines == "is one" ]]; then
			command=$word
		elif [[ $state == next ]]; then
			state=program first=$i
		elif [[ $word == help ]]; then
			state=help
		fi
	done
}

# __@function@_lines TAG offers the words before the tabs of lines, with what follows as their descriptions.
__@function@_lines() {
	local -a described
	described=(${lines//:/\\:})
	described=("${(@f)${described//$'\t'/:}}")
	_describe $1 described
}

# __@function@_offer offers what values says.
__@function@_offer() {
	local value lines
	local -a plain open
	for value in "${(@f)values}"; do
		case $value in
		@files) _files ;;
		@directories) _files -/ ;;
		@files-after-equals) [[ $PREFIX != *=* ]] || { compset -P 1 '*='; _files } ;;
		@pairs) compset -P '*:'; _files ;;
		@commands)
			__@function@_commands all
			__@function@_lines subcommand
			;;
		@settings)
			[[ $PREFIX == *:*\#* ]] || continue
			__@function@_settings ${PREFIX%%:*}
			compset -P '*[#&]'
			plain=(${${(@f)lines}%%$'\t'*})
			open=(${(M)plain:#*=})
			plain=(${plain:#*=})
			;;
		@* | '') ;;
		file:// | unix://)
			if [[ $PREFIX == $value* ]]; then
				compset -P $value
				_files
				return
			fi
			open+=($value)
			;;
		*[=:/]) open+=($value) ;;
		*) plain+=($value) ;;
		esac
	done
	(( ! $#plain )) || compadd -- $plain
	(( ! $#open )) || compadd -S '' -- $open
}

# __@function@_start offers what may stand where a subcommand does.
__@function@_start() {
	local lines
	__@function@_commands all
	case $state in
	start)
		if [[ ${words[CURRENT-1]} == --format ]]; then
			compadd -- text json
			return
		fi
		__@function@_lines subcommand
		compadd -- @start@
		;;
	help)
		__@function@_commands topics
		compadd -- "${(@f)lines}"
		;;
	next)
		__@function@_lines subcommand
		_command_names -e
		;;
	program)
		words=("${(@)words[first,-1]}")
		((CURRENT -= first - 1))
		_normal
		;;
	esac
}

_@function@() {
	local state command values lines first
	__@function@_step
	if [[ -z $command ]]; then
		__@function@_start
		return
	fi
	__@function@_values "$command${words[CURRENT-1]}"
	if [[ -n $values && $values != @optional* ]]; then
		__@function@_offer
	elif [[ $PREFIX == --*=* ]]; then
		__@function@_values "$command${PREFIX%%=*}"
		compset -P 1 '*='
		__@function@_offer
	elif [[ $PREFIX == -* ]]; then
		__@function@_flags $command
		__@function@_lines flag
	else
		__@function@_arguments $command
		__@function@_offer
	fi
}

# The other subcommands are also names of other programs: they are completed if they are links to @program@.
for __@function@_name in @common-names@; do
	if [[ -n ${commands[$__@function@_name]-} && ${commands[$__@function@_name]} -ef ${commands[@program@]-} ]]; then
		compdef _@function@ $__@function@_name
	fi
done
unset __@function@_name

# The file is the function when zsh loads it from $fpath, and defines it when it is sourced.
if [[ ${funcstack[1]-} == _@function@ ]]; then
	_@function@ "$@"
else
	compdef _@function@ @program@ @names@
fi
