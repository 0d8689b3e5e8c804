# shellcheck shell=bash
# shellcheck disable=SC2139 # the alias is to remember the options of now
{ ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)) && ! \declare -F builtin &&
  \builtin declare -F &&
  ((${FUNCNEST:-0} <= 0 || FUNCNEST > 40)) && __sr_are_writable() { \builtin local "$@"; } &&
  { \builtin test -z "${!__sr@}" || __sr_are_writable "${!__sr@}"; } &&
  { ! \builtin shopt -q expand_aliases || \builtin alias __sr_expanding=; } &&
  \builtin alias "__sr_reading=$-" &&
  \builtin set +avx && \builtin shopt -u expand_aliases; } >/dev/null 2>&1 || ((1))
#
# Records what a service does: sourced by its script, it appends the service's start, stages and end
# to $SERVICE_RECORDS_DIR/<service>.json, one JSON object a line. Bash 4.4 and later, POSIX mode
# too.
#
#     . /usr/local/bin/bootstrap-service-record.sh
#     record_service_stage_start "pull-image"
#     record_service_stage_success        # or record_service_stage_failure
#
# Set before sourcing, all optional: SERVICE_RECORDS_DIR (default /var/log/openshift), SERVICE_NAME
# (default the systemd unit, else the script's name), PRE_COMMAND or POST_COMMAND (this script is
# such a command of the service).
#
# It is a guest in somebody else's shell. Whatever goes wrong in here, the service runs on, and its
# status, traps, options and output stay its own. Hence the manners of this file: every name begins
# with __sr_, every builtin is called as `builtin` (the service may have a function of that name),
# every local has a value (localvar_inherit), no program runs unless something failed, and nothing
# may fail: an error in an EXIT trap would replace the service's exit status. The format is
# docs/record-format.md; what bash can know is docs/shell.md.
#
# In this order:
#   The public API
#   Guests: how our functions run in the service's shell
#   Stages
#   Start: what is recorded, and where
#   An entry, and its file
#   The array layout
#   Programs: the room for them, and their time
#   Traps, and the function `exit`
#   The end
#   Where it failed
#   Text as JSON
#   Sourcing
#
# Functions answer in __sr_answer: a subshell would cost more than all else here together.

# The lines above are the first because aliases and `set -v` act while a file is read, and `set -x`
# on every line: all are off from here to the end, as is `set -a`, which would export what is
# defined here to every program. An alias remembers them.
#
# Where recording would do harm, those lines fail, and nothing is recorded: in a bash before 4.4, in
# one without `builtin`, where functions may not call others, and where variables of our names are
# readonly: under errexit, to assign one kills the service.
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

# --- Guests: how our functions run in the service's shell ----------------------------------------

# Runs one of our functions under known options, whatever the service's are. (Under -k, `local`
# would see no assignment.) In bash 4.4 the end of `local -` would reset expand_aliases and
# sourcepath. Beyond `ulimit -f` a write does not only fail but kills.
__sr_guarded() { # FUNCTION [ARGUMENT...]
  if [[ ${__sr_function_at-} == 2 ]]; then builtin set -- "$-" "$@"; else builtin local -; fi
  builtin set "+aeuxvfkTC${__sr_errtrace-E}"
  builtin local __sr_answer='' __sr_returned=0 IFS=$' \t\n'
  [[ ${__sr_xfsz-} ]] || builtin trap '' XFSZ
  "${@:${__sr_function_at-1}}" || __sr_returned=$?
  [[ ${__sr_xfsz-} ]] || builtin trap - XFSZ
  [[ ${__sr_function_at-} != 2 ]] || builtin set "-${1//[!aeuxvfkETC]/}"
  builtin return "$__sr_returned"
}

__sr_keep() { # STATUS FUNCTION [ARGUMENT...]
  __sr_guarded "${@:2}"
  builtin return "$1"
}

__sr_note() { # TEXT; for __sr_tell, with the place of the service's call
  builtin local __sr_index=0 __sr_trap_lines=0
  while [[ ${FUNCNAME[__sr_index]-record_service_} != record_service_* ]]; do
    __sr_index=$((__sr_index + 1))
  done
  __sr_count_trap_lines
  __sr_answer=${BASH_LINENO[__sr_index]-0}
  ((__sr_answer > __sr_trap_lines)) && __sr_answer=:$__sr_answer || __sr_answer=
  __sr[note]="service-record: ${BASH_SOURCE[__sr_index + 1]-$0}$__sr_answer: $1"
}

# A subshell, because a closed pipe kills who writes to it.
__sr_tell() { # one line to whoever reads the service's output
  [[ ${__sr[note]-} ]] || builtin return 0
  ! __sr_has_room || (builtin trap '' PIPE && builtin printf '%s\n' "${__sr[note]}" >&2) ||
    builtin true
  __sr[note]=
}

# --- Stages --------------------------------------------------------------------------------------

__sr_stage_start() { # [NAME]
  builtin local __sr_name="${1:-unnamed}"
  if [[ ${__sr[stage]} ]]; then
    __sr_answer="stage \"${__sr[stage]}\" was still open when stage \"$__sr_name\" started"
    __sr_note "$__sr_answer; recorded as failed"
    __sr_append 'stage end' failure "${BASH_LINENO[2]} ${FUNCNAME[3]} ${BASH_SOURCE[3]}" \
      "not ended before stage \"$__sr_name\" started" ''
    __sr_sync
  fi
  [[ ${1-} ]] || __sr_note 'record_service_stage_start has no stage name; recorded as "unnamed"'
  __sr_answer=$__sr_name
  [[ $__sr_name != *[!a-zA-Z0-9_-]* && ${#__sr_name} -lt 255 ]] || __sr_escape_head "$__sr_name" 255
  __sr[stage]=$__sr_answer
  __sr_append 'stage start'
  __sr_chain_exit
  [[ ! ${__sr[note]} ]]
}

__sr_stage_end() { # RESULT [ERROR_LINE MESSAGE FACTS]
  if [[ ! ${__sr[stage]} ]]; then
    __sr_note 'no stage is open; recorded as the end of a stage without a name'
    builtin set -- "$1" "${2-}" "${3:-no stage was open}" "${4-}"
  fi
  __sr_append 'stage end' "$@"
  [[ $1 == success ]] || __sr_sync
  __sr[stage]=
  __sr_chain_exit
  [[ ! ${__sr[note]} ]]
}

__sr_stage_failure() { # the service has handled what failed: the place is that of its call
  builtin local -a __sr_functions __sr_files __sr_lines
  builtin local LC_ALL=C __sr_place='' __sr_facts='' __sr_trap_lines=0
  __sr_count_trap_lines
  __sr_functions=("${FUNCNAME[@]:3}")
  __sr_files=("${BASH_SOURCE[@]:3}")
  __sr_lines=("${BASH_LINENO[@]:3}")
  if [[ ${__sr_files[0]-} ]] && ((BASH_LINENO[2] > __sr_trap_lines)); then
    __sr_place="${BASH_LINENO[2]} ${__sr_functions[0]} ${__sr_files[0]}"
    __sr_stack "${BASH_LINENO[2]}" "${__sr_functions[0]}" "${__sr_files[0]}"
    __sr_facts=$__sr_answer
  fi
  __sr_journal
  __sr_stage_end failure "$__sr_place" "$__sr_answer" "$__sr_facts"
}

# --- Start: what is recorded, and where ----------------------------------------------------------

__sr_start() {
  builtin local __sr_traps=''
  __sr_begin
  __sr_read_traps EXIT ERR XFSZ
  __sr_traps=$__sr_answer
  builtin set +E
  __sr_command
  if ((BASH_VERSINFO[0] * 10 + BASH_VERSINFO[1] <= 50)); then
    __sr_blocks_chld && __sr[chld]=blocked || __sr[chld]=unknown
  fi
  __sr_define_exit
  __sr_xfsz=
  __sr_may_trap "${BASH_SOURCE[@]: -1}" || __sr[traps]=
  [[ ! ${__sr[traps]} ]] || ! __sr_restores_traps "${BASH_SOURCE[@]: -1}" || __sr[traps]=ends
  __sr_adopt_traps "$__sr_traps"
  [[ $__sr_xfsz ]] || builtin trap '' XFSZ
  __sr[more]=',"recorder":"bash/0.1.0"'
  __sr_append "${__sr[kind]} start"
}

# The state of a run, all of it text, as JSON where it goes into entries: who records what; whether
# the last write failed, and how many entries that cost; what is to be said to the service's
# readers; what the traps and `exit` saw last.
__sr_begin() {
  # The first output decides how much libc keeps for one write: the file's st_blksize, 4096 here. In
  # a record on a disk with blocks of 1 KiB it would be 1024, and an entry several writes.
  builtin printf '\n' >/dev/null
  builtin unset -v __sr
  builtin declare -gA __sr
  __sr=(
    [kind]=service [command]='' [stage]='' [ended]='' [torn]=1 [dropped]=0 [more]=''
    [note]='' [hung]=''
    [layout]="${SERVICE_RECORDS_LAYOUT-}" # of an empty file
    [array_end]=0
    [sync]="${SERVICE_RECORDS_SYNC-}"
    [minute]=-1 [clock]='' [zone]=''
    [time]='' [uptime]='' # of an entry that is not of now: service-record-exit.sh
    # before bash 5.1: SIGCHLD was blocked from the beginning, or it may be under lastpipe
    [chld]=''
    [sees_exit]='' [exit_line]='' [err_ends]='' [err_command]='' [err_pipe]='' [err]=''
    [directory]="$PWD" [options]=''
    [traps]=looks [here]='' # what a here-document has to hold to be a file
  )
  case ${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]} in
  4.* | 5.0) __sr[here]=0 ;;
  5.1) builtin printf -v '__sr[here]' '%065536d' 0 ;;
  esac
  # shellcheck disable=SC2016 # the EXIT trap, before the service's command
  __sr[hook]='{ __sr_guarded __sr_on_exit "$?" "$BASH_COMMAND" "$-"; } 2>/dev/null'
  __sr[hook]+=' && { \builtin true; } 2>/dev/null; '
  __sr_path
  __sr[path]=$__sr_answer
  __sr_identity
  __sr[identity]=$__sr_answer
}

