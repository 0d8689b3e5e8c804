# shellcheck shell=bash
# shellcheck disable=SC1003,SC2015,SC2016,SC2053,SC2064,SC2086,SC2089,SC2090,SC2094 # text for later
# shellcheck disable=SC2139,SC2324,SC2329
{ ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)) &&
  ((${FUNCNEST:-0} <= 0 || FUNCNEST > 40)) &&
  \builtin mapfile -t -u 3 COMPREPLY 3</proc/self/limits &&
  ((1${COMPREPLY[8]:26:20} > 119)) &&
  ! \declare -F builtin 2>&- >/dev/null &&
  __sr_are_enabled() { ((! $#)) || {
    { \builtin "$1" --help 2>&- >/dev/null || (($? == 2)); } && __sr_are_enabled "${@:2}"
  }; } &&
    { ! \builtin compgen -A disabled 2>&- >/dev/null ||
      __sr_are_enabled alias declare eval kill local printf read set shopt trap umask unset; } &&
    __sr_are_writable() { \builtin local "$@" 2>&-; } && __sr_are_writable __sr "${!__sr@}" &&
      { ! \builtin shopt -q expand_aliases || \builtin alias __sr_expanding=; } &&
      \builtin alias "__sr_reading=$-" &&
      \builtin set +avx && \builtin shopt -u expand_aliases; } \
  2>&"${-:_=-2:0}${_:0${-//[!x]/}10==8:1}" || ((1))
#
# Records what a bash service does. A script sources this file, which appends the start, the stages
# and the end of the service to $SERVICE_RECORDS_DIR/<service>.json, one JSON object per line:
#
#     . /usr/local/bin/bootstrap-service-record.sh
#     record_service_stage_start "pull-image"
#     record_service_stage_success        # or record_service_stage_failure
#
# docs/shell.md describes variables and promises, docs/record-format.md the format. Contents:
#   The public API
#   How our code runs inside the service
#   Stages
#   Start: the state of a run
#   Entries
#   Traps, and the function `exit`
#   The end of the service
#   Child processes
#   Sourcing
# Bash parses the following sections only when a run needs them (see __sr_load):
#   The EXIT trap of the service
#   The function `trap`
#   Misuse and failures
#   Rare endings
#   Text as JSON
#   The array layout
#   Programs with a time limit
#   Where the text was not kept
# service-record-failure.sh finds the line of a failure (see __sr_locate).
#
# This file is a guest in the shell of a service. Whatever goes wrong here, the service runs on, and
# its status, traps, options, output and descriptors stay its own. Therefore
#
# - all names begin with __sr_, and builtins are called by `builtin`, as the service may have
#   functions of their names;
# - nothing is redirected but single builtins, and neither options nor IFS change while our code
#   runs in the service's shell. Bash runs the traps of the service between any two commands, also
#   ours: a handler would see our redirections and options, and changes that it makes would be lost.
#   Code that needs options of its own runs in a child process (see __sr_apart);
# - `2>&-` hides the messages of a builtin. It opens no file, and so needs no /dev/null;
# - code in the service's shell works under any options. Each call stands left of `||`, where `set
#   -e` and ERR traps have no effect on us but still on a handler. Expansions have defaults, for
#   `set -u`. Every local variable is assigned, because of `shopt -s localvar_inherit`;
# - conditions are written so that the usual case is true: a handler sees the status in `$?`;
# - `return` has a status: in a trap, it would else return the status of the service's last command;
# - functions return text in __sr_answer. A command substitution would cost a process;
# - `name[0]=''` stands for `name=()`, which runs bash's parser. That is slower, and the parser
#   prints which jobs of the service died of a signal: a shell that dies with them never would.
#
# The group of commands at the beginning of the file checks whether this file can work in the
# service's shell. If the check fails, nothing is recorded. It fails
#
# - in bash before 4.4;
# - if FUNCNEST does not let functions nest;
# - if variables with our names are readonly;
# - if `builtin` or another builtin that we need is missing;
# - without /proc;
# - if fewer than 20 descriptors may be open. Bash moves descriptors to 10 and above to redirect, so
#   it could not redirect anything. Reading the limit (in columns 27 to 46 of its line) moves none,
#   if descriptor 3 is free.
#
# Why these lines look as they do:
#
# - Under `set -x` bash would print them. So the redirection of the group closes descriptor 2 under
#   `set -x`, and otherwise redirects it to itself, which does nothing. The word behind `2>&` sets
#   $_ to -2 and takes the `-` or the `2` from it: 0${-//[!x]/}10 is 0x10 if $- has an x, or else
#   010. No other way to choose is silent and needs no variable of the service.
# - Aliases and `set -v` act while bash reads a file, and `set -a` exports functions. The group
#   switches them off. The alias __sr_reading keeps the service's options until later, because an
#   alias changes no variable and no function of the service.
# - Keywords may be aliases, so the group uses none.
# - The lines of /proc/self/limits go into COMPREPLY, an array that only completion functions use.
[[ ${BASH_ALIASES[__sr_reading]+set} ]] || {
  record_service_stage_start() { \return 0; }
  record_service_stage_success() { \return 0; }
  record_service_stage_failure() { \return 0; }
  \return 0
}
__sr_reading=${BASH_ALIASES[__sr_reading]}
__sr_limits=("${COMPREPLY[@]}")
\builtin unset -v COMPREPLY
\builtin unalias __sr_reading
! \builtin unalias __sr_expanding 2>&- || __sr_reading+=A
\builtin unset -f __sr_are_writable __sr_are_enabled

# --- The public API ------------------------------------------------------------------------------
record_service_stage_start() { # NAME
  { builtin local __sr_off && [[ $- != *[akvxT]* ]] && __sr_off='' || __sr_quieten; } \
    2>&"${__sr_stderr[_${-//[!x]/}]-2}"
  [[ ! ${__sr_pid-} ]] || __sr_start_stage ${1+"${1:0:1024}"} || builtin true
  [[ ! $__sr_off ]] || builtin set "-$__sr_off"
}

record_service_stage_success() {
  { builtin local __sr_off && [[ $- != *[akvxT]* ]] && __sr_off='' || __sr_quieten; } \
    2>&"${__sr_stderr[_${-//[!x]/}]-2}"
  [[ ! ${__sr_pid-} ]] || __sr_end_stage success || builtin true
  [[ ! $__sr_off ]] || builtin set "-$__sr_off"
}

record_service_stage_failure() {
  { builtin local __sr_off && [[ $- != *[akvxT]* ]] && __sr_off='' || __sr_quieten; } \
    2>&"${__sr_stderr[_${-//[!x]/}]-2}"
  [[ ! ${__sr_pid-} ]] || __sr_fail_stage || builtin true
  [[ ! $__sr_off ]] || builtin set "-$__sr_off"
}

