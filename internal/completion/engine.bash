# Completions of @program@ for bash 4.4 or later, made from its description of its command line.

@data@

# __@function@_rejoin sets words to the words up to the cursor: bash splits them at = and :, too.
__@function@_rejoin() {
	local rest=${COMP_LINE:0:COMP_POINT} trimmed word i
	words=()
	for ((i = 0; i <= COMP_CWORD; i++)); do
		trimmed=${rest#"${rest%%[![:space:]]*}"}
		word=${COMP_WORDS[i]}
		((i < COMP_CWORD)) || word=$trimmed
		if ((i == 0)) || [[ $trimmed != "$rest" ]]; then
			words+=("$word")
		else
			words[-1]+=$word
		fi
		rest=${trimmed#"$word"}
	done
}

# __@function@_step sets command to the subcommand that the cursor is in, or state to what stands there instead: start,
# next (a step of a chain), help, or program (another program at the end of the chain).
__@function@_step() {
	local i word lines
	state=start command=${words[0]##*/}
	__@function@_commands "$command"
	[[ $lines == "is one" ]] || command=
	for ((i = 1; i < ${#words[@]} - 1; i++)); do
		word=${words[i]}
		if [[ -n $command ]]; then
			[[ $word != -- ]] || state=next command=
			continue
		fi
		__@function@_commands "$word"
		if [[ $state == program || $state == help ]]; then
			continue
		elif [[ $lines == "is one" ]]; then
			command=$word
		elif [[ $state == next ]]; then
			state=program
		elif [[ $word == help ]]; then
			state=help
		fi
	done
}

# __@function@_lines [WORD PREFIX] offers the words before the tabs of lines, for WORD, with PREFIX before them.
__@function@_lines() {
	local line word=${1-$current}
	while IFS= read -r line; do
		line=${line%%$'\t'*}
		[[ -z $line || $line != "$word"* ]] || COMPREPLY+=("${2-}$line")
	done <<<"$lines"
}

# __@function@_paths KIND WORD PREFIX offers paths that begin with WORD, with PREFIX before them.
__@function@_paths() {
	local path
	compopt -o filenames 2>/dev/null
	while IFS= read -r path; do
		COMPREPLY+=("$3$path")
	done < <(compgen "$1" -- "$2")
}

# __@function@_offer WORD PREFIX offers what values says, for WORD, with PREFIX before it.
__@function@_offer() {
	local value word=$1 prefix=$2 lines
	while IFS= read -r value; do
		case $value in
		@files) __@function@_paths -f "$word" "$prefix" ;;
		@directories) __@function@_paths -d "$word" "$prefix" ;;
		@files-after-equals) [[ $word != *=* ]] || __@function@_paths -f "${word#*=}" "$prefix${word%%=*}=" ;;
		@pairs)
			if [[ $word == *:* ]]; then
				__@function@_paths -f "${word##*:}" "$prefix${word%:*}:"
			else
				__@function@_paths -f "$word" "$prefix"
			fi
			;;
		@commands)
			__@function@_commands all
			__@function@_lines
			;;
		@settings)
			[[ $word == *:*#* ]] || continue
			__@function@_settings "${word%%:*}"
			__@function@_lines "${word##*[#&]}" "$prefix${word%"${word##*[#&]}"}"
			;;
		@* | '') ;;
		file:// | unix://)
			if [[ $word == "$value"* ]]; then
				__@function@_paths -f "${word#"$value"}" "$prefix$value"
			elif [[ $value == "$word"* ]]; then
				COMPREPLY+=("$prefix$value")
			fi
			;;
		*) [[ $value != "$word"* ]] || COMPREPLY+=("$prefix$value") ;;
		esac
	done <<<"$values"
}

# __@function@_start offers what may stand where a subcommand does.
__@function@_start() {
	case $state in
	start)
		__@function@_commands all
		lines+=$(printf '\n%s' @start@)
		[[ ${words[-2]} != --format ]] || lines=$'text\njson'
		__@function@_lines
		;;
	help)
		__@function@_commands topics
		__@function@_lines
		;;
	next)
		__@function@_commands all
		__@function@_lines
		__@function@_paths -c "$current" ''
		;;
	program) compopt -o default 2>/dev/null ;;
	esac
}

_@function@() {
	local words state command current flag values lines strip='' break quoted=
	COMPREPLY=()
	__@function@_rejoin
	__@function@_step
	current=${words[-1]} flag=
	if [[ $current == [\'\"]* ]]; then
		current=${current:1} quoted=yes
	fi
	if [[ -z $command ]]; then
		__@function@_start
	else
		__@function@_values "$command${words[-2]}"
		if [[ -n $values && $values != @optional* ]]; then
			__@function@_offer "$current" ''
		elif [[ $current == --*=* ]]; then
			__@function@_values "$command${current%%=*}"
			__@function@_offer "${current#*=}" "${current%%=*}="
		elif [[ $current == -* ]]; then
			__@function@_flags "$command"
			__@function@_lines
		else
			__@function@_arguments "$command"
			__@function@_offer "$current" ''
		fi
	fi
	# What bash replaces begins after the last = or : of the word.
	for break in = :; do
		if [[ -z $quoted && $COMP_WORDBREAKS == *"$break"* && $current == *"$break"* ]]; then
			flag=${current%"$break"*}$break
			((${#flag} <= ${#strip})) || strip=$flag
		fi
	done
	COMPREPLY=("${COMPREPLY[@]#"$strip"}")
	if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *[=:/] ]]; then
		compopt -o nospace 2>/dev/null
	fi
}

complete -F _@function@ @program@ @names@

# The other subcommands are also names of other programs: they are completed if they are links to @program@.
for __@function@_name in @common-names@; do
	if hash @program@ "$__@function@_name" 2>/dev/null && [[ ${BASH_CMDS[$__@function@_name]} -ef ${BASH_CMDS[@program@]} ]]; then
		complete -F _@function@ "$__@function@_name"
	fi
done
unset __@function@_name