__sr_path() {
  builtin local __sr_directory="${SERVICE_RECORDS_DIR:-/var/log/openshift}"
  [[ $__sr_directory == /* ]] || __sr_directory=$PWD/$__sr_directory
  ((${#__sr_directory} < 4096)) || __sr_directory=/dev/null # no file can have such a path
  __sr_name
  if [[ ! -w $__sr_directory/$__sr_answer.json && ! -w $__sr_directory &&
    -w ${SERVICE_RECORDS_INBOX-} ]] &&
    [[ $EUID != 0 || -e $__sr_directory ]]; then # root makes a directory that is missing
    __sr_directory=$SERVICE_RECORDS_INBOX        # from there the exit helper takes it
    __sr_answer+=.${INVOCATION_ID-}
  fi
  __sr_answer=${__sr_directory%/}/$__sr_answer.json
}

__sr_name() { # a file name that upstream's reader takes: no dot, no slash
  builtin local LC_ALL=C
  __sr_unit
  [[ $__sr_answer ]] ||
    __sr_answer=${0##*/} __sr_answer=${__sr_answer%.sh} __sr_answer=${__sr_answer%.bash}
  __sr_answer=${SERVICE_NAME:-$__sr_answer}
  # `##*/` takes seconds for a long text
  ((${#__sr_answer} <= 4096)) || __sr_answer=${__sr_answer: -4096}
  __sr_answer=${__sr_answer##*/}
  __sr_answer=${__sr_answer%.service}
  __sr_answer=${__sr_answer//[.\/[:cntrl:]]/_}
  __sr_answer=${__sr_answer:0:200}
  [[ $__sr_answer != -* ]] || __sr_answer=_${__sr_answer#-}
  __sr_answer=${__sr_answer:-unknown}
}

# The systemd unit: the innermost part of the control group that is one. A scope is a login session
# or a container.
__sr_unit() {
  builtin local -a __sr_text
  builtin local __sr_one='' __sr_part=''
  builtin mapfile -t __sr_text </proc/self/cgroup
  for __sr_one in "${__sr_text[@]}"; do
    [[ $__sr_one == 0::* || $__sr_one == *:name=systemd:* ]] || builtin continue
    __sr_one=${__sr_one#*:*:}
    while [[ $__sr_one == */* ]]; do
      __sr_part=${__sr_one##*/}
      __sr_one=${__sr_one%/*}
      [[ $__sr_part != *.scope ]] || builtin break
      [[ $__sr_part == *.service ]] || builtin continue
      __sr_answer=${__sr_part%.service}
      builtin return 0
    done
  done
  __sr_answer=
}

__sr_identity() { # JSON members; ids as journalctl prints them
  builtin local -a __sr_text
  builtin local __sr_json=''
  builtin mapfile -t -n 1 __sr_text </proc/sys/kernel/random/boot_id
  [[ ${__sr_text[0]-} ]] && __sr_json=",\"bootId\":\"${__sr_text[0]//-/}\""
  [[ ${#INVOCATION_ID} == 32 && ${INVOCATION_ID-} != *[!0-9a-f]* ]] &&
    __sr_json+=",\"invocationId\":\"$INVOCATION_ID\""
  __sr_answer="$__sr_json,\"pid\":$__sr_pid"
}

__sr_command() {
  if [[ ${PRE_COMMAND-} ]]; then
    __sr_escape_head "$PRE_COMMAND" 255
    __sr[kind]=pre-command
    __sr[command]=",\"preCommand\":\"$__sr_answer\""
  elif [[ ${POST_COMMAND-} ]]; then
    __sr_escape_head "$POST_COMMAND" 255
    __sr[kind]=post-command
    __sr[command]=",\"postCommand\":\"$__sr_answer\""
  fi
}

# --- An entry, and its file ----------------------------------------------------------------------

# One entry: one line, at most 4096 bytes with its newlines, for that much bash writes with one
# write(2) (see __sr_begin). The file is opened each time, so that its removal or rotation and a
# fork are none of our concern.
__sr_append() { # PHASE [RESULT [ERROR_LINE MESSAGE FACTS]]; FACTS and __sr[more] are JSON members
  builtin local __sr_time="${__sr[time]:-${EPOCHREALTIME-}}" __sr_fraction=''
  builtin local __sr_entry='' __sr_facts="${5-}"
  builtin local -a __sr_text
  if [[ $__sr_time == *[.,]* ]]; then # a comma in some locales
    __sr_fraction=.${__sr_time: -6:3}
    __sr_time=${__sr_time%[.,]*}
  else
    builtin printf -v __sr_time '%(%s)T' -1 # before bash 5.0
  fi
  ((__sr_time / 60 == __sr[minute])) || __sr_minute "$((__sr_time / 60))"
  builtin printf -v __sr_time '%s:%02d%s' \
    "${__sr[clock]}" $((__sr_time % 60)) "$__sr_fraction${__sr[zone]}"
  __sr_entry="{\"timestamp\":\"$__sr_time\"${__sr[command]}"
  __sr_entry+=${__sr[stage]:+",\"stage\":\"${__sr[stage]}\""}
  __sr_entry+=",\"phase\":\"$1\"${2:+",\"result\":\"$2\""}"
  [[ ! ${3-}${4-} ]] || __sr_explain "$3" "$4"
  builtin mapfile -t -n 1 __sr_text </proc/uptime
  __sr_answer=${__sr[uptime]:-${__sr_text[0]%% *}}
  __sr_entry+="$__sr_facts${__sr[identity]}${__sr_answer:+",\"uptime\":$__sr_answer"}${__sr[more]}}"
  __sr_write
}

# RFC 3339 in UTC, or, where TZ is readonly, in local time that says so. Kept for a minute: each
# change of TZ has bash make the whole environment anew.
__sr_minute() { # MINUTES since 1970
  __sr[zone]=Z
  builtin local TZ=UTC0 || builtin printf -v '__sr[zone]' '%(%z)T' $(($1 * 60))
  [[ ${__sr[zone]} == Z ]] || __sr[zone]=${__sr[zone]%??}:${__sr[zone]: -2}
  builtin printf -v '__sr[clock]' '%(%Y-%m-%dT%H:%M)T' $(($1 * 60))
  __sr[minute]=$1
}

__sr_explain() { # ERROR_LINE MESSAGE; adds them to __sr_entry, and to __sr_facts what had to be cut
  builtin local LC_ALL=C __sr_truncated=''
  __sr_escape "$1"
  # A path of such length is not worth the message's room; absent, because cut it would be wrong.
  ((${#__sr_answer} == 0 || ${#__sr_answer} > 700)) || __sr_entry+=",\"errorLine\":\"$__sr_answer\""
  [[ $2 ]] || builtin return 0
  # 96 bytes for uptime, newlines, and the words around the message
  __sr_escape_tail "$2" \
    $((4096 - ${#__sr_entry} - ${#__sr_facts} - ${#__sr[identity]} - ${#__sr[more]} - 96))
  __sr_entry+=",\"errorMessage\":\"$__sr_answer\""
  [[ $__sr_facts == *',"truncated":true' ]] || __sr_facts+=$__sr_truncated
}

__sr_write() { # __sr_entry
  if [[ -f ${__sr[path]} && ! -L ${__sr[path]} ]] || __sr_create "${__sr[path]}" &&
    if [[ ${__sr[torn]} ]]; then
      __sr_append_first
    else
      builtin printf '%s\n' "$__sr_entry" >>"${__sr[path]}"
    fi; then
    __sr[dropped]=0 __sr[more]=''
  elif __sr_stands; then
    __sr[torn]=1 __sr[dropped]=0 __sr[more]=''
  else
    __sr[torn]=1 __sr[dropped]=$((__sr[dropped] + 1))
    __sr[more]=",\"dropped\":${__sr[dropped]}"
  fi
}

# The first entry of this writer, and the first after a failure, look at what is there. A file keeps
# its layout.
__sr_append_first() {
  builtin local __sr_first=''
  if [[ -s ${__sr[path]} ]]; then
    builtin read -r -n 1 -d '' __sr_first <"${__sr[path]}"
    __sr_first=${__sr_first:-$'\n'} # of a NUL, bash shows nothing
  fi
  if [[ ${__sr_first:-${__sr[layout]}} == @(\[|array) ]]; then
    if __sr_apart array __sr_put_in_array 3<>"${__sr[path]}"; then
      __sr[array_end]=$__sr_answer
      builtin return 0
    fi
    # only that it is there could not be told
    [[ ${__sr[hung]} != *' array '* ]] && __sr_stands && builtin return 0
  fi
  # The last line may be torn: the entry must not end up in it. An entry that cannot go into an
  # array is parked behind it, as are all that follow in this run. The exit helper merges them.
  [[ ! -s ${__sr[path]} ]] || __sr_first=$'\n'
  builtin printf '%s%s\n' "$__sr_first" "$__sr_entry" >>"${__sr[path]}" && __sr[torn]=
}

# Where only what stands behind an entry could not be written, it is there: not lost, nor to be
# written again.
__sr_stands() {
  [[ -f ${__sr[path]} && ! -L ${__sr[path]} ]] && __sr_apart tail __sr_finds_entry
}

__sr_finds_entry() {
  __sr_run 2 tail -c 8192 -- "${__sr[path]}" &&
    [[ $__sr_answer$'\n' == *"$__sr_entry"[$' \n']* ]] && __sr_answer=
}

# Anything else in the file's place is left alone: a FIFO would block for ever. The subshell keeps
# the service's umask. Everybody may read arrays: OpenShift's gather looks for them, and packs
# copies of them, as a user like any other.
__sr_create() { # PATH
  builtin local __sr_directory_mode=0750 __sr_umask=0137
  [[ ${__sr[layout]} != array ]] || __sr_directory_mode=0755 __sr_umask=0133
  [[ ! -e $1 && ! -L $1 && (-d ${1%/*} || ! -e ${1%/*}) ]] || builtin return 1
  __sr_apart mkdir __sr_make_file "$1" || [[ -f $1 && ! -L $1 ]]
}

__sr_make_file() { # PATH
  [[ -d ${1%/*} ]] || __sr_run 5 mkdir -p -m "$__sr_directory_mode" -- "${1%/*}" || builtin return
  builtin umask "$__sr_umask"
  builtin set -C # two may get here at once
  if [[ ${__sr[layout]} == array ]]; then builtin printf '[\n]\n' >"$1"; else builtin true >"$1"; fi
}

# Where it is asked for: what was recorded, and the name of the file, are on the disk before the
# service goes on. A disk that does not answer has five seconds; there is no more to be done about
# one that cannot.
__sr_sync() {
  [[ ${__sr[sync]} != ends ]] ||
    __sr_apart sync __sr_run 5 sync -- "${__sr[path]}" "${__sr[path]%/*}"
}

# --- The array layout ----------------------------------------------------------------------------

# The array layout: one closed array at every moment. Under a lock on descriptor 3, which ends with
# its holder, one write replaces the closing bracket by the entry and a new bracket. The room for it
# is made before, and 1024 blanks to spare: so a full disk tears nothing, and a reader that finds
# the file longer between two reads has only blanks to add. Prints where the entry ends: the next
# append looks from there.
__sr_put_in_array() {
  builtin local LC_ALL=C __sr_from="${__sr[array_end]}"
  __sr_run 3 flock -w 2 3 || builtin return
  # shellcheck disable=SC2094 # each descriptor has a place of its own
  __sr_replace_bracket "$__sr_from" 4</proc/self/fd/3 5<>/proc/self/fd/3 || {
    __sr_find_tail && __sr_replace_bracket "$__sr_from" 4</proc/self/fd/3 5<>/proc/self/fd/3
  }
}

# Sets __sr_from to where the last 8 KiB begin. tail leaves the descriptor at the end of the file.
__sr_find_tail() {
  builtin local -a __sr_text
  {
    __sr_to=8 __sr_run 2 tail -c 1 <&4 8>/dev/null &&
      builtin mapfile -t -n 1 __sr_text </proc/self/fdinfo/4
  } 4</proc/self/fd/3
  __sr_from=${__sr_text[0]##*[!0-9]}
  __sr_from=$((__sr_from > 8192 ? __sr_from - 8192 : 0))
}

__sr_replace_bracket() { # OFFSET, from where to look for it
  builtin local -a __sr_text
  builtin local __sr_skipped='' __sr_size=0 __sr_end=0 __sr_bracket=0 __sr_joint='[' __sr_new=''
  __sr_find_bracket "$1" || builtin return
  # All up to the old bracket is written over. bash writes so many bytes at once, up to a newline.
  builtin printf -v __sr_new "%-$((__sr_bracket - __sr_end))s\n" \
    "$__sr_joint"$'\n'"$__sr_entry"$'\n]'
  ((${#__sr_new} <= 4096)) && __sr_make_room || builtin return 1
  ((__sr_end == $1)) || builtin read -r -N $((__sr_end - $1)) __sr_skipped <&5
  builtin mapfile -t -n 1 __sr_text </proc/self/fdinfo/5 # nowhere else: it would damage an entry
  [[ ${__sr_text[0]##*[!0-9]} == "$__sr_end" ]] || builtin return 1
  # The answer first, and nothing after the entry: where bash cannot turn its output back, what it
  # prints would go into the record.
  __sr_answer=$((__sr_end + ${#__sr_joint} + ${#__sr_entry}))
  [[ -p /proc/self/fd/1 ]] && builtin printf '%s.' "$__sr_answer" &&
    builtin printf '%s' "$__sr_new" >&5
  builtin exit "$?"
}

# Sets __sr_end, where the last entry ends, and __sr_joint, what goes between it and the next. The
# bracket stands on a line of its own, for one right behind a brace may be part of a torn text, with
# nothing but white space around it.
__sr_find_bracket() { # OFFSET
  builtin local -a __sr_text
  builtin local __sr_tail='' __sr_before='' __sr_indent=''
  (($1 == 0)) || __sr_move "$1" || builtin return
  ! builtin read -r -N 32768 __sr_tail <&4 || builtin return 1
  builtin mapfile -t -n 1 __sr_text </proc/self/fdinfo/4
  __sr_size=${__sr_text[0]##*[!0-9]}
  # NULs, which a loss of power leaves, and bash does not have
  (($1 + ${#__sr_tail} == __sr_size)) || builtin return 1
  ((__sr_size)) || builtin return 0
  __sr_before=${__sr_tail%]*}
  [[ $__sr_before != "$__sr_tail" && ${__sr_tail:${#__sr_before}+1} != *[!$' \t\r\n']* ]] ||
    builtin return 1
  __sr_bracket=$(($1 + ${#__sr_before} + 1))
  __sr_indent=${__sr_before##*$'\n'}
  while [[ $__sr_before == *[$' \t\r\n'] ]]; do __sr_before=${__sr_before%?}; done
  __sr_end=$(($1 + ${#__sr_before})) __sr_joint=
  [[ $__sr_before != '[' || $__sr_end != 1 ]] || builtin return 0
  __sr_joint=,
  [[ $__sr_before == *\} && $__sr_indent != *[!$' \t\r']* ]]
}

# Moves descriptor 4, to read from there, and 5, to write. bash gets there by reading; for a short
# way that is cheaper than dd.
__sr_move() { # OFFSET
  if (($1 <= 16384)) && [[ ! -o posix ]]; then
    builtin read -r -N "$1" __sr_skipped <&4 && builtin read -r -N "$1" __sr_skipped <&5
  else
    __sr_to=5 __sr_run 5 dd bs=1 count=0 skip="$1" seek="$1" status=none <&4
  fi
}

# Appends white space, up to a multiple of 1024. The last byte of each sector is a newline: where a
# loss of power leaves a sector of it between the halves of two entries, they make no third, for
# there is no newline within a text.
__sr_make_room() {
  builtin local -a __sr_text
  builtin local __sr_blanks='' __sr_sector=''
  builtin local __sr_more="$(((__sr_end + ${#__sr_new} + 2048) / 1024 * 1024 - __sr_size))"
  ((__sr_more > 0)) || builtin return 0
  builtin printf -v __sr_sector '%511s\n' ''
  builtin printf -v __sr_blanks '%*s\n' $((511 - __sr_size % 512)) ''
  while ((${#__sr_blanks} < __sr_more)); do __sr_blanks+=$__sr_sector; done
  {
    builtin printf '%s' "$__sr_blanks" >&6 && builtin mapfile -t -n 1 __sr_text </proc/self/fdinfo/6
  } 6>>/proc/self/fd/3
  # Farther where somebody has parked a line meanwhile.
  [[ ${__sr_text[0]##*[!0-9]} == "$((__sr_size + __sr_more))" ]]
}

# --- Programs: the room for them, and their time -------------------------------------------------

# All that needs a process is done in one subshell, whose own children are none of the service's:
# not `$!`, `jobs` and CHLD. Its __sr_answer becomes ours, by one write with a mark behind it: where
# bash could not make the subshell, its status is that of success. What had to be killed once is not
# tried again.
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

# Runs a program, in the subshell of __sr_apart; __sr_answer is the end of what it prints. After so
# many seconds it is killed, and the subshell ends with 124. The program itself is, for to kill a
# shell ends nothing that it runs; and it holds the pipe on descriptor 7 until it is gone, whatever
# it closes. One that not even SIGKILL ends, in a hung NFS, is not waited for.
__sr_run() { # SECONDS PROGRAM [ARGUMENT...]
  builtin local __sr_until="$((SECONDS + $1))"
  # it need not load any other
  [[ $2 == journalctl ]] || builtin local -x PATH=/usr/bin:/bin LC_ALL=C
  __sr_answer=
  builtin exec "${@:2}" 7>&1 >&"${__sr_to:-1}" |
    if builtin read -r -t "$1" -N 8192 __sr_answer || (($? != 1)); then __sr_read_on "$1"; fi
  builtin return "${PIPESTATUS[0]}"
}

__sr_read_on() { # SECONDS
  builtin local __sr_part='' __sr_ended=0
  while ((__sr_ended == 0 && SECONDS < __sr_until)); do
    builtin read -r -t "$1" -N 8192 __sr_part || __sr_ended=$?
    __sr_answer+=$__sr_part
    ((${#__sr_answer} < 8192)) || __sr_answer=${__sr_answer: -4096}
  done
  ((__sr_ended != 1)) || builtin return 0
  builtin read -r __sr_part <"/proc/$BASHPID/task/$BASHPID/children"
  # It is the only one; or there is a writer before it, of which a broken pipe makes an end.
  # shellcheck disable=SC2086
  builtin kill -KILL $__sr_part
  builtin printf '%s' "$__sr_answer"
  builtin exit 124
}

# Whether there may be some more processes. Where one cannot be made, bash tries for half a minute,
# and then ends the service: no fork of ours is without this. The limits are those of the control
# group and its parents, and `ulimit -u`, which root has not.
__sr_has_room() {
  builtin local -a __sr_text
  builtin local __sr_one='' __sr_group='' __sr_limit='' __sr_needed=6
  builtin mapfile -t __sr_text </proc/self/cgroup
  for __sr_one in "${__sr_text[@]}"; do
    case $__sr_one in
    0::*) __sr_group=/sys/fs/cgroup${__sr_one#*::} ;;
    *:pids:*) __sr_group=/sys/fs/cgroup/pids${__sr_one#*:pids:} ;;
    *) builtin continue ;;
    esac
    for (( ; ${#__sr_group} > 14; )); do # more than /sys/fs/cgroup
      if [[ -r $__sr_group/pids.max ]]; then
        builtin mapfile -t -n 1 __sr_text <"$__sr_group/pids.max"
        __sr_limit=${__sr_text[0]-max}
        builtin mapfile -t -n 1 __sr_text <"$__sr_group/pids.current"
        [[ $__sr_limit == max ]] || ((${__sr_text[0]-0} + __sr_needed <= __sr_limit)) ||
          builtin return 1
      fi
      __sr_group=${__sr_group%/*}
    done
  done
  ((UID)) || builtin return 0
  builtin mapfile -t __sr_text </proc/self/limits
  for __sr_one in "${__sr_text[@]}"; do
    [[ $__sr_one != 'Max processes '* ]] || __sr_limit=${__sr_one#Max processes}
  done
  # shellcheck disable=SC2086 # the soft limit, the hard one, and a word
  builtin set -- $__sr_limit
  [[ ${1-unlimited} == unlimited ]] || __sr_has_few "$(($1 - __sr_needed))"
}

# Whether this user has no more threads than so many; all that there are may be less.
__sr_has_few() { # THREADS
  builtin local -a __sr_text
  builtin local __sr_one='' __sr_many=0 GLOBIGNORE=''
  builtin mapfile -t -n 1 __sr_text </proc/loadavg
  __sr_one=${__sr_text[0]#*/}
  ((${__sr_one%% *} > $1)) || builtin return 0
  for __sr_one in /proc/[0-9]*; do
    { [[ -O $__sr_one ]] && builtin mapfile -t -n 1 __sr_text <"$__sr_one/stat"; } ||
      builtin continue
    # shellcheck disable=SC2206 # proc(5): the 20th field, behind a name that may hold anything
    __sr_text=(${__sr_text[0]##*) })
    __sr_many=$((__sr_many + ${__sr_text[17]-1}))
    ((__sr_many <= $1)) || builtin return 1
  done
}

# --- Traps, and the function `exit` --------------------------------------------------------------

# What the ERR trap does before the service's own.
__sr_on_err() { # STATUS OPTIONS LINE COMMAND PIPESTATUS...
  if [[ $BASHPID == "${__sr_pid-}" ]]; then
    __sr[err_line]=$3 __sr[err_command]=${4:0:4096} __sr[err_pipe]="${*:5}"
    __sr[err_function]=${FUNCNAME[2]-} __sr[err_file]=${BASH_SOURCE[2]-} __sr[err_ends]=
    if [[ $2 == *e* ]]; then
      __sr[err_ends]=1
      __sr_chain_exit ends
    fi
  fi
  builtin return "$1"
}

__sr_on_exit_call() { # [ARGUMENT...]; what `exit` does first, which alone knows its line
  [[ $BASHPID == "${__sr_pid-}" && $# -le 1 && ${1-} != --* ]] || builtin return 0
  __sr[exit_line]=${BASH_LINENO[3]-}
  __sr[exit_function]=${FUNCNAME[4]-} __sr[exit_file]=${BASH_SOURCE[4]-}
  __sr_chain_exit ends
}

# In POSIX mode bash would never call it. `exit` without an argument wants the status from before.
__sr_define_exit() {
  [[ ! -o posix ]] && ! builtin declare -F exit >/dev/null || builtin return 0
  # shellcheck disable=SC2329 # the service calls it
  exit() {
    { __sr_keep "$?" __sr_on_exit_call "$@"; } 2>/dev/null && { builtin true; } 2>/dev/null
    builtin exit "$@"
  }
  __sr[sees_exit]=1
}

# From within our `exit` the service's EXIT trap would see the parameters and the name of that
# function.
__sr_yield_exit() { # TRAP_COMMAND
  [[ ${__sr[sees_exit]} ]] || builtin return 0
  [[ $1 == *\$[0-9@*#]* || $1 == *\$\{[0-9@*#!]* || $1 == *FUNCNAME* || $1 == *BASH_[LS]* ||
    $1 == *caller* ]] || builtin return 0
  builtin unset -f exit
  __sr[sees_exit]=
}

# Puts our commands before those that the service's traps have. Text that was not read to its end
# changes nothing.
__sr_adopt_traps() { # OUTPUT of `trap -p`, and `read`
  builtin local -a __sr_words
  builtin local __sr_index=0
  [[ $1 == *read && ${1//"${__sr[hook]}"/} != *__sr_on_exit* ]] || builtin return 0
  __sr_hook_exit ''
  __sr_hook_err ''
  # trap -- COMMAND SIGNAL, each quoted for the shell; the command - is none
  builtin eval "__sr_words=(${1%read})"
  for ((__sr_index = 2; __sr_index < ${#__sr_words[@]}; __sr_index += 4)); do
    [[ ${__sr_words[__sr_index]} != - ]] || builtin continue
    case ${__sr_words[__sr_index + 1]} in
    EXIT) __sr_hook_exit "${__sr_words[__sr_index]//"${__sr[hook]}"/}" ;;
    ERR) __sr_hook_err "${__sr_words[__sr_index]}" ;;
    *) __sr_xfsz=taken ;;
    esac
  done
}

# The traps' own words carry the status past errexit and ERR, and show nothing under -x.
__sr_hook_exit() { # COMMAND
  [[ ${__sr[traps]} != ends ]] || builtin return 0
  __sr_yield_exit "$1"
  # shellcheck disable=SC2064 # the command is text by now
  builtin trap "${__sr[hook]}$1" EXIT
}

__sr_hook_err() { # COMMAND; for the caller to set, because a function without -E cannot
  # shellcheck disable=SC2089 # the trap reads the quotes again
  __sr[err]="{ __sr_guarded __sr_on_err \"\$?\" \"\$-\" \"\$LINENO\" \"\$BASH_COMMAND\""
  __sr[err]+=" \"\${PIPESTATUS[@]}\"; } 2>/dev/null"
  __sr[err]+=" && { \\builtin true; } 2>/dev/null; $1"
}

# Puts ours before the service's, in every call, for the service may set its own at any time. To
# look costs no fork: a here-document's file has no name, is gone with the group, and takes any
# length, where a pipe would fill and block. From 5.2 on bash has pipes for short ones unless it is
# to be compatible; 5.1 has them always, and gets one that is not short.
__sr_chain_exit() { # [ends], where the shell does right after
  [[ ${__sr[traps]} == @(looks|${1-looks}) && $BASHPID == "$__sr_pid" ]] || builtin return 0
  builtin local __sr_exit_trap=''
  __sr_look_at_exit
  [[ $__sr_exit_trap != "trap -- '${__sr[hook]}"* ]] || builtin return 0
  __sr[traps]=looks
  __sr_read_traps EXIT
  __sr_adopt_traps "$__sr_answer"
}

__sr_look_at_exit() { # sets __sr_exit_trap, to the first line of the trap
  builtin local TMPDIR=/dev/shm
  [[ ${__sr[here]} ]] || builtin local BASH_COMPAT=50 || builtin return 0
  # shellcheck disable=SC2086,SC2090 # to quote zeros doubles their cost
  { builtin trap -p EXIT >|/proc/self/fd/3 &&
    builtin read -r -u 3 __sr_exit_trap; } 3<<<${__sr[here]}
}

# __sr_answer is what `trap -p` prints, and `read` where that is all of it.
__sr_read_traps() { # SIGNAL...
  builtin local TMPDIR=/dev/shm LC_ALL=C
  __sr_answer=
  if [[ $__sr_xfsz != unknown ]] || __sr_writes_freely && { [[ ${__sr[here]} ]] ||
    builtin local BASH_COMPAT=50; }; then
    # shellcheck disable=SC2086
    {
      { builtin trap -p "$@" && builtin printf 'read'; } >|/proc/self/fd/3
      IFS= builtin read -r -d '' -u 3 __sr_answer
    } 3<<<${__sr[here]}
  fi
  [[ $__sr_answer == *read ]] || { __sr_has_room && __sr_answer=$(\builtin trap -p "$@" &&
    \builtin printf 'read'); }
}

# Whether no `ulimit -f` would kill the service for a here-document's file, while its own trap of
# XFSZ is not known yet.
__sr_writes_freely() {
  builtin local -a __sr_text
  builtin local IFS=$'\n'
  builtin mapfile -t __sr_text </proc/self/limits
  [[ "${__sr_text[*]}" == *'Max file size '+([[:blank:]])unlimited* ]]
}

# Whether anything may set a trap after this: the script, what it reads, or a function from its
# environment; by their words. To look at the trap in each call is a third of what an entry costs.
__sr_may_trap() { # SCRIPT
  builtin local -a __sr_text
  builtin local __sr_one=''
  [[ -f $1 && ! ${BASH_ENV-} ]] && builtin mapfile -t -n 201 __sr_text <"$1" || builtin return 0
  # To look through a long one costs more than it saves.
  builtin printf -v __sr_one '%s\n' "${__sr_text[@]}"
  ((${#__sr_text[@]} <= 200 && ${#__sr_one} <= 16384)) || builtin return 0
  for __sr_one in "${__sr_text[@]}"; do
    [[ $__sr_one == *trap* || $__sr_one == *eval* || $__sr_one == *source* ||
      $__sr_one == *enable* ||
      $__sr_one == *.[[:blank:]]* ]] || builtin continue
    [[ $__sr_one != *([[:blank:]])'#'* ]] || builtin continue
    [[ $__sr_one != *bootstrap-service-record.sh?([\"\']) || $__sr_one == *[\;\&\|]* ]] ||
      builtin continue
    [[ " $__sr_one " != *[!a-zA-Z0-9_-]@(trap|eval|source|enable)[!a-zA-Z0-9_-]* ]] ||
      builtin return 0
    [[ " $__sr_one" != *[[:blank:]\;\&\|\(\{].[[:blank:]]* ]] || builtin return 0
  done
  builtin mapfile -d '' -t __sr_text </proc/self/environ
  [[ " ${__sr_text[*]}" == *' BASH_FUNC_'* ]]
}

# Whether a script keeps the text of its traps and may set them again by that. It would have ours
# for its own, and lose one that it set in between: there the EXIT trap stays the service's until
# `exit`, or a failure under errexit, has nobody look any more.
__sr_restores_traps() { # SCRIPT, of which a long one is not read to its end
  builtin local LC_ALL=C __sr_one=''
  [[ -f $1 ]] && { builtin read -r -N 131072 __sr_one <"$1" || builtin true; }
  # shellcheck disable=SC2016 # as it is written there
  [[ $__sr_one == *=?(\")'$(trap -p'* && $__sr_one == *'eval '* ]]
}

# --- The end -------------------------------------------------------------------------------------

__sr_on_exit() { # STATUS COMMAND OPTIONS; what the EXIT trap does before the service's own
  [[ $BASHPID == "${__sr_pid-}" && ! ${__sr[ended]} ]] || builtin return "$1"
  __sr[ended]=1 __sr[options]=${3-}
  builtin local __sr_exit_trap=''
  [[ ! ${__sr[traps]} ]] || __sr_look_at_exit
  # Where the service has put commands before ours, which it had from `trap -p`, the status is
  # theirs: nothing is claimed.
  # no line is compared with more, and bash would take seconds for some
  [[ $__sr_exit_trap && $__sr_exit_trap != "trap -- '${__sr[hook]}"* ]] ||
    __sr_finish "$1" "${2:0:4096}"
  builtin return "$1"
}

__sr_finish() { # STATUS COMMAND
  builtin local -a __sr_functions __sr_files __sr_lines
  builtin local __sr_skip=3
  [[ ${FUNCNAME[3]-} != exit ]] || __sr_skip=4
  __sr_functions=("${FUNCNAME[@]:__sr_skip}")
  __sr_files=("${BASH_SOURCE[@]:__sr_skip}")
  __sr_lines=("${BASH_LINENO[@]:__sr_skip}")
  if __sr_killed "$1" "$2"; then
    # Nothing that takes time: it shall die when it would have died without us.
    __sr_end failure '' '' ',"signal":"unknown"'
  elif [[ $1 == 0 ]]; then
    __sr_end success '' '' ',"exitCode":0'
  else
    __sr_fail "$1" "$2"
  fi
}

# A shell that dies of a signal runs its EXIT trap and tells it nothing. But it dies either while it
# waits for a child, with SIGCHLD blocked, or before the end of its script, or by its own hand. (A
# loop of builtins shows none; systemd knows.)
__sr_killed() { # STATUS COMMAND
  builtin local -a __sr_text
  builtin local LC_ALL=C __sr_read_text='' __sr_position=0
  [[ ! ${__sr[exit_line]} && $2 != *exit* ]] || builtin return 1
  [[ $2 != kill\ *@(\$\$|\$BASHPID|\$\{BASHPID\})* || $2 == *\ -0\ * || $1 != 0 ]] ||
    builtin return 0
  [[ ${__sr[chld]} == unknown ]] && builtin shopt -q lastpipe || [[ ${__sr[chld]} == blocked ]] ||
    ! __sr_blocks_chld || builtin return 0
  [[ $1 == 0 && ${__sr[sees_exit]} && ! -o posix && -f /proc/$__sr_pid/fd/255 ]] || builtin return 1
  builtin mapfile -t -n 1 __sr_text <"/proc/$__sr_pid/fdinfo/255"
  __sr_position=${__sr_text[0]##*[!0-9]}
  # Whether there is one more byte; in a very long script it would take too long to get there.
  ((__sr_position <= 2097152)) &&
    builtin read -r -N $((__sr_position + 1)) __sr_read_text <"/proc/$__sr_pid/fd/255"
}

# Whether SIGCHLD is blocked. In bash 4.4 and 5.0 that proves nothing where it was so at the
# beginning, for they leave it blocked, nor within a pipeline under `lastpipe`, where they block it.
__sr_blocks_chld() {
  builtin local -a __sr_text
  builtin local __sr_one=''
  builtin mapfile -t __sr_text <"/proc/$__sr_pid/status"
  for __sr_one in "${__sr_text[@]}"; do
    [[ $__sr_one != SigBlk:* ]] || builtin return "$((! ((16#${__sr_one##*[!0-9a-f]} >> 16) & 1)))"
  done
  builtin return 1
}

__sr_fail() { # STATUS COMMAND
  builtin local LC_ALL=C __sr_line='' __sr_function='' __sr_file='' __sr_place=''
  builtin local __sr_approximate=''
  builtin local __sr_command="$2" __sr_facts=",\"exitCode\":$1"
  builtin local __sr_trap_lines=0
  __sr_count_trap_lines
  __sr_locate "$1" "$2"
  __sr_escape_head "$__sr_command" 200
  __sr_facts+=${__sr_answer:+",\"command\":\"$__sr_answer\""}
  if [[ $__sr_line && $__sr_file ]]; then
    __sr_stack "$__sr_line" "${__sr_function:-main}" "$__sr_file"
    __sr_facts+=$__sr_answer${__sr_approximate:+',"errorLineApproximate":true'}
    __sr_place="$__sr_line ${__sr_function:-main} $__sr_file"
  fi
  __sr_journal
  __sr_end failure "$__sr_place" "$__sr_answer" "$__sr_facts"
}

__sr_end() { # RESULT ERROR_LINE MESSAGE FACTS
  if [[ ${__sr[stage]} ]]; then
    __sr_append 'stage end' "$@"
    __sr[stage]=
  fi
  __sr_append "${__sr[kind]} end" "$@"
  __sr_sync
}

# The invocation's last three lines. What the service said last may not have reached the journal's
# files: hence --sync, which a user may not, and a hung journald will not, do. Each has two seconds:
# systemd waits for the service to be gone.
__sr_journal() {
  __sr_answer=
  [[ ${INVOCATION_ID-} ]] && builtin type -P journalctl >/dev/null || builtin return 0
  __sr_apart journal-sync __sr_run 2 journalctl --sync
  __sr_apart journal __sr_run 2 journalctl --quiet --no-pager --output=cat --lines=3 \
    "_SYSTEMD_INVOCATION_ID=$INVOCATION_ID"
}

__sr_stack() { # LINE FUNCTION FILE; the JSON member: this place, and behind it the callers
  builtin local __sr_index=0 __sr_json='' __sr_cut='' __sr_count=${#__sr_functions[@]}
  __sr_escape "$1 $2 $3"
  __sr_json="\"$__sr_answer\""
  # The place may be a call site: then the frames below it are not its callers.
  while ((__sr_index < __sr_count)) &&
    [[ ${__sr_functions[__sr_index]} != "$2" ]]; do __sr_index=$((__sr_index + 1)); done
  for (( ; __sr_index + 1 < __sr_count; __sr_index++)); do
    ((__sr_lines[__sr_index] > __sr_trap_lines)) || builtin break # a trap called it
    __sr_escape "${__sr_lines[__sr_index]} ${__sr_functions[__sr_index + 1]} \
${__sr_files[__sr_index + 1]}"
    ((${#__sr_json} + ${#__sr_answer} < 800)) || builtin break
    __sr_json+=",\"$__sr_answer\""
  done
  ((__sr_index + 1 < __sr_count)) && __sr_cut=',"truncated":true'
  __sr_answer=",\"stack\":[$__sr_json]$__sr_cut"
}

# --- Where it failed -----------------------------------------------------------------------------

# `set -e` ends the shell only after ERR ran, at that very line; a handled failure never gets here.
# ERR is silent at `exit`, at an unbound variable, and in functions without -E: there the EXIT
# trap's frames and the script's text have to do.

# Where it failed: __sr_line, __sr_function, __sr_file, and __sr_approximate unless nothing else can
# have failed. Reads the dying shell's frames, innermost first: __sr_functions, __sr_files, and in
# __sr_lines where each was called. In a trap, bash leaves $BASH_COMMAND as it was and counts the
# trap's own lines.
__sr_locate() { # STATUS COMMAND
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

# How many lines the longest of the service's traps has, but for EXIT and ERR.
__sr_count_trap_lines() {
  builtin local -a __sr_words
  builtin local __sr_index=0 __sr_breaks=''
  __sr_read_traps
  if [[ $__sr_answer != *read ]]; then # not known: any line may be one of theirs
    __sr_trap_lines=999999
    builtin return 0
  fi
  builtin eval "__sr_words=(${__sr_answer%read})"
  for ((__sr_index = 2; __sr_index < ${#__sr_words[@]}; __sr_index += 4)); do
    [[ ${__sr_words[__sr_index]} && ${__sr_words[__sr_index + 1]} != @(EXIT|ERR) ]] ||
      builtin continue
    __sr_breaks=${__sr_words[__sr_index]//[!$'\n']/}
    ((${#__sr_breaks} < __sr_trap_lines)) || __sr_trap_lines=$((${#__sr_breaks} + 1))
  done
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
    __sr_find "$1" 1 "${#__sr_script[@]}"
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
  builtin local __sr_name=''
  ((${#__sr_functions[@]} < 2)) || __sr_name=$__sr_function
  __sr_answer=
  if __sr_read_script "$__sr_file" && __sr_line_of "$__sr_name" "$2"; then
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
  builtin local __sr_handled='' __sr_first=1 __sr_last="${#__sr_script[@]}"
  builtin local __sr_found='' __sr_after=''
  builtin local -a __sr_places __sr_bodies
  __sr_answer=
  __sr_read_functions && __sr_extend "$1" && __sr_find "$2" "$__sr_first" "$__sr_last" &&
    __sr_found=$__sr_answer
  __sr_answer=
  [[ $__sr_found && $__sr_found != *' '* && ! ${BASH_ALIASES[*]} ]] &&
    __sr_runs "$__sr_found" "$2" || __sr_found=
  __sr_after=$__sr_answer
  [[ $__sr_found ]] && __sr_is_alone "$1" "$2" || __sr_found=
  __sr_answer=$__sr_found
  [[ $__sr_found ]] || builtin return 1
  __sr_must_fail "$2" && builtin return 0
  ((! __sr_trap_lines)) && [[ $__sr_after == ?(\;)*(\}) && $2 != @(for|case|select)\ * &&
    $2 != *$'\n'* ]] && __sr_is_own "$2" &&
    __sr_is_followed "$__sr_found"
}

# What the service's functions are: NAME LINE FILE of each in __sr_places, and the text of all in
# __sr_bodies. In one subshell, because extdebug does more than is wanted here, and by way of a
# file, for bash reads a pipe byte by byte.
__sr_read_functions() {
  builtin local -a __sr_known
  builtin local TMPDIR=/dev/shm __sr_count=''
  __sr_places=() __sr_bodies=()
  __sr_has_room && { [[ ${__sr[here]} ]] || builtin local BASH_COMPAT=50; } || builtin return 1
  # shellcheck disable=SC2086
  {
    __sr_count=$(
      \builtin shopt -s extdebug extglob
      \builtin compgen -A function -X '@(__sr_|record_service_)*' >|/proc/self/fd/3
      \builtin mapfile -t __sr_known </proc/self/fd/3
      { \builtin declare -F "${__sr_known[@]}" &&
        \builtin declare -f "${__sr_known[@]}"; } >|/proc/self/fd/3 &&
        \builtin printf '%s' "${#__sr_known[@]}"
    )
    builtin mapfile -t __sr_known </proc/self/fd/3
  } 3<<<${__sr[here]}
  [[ $__sr_count ]] || builtin return 1
  __sr_places=("${__sr_known[@]:0:__sr_count}") __sr_bodies=("${__sr_known[@]:__sr_count}")
}

# The lines of a function in __sr_script, as __sr_first and __sr_last, or perhaps a few more; of a
# file, all.
__sr_extend() { # FUNCTION
  builtin local __sr_one='' __sr_number=0
  [[ $1 ]] && builtin declare -F -- "$1" >/dev/null || builtin return 0
  __sr_first=
  for __sr_one in "${__sr_places[@]}"; do
    [[ $__sr_one != "$1 "+([0-9])" $__sr_file" ]] ||
      __sr_first=${__sr_one:${#1}+1:${#__sr_one}-${#1}-${#__sr_file}-2}
  done
  [[ $__sr_first ]] || builtin return 1
  for __sr_one in "${__sr_places[@]}"; do
    [[ $__sr_one == *" $__sr_file" ]] || builtin continue
    __sr_number=${__sr_one#* }
    __sr_number=${__sr_number%% *}
    ((__sr_number > __sr_first && __sr_number <= __sr_last)) &&
      [[ ${__sr_script[__sr_number - 1]} != [[:blank:]]* ]] &&
      __sr_last=$((__sr_number - 1))
  done
  while ((__sr_last > __sr_first)) &&
    [[ ${__sr_script[__sr_last - 1]} != '}'* ]]; do __sr_last=$((__sr_last - 1)); done
}

__sr_find() { # COMMAND FIRST LAST; the numbers of the lines that hold it
  builtin local __sr_number=0 __sr_found='' __sr_wanted=''
  __sr_squeeze "$1"
  __sr_wanted=$__sr_answer
  for ((__sr_number = $2; __sr_number <= $3; __sr_number++)); do
    __sr_squeeze "${__sr_script[__sr_number - 1]}"
    [[ $__sr_answer != *"$__sr_wanted"* ]] || __sr_found+=" $__sr_number"
  done
  [[ $__sr_wanted ]] && __sr_answer=${__sr_found# }
}

# Whether no other function can have run that command last: none that has it may have been called.
__sr_is_alone() { # FUNCTION COMMAND
  builtin local __sr_one='' __sr_name='' __sr_wanted="${2%%$'\n'*}" __sr_holder='' __sr_own=''
  for __sr_one in "${__sr_bodies[@]}"; do
    if [[ $__sr_one == *"$__sr_wanted"* ]]; then
      [[ $__sr_name == @(exit|"$1") ]] || __sr_holder=$__sr_name
    elif [[ $__sr_one == [!\ ]*' () ' ]]; then
      __sr_name=${__sr_one%' () '}
    fi
  done
  [[ ! $__sr_holder ]] && builtin return 0
  [[ $1 && $1 != source ]] || builtin return 1
  for __sr_one in "${__sr_bodies[@]}"; do
    if [[ $__sr_one == [!\ ]*' () ' ]]; then
      __sr_name=${__sr_one%' () '}
    elif [[ $__sr_name == "$1" ]]; then
      __sr_own+=$'\n'$__sr_one
    fi
  done
  ! __sr_function_in "$__sr_own"
}

# Whether the command cannot have succeeded: it ends the shell, or the function, or expands what is
# not set.
__sr_must_fail() { # COMMAND
  builtin local __sr_rest="$1" __sr_name=''
  [[ $1 != ?(builtin\ |command\ )exit?(\ *) && $1 != return\ [0-9]* ]] || builtin return 0
  [[ $1 != *[\'\`\\]* && $1 != *\$\(* && $1 != *\$\{*([!\}])\$* && $1 != '[['* ]] ||
    builtin return 1
  while [[ $__sr_rest == *\$* ]]; do
    __sr_rest=${__sr_rest#*\$}
    __sr_name=${__sr_rest#\{}
    __sr_name=${__sr_name%%[!a-zA-Z0-9_]*}
    [[ $__sr_name == [a-zA-Z_]* && ! -v $__sr_name ]] || builtin continue
    [[ $__sr_rest != "{$__sr_name"?(:)\?* ]] || builtin return 0
    [[ ${__sr[options]} == *u* && $__sr_rest == @("$__sr_name"|"{$__sr_name}")* ]] &&
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

# --- Text as JSON --------------------------------------------------------------------------------

__sr_escape() { # TEXT; as the content of a JSON string
  __sr_answer=$1
  # No ranges: they depend on the locale, and to change that costs as much as a write.
  [[ $1 == *[!abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789\ .,:/_=+@-]* ]] ||
    builtin return 0
  __sr_escape_bytes
}

__sr_escape_bytes() {
  builtin local LC_ALL=C __sr_to=''
  [[ $__sr_answer == *\\* ]] && __sr_escape_backslashes
  # Quoted replacements: a bare & or \ in one means something else in bash 5.2 (patsub_replacement).
  __sr_to='\"' && __sr_answer=${__sr_answer//\"/"$__sr_to"}
  [[ $__sr_answer == *[!\ -~]* ]] || builtin return 0
  __sr_to='\n' && __sr_answer=${__sr_answer//$'\n'/"$__sr_to"}
  __sr_to='\t' && __sr_answer=${__sr_answer//$'\t'/"$__sr_to"}
  __sr_to='\r' && __sr_answer=${__sr_answer//$'\r'/"$__sr_to"}
  [[ $__sr_answer == *[$'\001'-$'\037'$'\177']* ]] && __sr_escape_controls
  [[ $__sr_answer == *[$'\200'-$'\377']* ]] && __sr_replace_invalid_utf8
  builtin return 0
}

# By hand: the way ${x//\\/...} reads its replacement differs between versions.
__sr_escape_backslashes() {
  builtin local __sr_rest="$__sr_answer"
  __sr_answer=
  while [[ $__sr_rest == *\\* ]]; do
    __sr_answer+=${__sr_rest%%\\*}\\\\
    __sr_rest=${__sr_rest#*\\}
  done
  __sr_answer+=$__sr_rest
}

__sr_escape_controls() {
  builtin local __sr_code=0 __sr_hex='' __sr_byte=''
  for __sr_code in {1..31} 127; do
    builtin printf -v __sr_hex '%02x' "$__sr_code"
    builtin printf -v __sr_byte '%b' "\\x$__sr_hex"
    [[ $__sr_answer == *"$__sr_byte"* ]] || builtin continue
    __sr_hex="\\u00$__sr_hex"
    __sr_answer=${__sr_answer//"$__sr_byte"/"$__sr_hex"}
  done
}

# The well-formed sequences of the Unicode standard, table 3-7; a byte outside one becomes U+FFFD.
__sr_replace_invalid_utf8() {
  builtin local __sr_rest="$__sr_answer" __sr_plain='' __sr_length=0
  __sr_answer=
  while [[ $__sr_rest == *[$'\200'-$'\377']* ]]; do
    __sr_plain=${__sr_rest%%[$'\200'-$'\377']*}
    __sr_answer+=$__sr_plain
    __sr_rest=${__sr_rest:${#__sr_plain}}
    case $__sr_rest in
    [$'\302'-$'\337'][$'\200'-$'\277']*) __sr_length=2 ;;
    $'\340'[$'\240'-$'\277'][$'\200'-$'\277']*) __sr_length=3 ;;
    [$'\341'-$'\354\356\357'][$'\200'-$'\277'][$'\200'-$'\277']*) __sr_length=3 ;;
    $'\355'[$'\200'-$'\237'][$'\200'-$'\277']*) __sr_length=3 ;;
    $'\360'[$'\220'-$'\277'][$'\200'-$'\277'][$'\200'-$'\277']*) __sr_length=4 ;;
    [$'\361'-$'\363'][$'\200'-$'\277'][$'\200'-$'\277'][$'\200'-$'\277']*) __sr_length=4 ;;
    $'\364'[$'\200'-$'\217'][$'\200'-$'\277'][$'\200'-$'\277']*) __sr_length=4 ;;
    *) __sr_length=0 ;;
    esac
    if ((__sr_length)); then
      __sr_answer+=${__sr_rest:0:__sr_length}
      __sr_rest=${__sr_rest:__sr_length}
    else
      __sr_answer+='\ufffd'
      __sr_rest=${__sr_rest:1}
    fi
  done
  __sr_answer+=$__sr_rest
}

__sr_escape_head() { # TEXT BYTES; escaped, and only its beginning where it is longer
  builtin local LC_ALL=C __sr_piece="${1:0:$2}"
  if [[ ${1:$2:1} == [$'\200'-$'\277'] ]]; then # the cut is within a character
    while [[ $__sr_piece == *[$'\200'-$'\277'] ]]; do __sr_piece=${__sr_piece%?}; done
    __sr_piece=${__sr_piece%?}
  fi
  __sr_escape "$__sr_piece"
  while ((${#__sr_answer} > 2 * $2)); do
    __sr_piece=${__sr_piece:0:${#__sr_piece}/2}
    __sr_escape "$__sr_piece"
  done
}

# Escaped, and where it is longer its end, with a mark; then sets __sr_truncated.
__sr_escape_tail() { # TEXT BYTES
  builtin local LC_ALL=C __sr_piece="$1" __sr_room="$2" __sr_keep=0
  ((${#__sr_piece} <= __sr_room)) || __sr_piece=${__sr_piece: -__sr_room}
  __sr_escape "$__sr_piece"
  ((${#__sr_piece} == ${#1} && ${#__sr_answer} <= __sr_room)) && builtin return 0
  __sr_room=$((__sr_room - 3)) # the mark
  while ((${#__sr_answer} > __sr_room)); do
    # In proportion, so that few turns are needed however much of it was escaped.
    __sr_keep=$((${#__sr_piece} * __sr_room / ${#__sr_answer}))
    ((__sr_keep < ${#__sr_piece})) || __sr_keep=$((${#__sr_piece} - 1))
    __sr_piece=${__sr_piece:${#__sr_piece}-__sr_keep}
    __sr_escape "$__sr_piece"
  done
  while [[ $__sr_piece == [$'\200'-$'\277']* ]]; do __sr_piece=${__sr_piece:1}; done
  __sr_escape "$__sr_piece"
  __sr_answer=$'\342\200\246'$__sr_answer
  __sr_truncated=',"truncated":true'
}

# --- Sourcing ------------------------------------------------------------------------------------

# A second time in one run, perhaps in a subshell of it, starts nothing. Another script that this
# process has become by `exec`, or a child, does: it has no such variable, unless somebody exported
# it.
if [[ ! ${__sr_pid-} || ${__sr_pid@a} == *x* || $__sr_pid != "$BASHPID" &&
  $__sr_pid != "$$" ]]; then
  __sr_pid=$BASHPID
  \builtin declare -g +x __sr_pid
  __sr_function_at=$((BASH_VERSINFO[0] == 4 ? 2 : 1))
  __sr_xfsz=unknown # until __sr_start knows whether the service has a trap there
  {
    __sr_errtrace='' # without it bash hides ERR in functions
    \builtin set -E
    __sr_guarded __sr_start || \builtin true
    [[ $__sr_reading == *E* ]] || \builtin set +E
    __sr_errtrace=E
  } 2>/dev/null || \builtin true
  # shellcheck disable=SC2064 # the command is text by now
  { [[ ! ${__sr[err]} ]] || \builtin trap "${__sr[err]}" ERR; } 2>/dev/null || \builtin true
fi

{
  [[ $__sr_reading != *a* ]] || \builtin set -a
  [[ $__sr_reading != *A* ]] || \builtin shopt -s expand_aliases
  [[ $__sr_reading != *v* ]] || \builtin set -v
  [[ $__sr_reading != *x* ]] || \builtin set -x
} 2>/dev/null || \builtin true
