# Finds the line where a bash service failed: service-record 0.2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # what bootstrap-service-record.sh sets
#
# bootstrap-service-record.sh looks for this file beside itself and in ../share/service-record, when
# a service has failed, or called it wrongly. It has bash parse it in the service's shell, where the
# same manners hold. It takes it only whole and of its own version: the first line names that, and
# the last is the end. Nothing here runs a program or makes a process.

# Sets __sr_place, as errorLine has it, and __sr_stack, the JSON members that go with it. In a trap,
# bash counts the trap's own lines: there the place of a call is unknown.
__sr_find() { # call, or failure STATUS COMMAND
  builtin local LC_ALL=C __sr_line='' __sr_function='' __sr_file='' __sr_approximate=''
  builtin local -a __sr_functions __sr_files __sr_lines
  builtin local __sr_trap_lines=0
  __sr_read_frames
  if [[ $1 == call ]]; then
    ((__sr_line > __sr_trap_lines)) || builtin return 0
    __sr_function=${__sr_functions[0]-} __sr_file=${__sr_files[0]-}
  else
    __sr_line=
    __sr_find_failure "$2" "$3"
  fi
  [[ $__sr_line && $__sr_file ]] || builtin return 0
  __sr_place="$__sr_line ${__sr_function:-main} $__sr_file"
  __sr_read_stack
  __sr_stack=$__sr_answer${__sr_approximate:+',"errorLineApproximate":true'}
}

