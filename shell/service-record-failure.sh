# Finds the line where a bash service failed: service-record 0.2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # variables of bootstrap-service-record.sh
# shellcheck disable=SC2053,SC2086,SC2206 # patterns; IFS and `set -f` are those of the shim
#
# bootstrap-service-record.sh reads this file when the service fails or misuses the shim. It uses
# the file only if it is complete and has the shim's version: the first line names the version, and
# the last line is `# End.`. The code usually runs in a child process of the service. If no more
# processes may be started, it runs in the service's shell. Therefore it starts no program, and all
# names begin with __sr_. Every local variable is assigned: since bash 5.0 it would otherwise have
# the caller's value under `shopt -s localvar_inherit`. Arrays are assigned on a line of their own,
# because `builtin local name=()` is a syntax error.
#
# Bash does not report the line where a script failed. A line is exact only if one of these rules
# proves it. Every other line is approximate.
#
#   1. exit: the shim's function `exit` was called, and the line contains the word `exit`. If a
#      function that only prints and exits (`die`) called it, the line is that of the call of `die`.
#   2. ERR: the ERR trap reported the line and a command. The line contains only this command, and
#      no later failure would have produced the same report.
#   3. Unset variable, without ERR: the line contains the last command ($BASH_COMMAND), which
#      expands an unset variable. No other line of the file expands this variable.
#   4. Function, without ERR: the line contains the last command, and no other line or function
#      does. If the next command had run, it would now be the last command.
#
# Each rule requires that bash's line numbers belong to this file: see __sr_frame_runs_file. Rules 2
# to 4 require that no trap for DEBUG or RETURN can have failed.
#
# A function whose name is a question, such as __sr_is_pipeline, returns 0 only if the answer is
# certainly yes.

