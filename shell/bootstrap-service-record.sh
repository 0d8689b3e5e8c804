# shellcheck shell=bash
# shellcheck disable=SC1003,SC2016,SC2064,SC2086,SC2090,SC2094,SC2139,SC2329 # text for later
{ ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)) && ! \declare -F builtin &&
  \builtin declare -F &&
  ((${FUNCNEST:-0} <= 0 || FUNCNEST > 40)) && __sr_are_writable() { \builtin local "$@"; } &&
  __sr_are_writable __sr "${!__sr@}" &&
  { ! \builtin shopt -q expand_aliases || \builtin alias __sr_expanding=; } &&
  \builtin alias "__sr_reading=$-" &&
  \builtin set +avx && \builtin shopt -u expand_aliases; } >/dev/null 2>&1 || ((1))
#
# Records what a bash service does. Its script sources this file, which appends the service's start,
# stages and end to $SERVICE_RECORDS_DIR/<service>.json, one JSON object a line (bash 4.4 or later):
#
#     . /usr/local/bin/bootstrap-service-record.sh
#     record_service_stage_start "pull-image"
#     record_service_stage_success        # or record_service_stage_failure
#
# docs/shell.md has the variables and promises, docs/record-format.md the format. Contents:
#   The public API
#   Guests: run our functions in the service's shell
#   Stages
#   Start: what is recorded, and where
#   An entry
#   Traps, and the function `exit`
#   The end
#   Sourcing
# Bash parses the rest only when a run needs it (see __sr_load):
#   Misuse and failures
#   Text as JSON
#   The array layout
#   Programs: room for them, and a bound on their time
# The line that failed is found by service-record-failure.sh, another file (see __sr_locate).
#
# This file is a guest in somebody else's shell. Whatever goes wrong here, the service runs on, and
# its status, traps, options and output stay its own. Hence the manners: every name begins with
# __sr_, every builtin is called as `builtin` (the service may have a function of that name), every
# local has a value (localvar_inherit), no program runs unless something failed, and nothing may
# fail: an error in an EXIT trap would replace the service's exit status. Functions answer in
# __sr_answer, since a subshell would cost more than all else here together.
#
# The first lines switch off aliases and `set -v`, which act while a file is read, `set -x`, and
# `set -a`, which would export our functions. An alias remembers the options. Those lines fail, and
# nothing is recorded, where that would do harm: before bash 4.4, without `builtin` or `local`,
# where functions may not nest, and where our names are readonly.
[[ ${BASH_ALIASES[__sr_reading]+set} ]] || {
  record_service_stage_start() { \return 0; }
  record_service_stage_success() { \return 0; }
  record_service_stage_failure() { \return 0; }
  \return 0
}
{
  __sr_reading=${BASH_ALIASES[__sr_reading]}
  \builtin unalias __sr_reading
  ! \builtin unalias __sr_expanding || __sr_reading+=A
  \builtin unset -f __sr_are_writable
} 2>/dev/null || \builtin true

# --- The public API ------------------------------------------------------------------------------
record_service_stage_start() { # NAME
  { [[ ! ${__sr_pid-} ]] || __sr_guarded __sr_stage_start ${1+"${1:0:1024}"}; } 2>/dev/null ||
    __sr_tell
}

record_service_stage_success() {
  { [[ ! ${__sr_pid-} ]] || __sr_guarded __sr_stage_end success; } 2>/dev/null || __sr_tell
}

record_service_stage_failure() {
  { [[ ! ${__sr_pid-} ]] || __sr_guarded __sr_stage_failure; } 2>/dev/null || __sr_tell
}

# --- Guests: run our functions in the service's shell --------------------------------------------
# Runs one of our functions under known options. (Under -k, `local` would see no assignment.) In
# bash 4.4 the end of `local -` would reset expand_aliases and sourcepath; an array is not exported
# under -a. Beyond `ulimit -f` a write does not only fail but kills.
__sr_guarded() { # FUNCTION [ARGUMENT...]
  if ((BASH_VERSINFO[0] < 5)); then __sr_options=("$-"); else builtin local -; fi
  builtin set "+aeuxvfkTC${__sr_errtrace-E}"
  builtin local __sr_answer='' __sr_status=0 IFS=$' \t\n'
  [[ ${__sr_xfsz-} ]] || builtin trap '' XFSZ
  "$@" || __sr_status=$?
  [[ ${__sr_xfsz-} ]] || builtin trap - XFSZ
  ((BASH_VERSINFO[0] >= 5)) || builtin set "-${__sr_options//[!aeuxvfkETC]/}"
  builtin return "$__sr_status"
}