# --- How our code runs inside the service --------------------------------------------------------
# Switches off the options under which our code cannot run in the service's shell, few services have
# one of them, and leaves them in __sr_off. Under -k `local` would see no assignment, under -a our
# variables would be exported, under -T a DEBUG trap would run for our commands. In bash 4.4 the end
# of `local -` would reset expand_aliases and sourcepath.
__sr_quieten() {
  __sr_off=${-//[!akvxT]/}
  [[ ! $__sr_off ]] || builtin set "+$__sr_off"
}

# Runs a function from a trap, or from `exit`. Under -x the caller has closed descriptor 2 for us.
__sr_guarded() { # FUNCTION [ARGUMENT...]
  builtin local __sr_off __sr_status
  __sr_quieten
  __sr_status=0
  if [[ ${__sr_ulimit-} ]] && ! __sr_can_redirect; then
    [[ ${2-} != [0-9]* ]] || __sr_status=$2
  elif [[ $__sr_off == *x* ]]; then
    "$@" 2>/dev/null || __sr_status=$?
  else
    "$@" || __sr_status=$?
  fi
  [[ ! $__sr_off ]] || builtin set "-$__sr_off"
  builtin return "$__sr_status"
}

# Whether bash can redirect. A script that uses `ulimit` may have lowered the limit of descriptors,
# and bash would print an error message.
__sr_can_redirect() {
  builtin local -a __sr_printed
  __sr_printed[0]=''
  [[ -e /proc/self/fd/3 ]] || builtin mapfile -t -u 3 __sr_printed 3</proc/self/limits
  [[ ${__sr_printed[8]-} != 'Max open files'+([[:blank:]])?(1)[0-9][[:blank:]]* ]]
}

# Has bash parse the second half of this file, if it has not been parsed.
__sr_load() {
  ((${#__sr_late[@]} == 0)) || __sr_parse __sr_late "$__sr_late_from"
  __sr_late=()
}

# Only its first two sections, of LINES: the rest would take a millisecond.
__sr_load_traps() { # LINES
  if ((${#__sr_late[@]} && ! __sr_late_from)); then
    __sr_parse __sr_late 0 "$1"
    __sr_late_from=$1
  fi
}

# Has bash parse lines, each with its newline. Bash joins a whole array twice as fast as a part, and
# either much faster than it expands "${lines[@]}".
__sr_parse() { # ARRAY FIRST [NUMBER of its lines]
  builtin local -n __sr_lines_to_parse="$1"
  builtin local __sr_text='' __sr_aliases='' __sr_number="${3-${#__sr_lines_to_parse[@]}}"
  if [[ ${IFS+set} && $IFS != [[:blank:]]* ]]; then # it joins the lines by this
    builtin printf -v __sr_text '%s' "${__sr_lines_to_parse[@]:$2:__sr_number}"
  elif (($2 == 0 && $# == 2)); then
    __sr_text=${__sr_lines_to_parse[*]}
  else
    __sr_text=${__sr_lines_to_parse[*]:$2:__sr_number}
  fi
  ! builtin shopt -q expand_aliases || __sr_aliases=on # they would act on the lines
  [[ ! $__sr_aliases ]] || builtin shopt -u expand_aliases
  builtin eval "$__sr_text"
  [[ ! $__sr_aliases ]] || builtin shopt -s expand_aliases
}

# Prints the message of __sr_note. In a child process, as a closed pipe kills the process that
# writes.
__sr_tell() {
  [[ ! ${__sr_notice-} ]] || ! __sr_has_room ||
    (builtin trap '' PIPE && builtin printf '%s\n' "${__sr_notice-}" >&2)
  __sr_notice=
}

# --- Stages --------------------------------------------------------------------------------------
__sr_start_stage() { # [NAME]
  [[ ! ${__sr_ulimit-} ]] || __sr_can_redirect || builtin return 0
  [[ ${1-} && ! ${__sr_open_stage-} ]] || { __sr_load && __sr_mend_start "$@"; }
  __sr_answer=${1:-unnamed}
  [[ $__sr_answer != *[!a-zA-Z0-9_\ ./:-]* && ${#__sr_answer} -lt 255 ]] ||
    { __sr_load && __sr_shorten "$__sr_answer"; }
  __sr_append 'stage start' '' '' "$__sr_answer"
  [[ ${__sr_trap_method-} != looks || ${__sr_exit_trap-} == "trap -- '$__sr_hook_begins"* ]] ||
    __sr_look_at_traps
  [[ ! ${__sr_notice-} ]] || __sr_tell
}

__sr_end_stage() { # RESULT [MEMBERS]
  [[ ! ${__sr_ulimit-} ]] || __sr_can_redirect || builtin return 0
  if [[ ${__sr_open_stage-} ]]; then
    __sr_append 'stage end' "$1" "${2-}"
  else
    __sr_load && __sr_end_no_stage "$@"
  fi
  [[ $1 == success ]] || __sr_sync
  [[ ${__sr_trap_method-} != looks || ${__sr_exit_trap-} == "trap -- '$__sr_hook_begins"* ]] ||
    __sr_look_at_traps
  [[ ! ${__sr_notice-} ]] || __sr_tell
}

__sr_fail_stage() { # the service has handled the failure: its place is that of the call
  [[ ! ${__sr_ulimit-} ]] || __sr_can_redirect || builtin return 0
  builtin local __sr_members=''
  __sr_load
  __sr_describe call
  __sr_end_stage failure "$__sr_members"
}

# --- Start: the state of a run -------------------------------------------------------------------
__sr_start() { # [read], if __sr_printed has the service's traps
  __sr_begin
  __sr_define_exit
  __sr_choose_trap_method "${BASH_SOURCE[@]: -1}" "${BASH_LINENO[@]: -2:1}"
  [[ ! $1 ]] || { __sr_parse_traps && __sr_adopt_traps; }
  __sr_more=',"recorder":"bash/0.2.0"'
  __sr_append "${__sr[kind]-} start"
}

__sr_begin() { # all state is text, and JSON where it goes into entries
  # The first output of a shell sets the size of libc's buffer, and so of one write, to the file's
  # st_blksize: 4096 here. A record on a disk with blocks of 1 KiB would make it 1024, and an entry
  # several writes.
  builtin printf '\n' 2>&- >/dev/null
  builtin unset -v __sr
  builtin declare -gA __sr
  __sr=(
    [kind]=service [ended]='' [dropped]=0
    [layout]="${SERVICE_RECORDS_LAYOUT-}" [array_end]=0
    [sync]="${SERVICE_RECORDS_SYNC-}" [hung]=''
    [own]='' [ends_trap]='' [held]='' [frames]=''
    [directory]="$PWD" [options]=''
    [home]="${BASH_SOURCE[0]%"${BASH_SOURCE[0]##*/}"}" # the directory of this file
    [sees_exit]='' [exit_line]='' [exit_command]=''
    [err]='' [err_ends]='' [err_command]='' [err_pipe]=''
  )
  # The state that each entry reads: bash needs three times as long for an element of an array.
  __sr_open_stage='' __sr_run_command='' __sr_notice=''
  __sr_earlier_time='' __sr_earlier_uptime='' # set by service-record-close.sh for a past event
  __sr_minute=-1 __sr_clock='' __sr_zone=''
  __sr_more='' # members of the next entry only
  __sr_torn=1  # the end of the file must be looked at
  __sr_trap_method=looks __sr_ulimit=''
  [[ ${__sr[home]-} == /* ]] || __sr[home]=$PWD/${__sr[home]-}
  # What comes before the service's own commands in the EXIT trap, and what comes behind them.
  __sr_answer=' 2>&"${__sr_stderr[_${-//[!x]/}]-2}"'
  __sr_hook_begins='{ __sr_guarded __sr_on_exit '
  __sr[hook]=$__sr_hook_begins'"$?" "$BASH_COMMAND" "$-"; }'$__sr_answer
  __sr[hook]+=" && { \\builtin true; }$__sr_answer; "
  __sr[tail]=$'\n'"{ __sr_guarded __sr_after_exit; }$__sr_answer"
  __sr_choose_path
  __sr_record=$__sr_answer
  __sr_read_line /proc/sys/kernel/random/boot_id # ids as journalctl prints them
  __sr_identity=${__sr_answer:+",\"bootId\":\"${__sr_answer//-/}\""}
  __sr_answer=${INVOCATION_ID-}
  [[ ${#__sr_answer} != 32 || $__sr_answer == *[!0-9a-f]* ]] ||
    __sr_identity+=",\"invocationId\":\"$__sr_answer\""
  __sr_identity+=",\"pid\":$__sr_pid"
  if [[ ${PRE_COMMAND-} ]]; then
    __sr_load && __sr_begin_command pre-command preCommand "$PRE_COMMAND"
  elif [[ ${POST_COMMAND-} ]]; then
    __sr_load && __sr_begin_command post-command postCommand "$POST_COMMAND"
  fi
}

__sr_read_line() { # FILE; its first line
  builtin local -a __sr_printed
  __sr_printed[0]=''
  [[ ! -r $1 ]] || builtin mapfile -t -n 1 -u 9 __sr_printed 9<"$1"
  __sr_answer=${__sr_printed[0]-}
}

__sr_read_position() { # DESCRIPTOR
  __sr_read_line "/proc/self/fdinfo/$1"
  __sr_answer=${__sr_answer##*[!0-9]}
}

__sr_choose_path() {
  builtin local __sr_directory="${SERVICE_RECORDS_DIR:-/var/log/openshift}"
  [[ $__sr_directory == /* ]] || __sr_directory=$PWD/$__sr_directory
  ((${#__sr_directory} < 4096)) || __sr_directory=/dev/null # no file can have such a path
  __sr_choose_name
  if [[ ! -w $__sr_directory/$__sr_answer.json && ! -w $__sr_directory &&
    -w ${SERVICE_RECORDS_INBOX-} ]] &&
    [[ $EUID != 0 || -e $__sr_directory ]]; then # root makes a missing directory
    __sr_directory=$SERVICE_RECORDS_INBOX
    __sr_answer+=.${INVOCATION_ID-} # for the exit helper
  fi
  __sr_answer=${__sr_directory%/}/$__sr_answer.json
}

__sr_choose_name() { # a file name that upstream's reader takes: no dot, no slash
  __sr_read_unit
  [[ $__sr_answer ]] ||
    __sr_answer=${0##*/} __sr_answer=${__sr_answer%.sh} __sr_answer=${__sr_answer%.bash}
  __sr_answer=${SERVICE_NAME:-$__sr_answer}
  ((${#__sr_answer} <= 4096)) || __sr_answer=${__sr_answer: -4096} # `##*/` is slow for a long text
  __sr_answer=${__sr_answer##*/} __sr_answer=${__sr_answer%.service}
  [[ $__sr_answer && ${#__sr_answer} -le 200 && $__sr_answer != -* &&
    $__sr_answer != *[!a-zA-Z0-9_:@\\-]* ]] || { __sr_load && __sr_clean_name; }
}

# The systemd unit: the innermost part of the control group that is one. A scope is a login session
# or a container.
__sr_read_unit() {
  builtin local -a __sr_printed
  builtin local __sr_group=''
  __sr_printed[0]=''
  builtin mapfile -t -u 9 __sr_printed 9</proc/self/cgroup
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

# --- Entries -------------------------------------------------------------------------------------
# An entry is one line of at most 4096 bytes with its newlines, which bash writes at once (see
# __sr_begin). The file is opened each time, so its removal, its rotation and a fork do no harm.
# MEMBERS and __sr_more are JSON members. This is the hot path: each command costs 2 us, and bash
# copies the whole text of a function for each call, so rare cases have functions of their own.
__sr_append() { # PHASE [RESULT [MEMBERS [STAGE [MESSAGE]]]]
  # `local` expands an assignment as a word, which takes several times as long as an assignment.
  builtin local __sr_time __sr_fraction __sr_facts __sr_stage __sr_entry
  __sr_time=${__sr_earlier_time:-${EPOCHREALTIME-}} __sr_fraction='' __sr_facts=${3-}
  __sr_stage=${4-${__sr_open_stage-}}
  if [[ $__sr_time == *[.,]* ]]; then # a comma in some locales
    __sr_fraction=.${__sr_time: -6:3} __sr_time=${__sr_time%[.,]*}
  else
    builtin printf -v __sr_time '%(%s)T' -1 # before bash 5.0
  fi
  ((__sr_time / 60 == __sr_minute)) || __sr_format_minute "$((__sr_time / 60))"
  __sr_time=$((__sr_time % 60 + 100)) # the seconds, with a leading zero behind the 1
  __sr_entry="{\"timestamp\":\"${__sr_clock-}:${__sr_time:1}$__sr_fraction${__sr_zone-}\"\
${__sr_run_command-}${__sr_stage:+",\"stage\":\"$__sr_stage\""}\
,\"phase\":\"$1\"${2:+",\"result\":\"$2\""}"
  [[ ! ${5-} ]] || { __sr_load && __sr_explain '' "$5"; }
  # On a descriptor that is free: then bash has none to move away and back.
  builtin mapfile -t -n 1 -u 9 __sr_uptime 9</proc/uptime || __sr_uptime[0]=''
  __sr_answer=${__sr_earlier_uptime:-${__sr_uptime[0]-}}
  __sr_entry+="$__sr_facts${__sr_identity-}\
${__sr_answer:+",\"uptime\":${__sr_answer%% *}"}${__sr_more-}}"
  # Right before the write, so that a signal in between finds the stage neither twice nor lost.
  case $1 in
  'stage start') __sr_open_stage=$__sr_stage ;;
  'stage end') __sr_open_stage='' ;;
  esac
  __sr_write
}

# RFC 3339 in UTC, or, where TZ is readonly, in local time that says so. Kept for a minute, as each
# change of TZ has bash make its whole environment anew.
__sr_format_minute() { # MINUTES since 1970
  builtin local __sr_seconds="$(($1 * 60))"
  if [[ ${TZ+${TZ@a}} == *r* ]]; then # an assignment would end the service
    builtin printf -v __sr_zone '%(%z)T' "$__sr_seconds"
    __sr_zone=${__sr_zone%??}:${__sr_zone: -2}
    builtin printf -v __sr_clock '%(%Y-%m-%dT%H:%M)T' "$__sr_seconds"
  else
    __sr_zone=Z
    TZ=UTC0 builtin printf -v __sr_clock '%(%Y-%m-%dT%H:%M)T' "$__sr_seconds"
  fi
  __sr_minute=$1
}

# One write. Beyond `ulimit -f` it would not only fail but kill the service by SIGXFSZ.
__sr_write() { # __sr_entry; sets __sr_exit_trap, where the service may have set its EXIT trap
  builtin local __sr_head='' __sr_written=''
  __sr_exit_trap[0]=''
  if [[ ! ${__sr_torn-} && -f ${__sr_record-} && ! -L ${__sr_record-} ]] || __sr_prepare_file; then
    [[ ${__sr_xfsz-} ]] || builtin trap '' XFSZ
    [[ -e /proc/self/fd/10 || -e /proc/self/fd/11 || -e /proc/self/fd/12 ]] &&
      __sr_find_free_descriptors || __sr_free='10 11 12'
    __sr_moved=${__sr_free% *}
    builtin printf '%s%s\n' "$__sr_head" "$__sr_entry" 2>&- >>"${__sr_record-}" &&
      __sr_written=line __sr_moved='' || __sr_moved=''
    [[ ${__sr_trap_method-} != looks ]] || __sr_read_exit_trap
    [[ ${__sr_xfsz-} ]] || builtin trap - XFSZ
  fi
  [[ $__sr_written && ! ${__sr_more-}${__sr_torn-} ]] || __sr_count_lost
}

# The first entry of a run, each after a failure, and each of an array look at the file first.
__sr_prepare_file() { # fails if the entry is written, or cannot be
  [[ -f ${__sr_record-} && ! -L ${__sr_record-} ]] || __sr_create || builtin return "$?"
  __sr_look_at_file
  [[ ! $__sr_written ]]
}

__sr_count_lost() { # after an entry that was not written, or not by the hot path
  [[ $__sr_written != line ]] || __sr_torn=''
  [[ $__sr_written ]] || { __sr_torn=1 && __sr_load && __sr_is_written && __sr_written=1; }
  if [[ $__sr_written ]]; then
    __sr[dropped]=0 __sr_more=''
  else
    __sr[dropped]=$((__sr[dropped] + 1))
    __sr_more=",\"dropped\":${__sr[dropped]-}"
  fi
}

# As __sr_capture, which explains it, within the preparation of __sr_write: one serves both.
__sr_read_exit_trap() {
  [[ ! ${__sr_more-}${__sr[ended]-} ]] && __sr_can_capture || builtin return 0
  builtin local __sr_file=''
  [[ ${TMPDIR+${TMPDIR@a}} == *r* ]] || builtin local TMPDIR=/dev/shm
  __sr_moved=${__sr_free#* }
  if ((__sr_bash > 501)); then
    BASH_COMPAT=50 builtin trap -p EXIT {__sr_file}<<<0 2>&- >|"/proc/self/fd/$__sr_file"
  else
    builtin trap -p EXIT {__sr_file}<<<"$__sr_here" 2>&- >|"/proc/self/fd/$__sr_file"
  fi && __sr_moved='' && builtin mapfile -t -u 9 __sr_exit_trap 9<&"$__sr_file"- ||
    __sr_discard_file
}

# While a builtin is redirected, bash keeps the descriptors in the first free ones from 10 on. If
# the service dies of a signal there, its EXIT trap runs without its own descriptors 1 and 2: our
# command in that trap puts them back.
__sr_find_free_descriptors() { # the first three, in __sr_free
  builtin local __sr_number=9 __sr_count=0
  builtin local -a __sr_found
  while ((__sr_count < 3)); do
    ((__sr_number += 1))
    [[ -e /proc/self/fd/$__sr_number ]] || __sr_found[__sr_count++]=$__sr_number
  done
  __sr_free="${__sr_found[0]} ${__sr_found[1]} ${__sr_found[2]}"
}

# A record keeps its layout.
__sr_look_at_file() { # sets __sr_head, the text before the entry, or __sr_written
  if [[ -s ${__sr_record-} ]]; then
    [[ ! -r ${__sr_record-} ]] || builtin read -r -n 1 -d '' -u 9 __sr_head 9<"${__sr_record-}"
    __sr_head=${__sr_head:-$'\n'} # bash does not show a NUL
  fi
  if [[ ${__sr_head:-${__sr[layout]-}} == @(\[|array) ]]; then
    __sr_load
    if __sr_apart array __sr_put_in_array; then
      __sr[array_end]=$__sr_answer __sr_written=1
      builtin return 0
    fi
    # The entry may be there, and only the message about it lost.
    [[ ${__sr[hung]-} != *' array '* ]] && __sr_is_written && __sr_written=1 && builtin return 0
  fi
  # The last line may be torn, and the entry must not end up in it. An entry that cannot go into an
  # array is parked behind it, as are the following ones of this run. The exit helper merges them.
  __sr_head=
  [[ ! -s ${__sr_record-} ]] || __sr_head=$'\n'
}

# Anything else in the place of the record is left alone: a FIFO would block for ever.
__sr_create() {
  [[ -e $__sr_record || -L $__sr_record || ! -d ${__sr_record%/*} && -e ${__sr_record%/*} ]] ||
    __sr_apart create __sr_make_file
  [[ -f $__sr_record && ! -L $__sr_record ]] # perhaps made by another process
}

# OpenShift's gather packs arrays as an ordinary user, so everybody may read them.
__sr_make_file() { # in a child
  builtin trap '' XFSZ
  builtin local __sr_mode=0750 __sr_umask=0137 __sr_content=''
  [[ ${__sr[layout]-} != array ]] || __sr_mode=0755 __sr_umask=0133 __sr_content=$'[\n]\n'
  [[ -d ${__sr_record%/*} ]] || {
    __sr_load
    __sr_run 5 mkdir -p -m "$__sr_mode" -- "${__sr_record%/*}" || builtin return "$?"
  }
  builtin umask "$__sr_umask"
  builtin set -C # two processes may get here at once
  builtin printf '%s' "$__sr_content" >"$__sr_record"
}

__sr_sync() { # if configured, the entries are on the disk before the service goes on
  [[ ${__sr[sync]-} != ends ]] || ! __sr_load ||
    __sr_apart sync __sr_run 5 sync -- "${__sr_record-}" "${__sr_record%/*}"
}

__sr_escape() { # TEXT; as the content of a JSON string
  __sr_answer=$1
  # No ranges: they depend on the locale, and changing that costs as much as a write.
  [[ $1 != *[!abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789\ .,:/_=+@-]* ]] ||
    __sr_escape_bytes
}

# --- Traps, and the function `exit` --------------------------------------------------------------
__sr_on_err() { # STATUS OPTIONS LINE COMMAND PIPESTATUS...; before the service's own ERR trap
  if [[ $BASHPID == "${__sr_pid-}" ]]; then
    if [[ ${__sr[ended]-} == later && $2 == *e* ]]; then
      __sr_end failure ",\"exitCode\":$1" # of the service's EXIT trap, which ends here
    fi
    __sr[err_line]=$3 __sr[err_command]=${4:0:4096} __sr[err_pipe]='' __sr[err_status]=$1
    builtin printf -v '__sr[err_pipe]' '%s ' "${@:5}"
    __sr[err_pipe]=${__sr[err_pipe]% }
    __sr_err_functions=("${FUNCNAME[@]:2}") __sr_err_files=("${BASH_SOURCE[@]:2}")
    __sr_err_lines=("$3" "${BASH_LINENO[@]:2}") __sr[err_ends]=
    [[ $2 != *e* ]] || { __sr[err_ends]=1 && __sr_look_at_traps ends; }
  fi
  builtin return "$1"
}

__sr_on_exit_call() { # STATUS [ARGUMENT...]; called by `exit`, which alone knows its line
  if [[ $BASHPID == "${__sr_pid-}" && $# -le 2 && ${2-} != --* ]]; then
    if [[ ${__sr[ended]-} == later ]]; then # in the service's EXIT trap
      case ${2-$1} in
      0) __sr_end success ',"exitCode":0' ;;
      *[!0-9]*) __sr[ended]=1 ;; # bash will complain, and end with another status
      *) __sr_end failure ",\"exitCode\":$((10#${2-$1} & 255))" ;;
      esac
    fi
    __sr[exit_line]=${BASH_LINENO[2]-} __sr[exit_command]="exit${2+ ${2:0:4096}}"
    # The frames: before bash 5.2, eval and source have ended when the EXIT trap runs.
    __sr_exit_functions=("${FUNCNAME[@]:3}") __sr_exit_files=("${BASH_SOURCE[@]:3}")
    __sr_exit_lines=("${BASH_LINENO[@]:2}")
    __sr_look_at_traps ends
  fi
  builtin return "$1"
}

# A function `exit`, unless the service has its own, or POSIX mode would ignore ours. `exit` without
# an argument needs the status of the command before.
__sr_define_exit() {
  [[ ! -o posix ]] && ! builtin declare -F exit >/dev/null || builtin return 0
  exit() {
    { __sr_guarded __sr_on_exit_call "$?" "$@"; } 2>&"${__sr_stderr[_${-//[!x]/}]-2}" &&
      { builtin true; } 2>&"${__sr_stderr[_${-//[!x]/}]-2}"
    builtin exit "$@"
  }
  __sr[sees_exit]=1
}

# Sets the EXIT trap to the service's commands with ours before and behind them. Sets __sr[err] to
# the same for the ERR trap: the caller sets that trap, because bash would reset it at the end of a
# function without -E. Our commands keep the exit status, and print nothing under -x. A trap that
# the service made from the output of `trap -p`, with our commands in it, stays as it is.
__sr_adopt_traps() { # __sr_traps
  builtin local __sr_index=0 __sr_own='' __sr_err=''
  for ((__sr_index = 3; __sr_index < ${#__sr_traps[@]}; __sr_index += 4)); do
    [[ ${__sr_traps[__sr_index - 1]} == - ]] || case ${__sr_traps[__sr_index]} in
    EXIT) __sr_own=${__sr_traps[__sr_index - 1]} ;;
    ERR) __sr_err=${__sr_traps[__sr_index - 1]} ;;
    *) __sr_xfsz=taken ;;
    esac
  done
  __sr_own=${__sr_own//"${__sr[hook]-}"/}
  __sr_own=${__sr_own//"${__sr[tail]-}"/}
  [[ $__sr_own$__sr_err != *__sr_guarded* ]] || builtin return 0
  __sr_answer=' 2>&"${__sr_stderr[_${-//[!x]/}]-2}"'
  __sr[err]='{ __sr_guarded __sr_on_err "$?" "$-" "$LINENO" "$BASH_COMMAND" "${PIPESTATUS[@]}"; }'
  __sr[err]+="$__sr_answer && { \\builtin true; }$__sr_answer; $__sr_err"
  [[ ${__sr_trap_method-} != ends ]] || builtin return 0
  __sr[own]=$__sr_own
  if [[ $__sr_own ]] && ! { __sr_load_traps 215 && __sr_is_blind "$__sr_own"; }; then
    [[ ! ${__sr[sees_exit]-} ]] || builtin unset -f exit
    __sr[sees_exit]=
  fi
  # Behind an unfinished here-document or a backslash our text would become part of it. Before bash
  # 5.2 a shell that kills itself by its trap's last command ends with its status, and would die of
  # the signal if one more command followed.
  if [[ ! $__sr_own || $__sr_own == *'<<'* || $__sr_own == *\\ ]] ||
    { ((__sr_bash < 502)) && __sr_kills_itself "$__sr_own"; }; then
    __sr_answer=
  else
    __sr_answer=${__sr[tail]-}
  fi
  __sr[ends_trap]=$__sr_answer
  builtin trap "${__sr[hook]-}$__sr_own$__sr_answer" EXIT
}

# Checks whether the EXIT trap still begins with our command, and puts it back if not: the service
# may set its own EXIT trap at any time. (In a record call, __sr_write usually makes this check.)
__sr_look_at_traps() { # [ends], where the shell ends right after this; [tracks], from `trap`
  builtin local -a __sr_printed
  [[ ${__sr_trap_method-} == looks || ${__sr_trap_method-} == "${1-looks}" ]] &&
    [[ $BASHPID == "${__sr_pid-}" ]] || builtin return 0
  __sr_capture builtin trap -p EXIT
  [[ ${__sr_printed[0]-} != "trap -- '$__sr_hook_begins"* ]] || builtin return 0
  [[ ${__sr_trap_method-} != ends ]] || __sr_trap_method=looks
  __sr_read_traps EXIT && __sr_adopt_traps
}

# The lines that a builtin prints, in __sr_printed. In the service's shell it makes no process: the
# builtin prints into the file of a here-document, which has no name, and takes any length, where a
# pipe would fill and block. Since 5.1 bash makes a pipe of a short one: in 5.1 it is made longer
# than a pipe's buffer, later BASH_COMPAT asks for a file. Only root may write to the file. Two
# commands instead of one redirected group, because a handler may run in between: it then sees one
# descriptor more, above 9, of a file that nothing else has open.
__sr_capture() { # COMMAND [ARGUMENT...]
  builtin local __sr_ended=0
  __sr_printed[0]=''
  if ! __sr_can_capture; then
    __sr_capture_in_child "$@"
    builtin return "$?"
  fi
  builtin local __sr_file=''
  # A file on a disk would cost half a millisecond.
  [[ ${TMPDIR+${TMPDIR@a}} == *r* ]] || builtin local TMPDIR=/dev/shm
  [[ ${__sr_xfsz-} ]] || builtin trap '' XFSZ
  __sr_find_free_descriptors
  __sr_moved=${__sr_free#* }
  if ((__sr_bash > 501)); then
    BASH_COMPAT=50 "$@" {__sr_file}<<<0 2>&- >|"/proc/self/fd/$__sr_file"
  else
    "$@" {__sr_file}<<<"$__sr_here" 2>&- >|"/proc/self/fd/$__sr_file"
  fi && __sr_moved='' && builtin mapfile -t -u 9 __sr_printed 9<&"$__sr_file"- ||
    { __sr_discard_file && __sr_ended=1; }
  [[ ${__sr_xfsz-} ]] || builtin trap - XFSZ
  builtin return "$__sr_ended"
}

# An assignment to a readonly variable would end the service, but a readonly TMPDIR serves if it can
# be written. `varredir_close` would close the file; `shopt` is faster than a search of BASHOPTS. A
# child of ours cannot set a trap for SIGXFSZ, see __sr_begin_child: without a limit, it needs none.
__sr_can_capture() {
  [[ ${__sr_captures-} && ${BASH_COMPAT+${BASH_COMPAT@a}} != *r* ]] &&
    [[ ${TMPDIR+${TMPDIR@a}} != *r* || -w $TMPDIR ]] &&
    [[ ${__sr_xfsz-} == child && ! ${__sr_ulimit-} ||
      ${__sr_xfsz-} != child && $BASHPID == "${__sr_pid-}" ]] &&
    { ((__sr_bash < 502)) || ! builtin shopt -q varredir_close; }
}

__sr_discard_file() {
  __sr_moved='' __sr_printed[0]='' __sr_exit_trap[0]=''
  [[ ! $__sr_file ]] || \exec {__sr_file}<&- # `builtin exec` would open it again
}

__sr_capture_in_child() { # COMMAND [ARGUMENT...]; only a child makes another one
  __sr_answer=
  [[ ${__sr_xfsz-} == child ]] && __sr_answer=$("$@" && builtin printf read) &&
    [[ $__sr_answer == *read ]] || builtin return 1
  __sr_answer=${__sr_answer%read}
  builtin mapfile -t __sr_printed <<<"${__sr_answer%$'\n'}"
}

# What `trap -p` prints, as words in __sr_traps: trap -- COMMAND SIGNAL for each.
__sr_read_traps() { # SIGNAL...
  builtin local -a __sr_printed
  __sr_capture builtin trap -p "$@" || {
    __sr_has_room || builtin return "$?"
    __sr_printed=("$(\builtin trap -p "$@" && \builtin printf read)")
    [[ ${__sr_printed[0]} == *read ]] || builtin return 1
    __sr_printed[0]=${__sr_printed[0]%read}
  }
  __sr_parse_traps
}

__sr_parse_traps() { # __sr_printed
  __sr_traps=()
  builtin printf -v __sr_answer '%s\n' "${__sr_printed[@]}"
  builtin eval "__sr_traps=($__sr_answer)"
}

# Chooses how the EXIT trap keeps our command, by the text of the script (__sr_trap_method):
#   ''      no word shows that a trap may be set after this;
#   tracks  a function `trap` can set all traps of the script, and puts our command back each time;
#   ends    the script saves its traps and sets them again: it must never find ours among them. Only
#           `exit` and errexit put ours before the service's, as the shell ends right after;
#   looks   anything else may set traps, such as a library: each call of ours looks.
__sr_choose_trap_method() { # SCRIPT LINE, where it sources this file
  builtin local __sr_text='' __sr_below='' __sr_word='' __sr_line='' __sr_seen=''
  builtin local -a __sr_printed
  [[ -f $1 && -r $1 ]] || builtin return 0
  builtin read -r -N 131072 -u 9 __sr_text 9<"$1"
  [[ $__sr_text != *ulimit\ * ]] || __sr_ulimit=1
  # Code that saves its traps, unless they are others than EXIT's.
  if [[ $__sr_text == *=\$'(trap -'* || $__sr_text == *=\"\$'(trap -'* ]] &&
    [[ $__sr_text == *'eval '* ]]; then
    __sr_below=$__sr_text
    while [[ $__sr_below == *\$'(trap -'* ]]; do
      __sr_below=${__sr_below#*\$'(trap -'}
      __sr_word=${__sr_below:0:80}
      [[ ${__sr_word%%\)*} != @(p|*[!A-Z]@(EXIT|0)*) ]] || __sr_trap_method=ends
    done
  fi
  # Searching a longer one costs more than it saves.
  [[ ${#__sr_text} -le 16384 || ${#__sr_text} -le 32768 && $__sr_text == *trap* ]] &&
    [[ ! ${BASH_ENV-} ]] || builtin return 0
  [[ ${__sr_trap_method-} == looks ]] || builtin return 0
  __sr_printed[0]=''
  builtin mapfile -t -u 9 __sr_printed 9<"$1"
  # mapfile -d '' takes a system call for each byte before bash 5.2
  builtin read -r -N 2097152 -u 9 __sr_word 9</proc/self/environ
  [[ $__sr_word != *BASH_FUNC_* ]] || builtin return 0
  if ((${#__sr_text} <= 16384)); then
    # Without the line that sources this file, and without comments.
    __sr_line=${__sr_printed[$2 - 1]-}
    [[ $__sr_line != *([[:blank:]])@(.|source)[[:blank:]]* || $__sr_line == *[\;\&\|\`\(]* ||
      ${BASH_SOURCE[*]: -2:1} != "${BASH_SOURCE[0]}" ]] || __sr_printed[$2 - 1]=
    builtin printf -v __sr_text '\n%s' "${__sr_printed[@]/#\#*/}" ''
    # A pattern `*@(one|other)*` takes bash seconds in a text of some KiB.
    if [[ $__sr_text != *[!a-zA-Z0-9_-]eval[!a-zA-Z0-9_-]* &&
      $__sr_text != *[!a-zA-Z0-9_-]source[!a-zA-Z0-9_-]* &&
      $__sr_text != *[[:space:]\;\&\|\(\{].[[:blank:]]* ]]; then
      [[ $__sr_text == *FUNCNAME* || $__sr_text == *BASH_LINENO* || $__sr_text == *BASH_ARG* ||
        $__sr_text == *BASH_SOURCE\[[!0]* || $__sr_text == *caller* ]] || __sr[frames]=none
      [[ $__sr_text == *[!a-zA-Z0-9_-]trap[!a-zA-Z0-9_-]* ]] || __sr_trap_method=
    fi
  fi
  [[ ! ${__sr_trap_method-} || $__sr_text != *trap* ]] ||
    { __sr_load_traps 215 && __sr_are_traps_plain "$1" 3 && __sr_define_trap; }
}

# --- The end of the service ----------------------------------------------------------------------
# The first command of the EXIT trap. A success is recorded only where nothing can change it any
# more: with commands of the service behind ours, after those.
__sr_on_exit() { # STATUS COMMAND OPTIONS
  builtin local __sr_ended="$1" __sr_members=''
  builtin local -a __sr_printed
  [[ ! ${__sr_moved-} ]] || { __sr_load && __sr_restore_descriptors; }
  [[ $BASHPID == "${__sr_pid-}" && ! ${__sr[ended]-} ]] || builtin return "$1"
  __sr[ended]=1 __sr[options]=${3-}
  # A handler that fails here under `set -e` would end the shell before its end is recorded, and
  # bash 5.2 would print an internal error. Without us the shell would be gone. __sr_guarded sets -e
  # again.
  [[ $- != *e* ]] || { builtin set +e && __sr_off+=e; }
  __sr_printed[0]=''
  [[ ${__sr_trap_method-} != looks ]] || __sr_capture builtin trap -p EXIT
  [[ ${__sr_printed[0]-} == @(|"trap -- '${__sr[hook]-}"*) ]] ||
    builtin return "$1" # the service has commands before ours, and this status is theirs
  __sr_hide_children
  __sr_end_run "$@" || __sr_ended=$?
  [[ ! ${__sr[chld]-} ]] || builtin trap -- "${__sr[chld]-}" CHLD
  [[ $1 == "$__sr_ended" ]] || builtin exit "$__sr_ended"
  builtin return "$1"
}

# A CHLD trap of the service shall not see our processes. Its own that end meanwhile would, without
# us, end after the shell. (Not where the traps can be read only by a process.)
__sr_hide_children() {
  builtin local -a __sr_printed
  builtin local __sr_index=0
  __sr[chld]='' __sr[held]=never
  [[ ! ${__sr_xfsz-} ]] && __sr_capture builtin trap -p CHLD TERM && __sr_parse_traps ||
    builtin return 0
  __sr[held]=''
  for ((__sr_index = 3; __sr_index < ${#__sr_traps[@]}; __sr_index += 4)); do
    case ${__sr_traps[__sr_index]} in
    *CHLD) __sr[chld]=${__sr_traps[__sr_index - 1]} ;;
    *TERM) __sr[held]=never ;; # the service handles or ignores it
    esac
  done
  [[ ! ${__sr[chld]-} ]] || builtin trap - CHLD
}

# Returns the status that the service shall end with.
__sr_end_run() { # STATUS COMMAND
  __sr_read_ending "$1"
  [[ $__sr_answer != signal ]] || {
    # Nothing that takes time: the shell shall die when it would have died without us.
    __sr_end failure ',"signal":"unknown"'
    builtin return "$1"
  }
  [[ $1 != 0 || $__sr_bash -ge 502 || ${__sr[own]-} || ${2-} != exec\ * ]] ||
    { __sr_load && __sr_read_exec "$2"; }
  if [[ $__sr_ended != 0 ]]; then
    __sr_hold_term
    __sr_load
    __sr_describe failure "$__sr_ended" "${2:0:4096}" # bash would take seconds for a longer one
    __sr_end failure "$__sr_members"
    __sr_release_term
  elif [[ $__sr_answer == unknown ]]; then
    builtin true # no result is better than a wrong one
  elif [[ ! ${__sr[own]-} || -o posix && ${__sr[own]-} == *exit* ]]; then
    __sr_end success ',"exitCode":0'
  else
    __sr[ended]=later
    [[ ${__sr[sees_exit]-} ]] || __sr_define_exit
  fi
  builtin return "$__sr_ended"
}

# The record of a failure may wait for the journal, and a stop may come meanwhile. It would end the
# shell before the service's own commands in the EXIT trap. So SIGTERM is held until those have run.
# A handler of the service runs as it would. Not while __sr_read_ending needs the signal itself.
__sr_hold_term() {
  [[ ${__sr[held]-} == never ]] || { __sr[held]=once && builtin trap '__sr[held]=again' TERM; }
}

__sr_release_term() {
  [[ ${__sr[held]-} == never ]] || builtin trap - TERM
  [[ ${__sr[held]-} != again || ${__sr[ends_trap]-} ]] || builtin kill -s TERM "$BASHPID"
}

__sr_after_exit() { # the last command of the EXIT trap
  [[ ${__sr[held]-} != again || $BASHPID != "${__sr_pid-}" ]] || builtin kill -s TERM "$BASHPID"
  [[ ${__sr[ended]-} != later || $BASHPID != "${__sr_pid-}" ]] || __sr_end success ',"exitCode":0'
}

__sr_end() { # RESULT MEMBERS
  __sr[ended]=1
  [[ ! ${__sr_open_stage-} ]] || __sr_append 'stage end' "$1" "$2"
  __sr_append "${__sr[kind]-} end" "$1" "$2"
  __sr_sync
}

# How the shell ends: `signal` if it is dying of one, else `ends`, or `unknown`. A dying shell runs
# its EXIT trap, but does not tell it of the signal, and shows a status of 0. Where neither `exit`
# nor errexit was seen, a copy of the shell tells: it inherits that bash is handling a terminating
# signal, and then treats another one in its own way. A script that ran to its last line needs the
# copy as well: a signal may come after that line. Up to bash 5.1 the copy ignores the other signal;
# since 5.2 it dies without running an EXIT trap.
#
# The copy prints `c` at once, `t` from its EXIT trap, and `i` if it ignored all signals; a service
# may ignore some from its start, so it tries several. Before 5.1 a copy never runs that trap.
__sr_read_ending() { # STATUS
  __sr_answer=ends
  [[ ! ${__sr[exit_line]-} && (! ${__sr[err_ends]-} || $1 == 0) ]] || builtin return 0
  # systemd signals each process that it finds until it finds no new one: a copy may die at once.
  for __sr_answer in '' '' '' ''; do
    ! __sr_has_room || {
      if [[ ${__sr_execs-} ]]; then
        __sr_substitute __sr_run_copy
      else
        __sr_substitute __sr_unset_exec __sr_run_copy
      fi
    } || builtin true
    [[ ! $__sr_answer ]] || builtin break
  done
  case $__sr_answer in
  ct) __sr_answer=ends ;;
  c) __sr_answer=signal && ((__sr_bash > 501)) || __sr_answer=ends ;;
  ci) __sr_answer=signal && ((__sr_bash <= 501)) || __sr_answer=unknown ;;
  *) __sr_answer=unknown ;;
  esac
}

__sr_unset_exec() { # FUNCTION; in a child
  builtin unset -f exec 2>&-
  "$1"
}

__sr_run_copy() { # in a subshell of its own, as an EXIT trap does not run in a command substitution
  # Bash prints that the subshell was terminated. Nothing may run before this line: in bash 4.4 it
  # would also print that a job of the service was.
  \exec 2>&-
  (
    __sr_begin_child
    builtin trap '\builtin printf t' EXIT
    builtin printf c
    for __sr_answer in TERM ALRM USR1 USR2; do
      builtin kill -s "$__sr_answer" "$BASHPID" || builtin exit
    done
    builtin trap - EXIT
    builtin printf i
  )
}

# --- Child processes -----------------------------------------------------------------------------
# Whatever needs a process, or options of its own, runs in one command substitution. What it starts
# is not among the service's `$!`, `jobs` and CHLD. Its __sr_answer becomes ours, with a mark behind
# it: where bash could not make the process, the status is that of a success. A job that was killed
# once is not tried again. A handler of the service runs when the child has ended.
__sr_apart() { # JOB FUNCTION [ARGUMENT...]
  builtin local __sr_ended=0
  __sr_answer=
  [[ ${__sr[hung]-} != *" $1 "* ]] && __sr_has_room || builtin return 1
  __sr_substitute __sr_run_job "${@:2}" || __sr_ended=$?
  ((__sr_ended != 124)) || __sr[hung]+=" $1 "
  [[ $__sr_answer == *. ]] || ((__sr_ended)) || __sr_ended=1
  __sr_answer=${__sr_answer%.}
  while [[ $__sr_answer == *$'\n' ]]; do __sr_answer=${__sr_answer%?}; done
  builtin return "$__sr_ended"
}

# The options of a child; those of its parent do not change. A command `trap` would hide the
# parent's traps from `trap -p`: what writes in a child has to see to SIGXFSZ itself.
__sr_begin_child() {
  builtin set +aeuxvfkmETC
  builtin unset -f exec 2>&- # of the service
  __sr_xfsz=child
}

# In bash 5.2 a handler that runs while bash parses `$(` fails with a syntax error. Bash does not
# parse backquotes before the child exists, and shfmt would replace them, but for the quotes around.
\builtin eval '__sr_substitute() { __sr_answer=`"$@"`; }'

__sr_run_job() { # FUNCTION [ARGUMENT...]
  __sr_begin_child
  builtin local __sr_ended=0
  # Nothing of the child is shown, whatever fails. Programs get an open descriptor 2, if possible.
  \exec 2>&- || builtin exit 1
  builtin local IFS=$' \t\n' # fails where IFS is readonly
  \exec 2>/dev/null || builtin true
  "$@" </dev/null || __sr_ended=$?
  builtin printf '%s.' "$__sr_answer"
  builtin exit "$__sr_ended"
}

# Runs a function in a child, or, where there is no room for one, in this shell under the options of
# a child, and evaluates its answer, which is code.
__sr_evaluate() { # JOB FUNCTION [ARGUMENT...]
  builtin local __sr_ignores=''
  # Under `ulimit -f` even a long here-string may kill. A child cannot set a trap, see above.
  [[ ! ${__sr_limited-} || $__sr_xfsz ]] || __sr_ignores=1
  [[ ! $__sr_ignores ]] || { builtin trap '' XFSZ && __sr_xfsz=ignored; }
  __sr_apart "$@" || __sr_run_here "${@:2}" || __sr_answer=
  [[ ! $__sr_ignores ]] || { __sr_xfsz='' && builtin trap - XFSZ; }
  builtin eval "$__sr_answer"
}

__sr_run_here() { # FUNCTION [ARGUMENT...]
  if ((__sr_bash < 500)); then __sr_options=("$-"); else builtin local -; fi
  builtin set +euf
  builtin local IFS=$' \t\n' 2>&-
  "$@" 2>&-
  ((__sr_bash >= 500)) || builtin set "-${__sr_options//[!euf]/}"
}

# Whether a few more processes may be made. Where bash cannot fork, it tries for half a minute and
# then ends the service: no fork of ours is without this check. The limits are those of the control
# group and its parents, and `ulimit -u`, against all threads, which binds everybody but root.
__sr_has_room() {
  builtin local -a __sr_printed
  builtin local __sr_group='' __sr_limit='' __sr_answer=''
  [[ $- != *r* ]] || builtin return # nor can a restricted shell redirect
  __sr_printed[0]=''
  builtin mapfile -t -u 9 __sr_printed 9</proc/self/cgroup
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
  builtin mapfile -t -u 9 __sr_printed 9</proc/self/limits
  __sr_limit=${__sr_printed[7]-}
  __sr_limit=${__sr_limit#Max processes}
  __sr_limit=${__sr_limit#"${__sr_limit%%[![:blank:]]*}"}
  __sr_limit=${__sr_limit%%[[:blank:]]*}
  __sr_read_line /proc/loadavg
  __sr_answer=${__sr_answer#*/}
  [[ ${__sr_limit:-unlimited} == unlimited ]] || ((${__sr_answer%% *} + 6 <= __sr_limit))
}

# --- Sourcing ------------------------------------------------------------------------------------
__sr_resume() { # the service's options
  [[ $__sr_reading != *a* ]] || builtin set -a
  [[ $__sr_reading != *A* ]] || builtin shopt -s expand_aliases
  [[ $__sr_reading != *v* ]] || builtin set -v
  [[ $__sr_reading != *x* ]] || builtin set -x
}

# Keeps the text of the second half, 63 lines below, as this file may be another when a run fails.
[[ -f ${BASH_SOURCE[0]} ]] && # not where a pipe is sourced
  \builtin mapfile -s "$((LINENO + 60))" -u 9 __sr_late 9<"${BASH_SOURCE[0]}" &&
  [[ ${__sr_late[0]-} == '# === Second half'* ]] || __sr_late=()
__sr_late_from=0 __sr_starts='' __sr_unread=1
if ((${#__sr_late[@]})); then
  __sr_unread=''
  \builtin unset -v '__sr_late[-1]' # it would switch the service's options on
fi

__sr_bash=$((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1]))
__sr_here=0
((__sr_bash != 501)) || \builtin printf -v __sr_here '%065536d' 0

# Sourcing it again in the same run, perhaps in a subshell, starts nothing. A child process, or the
# program that this process became by `exec`, has no such variable, unless somebody exported it.
if [[ ! ${__sr_pid-} || ${__sr_pid@a} == *x* || $__sr_pid != "$BASHPID" &&
  $__sr_pid != "$$" ]]; then
  __sr_pid=$BASHPID
  \builtin declare -g +x __sr_pid
  \builtin unset -v __sr __sr_stderr
  \builtin declare -gA __sr __sr_stderr
  __sr_stderr=([_]=2 [_x]=-)
  # The service's traps, as in __sr_capture. A function without -E would not see ERR.
  __sr_xfsz='' __sr_file='' __sr_printed=() __sr_answer=
  __sr_limited='' # `ulimit -f`; matching this pattern in each call would take as long as a write
  [[ ${__sr_limits[2]-} != 'Max file size'+([[:blank:]])[0-9]* ]] || __sr_limited=1
  # Under `ulimit -f` bash prints that it cannot make the file. A function `exec` would be called.
  __sr_captures='' __sr_execs=''
  \builtin declare -F exec >/dev/null || __sr_execs=1
  [[ $EUID != 0 || $__sr_limited || ! $__sr_execs ]] || __sr_captures=1
  __sr_moved='' __sr_free='' __sr_uptime=() __sr_exit_trap=()
  if [[ ! $__sr_captures || ${BASH_COMPAT+${BASH_COMPAT@a}} == *r* ]]; then
    ((1))
  elif ((__sr_bash > 501)); then
    BASH_COMPAT=50 \builtin trap -p EXIT ERR XFSZ \
      {__sr_file}<<<0 2>&- >|"/proc/self/fd/$__sr_file" && __sr_answer='read' || ((1))
  else
    \builtin trap -p EXIT ERR XFSZ \
      {__sr_file}<<<"$__sr_here" 2>&- >|"/proc/self/fd/$__sr_file" && __sr_answer='read' || ((1))
  fi
  [[ ! $__sr_file || ! -e /proc/self/fd/$__sr_file ]] || {
    \builtin mapfile -t -u 9 __sr_printed 9<&"$__sr_file"-
  } || __sr_answer=
  [[ $__sr_answer ]] || ! __sr_has_room || {
    __sr_answer=$(\builtin trap -p EXIT ERR XFSZ && \builtin printf read) || ((1))
    __sr_printed=("${__sr_answer%read}")
  }
  __sr_starts=1
fi

# Where the text was not kept, the run starts at the end of the file, when bash has read all of it.
if [[ $__sr_starts && ! $__sr_unread ]]; then
  __sr_guarded __sr_start "${__sr_answer#"${__sr_answer%read}"}" || ((1))
  [[ ! ${__sr[err]-} ]] || \builtin trap "${__sr[err]-}" ERR || ((1))
fi

# Here bash stops reading, but under -x, which would show that, and where the text was not kept.
if [[ $__sr_reading != *x* && ${#__sr_late[@]} != 0 ]]; then
  { __sr_resume; } 2>&"${__sr_stderr[_${-//[!x]/}]-2}"
  \builtin return 0
fi

# === Second half ==================================================================================
# --- The EXIT trap of the service ----------------------------------------------------------------
# Whether a trap may end with a signal to this shell: by its text, or that of a function. A single
# word may be a function that is not yet defined.
__sr_kills_itself() { # TEXT
  builtin local -a __sr_printed
  builtin local __sr_text="$1" __sr_word="${1%%[[:space:]]*}"
  if __sr_is_function "$__sr_word"; then
    __sr_capture builtin declare -f "$__sr_word" || { __sr_has_room &&
      __sr_printed=("$(\builtin declare -f "$__sr_word")"); } || builtin return 0
    builtin printf -v __sr_text '%s\n' "$1" "${__sr_printed[@]}"
  elif [[ $1 == "$__sr_word" && $1 != : ]]; then
    builtin return 0
  fi
  [[ $__sr_text == *kill*([!$'\n'\;\|])@(\$\$|BASHPID|[[:blank:]]0)* ]]
}

# Whether an EXIT trap cannot notice that our function `exit` runs it: by the frame or the arguments
# of that function. Programs cannot notice, nor can functions of a script that has no word for
# frames. Any other command may.
__sr_is_blind() { # TEXT
  builtin local __sr_rest="$1" __sr_word=''
  [[ $1 != *\$[0-9@*#!]* && $1 != *\$\{[0-9@*#!]* && $1 != *[\`\(]* && $1 != *FUNCNAME* &&
    $1 != *BASH_* ]] || builtin return 1
  while [[ $__sr_rest ]]; do
    __sr_word=${__sr_rest%%[;&|$'\n']*}
    __sr_rest=${__sr_rest:${#__sr_word}+1}
    __sr_word=${__sr_word#"${__sr_word%%[![:blank:]]*}"}
    __sr_word=${__sr_word%%[[:blank:]]*}
    case $__sr_word in
    '' | rm | rmdir | mv | cp | cat | touch | umount | sync) ;;
    sleep | kill | wait | echo | printf | : | true) ;;
    *) [[ ${__sr[frames]-} == none ]] && __sr_is_function "$__sr_word" || builtin return 1 ;;
    esac
  done
}

__sr_is_function() { # WORD
  [[ $1 == [a-zA-Z_]*([a-zA-Z0-9_.:-]) ]] && builtin declare -F -- "$1" >/dev/null
}

# --- The function `trap` -------------------------------------------------------------------------
# Puts our command back into the EXIT trap each time that the service sets its traps, so that the
# end of the script is recorded. Without it, a script that sets its EXIT trap last ends unrecorded.
__sr_define_trap() {
  [[ ! -o posix ]] && ! builtin declare -F trap >/dev/null || builtin return 0
  trap() {
    builtin trap "$@" || builtin return "$?"
    { __sr_guarded __sr_look_at_traps tracks; } 2>&"${__sr_stderr[_${-//[!x]/}]-2}"
  }
  __sr_trap_method=tracks
}

# Whether a function `trap` can do what every `trap` in the script and in the files that it sources
# does. It can set traps for EXIT, ERR and signals. It cannot set those for DEBUG and RETURN, which
# would run for the function itself, nor remove the one for ERR without -E, as bash sets it again
# when the function returns, nor print the traps of its caller.
__sr_are_traps_plain() { # FILE DEPTH; __sr_printed, its lines
  builtin local __sr_index=-1 __sr_text='' __sr_word='' __sr_rest='' __sr_before=''
  for __sr_text in "${__sr_printed[@]}"; do
    __sr_index=$((__sr_index + 1))
    case $__sr_text in
    '#'*) builtin continue ;;
    *trap* | *eval* | *source* | *.[[:blank:]]*) __sr_text=" $__sr_text " ;;
    *) builtin continue ;;
    esac
    [[ $__sr_text != *([[:blank:]])\#* ]] || builtin continue
    ((${#__sr_text} <= 4096)) || builtin return 1 # patterns would take seconds
    for __sr_word in trap eval source .; do
      __sr_rest=
      [[ $__sr_text != *"$__sr_word"* ]] || __sr_rest=$__sr_text
      while [[ $__sr_rest == *[!a-zA-Z0-9_./-]"$__sr_word"[!a-zA-Z0-9_-]* ]]; do
        __sr_before=${__sr_rest%%[!a-zA-Z0-9_./-]"$__sr_word"[!a-zA-Z0-9_-]*}
        __sr_rest=${__sr_rest:${#__sr_before}}
        __sr_before+=${__sr_rest:0:1}
        __sr_rest=${__sr_rest:${#__sr_word}+1}
        case $__sr_word in
        trap)
          __sr_before=${__sr_before%"${__sr_before##*[![:blank:]]}"}
          [[ ${__sr_before##*[[:blank:]]} != @(builtin|command|enable|type) ]] &&
            __sr_is_plain_trap "$__sr_rest" || builtin return 1
          ;;
        eval) # code that a program prints may be anything
          [[ $__sr_rest != *[\`]* && $__sr_rest != *\$'('* ]] || builtin return 1
          ;;
        *)
          [[ $__sr_rest == [[:blank:]]*[![:blank:]]* ]] && __sr_begins_command "$__sr_before" ||
            builtin continue
          __sr_is_sourced_file_plain "$__sr_rest" "$1" "$2" || builtin return 1
          ;;
        esac
      done
    done
  done
}

__sr_begins_command() { # TEXT before it in its line
  builtin local __sr_rest="${1%"${1##*[![:blank:]]}"}"
  [[ $1 != *[\'\"] ]] || { [[ $1 == *eval* ]] && builtin return 0 || builtin return 1; }
  [[ $1 == *[[:blank:]\;\&\|\(\)\{\!\`] ]] || builtin return 1
  [[ ! $__sr_rest || $__sr_rest == *[\;\&\|\(\)\{\!\`] ]] && builtin return 0
  __sr_rest=${__sr_rest##*[[:blank:]]}
  [[ $__sr_rest == *=* ||
    $__sr_rest == @(then|else|do|if|elif|while|until|time|builtin|command) ]]
}

# Whether the arguments of a command `trap` are a command and signals that a function can set.
__sr_is_plain_trap() { # TEXT after the word; the lines after it are those behind __sr_index
  builtin local __sr_rest="$1 " __sr_next="$__sr_index" __sr_word='' __sr_signals=''
  __sr_rest=${__sr_rest#"${__sr_rest%%[![:blank:]]*}"}
  [[ $__sr_rest != '-- '* ]] || __sr_rest=${__sr_rest#-- }
  [[ $__sr_rest != ?([\'\"])-[!\ ]* ]] || builtin return 1 # an option
  __sr_word=${__sr_rest%%[[:blank:]]*}
  while [[ $__sr_rest != [[:blank:]]* ]]; do
    if [[ $__sr_rest == [a-zA-Z0-9_:/.\$\{\}-]* ]]; then
      __sr_rest=${__sr_rest:1}
    elif [[ $__sr_rest == \'*\'* || $__sr_rest == \"*([!\"\\\`])\"* ]]; then
      __sr_next=${__sr_rest:0:1}$__sr_next
      __sr_rest=${__sr_rest:1}
      __sr_rest=${__sr_rest#*"${__sr_next:0:1}"}
      __sr_next=${__sr_next:1}
    elif [[ $__sr_rest == \"*([!\"\\\`])\\?* ]]; then # what is behind the escaped character
      __sr_rest=${__sr_rest#*\\}
      __sr_rest=\"${__sr_rest:1}
    elif [[ $__sr_rest == [\'\"]* && $__sr_rest != \"*\`* ]] && ((${#__sr_rest} <= 4096)); then
      __sr_next=$((__sr_next + 1))
      ((__sr_next < ${#__sr_printed[@]})) || builtin return 1
      __sr_rest+=$'\n'"${__sr_printed[__sr_next]} "
    else
      builtin return 1
    fi
  done
  __sr_next=${__sr_rest%%[!a-zA-Z0-9[:blank:]]*}
  __sr_rest=${__sr_rest:${#__sr_next}:1}
  [[ ! $__sr_rest || $__sr_rest == [\;\#\&\|\)\}\'\"] ]] && ((${#__sr_next} < 200)) ||
    builtin return 1
  __sr_signals='?(SIG)@(EXIT|ERR|HUP|INT|QUIT|ILL|TRAP|ABRT|BUS|FPE|USR[12]|SEGV|PIPE|ALRM|TERM|'
  __sr_signals+='CHLD|CONT|TSTP|TTIN|TTOU|WINCH|[0-9]|[1-5][0-9])'
  __sr_signals="+(+([[:blank:]])$__sr_signals)*([[:blank:]])"
  [[ $__sr_next == $__sr_signals ]] &&
    [[ $__sr_word != - || $- == *E* || $__sr_next != *ERR* ]]
}

# Whether the traps of a file that the script sources are plain. Its path may have the directory of
# the script, and variables that are set, or are assigned once.
__sr_is_sourced_file_plain() { # TEXT after the word, FILE that has it, DEPTH
  builtin local __sr_path='' __sr_text='' __sr_name=''
  __sr_expand_path "$1" "$2"
  while [[ $__sr_answer == *\$* ]]; do
    __sr_path=$__sr_answer
    __sr_name=${__sr_path#*\$}
    __sr_name=${__sr_name#\{}
    __sr_name=${__sr_name%%[!a-zA-Z0-9_]*}
    [[ $__sr_name == [a-zA-Z_]* ]] && __sr_read_assignment "$__sr_name" "$2" &&
      [[ $__sr_answer != *"$__sr_name"* ]] || builtin return 1
    __sr_path=${__sr_path//"\${$__sr_name}"/"\$$__sr_name"}
    __sr_answer=${__sr_path/"\$$__sr_name"/"$__sr_answer"}
    ((${#__sr_answer} <= 4096)) || builtin return 1
  done
  __sr_path=$__sr_answer
  [[ $__sr_path == */* && $__sr_path != *[\`\(\<\*\?[~\{]* ]] || builtin return 1
  [[ ! $__sr_path -ef ${BASH_SOURCE[0]} && $__sr_seen != *"=$__sr_path="* ]] || builtin return 0
  [[ -e $__sr_path || $__sr_path != /etc/* ]] || builtin return 0 # configuration that is not there
  (($3 > 0 && ${#__sr_seen} < 1000)) &&
    [[ -f $__sr_path && -r $__sr_path ]] &&
    [[ $__sr_path == /* || ${__sr_printed[*]} != *@(cd|pushd)[[:blank:]]* ]] || builtin return 1
  __sr_seen+="=$__sr_path="
  builtin read -r -N 32769 -u 9 __sr_text 9<"$__sr_path"
  ((${#__sr_text} <= 32768)) || builtin return 1
  builtin local -a __sr_printed
  __sr_printed[0]=''
  builtin mapfile -t -u 9 __sr_printed 9<"$__sr_path"
  __sr_are_traps_plain "$__sr_path" "$(($3 - 1))"
}

# Sets __sr_answer to the first word of a text without its quotes. The usual commands that print the
# directory of the script are replaced by the directory.
__sr_expand_path() { # TEXT FILE
  builtin local __sr_here=. __sr_form='' __sr_changes='*$(cd *pwd*)*' __sr_rest=''
  __sr_answer=${1//[\"\']/}
  __sr_answer=${__sr_answer//'$( '/'$('} __sr_answer=${__sr_answer//' )'/')'}
  __sr_answer=${__sr_answer//'dirname -- '/'dirname '}
  [[ $0 != */* ]] || __sr_here=${0%/*}
  for __sr_form in 0 BASH_SOURCE 'BASH_SOURCE[0]'; do
    [[ $__sr_form == 0 ]] || __sr_here=${2%/*}
    __sr_answer=${__sr_answer//"\${$__sr_form%/*}"/"$__sr_here"}
    __sr_answer=${__sr_answer//"\${$__sr_form}"/"\$$__sr_form"}
    __sr_answer=${__sr_answer//"\$(dirname \$$__sr_form)"/"$__sr_here"}
    __sr_answer=${__sr_answer//"\`dirname \$$__sr_form\`"/"$__sr_here"}
  done
  while [[ $__sr_answer == $__sr_changes ]]; do # the directory to which it changes
    __sr_form=${__sr_answer%%'$(cd '*}
    __sr_rest=${__sr_answer#*'$(cd '}
    __sr_answer=${__sr_rest#*pwd}
    __sr_rest=${__sr_rest#-P }
    __sr_answer=$__sr_form${__sr_rest%%[[:blank:]\;\&]*}${__sr_answer#*\)}
  done
  __sr_answer=${__sr_answer#"${__sr_answer%%[![:blank:]]*}"}
  __sr_answer=${__sr_answer%%[[:blank:]\;\&\|\)]*}
}

# Sets __sr_answer to the value of a variable: its present one, or else that of the only assignment.
__sr_read_assignment() { # NAME FILE
  builtin local __sr_line='' __sr_text='' __sr_value="${!1-}"
  for __sr_line in "${__sr_printed[@]}"; do
    [[ " $__sr_line" == *[[:blank:]\;]"$1"=* && $__sr_line != *([[:blank:]])\#* ]] ||
      builtin continue
    [[ ! $__sr_text && ${#__sr_line} -le 4096 ]] || builtin return 1
    __sr_text=" ${__sr_line#*"$1"=}"
  done
  __sr_answer=$__sr_value
  [[ $__sr_value || ! $__sr_text ]] || __sr_expand_path "$__sr_text" "$2"
  [[ $__sr_answer ]]
}

# --- Misuse and failures -------------------------------------------------------------------------
__sr_begin_command() { # KIND MEMBER COMMAND
  __sr_shorten "$3"
  __sr[kind]=$1 __sr_run_command=",\"$2\":\"$__sr_answer\""
}

__sr_mend_start() { # [NAME]
  [[ ! ${__sr_open_stage-} ]] || __sr_end_open_stage "${1:-unnamed}"
  [[ ${1-} ]] || __sr_note 'record_service_stage_start has no stage name; recorded as "unnamed"'
}

__sr_end_no_stage() { # RESULT [MEMBERS]
  builtin local __sr_members="${2-}"
  __sr_note 'no stage is open; recorded as the end of a stage without a name'
  [[ $__sr_members == *'"errorMessage":'* ]] ||
    __sr_members=',"errorMessage":"no stage was open"'$__sr_members
  __sr_append 'stage end' "$1" "$__sr_members"
}

__sr_note() { # TEXT; for __sr_tell, with the place of the service's call
  builtin local __sr_members=''
  __sr_describe call ''
  __sr_answer=${__sr_place:+"${__sr_place#* * }:${__sr_place%% *}"}
  __sr_notice="service-record: ${__sr_answer:-$0}: $1"
}

__sr_end_open_stage() { # NAME of the next one
  builtin local __sr_members=''
  __sr_describe call "not ended before stage \"$1\" started"
  __sr_answer=${__sr_place:+"${__sr_place#* * }:${__sr_place%% *}"}
  __sr_notice="service-record: ${__sr_answer:-$0}: stage \"${__sr_open_stage-}\" was still open"
  __sr_notice+=" when stage \"$1\" started; recorded as failed"
  __sr_append 'stage end' failure "$__sr_members"
  __sr_sync
}

# Sets __sr_members, the JSON members of a failure, and __sr_place. A `call` has the place of the
# service's call, and the given message, or else the journal's.
__sr_describe() { # call [MESSAGE] | failure STATUS COMMAND
  __sr_place=
  __sr_evaluate failure __sr_print_members "$@"
}

__sr_print_members() { # as __sr_describe; the answer is code
  builtin local LC_ALL=C __sr_command='' __sr_facts='' __sr_entry='' __sr_members=''
  builtin local __sr_message="${2-}" __sr_head=''
  [[ $1 == call ]] || __sr_command=$3 __sr_facts=",\"exitCode\":$2" __sr_message=
  __sr_locate "$@"
  if [[ $1 == failure ]]; then
    [[ $__sr_command != *__sr_* ]] || __sr_command='' # a handler failed within our code
    __sr_escape_part "$__sr_command" 200 400
    __sr_facts+=${__sr_answer:+",\"command\":\"$__sr_answer\""}
  fi
  __sr_facts+=$__sr_stack
  if [[ $1 == failure || $# == 1 ]]; then
    __sr_read_journal
    __sr_message=$__sr_answer
  fi
  # Room for the members that come before these in the longest entry.
  builtin printf -v __sr_entry '%*s' "$((130 + ${#__sr_run_command} + ${#__sr_open_stage}))" ''
  __sr_head=${#__sr_entry}
  __sr_explain "$__sr_place" "$__sr_message"
  __sr_members=${__sr_entry:__sr_head}$__sr_facts
  builtin printf -v __sr_answer '__sr_members=%q __sr_place=%q __sr[hung]=%q' \
    "$__sr_members" "$__sr_place" "${__sr[hung]-}"
}

# Where the service called us, or where it failed: __sr_place, as errorLine has it, and __sr_stack,
# the members that go with it. Another file of this version finds that. Without it, a failure has
# the line that ERR or `exit` noted, as approximate, and a call has none.
__sr_locate() { # call, or failure STATUS COMMAND; this one may set __sr_command
  builtin local -a __sr_printed
  __sr_printed=() __sr_place='' __sr_stack=''
  __sr_answer=${__sr[home]-}service-record-failure.sh
  [[ -f $__sr_answer ]] ||
    __sr_answer=${__sr[home]-}../share/service-record/service-record-failure.sh
  if ! builtin declare -F __sr_find >/dev/null && [[ -f $__sr_answer ]]; then
    builtin mapfile -n 1000 __sr_printed <"$__sr_answer"
    [[ ${__sr_printed[0]-} != *': service-record 0.2.0'$'\n' ||
      ${__sr_printed[*]: -1} != '# End.'$'\n' ]] ||
      __sr_parse __sr_printed 0
  fi
  if builtin declare -F __sr_find >/dev/null; then
    __sr_find "$@"
  elif [[ $1 == failure && ${__sr[exit_line]-}${__sr[err_ends]-} ]]; then
    __sr_place="${__sr[err_line]-} ${__sr_err_functions[0]-main} ${__sr_err_files[0]-}"
    [[ ! ${__sr[exit_line]-} ]] ||
      __sr_place="${__sr[exit_line]-} ${__sr_exit_functions[0]-main} ${__sr_exit_files[0]-}"
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

# --- Rare endings --------------------------------------------------------------------------------
# Bash's own copies are closed at exec. A handler's descriptor that took such a number is not.
__sr_restore_descriptors() {
  ! __sr_is_copy "${__sr_moved% *}" || \exec 2>&"${__sr_moved% *}"
  ! __sr_is_copy "${__sr_moved#* }" || \exec >&"${__sr_moved#* }"
  __sr_moved=
}

__sr_is_copy() { # DESCRIPTOR
  builtin local -a __sr_printed
  __sr_printed[0]=''
  [[ ! -r /proc/self/fdinfo/$1 ]] || builtin mapfile -t -u 9 __sr_printed 9<"/proc/self/fdinfo/$1"
  [[ ${__sr_printed[1]-} == flags:*[2367]?????? ]] # O_CLOEXEC is octal 2000000
}

# Before bash 5.2 a failing `exec` with an EXIT trap has the shell end with 0. With no trap but
# ours, it shall end with the status that it would have without: 126 for a file that cannot be run,
# or 127.
__sr_read_exec() { # COMMAND; sets __sr_ended
  builtin local __sr_word="${1#exec }" __sr_path="${PATH-}:"
  ! builtin shopt -q execfail || builtin return 0
  while [[ $__sr_word == -* ]]; do
    [[ $__sr_word != -*a\ * ]] || __sr_word="- ${__sr_word#* * }"
    __sr_word=${__sr_word#* }
  done
  # Only redirections: the shell goes on after them.
  [[ $__sr_word != @(*([0-9])|\{*([!\}])\})?(\&)[\<\>]* ]] || builtin return 0
  __sr_word=${__sr_word%%[[:blank:]]*}
  __sr_ended=127
  __sr_word=${__sr_word#\"} __sr_word=${__sr_word%\"}
  [[ $__sr_word != \$?(\{)[a-zA-Z_]*([a-zA-Z0-9_])?(\}) ]] || {
    __sr_word=${__sr_word#\$} __sr_word=${__sr_word#\{} __sr_word=${__sr_word%\}}
    __sr_word=${!__sr_word-}
  }
  if [[ $__sr_word == */* ]]; then
    [[ ! -e $__sr_word ]] || __sr_ended=126
  else
    for (( ; ${#__sr_path}; )); do
      [[ ! -f ${__sr_path%%:*}/$__sr_word ]] || __sr_ended=126
      __sr_path=${__sr_path#*:}
    done
  fi
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

__sr_replace_invalid_utf8() { # with U+FFFD; table 3-7 of the Unicode standard lists the valid forms
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

# Escapes a name or a command and cuts it to 255 bytes. This runs in a child, which may change its
# locale.
__sr_shorten() { # TEXT
  __sr_apart text __sr_escape_part "$1" 255 510 || __sr_run_here __sr_escape_part "$1" 255 510
}

__sr_clean_name() { # __sr_answer, which no file name may be
  builtin local __sr_name="$__sr_answer"
  __sr_apart name __sr_replace_characters "$__sr_name" ||
    __sr_run_here __sr_replace_characters "$__sr_name"
}

__sr_replace_characters() { # NAME
  builtin local LC_ALL=C
  __sr_answer=${1//[.\/[:cntrl:]]/_} __sr_answer=${__sr_answer:0:200}
  __sr_answer=${__sr_answer:-unknown} __sr_answer=${__sr_answer/#-/_}
}

# Escapes a text. A text that is too long loses its end; with `end`, its beginning, and then a mark
# is put in front and __sr_truncated is set. Each turn of the loop cuts in proportion to the excess,
# so a few turns are enough.
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
  __sr_room=$((4096 - ${#__sr_entry} - ${#__sr_facts} - ${#__sr_identity} - ${#__sr_more} - 99))
  __sr_escape_part "$2" "$__sr_room" "$__sr_room" end
  __sr_entry+=",\"errorMessage\":\"$__sr_answer\""
  [[ $__sr_facts == *',"truncated":true' ]] || __sr_facts+=$__sr_truncated
}

# --- The array layout ----------------------------------------------------------------------------
# Whether the entry is in the record although its write failed: only text after it may be missing.
__sr_is_written() {
  [[ -f ${__sr_record-} && ! -L ${__sr_record-} ]] &&
    __sr_apart tail __sr_run 2 tail -c 8192 -- "${__sr_record-}" &&
    [[ $__sr_answer$'\n' == *"$__sr_entry"[$' \n']* ]]
}

# Appends the entry to the array, which is valid JSON at every moment. Under a lock on descriptor 3,
# one write replaces the closing bracket with the entry and a new bracket. The lock ends with the
# process that holds it. The space for the entry, and 1024 blanks more, is allocated before that
# write: so a full disk cannot tear an entry, and a reader sees at most additional blanks.
# Prints the end of the entry. The next append searches from there, or else the last 8 KiB.
__sr_put_in_array() {
  builtin trap '' XFSZ
  __sr_put_in_file 3<>"${__sr_record-}"
}

__sr_put_in_file() { # descriptor 3
  builtin local LC_ALL=C __sr_from="${__sr[array_end]-}"
  __sr_replace_bracket 4</proc/self/fd/3 5<>/proc/self/fd/3
  { __sr_run 2 tail -c 1 <&4 && __sr_read_position 4; } 4</proc/self/fd/3 || builtin return "$?"
  __sr_from=$((__sr_answer > 8192 ? __sr_answer - 8192 : 0))
  __sr_replace_bracket 4</proc/self/fd/3 5<>/proc/self/fd/3
}

__sr_replace_bracket() { # ends the subshell, or returns where there is no bracket to replace
  builtin local __sr_text='' __sr_size=0 __sr_until=0 __sr_bracket=0 __sr_joint='[' __sr_new=''
  __sr_run 3 flock -w 2 3 || builtin exit
  __sr_find_bracket || builtin return "$?"
  # This overwrites everything up to the old bracket. Bash writes up to 4096 bytes at once.
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

# Moves descriptor 4, for reading, and descriptor 5, for writing, to the end of the last entry. Bash
# can only do that by reading, which is cheaper than dd for short distances. The callers compare the
# positions afterwards.
__sr_seek() {
  builtin local __sr_to=5
  if ((__sr_from > 32768)) || [[ -o posix ]]; then
    __sr_run 5 dd bs=1 count=0 skip="$__sr_from" seek="$__sr_from" status=none <&4
  elif ((__sr_from)); then
    builtin read -r -N "$__sr_from" __sr_text <&4 && builtin read -r -N "$__sr_from" __sr_text <&5
  fi
}

# Sets __sr_until, the end of the last entry, and __sr_joint, the text between that and the next
# entry. The closing bracket must be alone on its line, as it may otherwise be part of a torn text.
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

# Appends white space up to a multiple of 1024 bytes. Each disk sector ends with a newline: if a
# power loss leaves such a sector between parts of two entries, the parts do not join to a third.
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

# --- Programs with a time limit ------------------------------------------------------------------
# Runs a program in the subshell of __sr_apart, and sets __sr_answer to its output. After SECONDS
# the program is killed, and the subshell ends with 124. It does not wait for the program, as even
# SIGKILL does not end one that hangs in NFS. The program holds the pipe on descriptor 7 until it
# ends.
__sr_run() { # SECONDS PROGRAM [ARGUMENT...]
  # it need not load any other
  [[ $2 == journalctl ]] || builtin local -x PATH=/usr/bin:/bin LC_ALL=C
  __sr_answer=
  builtin shopt -s lastpipe # only here: __sr_find looks at the service's setting
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

# --- Where the text was not kept -----------------------------------------------------------------
if [[ $__sr_starts && $__sr_unread ]]; then
  __sr_unread=''
  __sr_guarded __sr_start "${__sr_answer#"${__sr_answer%read}"}" || ((1))
  [[ ! ${__sr[err]-} ]] || \builtin trap "${__sr[err]-}" ERR || ((1))
fi
{ __sr_resume; } 2>&"${__sr_stderr[_${-//[!x]/}]-2}" || \builtin true