# Sets __sr_place to "LINE FUNCTION FILE", the value of errorLine, and __sr_stack to the JSON
# members `stack` and, if the line is not proven, `errorLineApproximate`. `call` finds the service's
# call of the shim. `failure` finds the failed command; it may set __sr_command to a more exact one.
__sr_find() { # call | failure STATUS COMMAND
  builtin local LC_ALL=C __sr_depth=0 __sr_exact='' __sr_trap_lines=0
  builtin local __sr_line='' __sr_function='' __sr_file='' # the frame with the number __sr_depth
  builtin local -a __sr_lines __sr_functions __sr_files __sr_script
  builtin local __sr_first=1 __sr_last=0 __sr_until=0 __sr_next='' __sr_is_called=''
  __sr_script=()
  # After `unset FUNCNAME` bash no longer says which functions run.
  [[ ${FUNCNAME-} == __sr_find ]] || builtin return 0
  __sr_count_trap_lines
  __sr_read_frames
  if [[ $1 == call ]]; then
    __sr_use_frame 0
    ((__sr_line > __sr_trap_lines)) || builtin return 0
    __sr_exact=1
  elif [[ ${__sr[exit_line]} ]]; then
    __sr_find_exit && __sr_exact=1
  elif [[ ${__sr[err_line]-} && $3 == "${__sr[err_command]}" ]] ||
    # After eval, after source, and in bash 5.3, the EXIT trap sees one of these commands instead.
    [[ ${__sr[err_ends]} && $3 == @(eval\ *|.\ *|source\ *|*__sr_*) ]]; then
    __sr_use_err_frames
    __sr_is_err_line_exact "$2" && __sr_exact=1
  else
    __sr_lines[0]= # a line of the EXIT trap, not of the failure
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
# Sets __sr_functions, __sr_files and __sr_lines (the current line of each frame) to the service's
# frames, innermost first. The shim's own frames are skipped.
__sr_read_frames() {
  builtin local __sr_skipped=0
  while [[ ${FUNCNAME[__sr_skipped]-} == __sr_* ]]; do __sr_skipped=$((__sr_skipped + 1)); done
  [[ ${FUNCNAME[__sr_skipped]-} != @(exit|record_service_*) ]] || __sr_skipped=$((__sr_skipped + 1))
  __sr_functions=("${FUNCNAME[@]:__sr_skipped}") __sr_files=("${BASH_SOURCE[@]:__sr_skipped}")
  __sr_lines=("${BASH_LINENO[@]:__sr_skipped-1}")
}

__sr_use_frame() { # NUMBER
  __sr_depth=$1
  __sr_line=${__sr_lines[$1]-} __sr_function=${__sr_functions[$1]-} __sr_file=${__sr_files[$1]-}
  # The outermost frame is not a function, even if the service has a function called `main`.
  (($1 + 1 < ${#__sr_functions[@]})) || __sr_function=
}

# Sets __sr_trap_lines to the length of the service's longest signal trap. While a trap runs, bash
# reports lines of the trap, so a line number up to this length may not be a line of the file.
__sr_count_trap_lines() {
  builtin local __sr_index=0 __sr_newlines=''
  __sr_trap_lines=999999
  __sr_read_traps || builtin return 0
  __sr_trap_lines=0
  for ((__sr_index = 3; __sr_index < ${#__sr_traps[@]}; __sr_index += 4)); do # trap -- COMMAND NAME
    # Since bash 5.1, POSIX mode prints `-` for a signal without a trap. The third of these traps is
    # the shim's own (__sr_hold_term).
    [[ ${__sr_traps[__sr_index - 1]} != @(|-|'__sr[held]=again') &&
      ${__sr_traps[__sr_index]} != @(EXIT|ERR) ]] || builtin continue
    __sr_newlines=${__sr_traps[__sr_index - 1]//[!$'\n']/}
    ((${#__sr_newlines} < __sr_trap_lines)) || __sr_trap_lines=$((${#__sr_newlines} + 1))
  done
}

# Sets __sr_answer to the JSON member `stack`. The stack begins in the function that printed and
# exited, if there is one. It ends at a function that a trap called.
__sr_read_stack() {
  builtin local __sr_json='' __sr_index=0
  for ((__sr_index = 0; __sr_index < ${#__sr_functions[@]}; __sr_index++)); do
    [[ ${__sr_lines[__sr_index]} ]] || builtin continue # without ERR, the innermost line is unknown
    ((__sr_lines[__sr_index] > __sr_trap_lines)) || builtin break
    __sr_escape "${__sr_lines[__sr_index]} ${__sr_functions[__sr_index]} ${__sr_files[__sr_index]}"
    ((${#__sr_json} + ${#__sr_answer} < 800)) || builtin break
    __sr_json+=",\"$__sr_answer\""
  done
  __sr_answer=",\"stack\":[${__sr_json#,}]"
  ((__sr_index >= ${#__sr_functions[@]})) || __sr_answer+=',"truncated":true'
}

# Clears __sr_line if the file does not exist or has no such line.
__sr_check_line_exists() {
  if __sr_read_script; then
    ((__sr_line > __sr_trap_lines && __sr_line <= ${#__sr_script[@]})) || __sr_line=
  elif [[ $__sr_file == "$0" || $__sr_file != */* || $__sr_file == /@(dev|proc)/* ]]; then
    __sr_line=
  fi
}

# --- 1. exit -------------------------------------------------------------------------------------
# Rule 1. Sets the frame and __sr_command, and returns 0 if the line is exact.
__sr_find_exit() {
  builtin local __sr_name=exit __sr_index=0 __sr_error=''
  __sr_functions=("${__sr_exit_functions[@]}") __sr_files=("${__sr_exit_files[@]}")
  __sr_lines=("${__sr_exit_lines[@]}") __sr_command=${__sr[exit_command]}
  # If the service's ERR trap called `exit`, the failed command is the one that ERR reported.
  __sr_error="${__sr_err_functions[*]-} ${__sr_err_files[*]-}"
  for __sr_index in "${!__sr_functions[@]}"; do
    if [[ ${__sr_lines[__sr_index]} == "${__sr[err_line]-}" &&
      "${__sr_functions[*]:__sr_index} ${__sr_files[*]:__sr_index}" == "$__sr_error" ]]; then
      __sr_use_err_frames
      __sr_is_err_line_exact "${__sr[err_status]}"
      # Up to bash 5.2, `return` alone in a trap returns the status of the service's last command.
      builtin return "$?"
    fi
  done
  __sr_use_frame 0
  while [[ $__sr_function ]] && ((__sr_lines[__sr_depth + 1] > __sr_trap_lines)) &&
    __sr_only_prints_and_exits "$__sr_function" 3; do
    __sr_name=$__sr_function
    __sr_use_frame $((__sr_depth + 1))
  done
  __sr_frame_runs_file && __sr_has_word "$__sr_name" && __sr_is_called_by_files
}

# Returns 0 if __sr_line contains the word outside of a quoted text and is a command of a single
# line. For a command of several lines, bash 5.3 reports the first line, and older versions a later
# one.
__sr_has_word() { # WORD
  builtin local __sr_number=$__sr_line __sr_text="${__sr_script[__sr_line - 1]}"
  [[ " $__sr_text " == *[[:blank:]\;\&\|\(\{]"$1"[[:blank:]\;\&\|\)\}]* && $__sr_text != *\\ &&
    ${__sr_script[__sr_line - 2]-} != *\\ ]] && __sr_closes_quotes "$__sr_text" || builtin return 1
  while ((--__sr_number >= __sr_first)); do # a string may begin on a line above
    __sr_text=${__sr_script[__sr_number - 1]}
    [[ $__sr_text == *[\"\']* && $__sr_text != *([[:blank:]])\#* ]] || builtin continue
    __sr_closes_quotes "$__sr_text"
    builtin return "$?"
  done
}

# Returns 0 if each quote that the line opens is closed on it.
__sr_closes_quotes() { # LINE
  builtin local __sr_rest="$1"
  while [[ $__sr_rest == *\"*\"* ]]; do
    __sr_answer=${__sr_rest#*\"}
    __sr_rest=${__sr_rest%%\"*}${__sr_answer#*\"}
  done
  __sr_rest=${__sr_rest//[!\"\']/}
  [[ $__sr_rest != *\"* ]] && ((${#__sr_rest} % 2 == 0))
}

# Returns 0 if the files, and no trap, call the functions of the stack: the line of each call
# contains the function's name. The shim may not know a trap, for example an ERR trap that the
# service set after sourcing. For a call from such a trap, bash reports the line that failed.
__sr_is_called_by_files() {
  builtin local __sr_file="$__sr_file" __sr_text='' __sr_index="$__sr_depth" # __sr_script: its text
  for (( ; __sr_index + 1 < ${#__sr_functions[@]}; __sr_index++)); do
    [[ ${__sr_functions[__sr_index]} != source ]] || builtin continue
    [[ $__sr_file == "${__sr_files[__sr_index + 1]}" ]] ||
      { __sr_file=${__sr_files[__sr_index + 1]} && __sr_read_script; } || builtin return 1
    __sr_text=" ${__sr_script[__sr_lines[__sr_index + 1] - 1]-} "
    [[ $__sr_text == *[!a-zA-Z0-9_]"${__sr_functions[__sr_index]}"[!a-zA-Z0-9_]* ]] ||
      builtin return 1
  done
}

# Returns 0 if a function only prints, tests its arguments, and exits or returns: then the failure
# is on the line that calls it. It may call other functions of this kind, up to DEPTH levels deep.
# `declare -f` prints each command on a separate line.
__sr_only_prints_and_exits() { # FUNCTION DEPTH
  builtin local -a __sr_printed
  builtin local __sr_text='' __sr_word='' __sr_here_end='' __sr_has_output=''
  __sr_printed=()
  (($2 > 0)) && __sr_capture builtin declare -f "$1" && ((${#__sr_printed[@]} <= 60)) ||
    builtin return 1
  for __sr_text in "${__sr_printed[@]:1}"; do # without `NAME ()`
    if [[ $__sr_here_end ]]; then
      [[ $__sr_text != "$__sr_here_end" ]] || __sr_here_end=
      builtin continue
    fi
    if [[ $__sr_text == *[!\<]\<\<[!\<]* ]]; then # a here-document; the next word ends it
      __sr_here_end=${__sr_text##*\<\<}
      __sr_here_end=${__sr_here_end#-}
      __sr_here_end=${__sr_here_end%%[[:blank:]\;\&\|]*}
      __sr_here_end=${__sr_here_end//[\'\"\\]/}
    fi
    __sr_text=${__sr_text%;} __sr_text=${__sr_text%; then} __sr_text=${__sr_text%; do}
    # Each command of a list: its words follow FUNCTION and DEPTH in the parameters.
    while [[ $__sr_text == *[![:blank:]]* ]]; do
      builtin set -- "$1" "$2" ${__sr_text%%[&|]*}
      [[ $__sr_text == *[\&\|]* ]] && __sr_text=${__sr_text#*[&|]} || __sr_text=
      while [[ ${3-} == @(if|elif|then|else|fi|while|until|do|done|\{|\}|\!) ]]; do
        builtin set -- "$1" "$2" "${@:4}"
      done
      case ${3-} in
      echo | printf | cat | logger | systemd-cat) __sr_has_output=1 ;;
      test | '[' | '[[')
        for __sr_word in "${@:4}"; do # no file tests: `[ -e FILE ]` can itself be the failure
          [[ $__sr_word != -* || $__sr_word == -@(n|z|eq|ne|gt|ge|lt|le) ]] || builtin return 1
        done
        ;;
      '' | tput | date | caller | local | declare | shift | '(('* | : | return | exit) ;;
      record_service_* | [0-9] | [a-zA-Z_]*=*) ;; # `2` of `1>&2`, or an assignment
      *)
        builtin declare -F -- "$3" >/dev/null && __sr_only_prints_and_exits "$3" "$(($2 - 1))" ||
          builtin return 1
        __sr_has_output=1
        ;;
      esac
    done
  done
  [[ $__sr_has_output ]]
}

# --- The text of the frame -----------------------------------------------------------------------
# Reads __sr_file into the array __sr_script. The main script is read from bash's own descriptor
# 255, since its file may have been replaced. With the option -c or -s, the main script has no file.
# A relative path is used only if the service has not changed its directory.
__sr_read_script() {
  builtin local __sr_open="$__sr_file" __sr_number=0
  [[ $__sr_file != "$0" || ! -f /proc/$__sr_pid/fd/255 ]] || __sr_open=/proc/$__sr_pid/fd/255
  [[ ($__sr_file != "$0" || ${__sr[options]} != *[cs]*) && -f $__sr_open &&
    ($__sr_open == /* || $PWD == "${__sr[directory]}") ]] &&
    builtin mapfile -t __sr_script <"$__sr_open" || builtin return 1
  # Bash needs seconds to match a pattern against a very long line. The word `eval` in its place
  # makes every line below it approximate.
  for __sr_number in "${!__sr_script[@]}"; do
    ((${#__sr_script[__sr_number]} <= 4096)) || __sr_script[__sr_number]='eval'
  done
}

# Returns 0 if bash's line numbers for this frame are lines of the file. They are not in code that
# `eval`, a trap or an alias runs, or in a function that `eval` defined. Sets __sr_first and
# __sr_last to the first and last line of the function, or of the file.
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

# Returns 0 if no trap for DEBUG or RETURN can have failed. Functions do not see these traps. For a
# command in such a trap, bash reports the line and the command before or after which the trap runs.
__sr_has_no_hidden_trap() {
  builtin local __sr_text='' __sr_set='*[[:blank:]]@(DEBUG|RETURN)*([A-Z0-9[:blank:]])?([;&|)}#]*)'
  [[ ${__sr[options]} != *T* ]] || builtin return 1
  for __sr_text in "${__sr_script[@]:__sr_first-1:__sr_line-__sr_first+1}"; do
    [[ $__sr_text != *@(DEBUG|RETURN)* || $__sr_text != $__sr_set ]] || builtin return 1
  done
}

# Sets __sr_first and __sr_last to the lines of a function. Returns 1 if __sr_file does not define
# it, or defines it twice.
__sr_read_extent() { # FUNCTION
  builtin local -a __sr_printed
  builtin local __sr_text='' __sr_indent='' __sr_had_extdebug='' __sr_number=0 __sr_found=''
  __sr_printed=()
  # With extdebug, `declare -F` also prints the line and the file. extdebug sets -E and -T, too.
  ! builtin shopt -q extdebug || __sr_had_extdebug=1
  builtin shopt -s extdebug
  builtin set +ET
  __sr_capture builtin declare -F -- "$1"
  [[ $__sr_had_extdebug ]] || builtin shopt -u extdebug
  __sr_text=${__sr_printed[0]-} # NAME LINE FILE
  __sr_text=${__sr_text#* }
  [[ ${__sr_text#* } == "$__sr_file" && ${__sr_text%% *} == [1-9]* ]] || builtin return 1
  __sr_first=${__sr_text%% *}
  for __sr_text in "${__sr_script[@]}"; do
    __sr_number=$((__sr_number + 1))
    [[ $__sr_text == *"$1"* && $__sr_text != *([[:blank:]])\#* ]] &&
      [[ " $__sr_text " == *[!a-zA-Z0-9_.:-]"$1"*([[:blank:]])"("*([[:blank:]])")"* ||
        " $__sr_text " == *[[:blank:]]function[[:blank:]]*"$1"[[:blank:]]* ]] &&
      __sr_found+=" $__sr_number"
  done
  [[ $__sr_found == " $__sr_first" ]] || builtin return 1 # not defined here, or more than once
  __sr_text=${__sr_script[__sr_first - 1]}
  __sr_indent=${__sr_text%%[![:blank:]]*}
  __sr_last=$__sr_first
  # The function ends on its first line, or at the first closing brace with the same indentation.
  [[ $__sr_text != *[\}\)]?(;)*([[:blank:]]) || $__sr_text == *'('*([[:blank:]])')' ]] ||
    builtin return 0
  while [[ ${__sr_script[__sr_last - 1]-} != "$__sr_indent"[\}\)]* ]]; do
    ((++__sr_last <= ${#__sr_script[@]})) || builtin return 1
  done
}

# Returns 0 if the line, with the lines that continue it by a backslash, contains only this command.
# White space is ignored, because bash prints a command with other white space than the script has.
# Sets __sr_until to the last line of the command.
__sr_is_whole_line() { # COMMAND
  builtin local __sr_wanted='' __sr_text='' __sr_before=$((__sr_line - 1))
  [[ $1 != @(for|case|select|coproc|function|time|\{|\!)?([[:blank:]]*) && $1 != *$'\n'* ]] ||
    builtin return 1
  __sr_remove_blanks "$1"
  __sr_wanted=$__sr_answer __sr_until=$__sr_line
  __sr_text=${__sr_script[__sr_line - 1]}
  while [[ $__sr_text == *\\ ]] && ((__sr_until < __sr_last)); do
    __sr_text=${__sr_text%\\}${__sr_script[__sr_until]}
    __sr_until=$((__sr_until + 1))
  done
  __sr_remove_blanks "${__sr_text%%[[:blank:]]#*}"
  [[ ${__sr_answer%;} == "$__sr_wanted" ]] || builtin return 1
  # If the last line above ends with a backslash or a pipe, the command begins there. Blank lines
  # and comments may stand between.
  while ((__sr_before > 0)) &&
    [[ ${__sr_script[__sr_before - 1]} == *([[:space:]])?(\#*) ]]; do
    __sr_before=$((__sr_before - 1))
  done
  __sr_text=
  ((__sr_before == 0)) || __sr_text=${__sr_script[__sr_before - 1]}
  __sr_text=${__sr_text%%[[:blank:]]#*}
  [[ $__sr_text != *[\\\|]*([[:blank:]]) ]]
}

__sr_remove_blanks() { # TEXT
  __sr_answer=${1:0:4096}
  __sr_answer=${__sr_answer//[[:space:]]/}
  __sr_answer=${__sr_answer//1>&/>&} # bash prints `>&2` as `1>&2`
}

# --- 2. ERR --------------------------------------------------------------------------------------
__sr_use_err_frames() {
  __sr_functions=("${__sr_err_functions[@]}") __sr_files=("${__sr_err_files[@]}")
  __sr_lines=("${__sr_err_lines[@]}") __sr_command=${__sr[err_command]}
  __sr_use_frame 0
}

# Rule 2. Returns 0 if the line and the command that the ERR trap reported are exact.
__sr_is_err_line_exact() { # STATUS
  builtin local __sr_pipe="${__sr[err_pipe]}"
  [[ $1 == "${__sr[err_status]}" ]] && __sr_frame_runs_file && __sr_has_no_hidden_trap ||
    builtin return 1
  # Without -e, a failed command ends the script only if it is the last one or the ERR trap exits.
  [[ ${__sr[err_ends]} && ${__sr[options]} == *e* || ${__sr[exit_line]} ]] ||
    __sr_is_end_of_script || builtin return 1
  if [[ $__sr_command == \[\[* || $__sr_command == \(\(* ]]; then
    # These two do not set PIPESTATUS, so only the next command can exclude a later failure.
    __sr_is_whole_line "$__sr_command" && __sr_is_followed
  elif [[ $__sr_pipe == *' '* ]]; then
    __sr_is_pipeline "$1" && __sr_is_last_failure "$1"
  else
    [[ $__sr_pipe == "$1" ]] && __sr_is_whole_line "$__sr_command" &&
      __sr_runs_no_other_line "$__sr_command" && __sr_is_last_failure "$1"
  fi
}

__sr_is_end_of_script() {
  builtin local IFS=
  [[ ! $__sr_function && $__sr_file == "$0" && ${__sr_script[*]:__sr_line} == *([[:space:]]) ]]
}

# Returns 0 if the command runs no other line of the script. Functions, sourced files and `eval` do,
# and then the failure may be on that other line.
__sr_runs_no_other_line() { # COMMAND
  builtin local __sr_word=''
  [[ $1 != @(.|source|eval|break|continue|return|[\"\'\$\\]*)?(\ *) &&
    $1 != *[=\(\`]*[\ \(]@(.|source|eval)\ * &&
    $1 != @(command|builtin)\ *@(.|source|eval)\ * ]] || builtin return 1
  for __sr_word in "${1%%[[:space:]]*}" ${1//[!a-zA-Z0-9_.:-]/ }; do
    [[ $__sr_word == exit ]] || ! builtin declare -F -- "$__sr_word" >/dev/null || builtin return 1
  done
}

# Returns 0 if no later failure can have left the same report as this command. Two kinds of failure
# can, both with status 1: the failed redirection of a compound command, and the definition of a
# function that is readonly. Since bash 5.1, ERR reports the command before them; in bash 4.4 and
# 5.0, they neither run the ERR trap nor end the shell. A failed subshell or pipeline cannot,
# because it changes PIPESTATUS.
__sr_is_last_failure() { # STATUS
  builtin local -a __sr_printed
  builtin local __sr_text='' __sr_redirected=''
  (($1 == 1)) && ! __sr_is_followed || builtin return 0
  __sr_printed=()
  __sr_capture builtin declare -F && [[ ${__sr_printed[*]} != *'declare -fr'* ]] || builtin return 1
  __sr_printed=("${__sr_script[@]}")
  [[ $__sr_function == ?(source) ]] || __sr_capture builtin declare -f "$__sr_function" ||
    builtin return 1
  # The last word of a compound command, and a redirection: `done <file`, `} 2>&1`, `) {fd}<file`.
  __sr_redirected='@([[:blank:];&)}]@(done|fi|esac|\}|\]\])|\))'
  __sr_redirected+='*([[:blank:]])*([0-9])?(\{*\})[<>&\\]'
  for __sr_text in "${__sr_printed[@]}"; do
    [[ " $__sr_text" != *$__sr_redirected* ]] || builtin return 1
  done
}

# Returns 0 if a simple command or nothing follows the line. If a simple command had run, bash would
# report it as the last command. It reports neither the redirection of a compound command nor the
# words of `for`.
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

# Returns 0 if the text begins a simple command in the foreground, or a `[[ ]]` that ends on the
# same line. The definition of a function is no command that bash reports.
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

# Returns 0 if the line contains only a pipeline of simple commands. Sets __sr_command to the last
# part that failed: with pipefail, the pipeline has the status of this part.
__sr_is_pipeline() { # STATUS
  builtin local __sr_text="${__sr_script[__sr_line - 1]%%[[:blank:]]#*}" __sr_index=0
  builtin local -a __sr_parts __sr_statuses
  __sr_statuses=($__sr_pipe) __sr_until=$__sr_line __sr_command=''
  [[ $__sr_text != *[\'\"\`\\\;\&\(\{]* ]] || builtin return 1
  IFS='|' builtin read -r -a __sr_parts <<<"$__sr_text"
  ((${#__sr_parts[@]} == ${#__sr_statuses[@]})) || builtin return 1
  for __sr_index in "${!__sr_parts[@]}"; do
    __sr_text=${__sr_parts[__sr_index]#"${__sr_parts[__sr_index]%%[![:space:]]*}"}
    __sr_begins_simple_command "$__sr_text" || builtin return 1
    ((__sr_statuses[__sr_index] == 0)) || __sr_command=${__sr_text%"${__sr_text##*[![:space:]]}"}
    ((__sr_statuses[__sr_index] == 0)) || __sr_answer=${__sr_statuses[__sr_index]}
  done
  [[ $__sr_answer == "$1" ]] && __sr_runs_no_other_line "$__sr_command"
}

# --- 3. and 4. Without ERR -----------------------------------------------------------------------
# Rules 3 and 4. Sets __sr_line, and returns 0 if it is exact. An approximate line is the only line
# that contains the command or, if there are several, the line of the nearest call.
__sr_search() { # COMMAND
  if ! __sr_frame_runs_file || ! __sr_find_only_line "$1"; then
    [[ ! $__sr_function ]] || __sr_use_frame 1
    builtin return 1
  fi
  # Without ERR the command has no line number, so it may also have run in a signal trap.
  ((! __sr_trap_lines)) && ! builtin shopt -q lastpipe && __sr_has_no_hidden_trap &&
    __sr_is_whole_line "$1" && __sr_runs_no_other_line "$1" &&
    __sr_is_unique "${__sr_function#source}" "$1" ||
    builtin return 1
  [[ $1 == exit?(\ *) ]] || __sr_needs_unset_variable "$1" ||
    { [[ $__sr_function && $__sr_function != source ]] &&
      { [[ $__sr_next == '}' && ! $__sr_is_called ]] || __sr_is_followed; }; }
}

# Sets __sr_line to the only line between __sr_first and __sr_last that contains the command.
# Returns 1 if no line or more than one contains it.
__sr_find_only_line() { # COMMAND
  builtin local __sr_number=0 __sr_found='' __sr_wanted='' __sr_word="${1%%[[:space:]]*}"
  __sr_remove_blanks "${1%%$'\n'*}"
  __sr_wanted=$__sr_answer
  [[ $__sr_wanted ]] || builtin return 1
  for ((__sr_number = __sr_first; __sr_number <= __sr_last; __sr_number++)); do
    [[ ${__sr_script[__sr_number - 1]} == *"$__sr_word"* ]] || builtin continue
    __sr_remove_blanks "${__sr_script[__sr_number - 1]}"
    [[ $__sr_answer == *"$__sr_wanted"* ]] || builtin continue
    [[ ! $__sr_found ]] || builtin return 1
    __sr_found=$__sr_number
  done
  [[ $__sr_found ]] && __sr_line=$__sr_found __sr_lines[0]=$__sr_found
}

# Returns 0 if the command must have failed because it expands an unset variable, under `set -u` or
# as ${NAME?} or ${NAME:?}, and no other line of the file expands this variable.
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

# Returns 0 if the command occurs once in this function and in no other function. With an empty
# FUNCTION, returns 0 if it occurs in no function. Returns 1 if a function uses `source`, `eval` or
# `trap` (a RETURN trap can fail after the last command).
# Sets __sr_next to the line after the command, as `declare -f` prints it, and __sr_is_called if a
# function calls this one.
__sr_is_unique() { # FUNCTION COMMAND
  builtin local -a __sr_printed
  builtin local __sr_text='' __sr_defining='' __sr_found=''
  __sr_printed=() __sr_next='' __sr_is_called=''
  __sr_capture builtin compgen -A function -X '__sr_*' &&
    __sr_capture builtin declare -f "${__sr_printed[@]}" || builtin return 1
  for __sr_text in "${__sr_printed[@]}"; do
    if [[ $__sr_text == [!\ ]*' () ' ]]; then
      __sr_defining=${__sr_text%' () '}
      builtin continue
    fi
    [[ $__sr_defining != @(exit|trap|record_service_*) ]] || builtin continue
    [[ ! $__sr_found || $__sr_next ]] || __sr_next=$__sr_text
    [[ " $__sr_text;" != *[!a-zA-Z0-9_]"$1"[!a-zA-Z0-9_]* ]] || __sr_is_called=1
    [[ " $__sr_text" != *[\ \;\&\|\(]@(.|source|eval|trap)\ * ]] || builtin return 1
    [[ $__sr_text == *"$2"* ]] || builtin continue
    [[ $__sr_defining == "$1" && ! $__sr_found ]] || builtin return 1
    __sr_found=1
  done
  [[ $__sr_found || ! $1 ]]
}

# End.
