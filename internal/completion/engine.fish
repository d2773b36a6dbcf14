# Completions of @program@ for fish 3, made from its description of its command line.

@data@

# __@function@_paths WORD PREFIX prints paths that begin with WORD, with PREFIX before them.
function __@function@_paths
	for path in (__fish_complete_path $argv[1])
		echo $argv[2]$path
	end
end

# __@function@_offer WORD PREFIX VALUE… prints what the values say, for WORD, with PREFIX before it.
function __@function@_offer
	set -l word $argv[1]
	set -l prefix $argv[2]
	set -l lines
	for value in $argv[3..]
		switch $value
		case @files
			__@function@_paths $word $prefix
		case @directories
			for path in (__fish_complete_directories $word '')
				echo $prefix$path
			end
		case @files-after-equals
			if string match -q '*=*' -- $word
				set -l halves (string split -m 1 = -- $word)
				__@function@_paths "$halves[2]" $prefix$halves[1]=
			end
		case @pairs
			set -l halves (string split -r -m 1 : -- $word)
			if set -q halves[2]
				__@function@_paths "$halves[2]" $prefix$halves[1]:
			else
				__@function@_paths $word $prefix
			end
		case @commands
			__@function@_commands all
			string split \n -- $lines
		case @settings
			set -l halves (string match -r '^([^:]*):.*[#&]' -- $word)
			if set -q halves[2]; and string match -q '*#*' -- $halves[1]
				__@function@_settings $halves[2]
				for line in (string split \n -- $lines)
					echo $prefix$halves[1]$line
				end
			end
		case '@*'
		case file:// unix://
			if string match -q "$value*" -- $word
				__@function@_paths (string replace $value '' -- $word) $prefix$value
			else
				echo $prefix$value
			end
		case '*'
			echo $prefix$value
		end
	end
end

# __@function@_start STATE WORDS… prints what may stand where a subcommand does.
function __@function@_start
	set -l lines
	switch $argv[1]
	case start
		if test "$argv[-1]" = --format
			printf '%s\n' text json
			return
		end
		__@function@_commands all
		string split \n -- $lines
		printf '%s\n' @start@
	case help
		__@function@_commands topics
		string split \n -- $lines
	case next
		__@function@_commands all
		string split \n -- $lines
		__fish_complete_command
	end
end

function __@function@_complete
	set -l words (commandline -opc)
	set -l current (string trim -l -c '\'"' -- (commandline -ct))
	set -l state start
	set -l lines
	set -l values
	set -l first
	# The subcommand that the cursor is in.
	set -l command (string replace -r '.*/' '' -- $words[1])
	__@function@_commands $command
	test "$lines" = 'is one'; or set command
	for i in (seq 2 (count $words))
		set -l word $words[$i]
		if set -q command[1]
			if test "$word" = --
				set state next
				set command
			end
			continue
		end
		contains $state program help; and continue
		__@function@_commands $word
		if test "$lines" = 'is one'
			set command $word
		else if test $state = next
			set state program
			set first $i
		else if test "$word" = help
			set state help
		end
	end
	if test $state = program; and not set -q command[1]
		complete -C (string join ' ' -- (string escape -- $words[$first..]) $current)
		return
	end
	if not set -q command[1]
		__@function@_start $state $words
		return
	end
	__@function@_values $command$words[-1]
	if set -q values[1]; and not string match -q '@optional*' -- $values
		__@function@_offer "$current" '' (string split \n -- $values)
	else if string match -q -- '--*=*' $current
		set -l halves (string split -m 1 = -- $current)
		__@function@_values $command$halves[1]
		__@function@_offer "$halves[2]" $halves[1]= (string split \n -- $values)
	else if string match -q -- '-*' $current
		__@function@_flags $command
		string split \n -- $lines
	else
		__@function@_arguments $command
		__@function@_offer "$current" '' (string split \n -- $values)
	end
end

for __@function@_name in @program@ @names@
	complete -c $__@function@_name -f -a '(__@function@_complete)'
end

# The other subcommands are also names of other programs: they are completed if they are links to @program@.
set -l __@function@_path (command -s @program@)
for __@function@_name in @common-names@
	set -l __@function@_link (command -s $__@function@_name)
	if test -n "$__@function@_path" -a -n "$__@function@_link"
		and test (realpath "$__@function@_link") = (realpath "$__@function@_path")
		complete -c $__@function@_name -f -a '(__@function@_complete)'
	end
end
set -e __@function@_name