__sr_load() { # has bash parse the second half of this file, without its last line
  ((${#__sr_late[@]} == 0)) || __sr_parse "${__sr_late[@]:0:${#__sr_late[@]}-1}"
  __sr_late=()
}

__sr_parse() { # LINE...; aliases would act on them
  builtin local __sr_text='' __sr_aliases=''
  builtin printf -v __sr_text '%s\n' "$@"
  ! builtin shopt -q expand_aliases || __sr_aliases=on
  builtin shopt -u expand_aliases
  builtin eval "$__sr_text"
  [[ ! $__sr_aliases ]] || builtin shopt -s expand_aliases
}

__sr_tell() { # what __sr_note has noted; in a subshell, as a closed pipe kills who writes to it
  [[ ${__sr[note]-} ]] || builtin return 0
  ! { __sr_has_room; } 2>/dev/null ||
    (builtin trap '' PIPE && builtin printf '%s\n' "${__sr[note]}" >&2) || builtin true
  __sr[note]=
}

# --- Stages --------------------------------------------------------------------------------------
__sr_stage_start() { # [NAME]
  builtin local __sr_name="${1:-unnamed}"
  [[ ! ${__sr[stage]} ]] || { __sr_load && __sr_end_open_stage "$__sr_name"; }
  [[ ${1-} ]] || { __sr_load &&
    __sr_note 'record_service_stage_start has no stage name; recorded as "unnamed"'; }
  __sr_answer=$__sr_name
  [[ $__sr_name != *[!a-zA-Z0-9_\ ./:-]* && ${#__sr_name} -lt 255 ]] ||
    { __sr_load && __sr_escape_part "$__sr_name" 255 510; }
  __sr[stage]=$__sr_answer
  __sr_append 'stage start'
  __sr_chain_exit
  [[ ! ${__sr[note]} ]]
}

__sr_stage_end() { # RESULT [ERROR_LINE MESSAGE FACTS]
  if [[ ! ${__sr[stage]} ]]; then
    __sr_load && __sr_note 'no stage is open; recorded as the end of a stage without a name'
    builtin set -- "$1" "${2-}" "${3:-no stage was open}" "${4-}"
  fi
  __sr_append 'stage end' "$@"
  [[ $1 == success ]] || __sr_sync
  __sr[stage]=
  __sr_chain_exit
  [[ ! ${__sr[note]} ]]
}

__sr_stage_failure() { # the service has handled what failed: the place is that of its call
  __sr_load && __sr_locate call
  __sr_read_journal
  __sr_stage_end failure "$__sr_place" "$__sr_answer" "$__sr_stack"
}

# --- Start: what is recorded, and where ----------------------------------------------------------
__sr_start() {
  __sr_begin
  __sr_read_traps EXIT ERR XFSZ
  builtin set +E
  # Before 5.1 bash leaves SIGCHLD blocked where its parent has it so.
  ((__sr_bash > 500)) || ! __sr_blocks_chld || __sr[chld]=blocked
  __sr_define_exit
  __sr_xfsz=
  __sr_look_for_traps "${BASH_SOURCE[@]: -1}"
  __sr_adopt_traps
  [[ $__sr_xfsz ]] || builtin trap '' XFSZ
  __sr[more]=',"recorder":"bash/0.2.0"'
  __sr_append "${__sr[kind]} start"
}

__sr_begin() { # the state of a run: all of it is text, as JSON where it goes into entries
  # The first output decides how much libc keeps for one write: the file's st_blksize, 4096 here. In
  # a record on a disk with blocks of 1 KiB it would be 1024, and an entry several writes.
  builtin printf '\n' >/dev/null
  __sr_bash=$((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1]))
  builtin unset -v __sr
  builtin declare -gA __sr
  __sr=(
    [kind]=service [command]='' [stage]='' [ended]='' [note]=''
    [time]='' [uptime]='' # of an entry that is not of now: service-record-exit.sh
    [minute]=-1 [clock]='' [zone]=''
    [more]='' [dropped]=0 [torn]=1 # the next entry's members; lost entries; look at the file
    [layout]="${SERVICE_RECORDS_LAYOUT-}" [array_end]=0
    [sync]="${SERVICE_RECORDS_SYNC-}" [hung]=''
    [traps]=looks [here]='' [chld]='' [directory]="$PWD" [options]=''
    [home]="${BASH_SOURCE[0]%"${BASH_SOURCE[0]##*/}"}" # where this file is
    [sees_exit]='' [exit_line]='' [exit_command]=''
    [err]='' [err_ends]='' [err_command]='' [err_pipe]=''
  )
  [[ ${__sr[home]} == /* ]] || __sr[home]=$PWD/${__sr[home]}
  # A here-document is a file before bash 5.1; then a long one is; later where bash is to be
  # compatible (see __sr_capture).
  ((__sr_bash > 500)) || __sr[here]=0
  ((__sr_bash != 501)) || builtin printf -v '__sr[here]' '%065536d' 0
  # the EXIT trap, before the service's command
  __sr[hook]='{ __sr_guarded __sr_on_exit "$?" "$BASH_COMMAND" "$-"; } 2>/dev/null'
  __sr[hook]+=' && { \builtin true; } 2>/dev/null; '
  __sr_choose_path
  __sr[path]=$__sr_answer
  __sr_read_line /proc/sys/kernel/random/boot_id # ids as journalctl prints them
  __sr[identity]=${__sr_answer:+",\"bootId\":\"${__sr_answer//-/}\""}
  [[ ${#INVOCATION_ID} != 32 || ${INVOCATION_ID-} == *[!0-9a-f]* ]] ||
    __sr[identity]+=",\"invocationId\":\"$INVOCATION_ID\""
  __sr[identity]+=",\"pid\":$__sr_pid"
  __sr_read_command pre-command preCommand "${PRE_COMMAND-}" ||
    __sr_read_command post-command postCommand "${POST_COMMAND-}"
}

__sr_read_command() { # KIND MEMBER COMMAND
  [[ $3 ]] && __sr_load && __sr_escape_part "$3" 255 510 || builtin return
  __sr[kind]=$1 __sr[command]=",\"$2\":\"$__sr_answer\""
}

__sr_read_line() { # FILE; its first line
  builtin local -a __sr_printed
  __sr_printed=()
  builtin mapfile -t -n 1 __sr_printed <"$1"
  __sr_answer=${__sr_printed[0]-}
}

__sr_read_position() { # DESCRIPTOR [PROCESS]
  __sr_read_line "/proc/${2-self}/fdinfo/$1"
  __sr_answer=${__sr_answer##*[!0-9]}
}

__sr_choose_path() {
  builtin local __sr_directory="${SERVICE_RECORDS_DIR:-/var/log/openshift}"
  [[ $__sr_directory == /* ]] || __sr_directory=$PWD/$__sr_directory
  ((${#__sr_directory} < 4096)) || __sr_directory=/dev/null # no file can have such a path
  __sr_choose_name
  if [[ ! -w $__sr_directory/$__sr_answer.json && ! -w $__sr_directory &&
    -w ${SERVICE_RECORDS_INBOX-} ]] &&
    [[ $EUID != 0 || -e $__sr_directory ]]; then # root makes a directory that is missing
    __sr_directory=$SERVICE_RECORDS_INBOX
    __sr_answer+=.${INVOCATION_ID-} # for the exit helper
  fi
  __sr_answer=${__sr_directory%/}/$__sr_answer.json
}

__sr_choose_name() { # a file name that upstream's reader takes: no dot, no slash
  builtin local LC_ALL=C
  __sr_read_unit
  [[ $__sr_answer ]] ||
    __sr_answer=${0##*/} __sr_answer=${__sr_answer%.sh} __sr_answer=${__sr_answer%.bash}
  __sr_answer=${SERVICE_NAME:-$__sr_answer}
  ((${#__sr_answer} <= 4096)) || __sr_answer=${__sr_answer: -4096} # `##*/` is slow for a long text
  __sr_answer=${__sr_answer##*/} __sr_answer=${__sr_answer%.service}
  __sr_answer=${__sr_answer//[.\/[:cntrl:]]/_} __sr_answer=${__sr_answer:0:200}
  __sr_answer=${__sr_answer:-unknown} __sr_answer=${__sr_answer/#-/_}
}

# The systemd unit: the innermost part of the control group that is one. A scope is a login session
# or a container.
__sr_read_unit() {
  builtin local -a __sr_printed
  builtin local __sr_group=''
  builtin mapfile -t __sr_printed </proc/self/cgroup
  for __sr_group in "${__sr_printed[@]}"; do
    while [[ $__sr_group == @(0::|*:name=systemd:)*/* ]]; do
      __sr_answer=${__sr_group##*/}
      case $__sr_answer in
      *.scope) builtin break ;;
      *.service) __sr_answer=${__sr_answer%.service} && builtin return 0 ;;
      esac
      __sr_group=${__sr_group%/*}
    done
  done
  __sr_answer=
}

# --- An entry ------------------------------------------------------------------------------------
# One entry: one line, at most 4096 bytes with its newlines, which bash writes at once (see
# __sr_begin). The file is opened each time: its removal, its rotation and a fork change nothing.
__sr_append() { # PHASE [RESULT [ERROR_LINE MESSAGE FACTS]]; FACTS and __sr[more] are JSON members
  builtin local __sr_time="${__sr[time]:-${EPOCHREALTIME-}}" __sr_fraction=''
  builtin local __sr_entry='' __sr_facts="${5-}"
  builtin local -a __sr_printed
  if [[ $__sr_time == *[.,]* ]]; then # a comma in some locales
    __sr_fraction=.${__sr_time: -6:3} __sr_time=${__sr_time%[.,]*}
  else
    builtin printf -v __sr_time '%(%s)T' -1 # before bash 5.0
  fi
  ((__sr_time / 60 == __sr[minute])) || __sr_format_minute "$((__sr_time / 60))"
  builtin printf -v __sr_time '%s:%02d%s' \
    "${__sr[clock]}" "$((__sr_time % 60))" "$__sr_fraction${__sr[zone]}"
  __sr_entry="{\"timestamp\":\"$__sr_time\"${__sr[command]}"
  __sr_entry+=${__sr[stage]:+",\"stage\":\"${__sr[stage]}\""}
  __sr_entry+=",\"phase\":\"$1\"${2:+",\"result\":\"$2\""}"
  [[ ! ${3-}${4-} ]] || { __sr_load && __sr_explain "$3" "$4"; }
  builtin mapfile -t -n 1 __sr_printed </proc/uptime
  __sr_answer=${__sr[uptime]:-${__sr_printed[0]%% *}}
  __sr_entry+="$__sr_facts${__sr[identity]}${__sr_answer:+",\"uptime\":$__sr_answer"}${__sr[more]}}"
  __sr_write
}

# RFC 3339 in UTC, or, where TZ is readonly, in local time that says so. Kept for a minute: each
# change of TZ has bash make the whole environment anew.
__sr_format_minute() { # MINUTES since 1970
  __sr[zone]=Z
  builtin local TZ=UTC0 || builtin printf -v '__sr[zone]' '%(%z)T' "$(($1 * 60))"
  [[ ${__sr[zone]} == Z ]] || __sr[zone]=${__sr[zone]%??}:${__sr[zone]: -2}
  builtin printf -v '__sr[clock]' '%(%Y-%m-%dT%H:%M)T' "$(($1 * 60))"
  __sr[minute]=$1
}

__sr_write() { # __sr_entry
  if { [[ -f ${__sr[path]} && ! -L ${__sr[path]} ]] || { __sr_load && __sr_create; }; } &&
    if [[ ${__sr[torn]} ]]; then
      __sr_write_first
    else
      builtin printf '%s\n' "$__sr_entry" >>"${__sr[path]}"
    fi || { __sr[torn]=1 && __sr_load && __sr_stands; }; then
    __sr[dropped]=0 __sr[more]=''
  else
    __sr[dropped]=$((__sr[dropped] + 1))
    __sr[more]=",\"dropped\":${__sr[dropped]}"
  fi
}

# The first entry, and each after a failure, look at what is there. A file keeps its layout.
__sr_write_first() {
  builtin local __sr_head=''
  if [[ -s ${__sr[path]} ]]; then
    builtin read -r -n 1 -d '' __sr_head <"${__sr[path]}"
    __sr_head=${__sr_head:-$'\n'} # of a NUL, bash shows nothing
  fi
  if [[ ${__sr_head:-${__sr[layout]}} == @(\[|array) ]] && __sr_load; then
    if __sr_apart array __sr_put_in_array 3<>"${__sr[path]}"; then
      __sr[array_end]=$__sr_answer
      builtin return 0
    fi
    # only that it is there could not be told
    [[ ${__sr[hung]} != *' array '* ]] && __sr_stands && builtin return 0
  fi
  # The last line may be torn: the entry must not end up in it. An entry that cannot go into an
  # array is parked behind it, as are all that follow in this run. The exit helper merges them.
  [[ ! -s ${__sr[path]} ]] || __sr_head=$'\n'
  builtin printf '%s%s\n' "$__sr_head" "$__sr_entry" >>"${__sr[path]}" && __sr[torn]=
}

__sr_sync() { # where it is asked for: all is on the disk before the service goes on
  [[ ${__sr[sync]} != ends ]] || ! __sr_load ||
    __sr_apart sync __sr_run 5 sync -- "${__sr[path]}" "${__sr[path]%/*}"
}

__sr_escape() { # TEXT; as the content of a JSON string
  __sr_answer=$1
  # No ranges: they depend on the locale, and to change that costs as much as a write.
  [[ $1 != *[!abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789\ .,:/_=+@-]* ]] ||
    __sr_escape_bytes
}

# --- Traps, and the function `exit` --------------------------------------------------------------
__sr_on_err() { # STATUS OPTIONS LINE COMMAND PIPESTATUS...; before the service's own ERR trap
  if [[ $BASHPID == "${__sr_pid-}" ]]; then
    __sr[err_line]=$3 __sr[err_command]=${4:0:4096} __sr[err_pipe]="${*:5}" __sr[err_status]=$1
    __sr_err_functions=("${FUNCNAME[@]:2}") __sr_err_files=("${BASH_SOURCE[@]:2}")
    __sr_err_lines=("$3" "${BASH_LINENO[@]:2}") __sr[err_ends]=
    [[ $2 != *e* ]] || { __sr[err_ends]=1 && __sr_chain_exit ends; }
  fi
  builtin return "$1"
}

__sr_on_exit_call() { # STATUS [ARGUMENT...]; what `exit` does first, which alone knows its line
  if [[ $BASHPID == "${__sr_pid-}" && $# -le 2 && ${2-} != --* ]]; then
    __sr[exit_line]=${BASH_LINENO[2]-} __sr[exit_command]="exit${2+ ${2:0:4096}}"
    # The frames: before bash 5.2, eval and source have ended when the EXIT trap runs.
    __sr_exit_functions=("${FUNCNAME[@]:3}") __sr_exit_files=("${BASH_SOURCE[@]:3}")
    __sr_exit_lines=("${BASH_LINENO[@]:2}")
    __sr_chain_exit ends
  fi
  builtin return "$1"
}

# In POSIX mode bash would never call it. `exit` without an argument wants the status from before.
__sr_define_exit() {
  [[ ! -o posix ]] && ! builtin declare -F exit >/dev/null || builtin return 0
  exit() {
    { __sr_guarded __sr_on_exit_call "$?" "$@"; } 2>/dev/null && { builtin true; } 2>/dev/null
    builtin exit "$@"
  }
  __sr[sees_exit]=1
}

# Puts our commands before those that the service's traps have: EXIT's here; ERR's is for the caller
# to set, as a function without -E cannot. They carry the status on, and show nothing under -x.
__sr_adopt_traps() { # __sr_traps
  builtin local __sr_index=0 __sr_exit_command=''
  [[ ${__sr_traps[0]-} && ${__sr_traps[*]//"${__sr[hook]}"/} != *__sr_on_exit* ]] ||
    builtin return 0
  __sr[err]="{ __sr_guarded __sr_on_err \"\$?\" \"\$-\" \"\$LINENO\" \"\$BASH_COMMAND\""
  __sr[err]+=" \"\${PIPESTATUS[@]}\"; } 2>/dev/null && { \\builtin true; } 2>/dev/null; "
  for ((__sr_index = 3; __sr_index < ${#__sr_traps[@]}; __sr_index += 4)); do
    [[ ${__sr_traps[__sr_index - 1]} == - ]] || case ${__sr_traps[__sr_index]} in
    EXIT) __sr_exit_command=${__sr_traps[__sr_index - 1]//"${__sr[hook]}"/} ;;
    ERR) __sr[err]+=${__sr_traps[__sr_index - 1]} ;;
    *) __sr_xfsz=taken ;;
    esac
  done
  [[ ${__sr[traps]} != ends ]] || builtin return 0
  # From within our `exit` it would see the parameters and the name of that function.
  if [[ ${__sr[sees_exit]} ]] && [[ $__sr_exit_command == *\$[0-9@*#]* ||
    $__sr_exit_command == *\$\{[0-9@*#!]* || $__sr_exit_command == *FUNCNAME* ||
    $__sr_exit_command == *BASH_[LS]* || $__sr_exit_command == *caller* ]]; then
    builtin unset -f exit
    __sr[sees_exit]=
  fi
  builtin trap "${__sr[hook]}$__sr_exit_command" EXIT
}

# Puts ours before the service's, in every call, for the service may set its own at any time.
__sr_chain_exit() { # [ends], where the shell does right after
  builtin local -a __sr_printed
  [[ ${__sr[traps]} == @(looks|${1-looks}) && $BASHPID == "$__sr_pid" ]] || builtin return 0
  __sr_capture builtin trap -p EXIT
  [[ ${__sr_printed[0]-} != "trap -- '${__sr[hook]}"* ]] || builtin return 0
  __sr[traps]=looks
  __sr_read_traps EXIT
  __sr_adopt_traps
}

# The lines that a builtin prints, in __sr_printed, without a fork: a here-document's file has no
# name, ends with the group, and takes any length, where a pipe would fill and block.
__sr_capture() { # COMMAND [ARGUMENT...]
  builtin local TMPDIR=/dev/shm
  [[ ${__sr[here]} ]] || builtin local BASH_COMPAT=50 || builtin return 1
  { { "$@" && builtin printf 'read'; } >|/proc/self/fd/3 &&
    builtin mapfile -t -u 3 __sr_printed; } 3<<<${__sr[here]}
}

# What `trap -p` prints, as words in __sr_traps: trap -- COMMAND SIGNAL, and of all a last one.
__sr_read_traps() { # SIGNAL...
  builtin local -a __sr_printed
  __sr_traps=() __sr_printed=()
  # Where `ulimit -f` would kill the service for the file, unless it has a trap for that.
  if [[ $__sr_xfsz == unknown ]]; then
    builtin mapfile -t __sr_printed </proc/self/limits
    [[ ${__sr_printed[*]} == *'Max file size '+([[:blank:]])unlimited* ]] || __sr_printed=(limited)
  fi
  [[ ${__sr_printed[0]-} == limited ]] || __sr_capture builtin trap -p "$@"
  if [[ ${__sr_printed[*]: -1} != read ]]; then
    __sr_load && __sr_has_room || builtin return
    __sr_printed=("$(\builtin trap -p "$@" && \builtin printf 'read')")
  fi
  builtin printf -v __sr_answer '%s\n' "${__sr_printed[@]}"
  [[ $__sr_answer == *read$'\n' ]] && builtin eval "__sr_traps=($__sr_answer)"
}

# How the EXIT trap is kept: not at all where no word shows that a trap may be set after this. A
# script that keeps the text of its traps, and may set them again by that, would have ours for its
# own: there only `exit` and errexit put ours before the service's. Else each call looks.
__sr_look_for_traps() { # SCRIPT
  builtin local LC_ALL=C __sr_text='' __sr_above='' __sr_below='' __sr_word=''
  builtin local -a __sr_printed
  [[ -f $1 ]] || builtin return 0
  builtin read -r -N 131072 __sr_text <"$1"
  [[ $__sr_text != *=\$'(trap -'* && $__sr_text != *=\"\$'(trap -'* || $__sr_text != *'eval '* ]] ||
    __sr[traps]=ends
  # To look through a long one costs more than it saves.
  [[ ${__sr[traps]} == looks && ${#__sr_text} -le 16384 && ! ${BASH_ENV-} ]] || builtin return 0
  builtin mapfile -t __sr_printed <"$1"
  # Without its comments, and without the line that sources this file.
  builtin printf -v __sr_text '\n%s' "${__sr_printed[@]/#\#*/}" ''
  __sr_above=${__sr_text%%bootstrap-service-record.sh*}
  __sr_below=${__sr_text:${#__sr_above}}
  __sr_below=${__sr_below#*$'\n'} __sr_above=${__sr_above%$'\n'*}
  [[ ${__sr_text:${#__sr_above}:${#__sr_text}-${#__sr_above}-${#__sr_below}} == *[\;\&\|]* ]] ||
    __sr_text=$__sr_above$'\n'$__sr_below
  for __sr_word in trap eval source enable; do
    [[ $__sr_text != *[!a-zA-Z0-9_-]"$__sr_word"[!a-zA-Z0-9_-]* ]] || builtin return 0
  done
  [[ $__sr_text != *[[:space:]\;\&\|\(\{].[[:blank:]]* ]] || builtin return 0
  # mapfile -d '' takes a system call for each byte before bash 5.2
  builtin read -r -N 2097152 __sr_text </proc/self/environ || [[ $__sr_text == *BASH_FUNC_* ]] ||
    __sr[traps]=
}

# --- The end -------------------------------------------------------------------------------------
__sr_on_exit() { # STATUS COMMAND OPTIONS; what the EXIT trap does before the service's own
  builtin local -a __sr_printed
  __sr_printed=()
  [[ $BASHPID == "${__sr_pid-}" && ! ${__sr[ended]} ]] || builtin return "$1"
  __sr[ended]=1 __sr[options]=${3-}
  [[ ! ${__sr[traps]} ]] || __sr_capture builtin trap -p EXIT
  if [[ ${__sr_printed[0]-read} != @(read|"trap -- '${__sr[hook]}"*) ]]; then
    builtin return "$1" # the service has commands before ours, and this status is theirs
  elif __sr_is_killed "$1" "$2"; then
    # Nothing that takes time: it shall die when it would have died without us.
    __sr_end failure '' '' ',"signal":"unknown"'
  elif [[ $1 == 0 ]]; then
    __sr_end success '' '' ',"exitCode":0'
  else
    __sr_load && __sr_fail "$1" "${2:0:4096}" # bash would take seconds to compare a longer one
  fi
  builtin return "$1"
}

__sr_end() { # RESULT ERROR_LINE MESSAGE FACTS
  [[ ! ${__sr[stage]} ]] || __sr_append 'stage end' "$@"
  __sr[stage]=
  __sr_append "${__sr[kind]} end" "$@"
  __sr_sync
}

# A shell that dies of a signal runs its EXIT trap and tells it nothing. But it dies while it waits
# for a child, with SIGCHLD blocked, or before the end of its script, or by its own hand. SIGCHLD
# proves nothing where it was blocked before, nor, until bash 5.0, in a pipeline under `lastpipe`.
__sr_is_killed() { # STATUS COMMAND
  builtin local LC_ALL=C __sr_text=''
  [[ ! ${__sr[exit_line]} && $2 != *exit* ]] || builtin return 1
  [[ $2 != kill\ *@(\$\$|\$BASHPID|\$\{BASHPID\})* || $2 == *\ -0\ * || $1 != 0 ]] ||
    builtin return 0
  [[ ${__sr[chld]} == blocked ]] || ! __sr_blocks_chld ||
    { builtin shopt -q lastpipe && ((__sr_bash <= 500)); } || builtin return 0
  [[ $1 == 0 && ${__sr[sees_exit]} && ! -o posix && -f /proc/$__sr_pid/fd/255 ]] || builtin return 1
  __sr_read_position 255 "$__sr_pid"
  # Whether there is one more byte; in a very long script it would take too long to get there.
  ((__sr_answer <= 2097152)) &&
    builtin read -r -N "$((__sr_answer + 1))" __sr_text <"/proc/$__sr_pid/fd/255"
}

__sr_blocks_chld() {
  builtin local -a __sr_printed
  __sr_printed=()
  builtin mapfile -t __sr_printed <"/proc/$__sr_pid/status"
  __sr_answer=${__sr_printed[*]}
  __sr_answer=${__sr_answer#*SigBlk:} # a tab, and 16 hexadecimal digits
  (((16#${__sr_answer:1:16} >> 16) & 1))
}

# --- Sourcing ------------------------------------------------------------------------------------
__sr_resume() { # the service's options
  [[ $__sr_reading != *a* ]] || builtin set -a
  [[ $__sr_reading != *A* ]] || builtin shopt -s expand_aliases
  [[ $__sr_reading != *v* ]] || builtin set -v
  [[ $__sr_reading != *x* ]] || builtin set -x
}

# The text of the second half, 25 lines below, is kept: this file may be another when a run fails.
{ \builtin mapfile -t -s "$((LINENO + 25))" __sr_late <"${BASH_SOURCE[0]}" &&
  [[ ${__sr_late[0]-} == '# === Second half'* ]]; } 2>/dev/null || __sr_late=()

# A second time in one run, perhaps in a subshell, starts nothing. A child, or what this process has
# become by `exec`, has no such variable, unless somebody exported it.
if [[ ! ${__sr_pid-} || ${__sr_pid@a} == *x* || $__sr_pid != "$BASHPID" &&
  $__sr_pid != "$$" ]]; then
  __sr_pid=$BASHPID
  \builtin declare -g +x __sr_pid
  __sr_xfsz=unknown # until __sr_start knows whether the service has a trap there
  {
    __sr_errtrace='' # without it bash hides ERR in functions
    \builtin set -E
    __sr_guarded __sr_start || \builtin true
    [[ $__sr_reading == *E* ]] || \builtin set +E
    __sr_errtrace=E
  } 2>/dev/null || \builtin true
  { [[ ! ${__sr[err]} ]] || \builtin trap "${__sr[err]}" ERR; } 2>/dev/null || \builtin true
fi

# Here bash stops reading, but under -x, which would show that, and where the text was not kept.
if [[ $__sr_reading != *x* && ${#__sr_late[@]} != 0 ]]; then
  { __sr_resume; } 2>/dev/null
  \return 0
fi

# === Second half ==================================================================================
# --- Misuse and failures -------------------------------------------------------------------------
__sr_note() { # TEXT; for __sr_tell, with the place of the service's call
  __sr_locate call
  __sr_answer=${__sr_place:+"${__sr_place#* * }:${__sr_place%% *}"}
  __sr[note]="service-record: ${__sr_answer:-$0}: $1"
}

__sr_end_open_stage() { # NAME of the next one
  __sr_note "stage \"${__sr[stage]}\" was still open when stage \"$1\" started; recorded as failed"
  __sr_append 'stage end' failure "$__sr_place" "not ended before stage \"$1\" started" ''
  __sr_sync
}

__sr_fail() { # STATUS COMMAND
  builtin local LC_ALL=C __sr_command="$2" __sr_facts=",\"exitCode\":$1"
  __sr_locate failure "$1" "$2"
  __sr_escape_part "$__sr_command" 200 400
  __sr_facts+=${__sr_answer:+",\"command\":\"$__sr_answer\""}$__sr_stack
  __sr_read_journal
  __sr_end failure "$__sr_place" "$__sr_answer" "$__sr_facts"
}

# Where the service called us, or where it failed: __sr_place, as errorLine has it, and __sr_stack,
# the members that go with it. Another file of this version finds that out. Without it, a failure
# has the line that ERR or `exit` noted, as approximate, and a call has none.
__sr_locate() { # call, or failure STATUS COMMAND; this one may set __sr_command
  builtin local -a __sr_printed
  __sr_printed=() __sr_place='' __sr_stack=''
  __sr_answer=${__sr[home]}service-record-failure.sh
  [[ -f $__sr_answer ]] ||
    __sr_answer=${__sr[home]}../share/service-record/service-record-failure.sh
  if ! builtin declare -F __sr_find >/dev/null && [[ -f $__sr_answer ]]; then
    builtin mapfile -t -n 600 __sr_printed <"$__sr_answer"
    [[ ${__sr_printed[0]-} != *': service-record 0.2.0' || ${__sr_printed[*]: -1} != '# End.' ]] ||
      __sr_parse "${__sr_printed[@]}"
  fi
  if builtin declare -F __sr_find >/dev/null; then
    __sr_find "$@"
  elif [[ $1 == failure && ${__sr[exit_line]}${__sr[err_ends]} ]]; then
    __sr_place="${__sr[err_line]-} ${__sr_err_functions[0]-main} ${__sr_err_files[0]-}"
    [[ ! ${__sr[exit_line]} ]] ||
      __sr_place="${__sr[exit_line]} ${__sr_exit_functions[0]-main} ${__sr_exit_files[0]-}"
    __sr_stack=',"errorLineApproximate":true'
  fi
}

# The invocation's last three lines. --sync, for what has not reached the journal's files, is denied
# to users, and by a hung journald. Each has two seconds: systemd waits for the service to be gone.
__sr_read_journal() {
  __sr_answer=
  [[ ${INVOCATION_ID-} ]] && builtin type -P journalctl >/dev/null || builtin return 0
  __sr_apart journal-sync __sr_run 2 journalctl --sync
  __sr_apart journal __sr_run 2 journalctl --quiet --no-pager --output=cat --lines=3 \
    "_SYSTEMD_INVOCATION_ID=$INVOCATION_ID"
}

# --- Text as JSON --------------------------------------------------------------------------------
__sr_escape_bytes() { # __sr_answer
  builtin local LC_ALL=C __sr_code=0 __sr_hex='' __sr_byte=''
  # Quoted replacements: a bare & or \ in one means something else in bash 5.2 (patsub_replacement).
  builtin set -- '\' '\\' '"' '\"' $'\n' '\n' $'\t' '\t' $'\r' '\r'
  while (($# > 0)); do
    __sr_answer=${__sr_answer//"$1"/"$2"}
    builtin shift 2
  done
  [[ $__sr_answer == *[!\ -~]* ]] || builtin return 0
  for __sr_code in {1..31} 127; do
    builtin printf -v __sr_hex '\\u%04x' "$__sr_code"
    builtin printf -v __sr_byte '%b' "\\x${__sr_hex: -2}"
    __sr_answer=${__sr_answer//"$__sr_byte"/"$__sr_hex"}
  done
  [[ $__sr_answer != *[$'\200'-$'\377']* ]] || __sr_replace_invalid_utf8
}

__sr_replace_invalid_utf8() { # by U+FFFD; what is valid is table 3-7 of the Unicode standard
  builtin local __sr_rest="$__sr_answer" __sr_plain='' __sr_length=0 __sr_next=$'[\200-\277]'
  __sr_answer=
  while [[ $__sr_rest == *[$'\200'-$'\377']* ]]; do
    __sr_plain=${__sr_rest%%[$'\200'-$'\377']*}
    __sr_rest=${__sr_rest:${#__sr_plain}}
    case $__sr_rest in
    [$'\302'-$'\337']$__sr_next*) __sr_length=2 ;;
    $'\340'[$'\240'-$'\277']$__sr_next* | $'\355'[$'\200'-$'\237']$__sr_next* | \
      [$'\341'-$'\354\356\357']$__sr_next$__sr_next*) __sr_length=3 ;;
    $'\360'[$'\220'-$'\277']$__sr_next$__sr_next* | \
      $'\364'[$'\200'-$'\217']$__sr_next$__sr_next* | \
      [$'\361'-$'\363']$__sr_next$__sr_next$__sr_next*) __sr_length=4 ;;
    *) __sr_plain+='\ufffd' __sr_rest=${__sr_rest:1} __sr_length=0 ;;
    esac
    __sr_answer+=$__sr_plain${__sr_rest:0:__sr_length}
    __sr_rest=${__sr_rest:__sr_length}
  done
  __sr_answer+=$__sr_rest
}

# Escaped, and of a longer text only the beginning, or its end behind a mark; then sets
# __sr_truncated. What remains is cut in proportion, so that few turns are needed.
__sr_escape_part() { # TEXT BYTES ESCAPED_BYTES [end]
  builtin local LC_ALL=C __sr_piece="$1" __sr_length="$2"
  __sr_answer=
  while ((__sr_length > 0)); do
    if [[ ${4-} ]] && ((__sr_length < ${#__sr_piece})); then
      __sr_piece=${__sr_piece: -__sr_length}
      while [[ $__sr_piece == [$'\200'-$'\277']* ]]; do __sr_piece=${__sr_piece:1}; done
    else # not within a character
      while [[ ${__sr_piece:__sr_length:1} == [$'\200'-$'\277'] ]] &&
        ((__sr_length > 0)); do __sr_length=$((__sr_length - 1)); done
      __sr_piece=${__sr_piece:0:__sr_length}
    fi
    __sr_escape "$__sr_piece"
    ((${#__sr_answer} > $3)) || builtin break
    __sr_length=$((${#__sr_piece} * $3 / ${#__sr_answer}))
  done
  [[ ! ${4-} || ${#__sr_piece} == "${#1}" ]] ||
    __sr_answer=$'\342\200\246'$__sr_answer __sr_truncated=',"truncated":true'
}

__sr_explain() { # ERROR_LINE MESSAGE; adds them to __sr_entry, and to __sr_facts what had to be cut
  builtin local LC_ALL=C __sr_truncated='' __sr_room=0
  __sr_escape "$1"
  # A path of such length is not worth the message's room; absent, because cut it would be wrong.
  ((${#__sr_answer} == 0 || ${#__sr_answer} > 700)) || __sr_entry+=",\"errorLine\":\"$__sr_answer\""
  [[ $2 ]] || builtin return 0
  # 99 bytes for uptime, newlines, the words around the message, and the mark
  __sr_room=$((4096 - ${#__sr_entry} - ${#__sr_facts} - ${#__sr[identity]} - ${#__sr[more]} - 99))
  __sr_escape_part "$2" "$__sr_room" "$__sr_room" end
  __sr_entry+=",\"errorMessage\":\"$__sr_answer\""
  [[ $__sr_facts == *',"truncated":true' ]] || __sr_facts+=$__sr_truncated
}

# --- The array layout ----------------------------------------------------------------------------
# Anything else in the file's place is left alone: a FIFO would block for ever. Everybody may read
# arrays, since OpenShift's gather packs them as a user like any other.
__sr_create() {
  builtin local __sr_record="${__sr[path]}" __sr_mode=0750 __sr_umask=0137 __sr_content=''
  [[ ${__sr[layout]} != array ]] || __sr_mode=0755 __sr_umask=0133 __sr_content=$'[\n]\n'
  [[ -e $__sr_record || -L $__sr_record || ! -d ${__sr_record%/*} && -e ${__sr_record%/*} ]] ||
    __sr_apart mkdir __sr_make_file
  [[ -f $__sr_record && ! -L $__sr_record ]] # perhaps another's
}

__sr_make_file() {
  [[ -d ${__sr_record%/*} ]] || __sr_run 5 mkdir -p -m "$__sr_mode" -- "${__sr_record%/*}" ||
    builtin return
  builtin umask "$__sr_umask"
  builtin set -C # two may get here at once
  builtin printf '%s' "$__sr_content" >"$__sr_record"
}

# Where only what stands behind an entry could not be written, it is not lost.
__sr_stands() {
  [[ -f ${__sr[path]} && ! -L ${__sr[path]} ]] &&
    __sr_apart tail __sr_run 2 tail -c 8192 -- "${__sr[path]}" &&
    [[ $__sr_answer$'\n' == *"$__sr_entry"[$' \n']* ]]
}

# The array is closed at every moment. Under a lock on descriptor 3, which ends with its holder, one
# write replaces the closing bracket by the entry and a new bracket. Room for it, and 1024 blanks,
# is made before: a full disk tears nothing, and a reader finds only blanks more between two reads.
# Prints where the entry ends: the next append looks from there, or else in the last 8 KiB.
__sr_put_in_array() {
  builtin local LC_ALL=C __sr_from="${__sr[array_end]}"
  __sr_replace_bracket 4</proc/self/fd/3 5<>/proc/self/fd/3
  { __sr_run 2 tail -c 1 <&4 && __sr_read_position 4; } 4</proc/self/fd/3 || builtin return
  __sr_from=$((__sr_answer > 8192 ? __sr_answer - 8192 : 0))
  __sr_replace_bracket 4</proc/self/fd/3 5<>/proc/self/fd/3
}

__sr_replace_bracket() { # ends the subshell, or returns where there is no bracket to replace
  builtin local __sr_text='' __sr_size=0 __sr_until=0 __sr_bracket=0 __sr_joint='[' __sr_new=''
  __sr_run 3 flock -w 2 3 || builtin exit
  __sr_find_bracket || builtin return
  # All up to the old bracket is written over. bash writes so many bytes at once, up to a newline.
  builtin printf -v __sr_new "%-$((__sr_bracket - __sr_until))s\n" \
    "$__sr_joint"$'\n'"$__sr_entry"$'\n]'
  ((${#__sr_new} <= 4096)) && __sr_make_room || builtin return 1
  ((__sr_until == __sr_from)) || builtin read -r -N "$((__sr_until - __sr_from))" __sr_text <&5
  __sr_read_position 5
  ((__sr_answer == __sr_until)) || builtin return 1 # elsewhere it would damage an entry
  # Nothing is printed after the entry: where bash cannot turn its output back, it would go there.
  [[ -p /proc/self/fd/1 ]] &&
    builtin printf '%s.' "$((__sr_until + ${#__sr_joint} + ${#__sr_entry}))" &&
    builtin printf '%s' "$__sr_new" >&5
  builtin exit "$?"
}

# Moves descriptors 4, to read from there, and 5, to write. bash does it by reading; for a short way
# that is cheaper than dd. Whether it went well is seen from their positions.
__sr_seek() {
  builtin local __sr_to=5
  if ((__sr_from > 32768)) || [[ -o posix ]]; then
    __sr_run 5 dd bs=1 count=0 skip="$__sr_from" seek="$__sr_from" status=none <&4
  elif ((__sr_from)); then
    builtin read -r -N "$__sr_from" __sr_text <&4 && builtin read -r -N "$__sr_from" __sr_text <&5
  fi
}

# Sets __sr_until, where the last entry ends, and __sr_joint, what goes between it and the next. The
# bracket stands on a line of its own (else it may be part of a torn text), with white space around.
__sr_find_bracket() {
  builtin local __sr_before='' __sr_indent=''
  ! builtin read -r -N 32768 __sr_text <&4 || builtin return 1
  __sr_read_position 4
  __sr_size=$__sr_answer
  ((__sr_size)) || builtin return 0
  ((__sr_from + ${#__sr_text} == __sr_size)) || builtin return 1 # bash drops a power loss's NULs
  __sr_before=${__sr_text%]*}
  [[ $__sr_before != "$__sr_text" && ${__sr_text:${#__sr_before}+1} != *[!$' \t\r\n']* ]] ||
    builtin return 1
  __sr_bracket=$((__sr_from + ${#__sr_before} + 1))
  __sr_indent=${__sr_before##*$'\n'}
  while [[ $__sr_before == *[$' \t\r\n'] ]]; do __sr_before=${__sr_before%?}; done
  __sr_until=$((__sr_from + ${#__sr_before})) __sr_joint=,
  [[ $__sr_before == '[' && $__sr_until == 1 ]] && __sr_joint='' && builtin return 0
  [[ $__sr_before == *\} && $__sr_indent != *[!$' \t\r']* ]]
}

# Appends white space, up to a multiple of 1024. Each sector ends with a newline: where a loss of
# power leaves one between the halves of two entries, they make no third.
__sr_make_room() {
  builtin local __sr_blanks='' __sr_sectors=''
  builtin local __sr_more="$(((__sr_until + ${#__sr_new} + 2048) / 1024 * 1024 - __sr_size))"
  ((__sr_more > 0)) || builtin return 0
  builtin printf -v __sr_sectors '%511.0s\n' {1..12} # 4096 + 2048 bytes
  builtin printf -v __sr_blanks '%*s\n%s' "$((511 - __sr_size % 512))" '' "$__sr_sectors"
  { builtin printf '%s' "${__sr_blanks:0:__sr_more}" >&6 && __sr_read_position 6; } \
    6>>/proc/self/fd/3
  ((__sr_answer == __sr_size + __sr_more)) # farther where somebody has parked a line meanwhile
}

# --- Programs: room for them, and a bound on their time ------------------------------------------
# All that needs a process is done in one subshell, whose own children are none of the service's:
# not `$!`, `jobs` and CHLD. Its __sr_answer becomes ours, with a mark behind it: where bash could
# not make the subshell, its status is that of success. What was killed once is not tried again.
__sr_apart() { # JOB FUNCTION [ARGUMENT...]
  builtin local __sr_ended=0
  __sr_answer=
  [[ ${__sr[hung]} != *" $1 "* ]] && __sr_has_room || builtin return 1
  __sr_answer=$(
    builtin set +m && builtin shopt -s lastpipe && "${@:2}" </dev/null || __sr_ended=$?
    builtin printf '%s.' "$__sr_answer" && builtin exit "$__sr_ended"
  ) || __sr_ended=$?
  ((__sr_ended != 124)) || __sr[hung]+=" $1 "
  [[ $__sr_answer == *. ]] || ((__sr_ended)) || __sr_ended=1
  __sr_answer=${__sr_answer%.}
  while [[ $__sr_answer == *$'\n' ]]; do __sr_answer=${__sr_answer%?}; done
  builtin return "$__sr_ended"
}

# Runs a program, in the subshell of __sr_apart; __sr_answer is what it prints. After so many
# seconds the program is killed, and the subshell ends with 124 without waiting: one in a hung NFS
# not even SIGKILL ends. It holds the pipe on descriptor 7 until it is gone.
__sr_run() { # SECONDS PROGRAM [ARGUMENT...]
  # it need not load any other
  [[ $2 == journalctl ]] || builtin local -x PATH=/usr/bin:/bin LC_ALL=C
  __sr_answer=
  builtin exec "${@:2}" 7>&1 >&"${__sr_to:-1}" |
    {
      [[ $2 != flock ]] || __sr_seek # meanwhile
      builtin read -r -t "$1" -N 262144 __sr_answer || (($? == 1)) || {
        builtin read -r __sr_killed <"/proc/$BASHPID/task/$BASHPID/children"
        builtin kill -KILL $__sr_killed
        builtin printf '%s' "$__sr_answer"
        builtin exit 124
      }
    }
  builtin return "${PIPESTATUS[0]}"
}

# Whether there may be some more processes. Where one cannot be made, bash tries for half a minute
# and then ends the service: no fork of ours is without this. The limits are those of the control
# group and its parents, and `ulimit -u`, against all threads, which binds everybody but root.
__sr_has_room() {
  builtin local -a __sr_printed
  __sr_printed=()
  builtin local __sr_group='' __sr_limit=''
  builtin mapfile -t __sr_printed </proc/self/cgroup
  for __sr_group in "${__sr_printed[@]}"; do
    case $__sr_group in
    0::*) __sr_group=/sys/fs/cgroup${__sr_group#*::} ;;
    *:pids:*) __sr_group=/sys/fs/cgroup/pids${__sr_group#*:pids:} ;;
    *) builtin continue ;;
    esac
    for (( ; ${#__sr_group} > 14; )); do # more than /sys/fs/cgroup
      __sr_answer=max
      [[ ! -r $__sr_group/pids.max ]] || __sr_read_line "$__sr_group/pids.max"
      __sr_limit=$__sr_answer
      [[ $__sr_limit == max ]] || { __sr_read_line "$__sr_group/pids.current" &&
        ((__sr_answer + 6 <= __sr_limit)); } || builtin return 1
      __sr_group=${__sr_group%/*}
    done
  done
  ((UID)) || builtin return 0
  builtin mapfile -t __sr_printed </proc/self/limits
  __sr_answer=${__sr_printed[*]}
  builtin set -- ${__sr_answer#*Max processes }
  __sr_read_line /proc/loadavg
  __sr_answer=${__sr_answer#*/}
  [[ ${1-unlimited} == unlimited ]] || ((${__sr_answer%% *} + 6 <= $1))
}

{ __sr_resume; } 2>/dev/null || \builtin true
