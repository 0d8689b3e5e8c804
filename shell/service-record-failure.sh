# Finds the line where a bash service failed: service-record 0.2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # variables of bootstrap-service-record.sh
# shellcheck disable=SC2086,SC2206 # IFS and `set -f` are those of the shim
#
# bootstrap-service-record.sh reads this file when the service fails or misuses the shim. It uses
# the file only if the first line names the version of the shim and the last line is `# End.`, that
# is, if the file is complete. The code usually runs in a child process of the service. If no more
# processes may be started, it runs in the service's shell. So it starts no program, and all names
# begin with __sr_.
#
# Bash does not say where a script failed. A line is exact only if it is proven in one of these
# ways. Every other line is approximate.
#
#   1. Our function `exit` was called, and the line has the word. If a function that only prints and
#      exits (`die`) called it, the line that calls this function.
#   2. ERR reported the line and a command, the line is this command and nothing else, and nothing
#      can have failed after it that ERR would report in the same way.
#   3. Without ERR: the line is the last command of bash, which expands a variable that is not set,
#      and no other line of the file expands it.
#   4. Without ERR, in a function: the line is the last command of bash, no other line and function
#      has it, and bash would have taken notice of the next command if that had run.
#
# All of them require that the frame runs the text of the file: see __sr_frame_runs_file.

# Sets __sr_place, as errorLine has it, and __sr_stack, the JSON members that go with it.
__sr_find() { # call, or failure STATUS COMMAND; a failure may set __sr_command
  builtin local LC_ALL=C __sr_depth=0 __sr_exact='' __sr_trap_lines=0
  builtin local __sr_line='' __sr_function='' __sr_file='' # of the frame at __sr_depth
  builtin local -a __sr_lines __sr_functions __sr_files __sr_script
  builtin local __sr_first=1 __sr_last=0 __sr_until=0 __sr_next='' __sr_is_called=''
  __sr_script=()
  __sr_count_trap_lines
  __sr_read_frames
  if [[ $1 == call ]]; then
    __sr_use_frame 0
    ((__sr_line > __sr_trap_lines)) || builtin return 0
    __sr_exact=1
  elif [[ ${__sr[exit_line]} ]]; then
    __sr_find_exit && __sr_exact=1
  elif [[ ${__sr[err_line]-} && $3 == "${__sr[err_command]}" ]] ||
    # what the EXIT trap sees instead after eval, after source, and in bash 5.3
    [[ ${__sr[err_ends]} && $3 == @(eval\ *|.\ *|source\ *|*__sr_*) ]]; then
    __sr_use_error
    __sr_is_error "$2" && __sr_exact=1
  else
    __sr_lines[0]= # that of the EXIT trap
    __sr_use_frame 0
    __sr_search "$3" && __sr_exact=1
  fi
  [[ $__sr_exact ]] || __sr_check_line_exists
  [[ $__sr_line && $__sr_file ]] || builtin return 0
  __sr_place="$__sr_line ${__sr_function:-main} $__sr_file"
  __sr_read_stack
  __sr_stack=$__sr_answer
  [[ $__sr_exact ]] || __sr_stack+=',"errorLineApproximate":true'
}

# --- Frames and the stack ------------------------------------------------------------------------
# The service's frames, innermost first: the function, its file, and the line that it is at.
__sr_read_frames() {
  builtin local __sr_ours=0
  while [[ ${FUNCNAME[__sr_ours]-} == __sr_* ]]; do __sr_ours=$((__sr_ours + 1)); done
  [[ ${FUNCNAME[__sr_ours]-} != @(exit|record_service_*) ]] || __sr_ours=$((__sr_ours + 1))
  __sr_functions=("${FUNCNAME[@]:__sr_ours}") __sr_files=("${BASH_SOURCE[@]:__sr_ours}")
  __sr_lines=("${BASH_LINENO[@]:__sr_ours-1}")
}