# The service's frames, innermost first: __sr_functions, __sr_files, and in __sr_lines where each
# was called; in __sr_line where it called us; and how many lines the longest of its traps has, but
# for EXIT and ERR.
__sr_read_frames() {
  builtin local __sr_depth=0 __sr_index=0 __sr_breaks=''
  while [[ ${FUNCNAME[__sr_depth]-} == __sr_* ]]; do __sr_depth=$((__sr_depth + 1)); done
  [[ ${FUNCNAME[__sr_depth]-} != @(exit|record_service_*) ]] || __sr_depth=$((__sr_depth + 1))
  __sr_functions=("${FUNCNAME[@]:__sr_depth}") __sr_files=("${BASH_SOURCE[@]:__sr_depth}")
  __sr_lines=("${BASH_LINENO[@]:__sr_depth}") __sr_line=${BASH_LINENO[__sr_depth - 1]}
  __sr_trap_lines=999999 # any line may be a trap's
  __sr_read_traps || builtin return
  __sr_trap_lines=0
  for ((__sr_index = 3; __sr_index < ${#__sr_traps[@]}; __sr_index += 4)); do
    __sr_breaks=${__sr_traps[__sr_index - 1]//[!$'\n']/}
    [[ ! ${__sr_traps[__sr_index - 1]} || ${__sr_traps[__sr_index]} == @(EXIT|ERR) ]] ||
      ((${#__sr_breaks} < __sr_trap_lines)) || __sr_trap_lines=$((${#__sr_breaks} + 1))
  done
}

__sr_read_stack() { # the JSON member: __sr_place, and behind it the callers
  builtin local __sr_index=0 __sr_json='' __sr_count=${#__sr_functions[@]}
  builtin local __sr_called="${__sr_place#* }"
  __sr_called=${__sr_called%% *}
  __sr_escape "$__sr_place"
  __sr_json="\"$__sr_answer\""
  # The place may be a call site: then the frames below it are not its callers.
  while ((__sr_index < __sr_count)) &&
    [[ ${__sr_functions[__sr_index]} != "$__sr_called" ]]; do __sr_index=$((__sr_index + 1)); done
  for (( ; __sr_index + 1 < __sr_count; __sr_index++)); do
    ((__sr_lines[__sr_index] > __sr_trap_lines)) || builtin break # a trap called it
    __sr_escape "${__sr_lines[__sr_index]} ${__sr_functions[__sr_index + 1]} \
${__sr_files[__sr_index + 1]}"
    ((${#__sr_json} + ${#__sr_answer} < 800)) || builtin break
    __sr_json+=",\"$__sr_answer\""
  done
  __sr_answer=",\"stack\":[$__sr_json]"
  ((__sr_index + 1 >= __sr_count)) || __sr_answer+=',"truncated":true'
}

# Where it failed: __sr_line, __sr_function, __sr_file, and __sr_approximate unless nothing else can
# have failed. `set -e` ends the shell only after ERR ran, at that very line; a handled failure
# never gets here. ERR is silent at `exit`, at an unbound variable, and in functions without -E:
# there the frames and the script's text have to do. In a trap, bash leaves $BASH_COMMAND as it was
# and counts the trap's own lines.
__sr_find_failure() { # STATUS COMMAND
  builtin local -a __sr_script
  if [[ ${__sr[exit_line]} && $2 == @(builtin\ exit|eval|.|source)\ * ]]; then
    __sr_line=${__sr[exit_line]} __sr_function=${__sr[exit_function]} __sr_file=${__sr[exit_file]}
    __sr_is_exit "$1" && [[ $2 != eval\ * ]] || __sr_approximate=1
  elif [[ ${__sr[err_ends]} && ${__sr[options]} == *e* &&
    $2 == @("${__sr[err_command]}"|eval\ *|.\ *|source\ *|*__sr_*) ]] ||
    [[ ${__sr[exit_line]} && ${__sr[exit_line]} == "${__sr[err_line]-}" ]]; then
    __sr_line=${__sr[err_line]} __sr_function=${__sr[err_function]} __sr_file=${__sr[err_file]}
    __sr_command=${__sr[err_command]}
    __sr_is_error "$2" || __sr_approximate=1
  else
    __sr_function=${__sr_functions[0]-} __sr_file=${__sr_files[0]-}
    __sr_search "$1" "$2" || __sr_approximate=1
  fi
  [[ ! $__sr_approximate ]] && builtin return 0
  if __sr_read_script "$__sr_file"; then
    ((__sr_line > __sr_trap_lines && __sr_line <= ${#__sr_script[@]})) || __sr_line=
  elif [[ $__sr_file == "$0" || $__sr_file != */* || $__sr_file == /@(dev|proc)/* ]]; then
    __sr_line=
  fi
}

# The text of a file, of the script as it was when it began, into __sr_script.
__sr_read_script() { # FILE
  builtin local __sr_open="$1" __sr_number=0
  __sr_script=()
  [[ $1 != "$0" || ! -f /proc/$__sr_pid/fd/255 ]] || __sr_open=/proc/$__sr_pid/fd/255
  [[ ($1 != "$0" || ${__sr[options]} != *[cs]*) && -f $__sr_open && ($__sr_open == /* ||
    $PWD == "${__sr[directory]}") ]] && builtin mapfile -t __sr_script <"$__sr_open" ||
    builtin return 1
  # A pattern takes bash seconds for such a line; a bar is none that runs the command, and nothing
  # is known of what follows it.
  for __sr_number in "${!__sr_script[@]}"; do
    ((${#__sr_script[__sr_number]} <= 4096)) || __sr_script[__sr_number]='|'
  done
}

# Its first line, without a comment and white space, for bash prints a command with white space of
# its own.
__sr_squeeze() {          # TEXT
  __sr_answer=${1:0:4096} # patterns take seconds for a long text
  __sr_answer=${__sr_answer%%$'\n'*}
  __sr_answer=${__sr_answer%%[[:space:]]#*}
  [[ $__sr_answer != '#'* ]] || __sr_answer=
  __sr_answer=${__sr_answer//[[:space:]]/}
  __sr_answer=${__sr_answer//1>&/>&}
}

# Whether the line runs the command, as bash prints it: it stands where a command does. __sr_answer
# is then what follows it; __sr_handled, that the shell lives on when it fails.
__sr_runs() { # LINE COMMAND
  builtin local __sr_wanted='' __sr_before='' __sr_ends='*[;&|{)]' __sr_goes_on='[;|&})]*'
  __sr_handled=
  __sr_squeeze "$2"
  __sr_wanted=$__sr_answer
  __sr_squeeze "${__sr_script[$1 - 1]-}"
  if [[ $__sr_answer == *\\ && $__sr_wanted == "${__sr_answer%?}"* ]]; then
    __sr_answer=
    builtin return 0
  fi
  [[ $__sr_wanted && $__sr_answer == *"$__sr_wanted"* ]] || builtin return 1
  __sr_before=${__sr_answer%"$__sr_wanted"*}
  __sr_answer=${__sr_answer##*"$__sr_wanted"}
  [[ $__sr_before != ?($__sr_ends)@(if|elif|while|until|\!)*(\!) &&
    $__sr_answer != @(\|\||\&\&|\;then|\;do)* ]] &&
    [[ ${__sr_script[$1]-} != *([[:blank:]])@(then|do)*([[:blank:]]) ]] || __sr_handled=1
  [[ $__sr_before == ?($__sr_ends)*(if|elif|while|until|then|do|else|\!|time) &&
    $__sr_answer == ?($__sr_goes_on) ]]
}

__sr_is_exit() { # STATUS; whether it stands there
  __sr_command="exit $1"
  __sr_read_script "$__sr_file" && ((__sr_line > __sr_trap_lines)) || builtin return 1
  __sr_answer=${__sr_script[__sr_line - 1]-}
  [[ " $__sr_answer" == *[!a-zA-Z0-9_-]exit?([!a-zA-Z0-9_-]*) ]] || builtin return 1
  __sr_command=exit${__sr_answer#*exit}
  __sr_command=${__sr_command%%[;&|\)\\]*}
  __sr_command=${__sr_command%%[[:space:]][#\}]*}
}

# Whether ERR's line is where the failure is, or was made to be: what failed may have been started
# there, and failed elsewhere. Where bash leaves that open the answer is no.
__sr_is_error() { # COMMAND of the EXIT trap
  builtin local __sr_handled='' __sr_shown='' __sr_last=0
  __sr_read_script "$__sr_file" && __sr_last=${#__sr_script[@]} &&
    ((__sr_line > __sr_trap_lines)) || builtin return 1
  if [[ $1 == eval\ * ]]; then # bash counts the lines of what it runs on from its own
    __sr_find_lines "$1" 1 "${#__sr_script[@]}" || builtin return 1
    __sr_shown=${1//[!$'\n']/}
    [[ $__sr_answer != *' '* ]] && ((__sr_answer + ${#__sr_shown} == __sr_line)) &&
      [[ ! $__sr_shown || ${1##*$'\n'} == *"$__sr_command"* && ${1%$'\n'*} != *"$__sr_command"* ]]
    builtin return "$?" # without it, in a trap, that of the service's last command
  fi
  __sr_shown=${__sr_script[__sr_line - 1]-}
  __sr_shown=${__sr_shown%%[[:space:]]#*}
  # which bash does not count in PIPESTATUS
  if [[ $__sr_command == '[['* || $__sr_command == '(('* ]]; then
    __sr_runs "$__sr_line" "$__sr_command" && [[ ! $__sr_handled ]] && __sr_is_followed "$__sr_line"
    builtin return "$?"
  fi
  # it is the last command's, and a redirection of the group behind it failed
  if [[ ${__sr[err_pipe]} != *[1-9]* ]]; then
    __sr_command=
    builtin return 1
  elif [[ ${__sr[err_pipe]} == *' '* ]]; then
    __sr_command_of_pipe "$__sr_shown" || builtin return 1
  elif ! __sr_runs "$__sr_line" "$__sr_command" || [[ $__sr_handled ]]; then
    __sr_is_nearby "$__sr_shown" || builtin return 1
  fi
  __sr_is_own "$__sr_command" && { [[ $__sr_shown != *['(`|']* ]] ||
    ! __sr_function_in "$__sr_shown"; }
}

# Whether a command fails by itself: a function, or a file that is sourced, fails at a line of its
# own.
__sr_is_own() { # COMMAND
  if [[ $1 == @(.|source)\ * ]]; then
    [[ ${1#* } != *[\$\"\']* && ! -e ${1#* } ]]
  else
    [[ $1 == record_service_* ]] || ! builtin declare -F -- "${1%%[[:space:]]*}" >/dev/null
  fi
}

# A command of several lines, of which ERR has the last; or `return` in the function that the line
# calls, and nothing else.
__sr_is_nearby() { # LINE_TEXT
  builtin local __sr_breaks="${__sr_command//[!$'\n']/}" __sr_called='' __sr_at="$__sr_line"
  if [[ $__sr_breaks && $__sr_command != *['(`']* ]]; then
    __sr_runs "$((__sr_line - ${#__sr_breaks}))" "$__sr_command" || builtin return 1
    __sr_line=$((__sr_line - ${#__sr_breaks}))
    builtin return 0
  fi
  builtin read -r __sr_called _ <<<"$1"
  [[ $1 != *[\;\&\|\(\)\`\<\>]* && $__sr_command == return\ [0-9]* ]] &&
    builtin declare -F -- "$__sr_called" >/dev/null &&
    __sr_line_of "$__sr_called" "$__sr_command" || builtin return 1
  __sr_functions=("$__sr_called" "${__sr_functions[@]}")
  __sr_lines=("$__sr_at" "${__sr_lines[@]}")
  __sr_files=("$__sr_file" "${__sr_files[@]}")
  __sr_line=$__sr_answer __sr_function=$__sr_called
}

# Which part of a pipeline failed, if all of it stands in the line: the last one that did, as
# pipefail has it.
__sr_command_of_pipe() { # LINE_TEXT
  builtin local IFS='|' __sr_index=0
  builtin local -a __sr_parts __sr_status
  __sr_command=
  [[ $1 != *[\'\"\(\{\&\;]* && $1 != *([[:blank:]])!* &&
    ${__sr_script[__sr_line]-} != *([[:blank:]])@(then|do)*([[:blank:]]) ]] || builtin return 1
  builtin read -r -a __sr_parts <<<"$1"
  IFS=' ' builtin read -r -a __sr_status <<<"${__sr[err_pipe]}"
  ((${#__sr_parts[@]} == ${#__sr_status[@]})) || builtin return 1
  for ((__sr_index = ${#__sr_status[@]} - 1; __sr_index > 0; __sr_index--)); do
    ((__sr_status[__sr_index] == 0)) || builtin break
  done
  __sr_command=${__sr_parts[__sr_index]}
  __sr_command=${__sr_command#"${__sr_command%%[! ]*}"}
  __sr_command=${__sr_command%"${__sr_command##*[! ]}"}
  [[ $__sr_command != @(while|until|for|if|case|select)[[:space:]]* ]]
}

__sr_function_in() { # TEXT; the first function of the service that it names
  builtin local IFS=$' \t\n'
  for __sr_answer in ${1//[^[:alnum:]_.:-]/ }; do
    [[ $__sr_answer == exit || $__sr_answer == record_service_* ]] && builtin continue
    builtin declare -F -- "$__sr_answer" >/dev/null && builtin return 0
  done
  builtin return 1
}

# ERR told nothing: the last command that bash took notice of, if it has one line of the dying
# function, or file, and cannot have succeeded there, or nothing that bash does not notice came
# after it. Otherwise the nearest that is certain.
__sr_search() { # STATUS COMMAND
  builtin local __sr_within=''
  ((${#__sr_functions[@]} < 2)) || __sr_within=$__sr_function
  __sr_answer=
  if __sr_read_script "$__sr_file" && __sr_line_of "$__sr_within" "$2"; then
    __sr_line=$__sr_answer
    # A syntax error in a file being read: the command is the last one before it.
    [[ ! ${__sr[exit_line]}${__sr[err_ends]} && ($1 != 2 || $__sr_function != source) ]]
    builtin return "$?"
  fi
  __sr_line=$__sr_answer
  if [[ ! $__sr_line ]] && ((${__sr_lines[0]-0})); then
    __sr_line=${__sr_lines[0]} __sr_function=${__sr_functions[1]-} __sr_file=${__sr_files[1]-}
  fi
  builtin return 1
}

# The line of a command in __sr_script, if it certainly ran there last; whether it certainly failed
# there.
__sr_line_of() { # FUNCTION COMMAND
  builtin local -a __sr_places __sr_bodies
  builtin local __sr_handled='' __sr_first=1 __sr_last="${#__sr_script[@]}"
  builtin local __sr_found='' __sr_after=''
  __sr_read_functions && __sr_extend "$1" && __sr_find_lines "$2" "$__sr_first" "$__sr_last" &&
    __sr_found=$__sr_answer && [[ $__sr_found != *' '* && ! ${BASH_ALIASES[*]} ]] &&
    __sr_runs "$__sr_found" "$2" && __sr_after=$__sr_answer && __sr_is_alone "$1" "$2" ||
    __sr_found=
  __sr_answer=$__sr_found
  [[ $__sr_found ]] || builtin return 1
  __sr_must_fail "$2" && builtin return 0
  ((! __sr_trap_lines)) && [[ $__sr_after == ?(\;)*(\}) && $2 != @(for|case|select)\ * &&
    $2 != *$'\n'* ]] && __sr_is_own "$2" && __sr_is_followed "$__sr_found"
}

# What the service's functions are: NAME LINE FILE of each in __sr_places, and the text of all in
# __sr_bodies. extdebug, which has bash tell lines and files, does more than is wanted here.
__sr_read_functions() {
  builtin local -a __sr_printed
  builtin local __sr_debugs=''
  __sr_places=() __sr_bodies=()
  __sr_capture builtin compgen -A function -X '__sr_*' || builtin return
  ! builtin shopt -q extdebug || __sr_debugs=1
  builtin shopt -s extdebug
  builtin set +ET
  builtin set -- "${__sr_printed[@]:0:${#__sr_printed[@]}-1}"
  __sr_capture builtin declare -F "$@" && __sr_places=("${__sr_printed[@]}") &&
    __sr_capture builtin declare -f "$@" && __sr_bodies=("${__sr_printed[@]}")
  __sr_answer=$?
  [[ $__sr_debugs ]] || builtin shopt -u extdebug
  builtin return "$__sr_answer"
}

# The lines of a function in __sr_script, as __sr_first and __sr_last, or perhaps a few more; of a
# file, all.
__sr_extend() { # FUNCTION
  builtin local __sr_one='' __sr_number=0 __sr_starts=''
  [[ $1 ]] && builtin declare -F -- "$1" >/dev/null || builtin return 0
  __sr_first=
  for __sr_one in "${__sr_places[@]}"; do # NAME LINE FILE
    [[ $__sr_one == *" $__sr_file" ]] || builtin continue
    __sr_number=${__sr_one#* }
    __sr_number=${__sr_number%% *}
    [[ ${__sr_one%% *} == "$1" ]] && __sr_first=$__sr_number || __sr_starts+=" $__sr_number "
  done
  [[ $__sr_first ]] || builtin return 1
  for ((__sr_number = __sr_last; __sr_number > __sr_first; __sr_number--)); do
    [[ $__sr_starts != *" $__sr_number "* || ${__sr_script[__sr_number - 1]} == [[:blank:]]* ]] ||
      __sr_last=$((__sr_number - 1))
  done
  while ((__sr_last > __sr_first)) &&
    [[ ${__sr_script[__sr_last - 1]} != '}'* ]]; do __sr_last=$((__sr_last - 1)); done
}

__sr_find_lines() { # COMMAND FIRST LAST; the numbers of the lines that hold it
  builtin local __sr_number=0 __sr_found='' __sr_wanted=''
  __sr_squeeze "$1"
  __sr_wanted=$__sr_answer
  for ((__sr_number = $2; __sr_number <= $3; __sr_number++)); do
    __sr_squeeze "${__sr_script[__sr_number - 1]}"
    [[ $__sr_answer != *"$__sr_wanted"* ]] || __sr_found+=" $__sr_number"
  done
  __sr_answer=${__sr_found# }
  [[ $__sr_wanted && $__sr_found ]]
}

# Whether no other function can have run that command last: none that has it may have been called.
__sr_is_alone() { # FUNCTION COMMAND
  builtin local __sr_one='' __sr_holder='' __sr_is_held='' __sr_own=''
  for __sr_one in "${__sr_bodies[@]}"; do
    if [[ $__sr_one == [!\ ]*' () ' ]]; then
      __sr_holder=${__sr_one%' () '}
    elif [[ $__sr_holder == "$1" ]]; then
      __sr_own+=$'\n'$__sr_one
    elif [[ $__sr_holder != exit && $__sr_one == *"${2%%$'\n'*}"* ]]; then
      __sr_is_held=1
    fi
  done
  [[ ! $__sr_is_held ]] || { [[ $1 && $1 != source ]] && ! __sr_function_in "$__sr_own"; }
}

# Whether the command cannot have succeeded: it ends the shell, or the function, or expands what is
# not set.
__sr_must_fail() { # COMMAND
  builtin local __sr_rest="$1" __sr_variable=''
  [[ $1 != ?(builtin\ |command\ )exit?(\ *) && $1 != return\ [0-9]* ]] || builtin return 0
  [[ $1 != *[\'\`\\]* && $1 != *\$\(* && $1 != *\$\{*([!\}])\$* && $1 != '[['* ]] ||
    builtin return 1
  while [[ $__sr_rest == *\$* ]]; do
    __sr_rest=${__sr_rest#*\$}
    __sr_variable=${__sr_rest#\{}
    __sr_variable=${__sr_variable%%[!a-zA-Z0-9_]*}
    [[ $__sr_variable == [a-zA-Z_]* && ! -v $__sr_variable ]] || builtin continue
    [[ $__sr_rest != "{$__sr_variable"?(:)\?* ]] || builtin return 0
    [[ ${__sr[options]} == *u* && $__sr_rest == @("$__sr_variable"|"{$__sr_variable}")* ]] &&
      builtin return 0
  done
  builtin return 1
}

# Whether bash would have taken notice of whatever it ran next: of a command it does, but not of a
# subshell, a pipeline, the words of `for` or the redirections of a compound command.
__sr_is_followed() { # LINE; up to __sr_last
  builtin local __sr_one='' __sr_plain='' __sr_other=''
  builtin local __sr_keyword='@(done|elif|for|select|case|function|coproc'
  __sr_keyword+='|then|do|if|while|until|time)'
  __sr_keyword+='?([[:blank:];(]*)'
  for __sr_one in "${__sr_script[@]:$1:__sr_last-$1}"; do
    if [[ $__sr_one == *([[:blank:]])?('#'*|fi|esac|\}) ]]; then
      __sr_other=
    elif [[ $__sr_other ]]; then # not taken
      [[ $__sr_one != *@(if|fi)* ]] || builtin return 1
    elif [[ $__sr_one == *([[:blank:]])else ]]; then
      __sr_other=1
    else
      __sr_plain=${__sr_one//\|\|/}
      __sr_plain=${__sr_plain//\&\&/}
      __sr_plain=${__sr_plain//\>\&/} __sr_plain=${__sr_plain//\&\>/}
      [[ $__sr_one == *([[:blank:]])[a-zA-Z0-9_./:$\"\[]* && $__sr_plain != *[\|\&]* &&
        $__sr_one != *'()'* ]] &&
        [[ $__sr_one != *([[:blank:]])$__sr_keyword ]]
      builtin return "$?"
    fi
  done
}

# End.