__sr_use_frame() { # NUMBER
  __sr_depth=$1
  __sr_line=${__sr_lines[$1]-} __sr_function=${__sr_functions[$1]-} __sr_file=${__sr_files[$1]-}
  # The outermost frame is not a function, even if the service has a function called `main`.
  (($1 + 1 < ${#__sr_functions[@]})) || __sr_function=
}

# In a trap bash counts the lines of the trap: a line up to __sr_trap_lines may be such a line.
__sr_count_trap_lines() {
  builtin local __sr_index=0 __sr_breaks=''
  __sr_trap_lines=999999
  __sr_read_traps || builtin return 0
  __sr_trap_lines=0
  for ((__sr_index = 3; __sr_index < ${#__sr_traps[@]}; __sr_index += 4)); do # trap -- COMMAND NAME
    # POSIX mode prints `-` for a signal without a trap. The third is ours, see __sr_hold_term.
    [[ ${__sr_traps[__sr_index - 1]} != @(|-|'__sr[held]=again') &&
      ${__sr_traps[__sr_index]} != @(EXIT|ERR) ]] || builtin continue
    __sr_breaks=${__sr_traps[__sr_index - 1]//[!$'\n']/}
    ((${#__sr_breaks} < __sr_trap_lines)) || __sr_trap_lines=$((${#__sr_breaks} + 1))
  done
}

# The stack as a JSON member. It begins within the function that printed and exited, if there is
# one, and ends at the function that a trap called.
__sr_read_stack() {
  builtin local __sr_json='' __sr_index=0
  for ((__sr_index = 0; __sr_index < ${#__sr_functions[@]}; __sr_index++)); do
    [[ ${__sr_lines[__sr_index]} ]] || builtin continue # without ERR, the innermost is unknown
    ((__sr_lines[__sr_index] > __sr_trap_lines)) || builtin break
    __sr_escape "${__sr_lines[__sr_index]} ${__sr_functions[__sr_index]} ${__sr_files[__sr_index]}"
    ((${#__sr_json} + ${#__sr_answer} < 800)) || builtin break
    __sr_json+=",\"$__sr_answer\""
  done
  __sr_answer=",\"stack\":[${__sr_json#,}]"
  ((__sr_index >= ${#__sr_functions[@]})) || __sr_answer+=',"truncated":true'
}

# Removes an approximate line that is not a line of the file, or that has no file.
__sr_check_line_exists() {
  if __sr_read_script; then
    ((__sr_line > __sr_trap_lines && __sr_line <= ${#__sr_script[@]})) || __sr_line=
  elif [[ $__sr_file == "$0" || $__sr_file != */* || $__sr_file == /@(dev|proc)/* ]]; then
    __sr_line=
  fi
}

# --- 1. exit -------------------------------------------------------------------------------------
__sr_find_exit() {
  builtin local __sr_name=exit __sr_index=0 __sr_error=''
  __sr_functions=("${__sr_exit_functions[@]}") __sr_files=("${__sr_exit_files[@]}")
  __sr_lines=("${__sr_exit_lines[@]}") __sr_command=${__sr[exit_command]}
  # Called from the service's ERR trap: what failed is the command that ERR reported.
  __sr_error="${__sr_err_functions[*]-} ${__sr_err_files[*]-}"
  for __sr_index in "${!__sr_functions[@]}"; do
    if [[ ${__sr_lines[__sr_index]} == "${__sr[err_line]-}" &&
      "${__sr_functions[*]:__sr_index} ${__sr_files[*]:__sr_index}" == "$__sr_error" ]]; then
      __sr_use_error
      __sr_is_error "${__sr[err_status]}"
      builtin return "$?" # without it, in a trap, that of the service's last command
    fi
  done
  __sr_use_frame 0
  while [[ $__sr_function ]] && ((__sr_lines[__sr_depth + 1] > __sr_trap_lines)) &&
    __sr_only_reports "$__sr_function" 3; do
    __sr_name=$__sr_function
    __sr_use_frame $((__sr_depth + 1))
  done
  __sr_frame_runs_file && __sr_has_word "$__sr_name" && __sr_is_called_by_files
}

# Whether the line has the word, and is no part of a command over several lines, of which bash may
# report any line.
__sr_has_word() { # WORD
  builtin local __sr_number=$__sr_line __sr_text="${__sr_script[__sr_line - 1]}"
  [[ " $__sr_text " == *[[:blank:]\;\&\|\(\{]"$1"[[:blank:]\;\&\|\)\}]* && $__sr_text != *\\ &&
    ${__sr_script[__sr_line - 2]-} != *\\ ]] && __sr_closes_quotes "$__sr_text" || builtin return 1
  while ((--__sr_number >= __sr_first)); do # a string may have begun above
    __sr_text=${__sr_script[__sr_number - 1]}
    [[ $__sr_text == *[\"\']* && $__sr_text != *([[:blank:]])\#* ]] || builtin continue
    __sr_closes_quotes "$__sr_text"
    builtin return "$?"
  done
}

__sr_closes_quotes() { # LINE
  builtin local __sr_rest="$1"
  while [[ $__sr_rest == *\"*\"* ]]; do
    __sr_answer=${__sr_rest#*\"}
    __sr_rest=${__sr_rest%%\"*}${__sr_answer#*\"}
  done
  __sr_rest=${__sr_rest//[!\"\']/}
  [[ $__sr_rest != *\"* ]] && ((${#__sr_rest} % 2 == 0))
}

# Whether no trap called one of the functions: the line of each call has the function's name. A trap
# that we do not see (the service has set ERR after us) calls it at the line of what failed.
__sr_is_called_by_files() {
  builtin local __sr_file="$__sr_file" __sr_text='' __sr_index="$__sr_depth" # __sr_script has it
  for (( ; __sr_index + 1 < ${#__sr_functions[@]}; __sr_index++)); do
    [[ ${__sr_functions[__sr_index]} != source ]] || builtin continue
    [[ $__sr_file == "${__sr_files[__sr_index + 1]}" ]] ||
      { __sr_file=${__sr_files[__sr_index + 1]} && __sr_read_script; } || builtin return 1
    __sr_text=" ${__sr_script[__sr_lines[__sr_index + 1] - 1]-} "
    [[ $__sr_text == *[!a-zA-Z0-9_]"${__sr_functions[__sr_index]}"[!a-zA-Z0-9_]* ]] ||
      builtin return 1
  done
}

# Whether a function only prints, tests its arguments, and exits or returns. The failure is then at
# its caller. Functions of the same kind may help it. Bash prints a function with each command on a
# line of its own.
__sr_only_reports() { # FUNCTION DEPTH
  builtin local -a __sr_printed
  builtin local __sr_text='' __sr_word='' __sr_document='' __sr_prints=''
  __sr_printed=()
  (($2 > 0)) && __sr_capture builtin declare -f "$1" && ((${#__sr_printed[@]} <= 60)) ||
    builtin return 1
  for __sr_text in "${__sr_printed[@]:1}"; do # without `NAME ()`
    if [[ $__sr_document ]]; then
      [[ $__sr_text != "$__sr_document" ]] || __sr_document=
      builtin continue
    fi
    if [[ $__sr_text == *[!\<]\<\<[!\<]* ]]; then # its end is the first word behind it
      __sr_document=${__sr_text##*\<\<}
      __sr_document=${__sr_document#-}
      __sr_document=${__sr_document%%[[:blank:]\;\&\|]*}
      __sr_document=${__sr_document//[\'\"\\]/}
    fi
    __sr_text=${__sr_text%;} __sr_text=${__sr_text%; then} __sr_text=${__sr_text%; do}
    while [[ $__sr_text == *[![:blank:]]* ]]; do # each command of a list
      builtin set -- "$1" "$2" ${__sr_text%%[&|]*}
      [[ $__sr_text == *[\&\|]* ]] && __sr_text=${__sr_text#*[&|]} || __sr_text=
      while [[ ${3-} == @(if|elif|then|else|fi|while|until|do|done|\{|\}|\!) ]]; do
        builtin set -- "$1" "$2" "${@:4}"
      done
      case ${3-} in
      echo | printf | cat | logger | systemd-cat) __sr_prints=1 ;;
      test | '[' | '[[')
        for __sr_word in "${@:4}"; do # a test of a file is not one of the arguments
          [[ $__sr_word != -* || $__sr_word == -@(n|z|eq|ne|gt|ge|lt|le) ]] || builtin return 1
        done
        ;;
      '' | tput | date | caller | local | declare | shift | '(('* | : | return | exit) ;;
      record_service_* | [0-9] | [a-zA-Z_]*=*) ;; # `2` of `1>&2`, or an assignment
      *)
        builtin declare -F -- "$3" >/dev/null && __sr_only_reports "$3" "$(($2 - 1))" ||
          builtin return 1
        __sr_prints=1
        ;;
      esac
    done
  done
  [[ $__sr_prints ]]
}

# --- The text of the frame -----------------------------------------------------------------------
# Reads __sr_file into __sr_script, of the script itself the text that bash runs.
__sr_read_script() {
  builtin local __sr_open="$__sr_file" __sr_number=0
  [[ $__sr_file != "$0" || ! -f /proc/$__sr_pid/fd/255 ]] || __sr_open=/proc/$__sr_pid/fd/255
  [[ ($__sr_file != "$0" || ${__sr[options]} != *[cs]*) && -f $__sr_open &&
    ($__sr_open == /* || $PWD == "${__sr[directory]}") ]] &&
    builtin mapfile -t __sr_script <"$__sr_open" || builtin return 1
  # A pattern takes bash seconds for a very long line. In its place, `eval` proves nothing.
  for __sr_number in "${!__sr_script[@]}"; do
    ((${#__sr_script[__sr_number]} <= 4096)) || __sr_script[__sr_number]='eval'
  done
}

# Whether the lines that bash reports for the frame are lines of this text. They are not for code of
# `eval`, of a trap, of an alias, and for a function that `eval` has defined. Sets __sr_first and
# __sr_last, the lines of the function; of a file, all.
__sr_frame_runs_file() {
  builtin local __sr_text=''
  __sr_read_script && [[ ! ${BASH_ALIASES[*]} ]] || builtin return 1
  __sr_first=1 __sr_last=${#__sr_script[@]}
  if [[ $__sr_function && $__sr_function != source ]]; then
    __sr_read_extent "$__sr_function" || builtin return 1
  elif [[ $__sr_function ]]; then
    ! builtin declare -F source >/dev/null || builtin return 1
  fi
  if [[ $__sr_line ]]; then
    ((__sr_line > __sr_trap_lines && __sr_line >= __sr_first)) && ((__sr_line <= __sr_last)) ||
      builtin return 1
  fi
  for __sr_text in "${__sr_script[@]:__sr_first-1:${__sr_line:-$__sr_last}-__sr_first+1}"; do
    [[ " $__sr_text " != *[!a-zA-Z0-9_-]eval[!a-zA-Z0-9_-]* ]] || builtin return 1
  done
}

__sr_read_extent() { # FUNCTION; sets __sr_first and __sr_last
  builtin local -a __sr_printed
  builtin local __sr_text='' __sr_indent='' __sr_debugs='' __sr_number=0 __sr_found=''
  __sr_printed=()
  # extdebug has `declare -F` print the line and the file, but also sets -E and -T.
  ! builtin shopt -q extdebug || __sr_debugs=1
  builtin shopt -s extdebug
  builtin set +ET
  __sr_capture builtin declare -F -- "$1"
  [[ $__sr_debugs ]] || builtin shopt -u extdebug
  __sr_text=${__sr_printed[0]-} # NAME LINE FILE
  __sr_text=${__sr_text#* }
  [[ ${__sr_text#* } == "$__sr_file" && ${__sr_text%% *} == [1-9]* ]] || builtin return 1
  __sr_first=${__sr_text%% *}
  for __sr_text in "${__sr_script[@]}"; do
    __sr_number=$((__sr_number + 1))
    [[ $__sr_text == *"$1"* ]] &&
      [[ " $__sr_text " == +([[:blank:]])?(function\ )*([[:blank:]])"$1"*([[:blank:]])"("* ||
        " $__sr_text " == *[[:blank:]]function[[:blank:]]*"$1"[[:blank:]]* ]] &&
      __sr_found+="$__sr_number"
  done
  [[ $__sr_found == "$__sr_first" ]] || builtin return 1 # not here, or more than once
  __sr_text=${__sr_script[__sr_first - 1]}
  __sr_indent=${__sr_text%%[![:blank:]]*}
  __sr_last=$__sr_first
  # All of it in one line; or up to the first line that may be its end.
  [[ $__sr_text != *[\}\)]?(;)*([[:blank:]]) || $__sr_text == *'('*([[:blank:]])')' ]] ||
    builtin return 0
  while [[ ${__sr_script[__sr_last - 1]-} != "$__sr_indent"[\}\)]* ]]; do
    ((++__sr_last <= ${#__sr_script[@]})) || builtin return 1
  done
}

# Whether the line, with the lines that continue it, is this command and nothing else. Bash prints
# a command with white space of its own. Sets __sr_until, its last line.
__sr_is_whole_line() { # COMMAND
  builtin local __sr_wanted='' __sr_text='' __sr_before=$((__sr_line - 1))
  [[ $1 != @(for|case|select|coproc|function|time|\{|\!)?([[:blank:]]*) && $1 != *$'\n'* ]] ||
    builtin return 1
  __sr_squeeze "$1"
  __sr_wanted=$__sr_answer __sr_until=$__sr_line
  __sr_text=${__sr_script[__sr_line - 1]}
  while [[ $__sr_text == *\\ ]] && ((__sr_until < __sr_last)); do
    __sr_text=${__sr_text%\\}${__sr_script[__sr_until]}
    __sr_until=$((__sr_until + 1))
  done
  __sr_squeeze "${__sr_text%%[[:blank:]]#*}"
  [[ ${__sr_answer%;} == "$__sr_wanted" ]] || builtin return 1
  while ((__sr_before > 0)) &&
    [[ ${__sr_script[__sr_before - 1]} == *([[:space:]])?(\#*) ]]; do
    __sr_before=$((__sr_before - 1))
  done
  __sr_text=
  ((__sr_before == 0)) || __sr_text=${__sr_script[__sr_before - 1]}
  __sr_text=${__sr_text%%[[:blank:]]#*}
  [[ $__sr_text != *[\\\|]*([[:blank:]]) ]]
}

__sr_squeeze() { # TEXT; without white space
  __sr_answer=${1:0:4096}
  __sr_answer=${__sr_answer//[[:space:]]/}
  __sr_answer=${__sr_answer//1>&/>&}
}

# --- 2. ERR --------------------------------------------------------------------------------------
__sr_use_error() {
  __sr_functions=("${__sr_err_functions[@]}") __sr_files=("${__sr_err_files[@]}")
  __sr_lines=("${__sr_err_lines[@]}") __sr_command=${__sr[err_command]}
  __sr_use_frame 0
}

__sr_is_error() { # STATUS
  builtin local __sr_pipe="${__sr[err_pipe]}"
  [[ $1 == "${__sr[err_status]}" ]] && __sr_frame_runs_file || builtin return 1
  # Without -e, it ends the script only as its last command, or if the ERR trap exits.
  [[ ${__sr[err_ends]} && ${__sr[options]} == *e* || ${__sr[exit_line]} ]] ||
    __sr_is_end_of_script || builtin return 1
  if [[ $__sr_command == \[\[* || $__sr_command == \(\(* ]]; then
    __sr_is_whole_line "$__sr_command" && __sr_is_followed # they leave PIPESTATUS as it was
  elif [[ $__sr_pipe == *' '* ]]; then
    __sr_is_pipeline "$1" && __sr_is_last_failure "$1"
  else
    [[ $__sr_pipe == "$1" ]] && __sr_is_whole_line "$__sr_command" && __sr_is_own "$__sr_command" &&
      __sr_is_last_failure "$1"
  fi
}

__sr_is_end_of_script() {
  builtin local IFS=
  [[ ! $__sr_function && $__sr_file == "$0" && ${__sr_script[*]:__sr_line} == *([[:space:]]) ]]
}

# Whether a command fails by itself, and the next one follows it. A function and a sourced file fail
# at a line of their own.
__sr_is_own() { # COMMAND
  builtin local __sr_word=''
  [[ $1 != @(.|source|eval|break|continue|return|[\"\'\$\\]*)?(\ *) &&
    $1 != *[=\(\`]*[\ \(]@(.|source|eval)\ * &&
    $1 != @(command|builtin)\ *@(.|source|eval)\ * ]] || builtin return 1
  for __sr_word in "${1%%[[:space:]]*}" ${1//[!a-zA-Z0-9_.:-]/ }; do
    [[ $__sr_word == exit ]] || ! builtin declare -F -- "$__sr_word" >/dev/null || builtin return 1
  done
}

# Whether nothing else can have failed after the line's command and left the same report. Only a
# compound command does whose redirection fails, and the definition of a readonly function: bash
# then reports the command before it, and status 1. A subshell and a pipeline set PIPESTATUS.
__sr_is_last_failure() { # STATUS
  builtin local -a __sr_printed
  builtin local __sr_text='' __sr_redirected=''
  (($1 == 1)) && ! __sr_is_followed || builtin return 0
  __sr_printed=()
  __sr_capture builtin declare -F && [[ ${__sr_printed[*]} != *'declare -fr'* ]] || builtin return 1
  __sr_printed=("${__sr_script[@]}")
  [[ $__sr_function == ?(source) ]] || __sr_capture builtin declare -f "$__sr_function" ||
    builtin return 1
  __sr_redirected='@([[:blank:];&)}]@(done|fi|esac|\}|\]\])|\))'
  __sr_redirected+='*([[:blank:]])*([0-9])?(\{*\})[<>&\\]'
  for __sr_text in "${__sr_printed[@]}"; do
    [[ " $__sr_text" != *$__sr_redirected* ]] || builtin return 1
  done
}

# Whether bash would have reported any command that ran after the line, or none can have. A simple
# command is reported; the redirection of a compound command, and the words of `for`, are not.
__sr_is_followed() {
  builtin local __sr_text=''
  for __sr_text in "${__sr_script[@]:__sr_until:__sr_last-__sr_until}"; do
    __sr_text=${__sr_text#"${__sr_text%%[![:space:]]*}"}
    __sr_text=${__sr_text%"${__sr_text##*[![:space:]]}"}
    [[ $__sr_text && $__sr_text != \#* && $__sr_text != 'fi' ]] || builtin continue
    __sr_begins_simple_command "$__sr_text"
    builtin return "$?"
  done
  [[ ! $__sr_function ]]
}

__sr_begins_simple_command() { # TEXT
  builtin local __sr_word="${1%%[[:blank:];&|()<>]*}"
  case $__sr_word in
  '' | if | then | else | elif | 'fi' | case | in | 'esac' | for | select | while | until) ;;
  do | 'done' | function | time | coproc | '{' | '}' | '!' | *[\`\\]*) ;;
  '[[') [[ $1 == *']]'* && $1 != *[\<\>\\]* ]] && builtin return 0 ;;
  *) [[ $1 != *'()'* && $1 != *([!\&])\&*([!\&]) ]] && builtin return 0 ;;
  esac
  builtin return 1
}

# Whether the line is a whole pipeline of simple commands. Sets __sr_command to the last part that
# failed: with pipefail, its status is that of the pipeline.
__sr_is_pipeline() { # STATUS
  builtin local __sr_text="${__sr_script[__sr_line - 1]%%[[:blank:]]#*}" __sr_index=0
  builtin local -a __sr_parts __sr_codes
  __sr_codes=($__sr_pipe) __sr_until=$__sr_line __sr_command=''
  [[ $__sr_text != *[\'\"\`\\\;\&\(\{]* ]] || builtin return 1
  IFS='|' builtin read -r -a __sr_parts <<<"$__sr_text"
  ((${#__sr_parts[@]} == ${#__sr_codes[@]})) || builtin return 1
  for __sr_index in "${!__sr_parts[@]}"; do
    __sr_text=${__sr_parts[__sr_index]#"${__sr_parts[__sr_index]%%[![:space:]]*}"}
    __sr_begins_simple_command "$__sr_text" || builtin return 1
    ((__sr_codes[__sr_index] == 0)) || __sr_command=${__sr_text%"${__sr_text##*[![:space:]]}"}
    ((__sr_codes[__sr_index] == 0)) || __sr_answer=${__sr_codes[__sr_index]}
  done
  [[ $__sr_answer == "$1" ]] && __sr_is_own "$__sr_command"
}

# --- 3. and 4. Without ERR -----------------------------------------------------------------------
# Without a proof, the line is the only line that has the command, or else that of the nearest call.
__sr_search() { # COMMAND
  if ! __sr_frame_runs_file || ! __sr_find_only_line "$1"; then
    [[ ! $__sr_function ]] || __sr_use_frame 1
    builtin return 1
  fi
  ((! __sr_trap_lines)) && ! builtin shopt -q lastpipe &&
    __sr_is_whole_line "$1" && __sr_is_own "$1" && __sr_is_unique "${__sr_function#source}" "$1" ||
    builtin return 1
  [[ $1 == exit?(\ *) ]] || __sr_needs_unset_variable "$1" ||
    { [[ $__sr_function && $__sr_function != source ]] &&
      { [[ $__sr_next == '}' && ! $__sr_is_called ]] || __sr_is_followed; }; }
}

# Sets __sr_line to the only line from __sr_first to __sr_last that has the command's text.
__sr_find_only_line() { # COMMAND
  builtin local __sr_number=0 __sr_found='' __sr_wanted='' __sr_word="${1%%[[:space:]]*}"
  __sr_squeeze "${1%%$'\n'*}"
  __sr_wanted=$__sr_answer
  [[ $__sr_wanted ]] || builtin return 1
  for ((__sr_number = __sr_first; __sr_number <= __sr_last; __sr_number++)); do
    [[ ${__sr_script[__sr_number - 1]} == *"$__sr_word"* ]] || builtin continue
    __sr_squeeze "${__sr_script[__sr_number - 1]}"
    [[ $__sr_answer == *"$__sr_wanted"* ]] || builtin continue
    [[ ! $__sr_found ]] || builtin return 1
    __sr_found=$__sr_number
  done
  [[ $__sr_found ]] && __sr_line=$__sr_found __sr_lines[0]=$__sr_found
}

# Whether the command cannot have succeeded, since it expands a variable that is not set, and no
# other line of the file expands this variable.
__sr_needs_unset_variable() { # COMMAND
  builtin local __sr_rest="$1" __sr_variable='' __sr_text='' __sr_count=0
  [[ $1 != *[\'\`\\]* && $1 != *\$\(* && $1 != *\$\{*([!\}])\$* && $1 != '[['* ]] ||
    builtin return 1
  while [[ $__sr_rest == *\$* ]]; do
    __sr_rest=${__sr_rest#*\$}
    __sr_variable=${__sr_rest#\{}
    __sr_variable=${__sr_variable%%[!a-zA-Z0-9_]*}
    [[ $__sr_variable == [a-zA-Z_]* && ! -v $__sr_variable ]] || builtin continue
    [[ $__sr_rest == "{$__sr_variable"?(:)\?* || ${__sr[options]} == *u* &&
      $__sr_rest == @("$__sr_variable"?([!a-zA-Z0-9_]*)|"{$__sr_variable}"*) ]] || builtin continue
    for __sr_text in "${__sr_script[@]}"; do
      [[ "$__sr_text " != *\$?(\{)"$__sr_variable"[!a-zA-Z0-9_]* ]] ||
        __sr_count=$((__sr_count + 1))
    done
    ((__sr_count == 1))
    builtin return "$?"
  done
  builtin return 1
}

# Whether only this function has the command, once, and no function runs code from elsewhere; if no
# function is given, whether none has it. Sets __sr_next to the line after it, as bash prints the
# function, and __sr_is_called if a function calls this one.
__sr_is_unique() { # FUNCTION COMMAND
  builtin local -a __sr_printed
  builtin local __sr_text='' __sr_holder='' __sr_found=''
  __sr_printed=() __sr_next='' __sr_is_called=''
  __sr_capture builtin compgen -A function -X '__sr_*' &&
    __sr_capture builtin declare -f "${__sr_printed[@]}" || builtin return 1
  for __sr_text in "${__sr_printed[@]}"; do
    if [[ $__sr_text == [!\ ]*' () ' ]]; then
      __sr_holder=${__sr_text%' () '}
      builtin continue
    fi
    [[ $__sr_holder != @(exit|record_service_*) ]] || builtin continue
    [[ ! $__sr_found || $__sr_next ]] || __sr_next=$__sr_text
    [[ " $__sr_text;" != *[!a-zA-Z0-9_]"$1"[!a-zA-Z0-9_]* ]] || __sr_is_called=1
    [[ " $__sr_text" != *[\ \;\&\|\(]@(.|source|eval)\ * ]] || builtin return 1
    [[ $__sr_text == *"$2"* ]] || builtin continue
    [[ $__sr_holder == "$1" && ! $__sr_found ]] || builtin return 1
    __sr_found=1
  done
  [[ $__sr_found || ! $1 ]]
}

# End.
