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
      { ((${BASH_ALIASES[@]+1}0)) || {
        \builtin unalias __sr_reading __sr_expanding 2>&-
        ((0))
      }; } &&
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
# docs/shell*.md describe its use and guarantees, docs/record-format.md the format. Contents:
#   The public API
#   How our code runs inside the service
#   Stages
#   Start: the state of a run
#   Entries
#   Traps, and the function `exit`
#   The end of the service
#   Child processes
#   Sourcing
# Bash parses the following sections only when a run needs them (see __sr_load). The part `traps`:
#   The EXIT trap of the service
#   The function `trap`
# The part `failures`:
#   Misuse and failures
#   Rare endings
#   Text as JSON
# The part `files`:
#   The array layout
#   Programs with a time limit
#   Where the text was not kept
# service-record-failure.sh finds the line of a failure (see __sr_locate).
#
# This code runs in the shell of the service. If anything fails here, the service must continue, and
# its status, traps, options, output and descriptors must not change. These are the rules for code
# that runs in the service's shell:
#
# - All names begin with __sr_. Builtins are called by `builtin`, because the service may define
#   functions with their names.
# - Only single builtins are redirected, and neither options nor IFS are changed. Bash runs a signal
#   handler of the service between any two commands, including ours. The handler would see our
#   redirections and options, and its own changes would be lost when we restore them. Code that
#   needs other options runs in a child process (see __sr_apart).
# - `2>&-` hides the messages of a builtin. It opens no file, so /dev/null may be missing.
# - The code works under all options. Each call is the left side of `||`: there, `set -e` and ERR
#   traps do not apply to our code, but still to a handler. Expansions have defaults, because of
#   `set -u`. Every local variable is assigned, because of `shopt -s localvar_inherit`.
# - `[[ -o errexit ]]` tests an option. Under `nocasematch` the pattern *e* also matches -E.
# - Conditions are true in the usual case, because a handler sees their status in `$?`.
# - `return` always has a status: in a trap, `return` alone returns the status of the service's last
#   command.
# - Functions return text in __sr_answer, because a command substitution needs a process.
# - `name[0]=''` is used instead of `name=()`, which runs bash's parser. That is slower, and the
#   parser prints which jobs of the service died of a signal. A shell that is dying of the same
#   signal would not print this without us.
#
# The group of commands at the beginning of the file checks whether this code can run in the
# service's shell. If the check fails, nothing is recorded. It fails if
#
# - bash is older than 4.4;
# - FUNCNEST is too low;
# - variables with our names are readonly;
# - `builtin` is a function, or a builtin that we need is disabled;
# - /proc is missing;
# - the service has unset BASH_ALIASES, which has no special meaning afterwards;
# - fewer than 20 descriptors may be open. To redirect, bash moves descriptors to 10 and above, so
#   it could not redirect anything. Reading the limit (in columns 27 to 46 of its line) moves no
#   descriptor if descriptor 3 is free.
#
# Reasons for the form of these lines:
#
# - Under `set -x` bash would print them. So the redirection of the group closes descriptor 2 under
#   `set -x`, and otherwise redirects it to itself, which does nothing. The word after `2>&` sets
#   $_ to -2 and takes the `-` or the `2` from it: 0${-//[!x]/}10 is 0x10 if $- contains an x,
#   otherwise 010. Every other way to choose prints something or needs a variable of the service.
# - Aliases and `set -v` take effect while bash reads a file, and `set -a` exports functions. The
#   group switches them off. The alias __sr_reading keeps the service's options until later, because
#   an alias changes no variable and no function of the service.
# - Keywords may be aliases, so the group uses none.
# - The lines of /proc/self/limits go into COMPREPLY, an array that only completion functions use.
[[ ${BASH_ALIASES[*]+set} && ${BASH_ALIASES[__sr_reading]+set} ]] || {
  record_service_stage_start() { \return 0; }
  record_service_stage_success() { \return 0; }
  record_service_stage_failure() { \return 0; }
  \return 0
}
__sr_reading=${BASH_ALIASES[__sr_reading]}
__sr_limits=("${COMPREPLY[@]}")
\builtin unset -v COMPREPLY
\builtin unalias __sr_reading
! \builtin unalias __sr_expanding 2>&- || __sr_reading+=@
\builtin unset -f __sr_are_writable __sr_are_enabled

# --- The public API ------------------------------------------------------------------------------
# The first command of each function switches off options of the service (see __sr_quieten), the
# last one sets them again. Under -x bash would print the first one. So it runs without descriptor
# 2: the word after `2>&` is `-` if $- contains an x, otherwise 2. Not a function, and no local
# variable in the usual case: this is the hot path. __sr_off is not empty if a handler calls one of
# these functions while another call has switched off options.
record_service_stage_start() { # NAME
  { [[ $-${__sr_off:+x} != *[akvxT]* ]] || { builtin local __sr_off && __sr_quieten; }; } \
    2>&"${__sr_stderr[_${-//[!x]/}]-2}"
  [[ ! ${__sr_pid-} ]] || __sr_start_stage ${1+"${1:0:1024}"} || builtin true
  [[ ! ${__sr_off-} ]] || builtin set "-$__sr_off"
}

record_service_stage_success() {
  { [[ $-${__sr_off:+x} != *[akvxT]* ]] || { builtin local __sr_off && __sr_quieten; }; } \
    2>&"${__sr_stderr[_${-//[!x]/}]-2}"
  [[ ! ${__sr_pid-} ]] || __sr_end_stage success || builtin true
  [[ ! ${__sr_off-} ]] || builtin set "-$__sr_off"
}

record_service_stage_failure() {
  { [[ $-${__sr_off:+x} != *[akvxT]* ]] || { builtin local __sr_off && __sr_quieten; }; } \
    2>&"${__sr_stderr[_${-//[!x]/}]-2}"
  [[ ! ${__sr_pid-} ]] || __sr_fail_stage || builtin true
  [[ ! ${__sr_off-} ]] || builtin set "-$__sr_off"
}

# --- How our code runs inside the service --------------------------------------------------------
# Switches off the options under which our code cannot run, and saves them in __sr_off. Few services
# use them. Under -k `local` ignores assignments, under -a our variables would be exported, under -T
# a DEBUG trap would run for our commands. `local -` is not used instead: in bash 4.4 it resets
# expand_aliases and sourcepath at its end.
__sr_quieten() {
  __sr_off=${-//[!akvxT]/}
  [[ ! $__sr_off ]] || builtin set "+$__sr_off"
}

# Runs a function from a trap, or from `exit`. Under -x the caller has closed descriptor 2.
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

# Returns 0 if bash can redirect. Otherwise bash would print an error message. A script that uses
# `ulimit` may have lowered the limit of descriptors.
__sr_can_redirect() {
  builtin local -a __sr_printed
  __sr_printed[0]=''
  [[ -e /proc/self/fd/3 ]] || builtin mapfile -t -u 3 __sr_printed 3</proc/self/limits
  [[ ${__sr_printed[8]-} != 'Max open files'+([[:blank:]])?(1)[0-9][[:blank:]]* ]]
}

# Parses a part of the second half of this file, unless it has been parsed. Parsing all of it would
# take more than two milliseconds.
__sr_load() { # traps | failures | files
  [[ ${__sr_unparsed-} == *" $1="* ]] || builtin return 0
  builtin local __sr_extent="${__sr_unparsed##*" $1="}" # FIRST,NUMBER
  __sr_extent=${__sr_extent%% *}
  __sr_parse __sr_late "${__sr_extent%,*}" "${__sr_extent#*,}"
  __sr_unparsed=${__sr_unparsed/" $1=$__sr_extent"/}
}

# Parses NUMBER lines of an array, from the index FIRST. Each line ends with a newline. Bash joins a
# whole array twice as fast as a part of it, and both much faster than it expands "${lines[@]}".
__sr_parse() { # ARRAY FIRST [NUMBER]
  builtin local -n __sr_lines_to_parse="$1"
  builtin local __sr_text='' __sr_aliases='' __sr_number="${3-${#__sr_lines_to_parse[@]}}"
  if [[ ${IFS+set} && $IFS != [[:blank:]]* ]]; then # "${name[*]}" inserts its first character
    builtin printf -v __sr_text '%s' "${__sr_lines_to_parse[@]:$2:__sr_number}"
  elif (($2 == 0 && $# == 2)); then
    __sr_text=${__sr_lines_to_parse[*]}
  else
    __sr_text=${__sr_lines_to_parse[*]:$2:__sr_number}
  fi
  ! builtin shopt -q expand_aliases || __sr_aliases=on # eval would expand them
  [[ ! $__sr_aliases ]] || builtin shopt -u expand_aliases
  builtin eval "$__sr_text"
  [[ ! $__sr_aliases ]] || builtin shopt -s expand_aliases
}

# --- Stages --------------------------------------------------------------------------------------
__sr_start_stage() { # [NAME]
  __sr_answer=${1-}
  [[ $__sr_answer && ! ${__sr_open_stage-}${__sr_ulimit-} &&
    $__sr_answer != *[!a-zA-Z0-9_\ ./:-]* && ${#__sr_answer} -lt 255 ]] ||
    { __sr_load failures && __sr_prepare_start "$@"; } || builtin return 0
  __sr_append 'stage start' '' ",\"stage\":\"$__sr_answer\""
  [[ ! ${__sr_notice-} && (${__sr_trap_method-} != looks ||
    ${__sr_exit_trap-} == "$__sr_hook_shown"*) ]] || __sr_finish_call
}

# Runs after an entry of a stage if the EXIT trap may be new, or there is a message to print.
__sr_finish_call() {
  __sr_look_at_traps
  [[ ! ${__sr_notice-} ]] || __sr_tell
}

__sr_end_stage() { # RESULT [MEMBERS]
  [[ ! ${__sr_ulimit-} ]] || __sr_can_redirect || builtin return 0
  if [[ ${__sr_open_stage-} ]]; then
    __sr_append 'stage end' ",\"result\":\"$1\"${2-}"
  else
    __sr_load failures && __sr_end_no_stage "$@"
  fi
  [[ $1 == success ]] || __sr_sync
  [[ ! ${__sr_notice-} && (${__sr_trap_method-} != looks ||
    ${__sr_exit_trap-} == "$__sr_hook_shown"*) ]] || __sr_finish_call
}

__sr_fail_stage() { # the recorded line is that of the call, since the service handled the failure
  [[ ! ${__sr_ulimit-} ]] || __sr_can_redirect || builtin return 0
  builtin local __sr_members=''
  __sr_load failures
  __sr_describe call
  __sr_end_stage failure "$__sr_members"
}

# --- Start: the state of a run -------------------------------------------------------------------
__sr_start() { # [read]; with `read`, __sr_printed contains the service's traps
  __sr_begin
  __sr_define_exit
  __sr_choose_trap_method "${BASH_SOURCE[@]: -1}" "${BASH_LINENO[@]: -2:1}"
  [[ ! $1 ]] || { __sr_parse_traps && __sr_adopt_traps; }
  __sr_more=',"recorder":"bash/0.2.0"'
  __sr_append "${__sr[kind]-} start"
}

__sr_begin() { # initializes the state; texts for entries are stored as JSON
  # The first output of a shell sets the size of libc's buffer, and so of one write, to the
  # st_blksize of the output file: here 4096. If the first output went to a record on a disk with
  # blocks of 1 KiB, each entry would need several writes.
  builtin printf '\n' 2>&- >/dev/null
  builtin unset -v __sr
  builtin declare -gA __sr
  # ended: empty; 1: the end is recorded; `later`: it is recorded after the service's own commands
  #   in its EXIT trap
  # array_end: where the next search for the end of an array begins, in bytes
  # hung: the jobs that were killed once (see __sr_apart)
  # own: the service's own commands in the EXIT trap; ends_trap: our command after them, or empty
  # held: whether SIGTERM is delayed (see __sr_hold_term)
  # frames: `none` if no code of the script can see the frames of our functions
  # options: the service's options at its end
  # sees_exit: 1 if our function `exit` is defined; exit_line, exit_command: of its last call
  # err: the text of the ERR trap; err_line, err_command, err_pipe, err_status: of the last failed
  #   command; err_ends: 1 if errexit ended the shell at it
  __sr=(
    [kind]=service [ended]='' [dropped]=0
    [layout]="${SERVICE_RECORDS_LAYOUT-}" [array_end]=0
    [sync]="${SERVICE_RECORDS_SYNC-}" [hung]=''
    [own]='' [ends_trap]='' [held]='' [frames]=''
    [directory]="${PWD-}" [options]=''
    [home]="${BASH_SOURCE[0]%"${BASH_SOURCE[0]##*/}"}" # the directory of this file
    [sees_exit]='' [exit_line]='' [exit_command]=''
    [err]='' [err_ends]='' [err_command]='' [err_pipe]=''
  )
  # State that each entry reads is not in the array: an element takes three times as long to read.
  __sr_open_stage='' # the JSON member `stage` of the open stage
  __sr_run_command='' __sr_notice=''
  __sr_earlier_time='' __sr_earlier_uptime='' # set by service-record-close.sh for a past event
  __sr_minute=-1 __sr_clock='' __sr_zone=''
  __sr_more='' # members of the next entry only
  __sr_torn=1  # the last line of the file may be incomplete
  __sr_trap_method=looks __sr_ulimit='' __sr_umask=''
  [[ ${__sr[home]-} == /* ]] || __sr[home]=${PWD-}/${__sr[home]-}
  # The commands before and after the service's own commands in the EXIT trap.
  __sr_answer=' 2>&"${__sr_stderr[_${-//[!x]/}]-2}"'
  __sr_hook_shown="trap -- '{ __sr_guarded __sr_on_exit " # the first words of `trap -p EXIT`
  __sr[hook]='{ __sr_guarded __sr_on_exit "$?" "${BASH_COMMAND-}" "$-"; }'$__sr_answer
  __sr[hook]+=" && { \\builtin true; }$__sr_answer; "
  __sr[tail]=$'\n'"{ __sr_guarded __sr_after_exit; }$__sr_answer"
  __sr_choose_path
  __sr_record=$__sr_answer
  __sr_read_line /proc/sys/kernel/random/boot_id # without dashes, as in journalctl
  __sr_identity=${__sr_answer:+",\"bootId\":\"${__sr_answer//-/}\""}
  __sr_answer=${INVOCATION_ID-}
  [[ ${#__sr_answer} != 32 || $__sr_answer == *[!0-9a-f]* ]] ||
    __sr_identity+=",\"invocationId\":\"$__sr_answer\""
  __sr_identity+=",\"pid\":$__sr_pid"
  if [[ ${PRE_COMMAND-} ]]; then
    __sr_load failures && __sr_begin_command pre-command preCommand "$PRE_COMMAND"
  elif [[ ${POST_COMMAND-} ]]; then
    __sr_load failures && __sr_begin_command post-command postCommand "$POST_COMMAND"
  fi
}

__sr_read_line() { # FILE; sets __sr_answer to its first line
  builtin local -a __sr_printed
  __sr_printed[0]=''
  [[ ! -r $1 ]] || builtin mapfile -t -n 1 -u 9 __sr_printed 9<"$1"
  __sr_answer=${__sr_printed[0]-}
}

__sr_read_position() { # DESCRIPTOR
  __sr_read_line "/proc/self/fdinfo/$1"
  __sr_answer=${__sr_answer##*[!0-9]}
}

# Sets __sr_answer to the path of the record. A service that cannot write its record uses a file in
# the inbox. After its end, the exit helper moves the entries to the record.
__sr_choose_path() {
  builtin local __sr_directory="${SERVICE_RECORDS_DIR:-/var/log/openshift}"
  [[ $__sr_directory == /* ]] || __sr_directory=${PWD-}/$__sr_directory
  ((${#__sr_directory} < 4096)) || __sr_directory=/dev/null # no file can have such a path
  __sr_choose_name
  if [[ -w ${SERVICE_RECORDS_INBOX-} ]] && __sr_needs_inbox "$__sr_directory"; then
    __sr_directory=$SERVICE_RECORDS_INBOX
    __sr_answer+=.${INVOCATION_ID-} # so that the exit helper finds it
  fi
  __sr_answer=${__sr_directory%/}/$__sr_answer.json
}

# Returns 0 if this service cannot write its record, named __sr_answer, to the directory, or if the
# directory is not the one that the host sees: under TemporaryFileSystem=/var, entries would be lost
# at the end of the service. Only root can see the mounts of the host, in /proc/1/root. Root creates
# a missing directory, other users leave that to the exit helper.
__sr_needs_inbox() { # DIRECTORY
  builtin local __sr_above="$1"
  [[ ! -e /proc/1/root$1 || $1 -ef /proc/1/root$1 ]] || builtin return 0
  while [[ $EUID == 0 && $__sr_above && ! -e $__sr_above ]]; do __sr_above=${__sr_above%/*}; done
  [[ ! -w $1/$__sr_answer.json && ! -w ${__sr_above:-/} ]]
}

# Sets __sr_answer to the name of the record: $SERVICE_NAME, or the unit, or the script. Upstream's
# reader accepts only file names without a dot.
__sr_choose_name() {
  __sr_read_unit
  [[ $__sr_answer ]] ||
    __sr_answer=${0##*/} __sr_answer=${__sr_answer%.sh} __sr_answer=${__sr_answer%.bash}
  __sr_answer=${SERVICE_NAME:-$__sr_answer}
  ((${#__sr_answer} <= 4096)) || __sr_answer=${__sr_answer: -4096} # `##*/` is slow for a long text
  __sr_answer=${__sr_answer##*/} __sr_answer=${__sr_answer%.service}
  [[ $__sr_answer && ${#__sr_answer} -le 200 && $__sr_answer != -* &&
    $__sr_answer != *[!a-zA-Z0-9_:@\\-]* ]] || { __sr_load failures && __sr_clean_name; }
}

# Sets __sr_answer to the systemd service, with `.service`: the innermost part of the control group
# that is a service. A scope is a login session or a container, so the search ends there.
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
      *.service) builtin return 0 ;;
      esac
      __sr_group=${__sr_group%/*}
    done
  done
  __sr_answer=
}

# --- Entries -------------------------------------------------------------------------------------
# Appends an entry: one line of at most 4096 bytes with its newlines, which bash writes at once (see
# __sr_begin). The file is opened for each entry, so that it may be removed or rotated at any time.
# MEMBERS, STAGE and __sr_more are JSON members.
#
# This is the hot path: each command takes 2 us, bash copies the whole text of a function for each
# call, and it searches the local variables of all callers for each name. Therefore rare cases are
# separate functions, the variables of __sr_write are declared here, and variables that __sr_begin
# sets are expanded without a default.
__sr_append() { # PHASE [MEMBERS [STAGE]]
  # An assignment in `local` is expanded as a word, and takes several times as long as a plain one.
  builtin local __sr_time __sr_fraction __sr_stage __sr_entry __sr_head __sr_written
  __sr_stage=${3-$__sr_open_stage}
  __sr_time=${__sr_earlier_time:-${EPOCHREALTIME-}} __sr_fraction=''
  if [[ $__sr_time == *[.,]* ]]; then # a comma in some locales
    __sr_fraction=.${__sr_time: -6:3} __sr_time=${__sr_time%[.,]*}
  else
    builtin printf -v __sr_time '%(%s)T' -1 # before bash 5.0
  fi
  ((__sr_time / 60 == __sr_minute)) || __sr_format_minute "$((__sr_time / 60))"
  __sr_time=$((__sr_time % 60 + 100)) # 1SS: the seconds with a leading zero
  # Descriptor 9 is usually free. Otherwise bash must move it away and back.
  builtin mapfile -t -n 1 -u 9 __sr_uptime 9</proc/uptime || __sr_uptime[0]=''
  __sr_answer=${__sr_earlier_uptime:-${__sr_uptime[0]-}}
  __sr_entry="{\"timestamp\":\"$__sr_clock:${__sr_time:1}$__sr_fraction$__sr_zone\"\
$__sr_run_command$__sr_stage,\"phase\":\"$1\"${2-}${__sr_identity}\
${__sr_answer:+",\"uptime\":${__sr_answer%% *}"}$__sr_more}"
  # Immediately before the write: if a signal ends the shell in between, the stage is neither
  # recorded twice nor lost.
  case $1 in
  'stage start') __sr_open_stage=$__sr_stage ;;
  'stage end') __sr_open_stage='' ;;
  esac
  __sr_write
}

# Sets __sr_clock and __sr_zone: RFC 3339 in UTC or, if TZ is readonly, in local time with its
# offset. The result is used for a minute, because bash rebuilds its whole environment for each
# change of TZ.
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

# Writes __sr_entry. The caller declares __sr_head and __sr_written. SIGXFSZ is ignored meanwhile: a
# write beyond `ulimit -f` would kill the service. __sr_xfsz is not empty if that is not our task:
# the service has a trap for the signal (taken), or the caller ignores it already (ignored, child).
# __sr_moved has the descriptors to which bash moves 2 and 1 for the redirection (see
# __sr_find_free_descriptors). Sets __sr_exit_trap to the EXIT trap if the service may have set one.
__sr_write() {
  __sr_head='' __sr_written='' __sr_exit_trap[0]=''
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

# Checks the file before the first entry of a run, before an entry after a failed one, and before
# each entry in an array. Returns 1 if the entry is already written (to the array), or cannot be
# written.
__sr_prepare_file() {
  [[ -f ${__sr_record-} && ! -L ${__sr_record-} ]] || __sr_create || builtin return "$?"
  __sr_look_at_file
  [[ ! $__sr_written ]]
}

# Counts lost entries: the next entry has their number as `dropped`. Runs after each write that
# failed, or that the hot path did not make.
__sr_count_lost() {
  [[ $__sr_written != line ]] || __sr_torn=''
  [[ $__sr_written ]] || { __sr_torn=1 && __sr_load files && __sr_is_written && __sr_written=1; }
  if [[ $__sr_written ]]; then
    __sr[dropped]=0 __sr_more=''
  else
    __sr[dropped]=$((__sr[dropped] + 1))
    __sr_more=",\"dropped\":${__sr[dropped]-}"
  fi
}

# Sets __sr_exit_trap to the lines of `trap -p EXIT`, as __sr_capture would (see there). This is
# part of the hot path, so it uses the free descriptors of __sr_write, which already ignores
# SIGXFSZ. If no file can be used, __sr_exit_trap stays empty, and the caller calls
# __sr_look_at_traps.
__sr_read_exit_trap() {
  [[ ! $__sr_more && $__sr_captures && ${BASHPID-} == "${__sr_pid-}" &&
    ${BASH_COMPAT+${BASH_COMPAT@a}}${TMPDIR+${TMPDIR@a}} != *r* ]] || builtin return 0
  builtin local __sr_file='' TMPDIR=/dev/shm
  __sr_moved=${__sr_free#* }
  if ((__sr_bash <= 501)); then
    builtin trap -p EXIT {__sr_file}<<<"$__sr_here" 2>&- >|"/proc/self/fd/$__sr_file"
  else
    ! builtin shopt -q varredir_close &&
      BASH_COMPAT=50 builtin trap -p EXIT {__sr_file}<<<0 2>&- >|"/proc/self/fd/$__sr_file"
  fi && __sr_moved='' && builtin mapfile -t -u 9 __sr_exit_trap 9<&"$__sr_file"- ||
    __sr_discard_file
}

# Sets __sr_free to the first three free descriptors from 10 on. While a builtin is redirected, bash
# saves the original descriptors there. If the service dies of a signal at that moment, its EXIT
# trap runs without its own descriptors 1 and 2, and our command in that trap restores them.
__sr_find_free_descriptors() {
  builtin local __sr_number=9 __sr_count=0
  builtin local -a __sr_found
  while ((__sr_count < 3)); do
    ((__sr_number += 1))
    [[ -e /proc/self/fd/$__sr_number ]] || __sr_found[__sr_count++]=$__sr_number
  done
  __sr_free="${__sr_found[0]} ${__sr_found[1]} ${__sr_found[2]}"
}

# Sets __sr_head to the text before the entry or, if it wrote the entry to an array, __sr_written.
# An existing record keeps its layout.
__sr_look_at_file() {
  if [[ -s ${__sr_record-} ]]; then
    [[ ! -r ${__sr_record-} ]] || builtin read -r -n 1 -d '' -u 9 __sr_head 9<"${__sr_record-}"
    __sr_head=${__sr_head:-$'\n'} # bash does not show a NUL
  fi
  if [[ ${__sr_head:-${__sr[layout]-}} == @(\[|array) ]]; then
    __sr_load files
    if __sr_apart array __sr_put_in_array; then
      __sr[array_end]=$__sr_answer __sr_written=1
      builtin return 0
    fi
    # The entry may be written although the child could not report it.
    [[ ${__sr[hung]-} != *' array '* ]] && __sr_is_written && __sr_written=1 && builtin return 0
  fi
  # The last line may be incomplete, so the entry starts on a new line. An entry that cannot be
  # added to an array is written after it, as are all later ones of this run. The exit helper merges
  # them.
  __sr_head=
  [[ ! -s ${__sr_record-} ]] || __sr_head=$'\n'
}

# Creates the record if nothing has its path. Anything else there is not opened: a FIFO would block
# forever.
__sr_create() {
  [[ -e $__sr_record || -L $__sr_record || ! -d ${__sr_record%/*} && -e ${__sr_record%/*} ]] ||
    { [[ ${__sr[layout]-} != array ]] && __sr_create_here; } ||
    { __sr_load files && __sr_apart create __sr_make_file; }
  [[ -f $__sr_record && ! -L $__sr_record ]] # another process may have created it
}

# Creates an empty record without a process: a fork takes a millisecond, and more on a busy host.
# The umask sets the mode of the file, so it is changed for one command. A handler may run in these
# microseconds; if the shell ends in them, the EXIT trap restores the umask. Returns 1 if a process
# is needed: the directory is missing, or /proc does not show the umask (before Linux 4.7).
__sr_create_here() {
  builtin local -a __sr_printed
  __sr_printed[0]=''
  builtin mapfile -t -n 2 -u 9 __sr_printed 9</proc/self/status
  [[ -d ${__sr_record%/*} && ${__sr_printed[1]-} == Umask:* ]] || builtin return 1
  __sr_find_free_descriptors
  __sr_moved=${__sr_free% *} __sr_umask=${__sr_printed[1]##*[[:blank:]]}
  builtin umask 0137
  builtin true 2>&- >>"$__sr_record" || builtin true
  builtin umask "$__sr_umask"
  __sr_umask='' __sr_moved=''
}

__sr_sync() { # if configured, waits until the entries are on the disk
  [[ ${__sr[sync]-} != ends ]] || ! __sr_load files ||
    __sr_apart sync __sr_run 5 sync -- "${__sr_record-}" "${__sr_record%/*}"
}

# --- Traps, and the function `exit` --------------------------------------------------------------
__sr_on_err() { # STATUS LINE COMMAND PIPESTATUS...; before the service's own ERR trap
  if [[ ${BASHPID-} == "${__sr_pid-}" ]]; then
    if [[ ${__sr[ended]-} == later && -o errexit ]]; then
      __sr_end failure ",\"exitCode\":$1" # errexit ends the service's EXIT trap here
    fi
    __sr[err_line]=$2 __sr[err_command]=${3:0:4096} __sr[err_pipe]='' __sr[err_status]=$1
    builtin printf -v '__sr[err_pipe]' '%s ' "${@:4}"
    __sr[err_pipe]=${__sr[err_pipe]% }
    __sr_err_functions=("${FUNCNAME[@]:2}") __sr_err_files=("${BASH_SOURCE[@]:2}")
    __sr_err_lines=("$2" "${BASH_LINENO[@]:2}") __sr[err_ends]=
    [[ ! -o errexit ]] || { __sr[err_ends]=1 && __sr_look_at_traps ends; }
  fi
  builtin return "$1"
}

__sr_on_exit_call() { # STATUS [ARGUMENT...]; called by `exit`, to note the line of the call
  if [[ ${BASHPID-} == "${__sr_pid-}" && $# -le 2 && ${2-} != --* ]]; then
    if [[ ${__sr[ended]-} == later ]]; then # in the service's EXIT trap
      __sr_answer=${2-$1}
      case ${__sr_answer#[-+]} in
      '' | *[!0-9]* | ???????????????????*) __sr[ended]=1 ;; # bash refuses most of these
      *)
        [[ $__sr_answer == -* ]] && __sr_answer=$((-10#${__sr_answer#-} & 255)) ||
          __sr_answer=$((10#${__sr_answer#+} & 255))
        if [[ $__sr_answer == 0 ]]; then
          __sr_end success ',"exitCode":0'
        else
          __sr_end failure ",\"exitCode\":$__sr_answer"
        fi
        ;;
      esac
    fi
    __sr[exit_line]=${BASH_LINENO[2]-} __sr[exit_command]="exit${2+ ${2:0:4096}}"
    # Note the frames: before bash 5.2, those of eval and source are gone when the EXIT trap runs.
    __sr_exit_functions=("${FUNCNAME[@]:3}") __sr_exit_files=("${BASH_SOURCE[@]:3}")
    __sr_exit_lines=("${BASH_LINENO[@]:2}")
    __sr_look_at_traps ends
  fi
  builtin return "$1"
}

# Defines a function `exit`, unless the service has its own, or POSIX mode would ignore ours. `exit`
# without an argument needs the status of the previous command, which __sr_on_exit_call returns.
__sr_define_exit() {
  [[ ! -o posix ]] && ! builtin declare -F exit >/dev/null || builtin return 0
  exit() {
    { __sr_guarded __sr_on_exit_call "$?" "$@"; } 2>&"${__sr_stderr[_${-//[!x]/}]-2}" &&
      { builtin true; } 2>&"${__sr_stderr[_${-//[!x]/}]-2}"
    builtin exit "$@"
  }
  __sr[sees_exit]=1
}

# Adds our commands before and after the service's commands in the EXIT trap. Sets __sr[err] to the
# text of the ERR trap with our command. The caller sets that trap, because bash would reset it at
# the end of a function without -E. Our commands keep the exit status, and print nothing under -x. A
# trap that the service copied from the output of `trap -p`, with our commands, is not changed.
__sr_adopt_traps() { # reads __sr_traps
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
  __sr[err]='{ __sr_guarded __sr_on_err "$?" "${LINENO-}" "${BASH_COMMAND-}" "${PIPESTATUS[@]-}"; }'
  __sr[err]+="$__sr_answer && { \\builtin true; }$__sr_answer; $__sr_err"
  [[ ${__sr_trap_method-} != ends ]] || builtin return 0
  __sr[own]=$__sr_own
  if [[ $__sr_own ]] && ! { __sr_load traps && __sr_is_blind "$__sr_own"; }; then
    [[ ! ${__sr[sees_exit]-} ]] || builtin unset -f exit
    __sr[sees_exit]=
  fi
  # After an unfinished here-document or a backslash, our text would become part of it. Before bash
  # 5.2, a shell that kills itself in the last command of its trap ends with its exit status. If one
  # more command followed, it would die of the signal.
  if [[ ! $__sr_own || $__sr_own == *'<<'* || $__sr_own == *\\ ]] ||
    { ((__sr_bash < 502)) && __sr_kills_itself "$__sr_own"; }; then
    __sr_answer=
  else
    __sr_answer=${__sr[tail]-}
  fi
  __sr[ends_trap]=$__sr_answer
  builtin trap "${__sr[hook]-}$__sr_own$__sr_answer" EXIT
}

# Checks that the EXIT trap still begins with our command, and adds the command again if not: the
# service may set its EXIT trap at any time. (In a record call, __sr_write usually makes this
# check.)
__sr_look_at_traps() { # [ends | tracks]; ends: the shell ends now; tracks: called by `trap`
  builtin local -a __sr_printed
  [[ ${__sr_trap_method-} == looks || ${__sr_trap_method-} == "${1-looks}" ]] &&
    [[ ${BASHPID-} == "${__sr_pid-}" ]] || builtin return 0
  __sr_capture builtin trap -p EXIT
  [[ ${__sr_printed[0]-} != "$__sr_hook_shown"* ]] || builtin return 0
  [[ ${__sr_trap_method-} != ends ]] || __sr_trap_method=looks
  __sr_read_traps EXIT && __sr_adopt_traps
}

# Sets __sr_printed to the lines that a builtin prints. In the service's shell this forks no
# process: the builtin prints to the unnamed file of a here-string. Any length fits into it, while a
# pipe would fill and block. Since 5.1, bash uses a pipe for a short here-string. To get a file, the
# text is longer than a pipe's buffer in 5.1, and BASH_COMPAT is set in later versions. Only root
# may write to the file. Two commands are used instead of one redirected group, because a handler
# may run in between. It then sees only one more descriptor, above 9, on a file that nothing else
# uses.
__sr_capture() { # COMMAND [ARGUMENT...]
  builtin local __sr_ended=0
  __sr_printed[0]=''
  if ! __sr_can_capture; then
    [[ ${__sr_xfsz-} == child ]] && __sr_load failures && __sr_capture_in_child "$@"
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

# Returns 0 if __sr_capture can use a file. An assignment to a readonly variable would end the
# service; a readonly TMPDIR can be used if it is writable. `varredir_close` would close the file;
# `shopt` is faster than a search in BASHOPTS. A child of ours cannot set a trap for SIGXFSZ (see
# __sr_begin_child). Without `ulimit -f` it needs none.
__sr_can_capture() {
  [[ ${__sr_captures-} && ${BASH_COMPAT+${BASH_COMPAT@a}} != *r* ]] &&
    [[ ${TMPDIR+${TMPDIR@a}} != *r* || -w $TMPDIR ]] &&
    [[ ${__sr_xfsz-} == child && ! ${__sr_ulimit-} ||
      ${__sr_xfsz-} != child && ${BASHPID-} == "${__sr_pid-}" ]] &&
    { ((__sr_bash < 502)) || ! builtin shopt -q varredir_close; }
}

__sr_discard_file() {
  __sr_moved='' __sr_printed[0]='' __sr_exit_trap[0]=''
  [[ ! $__sr_file ]] || \exec {__sr_file}<&- # `builtin exec` would open it again
}

# Sets __sr_traps to the words that `trap -p` prints: `trap -- COMMAND SIGNAL` for each trap.
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

__sr_parse_traps() { # reads __sr_printed
  __sr_traps=()
  builtin printf -v __sr_answer '%s\n' "${__sr_printed[@]}"
  builtin eval "__sr_traps=($__sr_answer)"
}

# Searches the text of the script, and sets __sr_trap_method: how our command stays in the EXIT
# trap.
#   ''      nothing in the text sets a trap later, so there is nothing to do;
#   tracks  a function `trap` can set all traps of the script, and adds our command each time;
#   ends    the script saves its traps and sets them again, and must not see ours. Our command is
#           added only by `exit` and errexit, because the shell ends immediately after that;
#   looks   other code, such as a library, may set traps: each record call checks the EXIT trap.
__sr_choose_trap_method() { # SCRIPT LINE; the line that sources this file
  builtin local __sr_text='' __sr_below='' __sr_word='' __sr_line='' __sr_seen=''
  builtin local -a __sr_printed
  [[ -f $1 && -r $1 ]] || builtin return 0
  builtin read -r -N 131072 -u 9 __sr_text 9<"$1"
  [[ $__sr_text != *ulimit\ * ]] || __sr_ulimit=1
  # Code that saves its EXIT trap, or all its traps.
  if [[ $__sr_text == *=\$'(trap -'* || $__sr_text == *=\"\$'(trap -'* ]] &&
    [[ $__sr_text == *'eval '* ]]; then
    __sr_below=$__sr_text
    while [[ $__sr_below == *\$'(trap -'* ]]; do
      __sr_below=${__sr_below#*\$'(trap -'}
      __sr_word=${__sr_below:0:80}
      [[ ${__sr_word%%\)*} != @(p|*[!A-Z]@(EXIT|0)*) ]] || __sr_trap_method=ends
    done
  fi
  # Searching a longer text takes more time than it saves.
  [[ ${#__sr_text} -le 16384 || ${#__sr_text} -le 32768 && $__sr_text == *trap* ]] &&
    [[ ! ${BASH_ENV-} ]] || builtin return 0
  [[ ${__sr_trap_method-} == looks ]] || builtin return 0
  __sr_printed[0]=''
  builtin mapfile -t -u 9 __sr_printed 9<"$1"
  # mapfile -d '' takes a system call for each byte before bash 5.2
  builtin read -r -N 2097152 -u 9 __sr_word 9</proc/self/environ
  [[ $__sr_word != *BASH_FUNC_* ]] || builtin return 0
  if ((${#__sr_text} <= 16384)); then
    # Remove the line that sources this file, and comments.
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
    { __sr_load traps && __sr_are_traps_plain "$1" 3 && __sr_define_trap; }
}

# --- The end of the service ----------------------------------------------------------------------
# The first command of the EXIT trap. If commands of the service follow it in the trap, a success is
# recorded after them, because they can still change the result.
__sr_on_exit() { # STATUS COMMAND OPTIONS
  builtin local __sr_ended="$1" __sr_members=''
  builtin local -a __sr_printed
  [[ ! ${__sr_moved-} ]] || { __sr_load failures && __sr_restore_descriptors; }
  [[ ! ${__sr_umask-} ]] || builtin umask "$__sr_umask"
  [[ ${BASHPID-} == "${__sr_pid-}" && ! ${__sr[ended]-} ]] || builtin return "$1"
  __sr[ended]=1 __sr[options]=${3-}
  # Under `set -e`, a handler that fails here would end the shell before its end is recorded, and
  # bash 5.2 would print an internal error. (Without the shim, the handler would not run: the shell
  # would have ended.) __sr_guarded sets -e again.
  [[ ! -o errexit ]] || { builtin set +e && __sr_off+=e; }
  __sr_printed[0]=''
  [[ ${__sr_trap_method-} != looks ]] || __sr_capture builtin trap -p EXIT
  [[ ${__sr_printed[0]-} == @(|"trap -- '${__sr[hook]-}"*) ]] ||
    builtin return "$1" # the service has commands before ours, so this is not the status of `exit`
  __sr_hide_children
  __sr_end_run "$@" || __sr_ended=$?
  [[ ! ${__sr[chld]-} ]] || builtin trap -- "${__sr[chld]-}" CHLD
  [[ $1 == "$__sr_ended" ]] || builtin exit "$__sr_ended"
  builtin return "$1"
}

# Removes the CHLD trap while we record the end, so that it does not run for our processes.
# Processes of the service that end meanwhile would, without the shim, end after the shell. If the
# traps can only be read by a process, the trap is kept. Sets __sr[chld] to the trap, and __sr[held]
# to `never` if SIGTERM must not be held (see __sr_hold_term).
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

# Records the end. Returns the exit status of the service.
__sr_end_run() { # STATUS COMMAND
  __sr_read_ending "$1"
  [[ $__sr_answer != signal ]] || {
    # Do nothing that takes time, so that the shell dies as early as it would without the shim.
    __sr_end failure ',"signal":"unknown"'
    builtin return "$1"
  }
  [[ $1 != 0 || $__sr_bash -ge 502 || ${__sr[own]-} || ${2-} != exec\ * ]] ||
    { __sr_load failures && __sr_read_exec "$2"; }
  if [[ $__sr_ended != 0 ]]; then
    __sr_hold_term
    __sr_load failures
    __sr_describe failure "$__sr_ended" "${2:0:4096}" # a longer text would take seconds
    __sr_end failure "$__sr_members"
    __sr_release_term
  elif [[ $__sr_answer == unknown ]]; then
    builtin true # record no result: it could be wrong
  elif [[ ! ${__sr[own]-} || -o posix && ${__sr[own]-} == *exit* ]]; then
    __sr_end success ',"exitCode":0'
  else
    __sr[ended]=later
    [[ ${__sr[sees_exit]-} ]] || __sr_define_exit
  fi
  builtin return "$__sr_ended"
}

# Delays SIGTERM until the service's own commands in the EXIT trap have run. Recording a failure may
# wait for the journal. If systemd stops the service at that moment, SIGTERM would end the shell
# before these commands. A handler of the service for SIGTERM is not replaced. This runs only after
# __sr_read_ending, which needs the default action of the signal. Values of __sr[held]: `never`,
# `once` (delayed), `again` (a signal has arrived).
__sr_hold_term() {
  [[ ${__sr[held]-} == never ]] || { __sr[held]=once && builtin trap '__sr[held]=again' TERM; }
}

__sr_release_term() {
  [[ ${__sr[held]-} == never ]] || builtin trap - TERM
  [[ ${__sr[held]-} != again || ${__sr[ends_trap]-} ]] || builtin kill -s TERM "${BASHPID-}"
}

__sr_after_exit() { # the last command of the EXIT trap
  [[ ${BASHPID-} == "${__sr_pid-}" ]] || builtin return 0
  [[ ${__sr[held]-} != again ]] || builtin kill -s TERM "$BASHPID"
  [[ ${__sr[ended]-} != later ]] || __sr_end success ',"exitCode":0'
}

__sr_end() { # RESULT MEMBERS
  __sr[ended]=1 __sr_trap_method=''
  [[ ! ${__sr_open_stage-} ]] || __sr_append 'stage end' ",\"result\":\"$1\"$2"
  __sr_append "${__sr[kind]-} end" ",\"result\":\"$1\"$2"
  __sr_sync
}

# Sets __sr_answer to `signal` if the shell is dying of a signal, to `ends` if not, or to `unknown`.
# A shell that dies of a signal runs its EXIT trap with the status 0, and the trap cannot see the
# signal. If neither `exit` nor errexit was seen, a copy of the shell (a subshell) shows it. The
# copy inherits bash's internal state "handling a terminating signal", and sends itself another
# signal. If the shell is dying, the copy ignores that signal up to bash 5.1, and since 5.2 it dies
# without running an EXIT trap. Even a script that has reached its last line needs the copy, because
# a signal may arrive after that line.
#
# The copy prints `c` first, `t` from its EXIT trap, and `i` if it ignored all signals. It sends
# several signals, because the service may have been started with some of them ignored. Before 5.1,
# a copy never runs its EXIT trap.
__sr_read_ending() { # STATUS
  __sr_answer=ends
  [[ ! ${__sr[exit_line]-} && (! ${__sr[err_ends]-} || $1 == 0) ]] || builtin return 0
  # systemd sends its signal until it finds no new process, so it may kill a copy at once: retry.
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

__sr_run_copy() { # in a nested subshell, as an EXIT trap does not run in a command substitution
  # Hide bash's message that the subshell was terminated. Nothing may run before this line: bash 4.4
  # would also print that a job of the service was terminated.
  \exec 2>&-
  (
    __sr_begin_child
    builtin trap '\builtin printf t' EXIT
    builtin printf c
    for __sr_answer in TERM ALRM USR1 USR2; do
      builtin kill -s "$__sr_answer" "${BASHPID-}" || builtin exit
    done
    builtin trap - EXIT
    builtin printf i
  )
}

# --- Child processes -----------------------------------------------------------------------------
# Runs a function in a command substitution: code that needs a process or other options. Processes
# that it starts do not appear in the service's `$!` and `jobs`, and do not run its CHLD trap. The
# child returns its __sr_answer followed by a dot. If the dot is missing, bash could not fork,
# although the status is 0. A JOB that was killed once (status 124) is not started again in this
# run. A handler of the service runs after the child has ended.
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

# Sets the options of a child. This does not use `trap`, because `trap -p` in the child would then
# no longer print the parent's traps. Code that writes files in a child must ignore SIGXFSZ itself.
__sr_begin_child() {
  builtin set +aeuxvfkmETC
  builtin unset -f exec 2>&- # of the service
  __sr_xfsz=child __sr_synced='' __sr_sync_pid=''
}

# In bash 5.2, a handler that runs while bash parses `$(` fails with a syntax error. Backquotes are
# parsed only in the child. The eval keeps shfmt from replacing them by `$(`.
\builtin eval '__sr_substitute() { __sr_answer=`"$@"`; }'

__sr_run_job() { # FUNCTION [ARGUMENT...]
  __sr_begin_child
  builtin local __sr_ended=0
  # Hide all messages of the child. Programs get an open descriptor 2, if possible.
  \exec 2>&- || builtin exit 1
  builtin local IFS=$' \t\n' # fails if IFS is readonly
  \exec 2>/dev/null || builtin true
  "$@" </dev/null || __sr_ended=$?
  builtin printf '%s.' "$__sr_answer"
  builtin exit "$__sr_ended"
}

# Returns 0 if six more processes may be started. If bash cannot fork, it retries for half a minute
# and then ends the service, so this check precedes every fork of ours. The limits are pids.max of
# the control group and its parents and, for all users but root, `ulimit -u`. That limit is compared
# with the number of all threads of the host, which is a safe upper bound.
__sr_has_room() {
  builtin local -a __sr_printed
  builtin local __sr_group='' __sr_limit='' __sr_answer=''
  [[ $- != *r* ]] || builtin return # a restricted shell cannot redirect
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
__sr_resume() { # sets the service's options again
  [[ $__sr_reading != *a* ]] || builtin set -a
  [[ $__sr_reading != *@* ]] || builtin shopt -s expand_aliases
  [[ $__sr_reading != *v* ]] || builtin set -v
  [[ $__sr_reading != *x* ]] || builtin set -x
}

# Keeps the text of the second half, 63 lines below: the file may be replaced before it is needed.
[[ -f ${BASH_SOURCE[0]} ]] && # not where a pipe is sourced
  \builtin mapfile -s "$((${LINENO-0} + 60))" -u 9 __sr_late 9<"${BASH_SOURCE[0]}" &&
  [[ ${__sr_late[0]-} == '# === Second half'* ]] || __sr_late=()
__sr_unparsed='' __sr_starts='' __sr_unread=1
if ((${#__sr_late[@]})); then
  __sr_unparsed=' traps=0,215 failures=215,336 files=551,300 ' __sr_unread=''
  \builtin unset -v '__sr_late[-1]' # its last line sets the service's options again
fi

__sr_bash=$((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1]))
__sr_here=0
((__sr_bash != 501)) || \builtin printf -v __sr_here '%065536d' 0

# Sourcing again in the same run, or in a subshell of it, starts nothing. A child process, or the
# program that replaced this one by `exec`, has no __sr_pid, unless the service exported it.
if [[ ! ${__sr_pid-} || ${__sr_pid@a} == *x* || $__sr_pid != "${BASHPID-$$}" &&
  $__sr_pid != "$$" ]]; then
  __sr_pid=${BASHPID-$$}
  \builtin declare -g +x __sr_pid
  \builtin unset -v __sr __sr_stderr
  \builtin declare -gA __sr __sr_stderr
  __sr_stderr=([_]=2 [_x]=-)
  # Read the service's traps as in __sr_capture. A function without -E would not see the ERR trap.
  __sr_xfsz='' __sr_file='' __sr_printed=() __sr_answer=
  __sr_limited='' # under `ulimit -f`: 1; matching this in each call would take as long as a write
  [[ ${__sr_limits[2]-} != 'Max file size'+([[:blank:]])[0-9]* ]] || __sr_limited=1
  # Under `ulimit -f` bash prints that it cannot create the file. A function `exec` would be called.
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

# If the text was not kept, the run starts at the end of the file, after bash has parsed all of it.
if [[ $__sr_starts && ! $__sr_unread ]]; then
  __sr_guarded __sr_start "${__sr_answer#"${__sr_answer%read}"}" || ((1))
  [[ ! ${__sr[err]-} ]] || \builtin trap "${__sr[err]-}" ERR || ((1))
fi

# Bash stops reading here, except under -x, which would trace `return`, or if the text was not kept.
if [[ $__sr_reading != *x* && ${#__sr_late[@]} != 0 ]]; then
  { __sr_resume; } 2>&"${__sr_stderr[_${-//[!x]/}]-2}"
  \builtin return 0
fi

# === Second half ==================================================================================
# --- The EXIT trap of the service ----------------------------------------------------------------
# Returns 0 if a trap, or the function that it calls, may send a signal to this shell. A trap that
# is a single word may call a function that is not defined yet.
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

# Returns 0 if an EXIT trap cannot notice that our function `exit` runs it, by the frame or the
# arguments of that function. Programs cannot, nor can functions of a script that does not contain
# FUNCNAME and similar words. Any other command may.
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
# Defines a function `trap`, which adds our command to the EXIT trap whenever the service sets a
# trap. Without it, the end of a script that sets its EXIT trap last is not recorded.
__sr_define_trap() {
  [[ ! -o posix ]] && ! builtin declare -F trap >/dev/null || builtin return 0
  trap() {
    builtin trap "$@" || builtin return "$?"
    { __sr_guarded __sr_look_at_traps tracks; } 2>&"${__sr_stderr[_${-//[!x]/}]-2}"
  }
  __sr_trap_method=tracks
}

# Returns 0 if a function `trap` can replace every `trap` of the script and of the files it sources.
# It can set traps for EXIT, ERR and signals. It cannot set traps for DEBUG and RETURN, which would
# run for the function itself. It cannot remove the ERR trap without -E, since bash sets it again
# when the function returns. It cannot print the traps of its caller.
__sr_are_traps_plain() { # FILE DEPTH; __sr_printed contains the lines of FILE
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

__sr_begins_command() { # TEXT before the word in its line
  builtin local __sr_rest="${1%"${1##*[![:blank:]]}"}"
  [[ $1 != *[\'\"] ]] || { [[ $1 == *eval* ]] && builtin return 0 || builtin return 1; }
  [[ $1 == *[[:blank:]\;\&\|\(\)\{\!\`] ]] || builtin return 1
  [[ ! $__sr_rest || $__sr_rest == *[\;\&\|\(\)\{\!\`] ]] && builtin return 0
  __sr_rest=${__sr_rest##*[[:blank:]]}
  [[ $__sr_rest == *=* ||
    $__sr_rest == @(then|else|do|if|elif|while|until|time|builtin|command) ]]
}

# Returns 0 if the arguments of `trap` are a command and signals that a function can set traps for.
__sr_is_plain_trap() { # TEXT after the word `trap` in line __sr_index; may use the next lines
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
    elif [[ $__sr_rest == \"*([!\"\\\`])\\?* ]]; then # continue after the escaped character
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
    [[ $__sr_word != - || -o errtrace || $__sr_next != *ERR* ]]
}

# Returns 0 if the traps of a sourced file are plain. Its path may contain the directory of the
# script, and variables that are set or assigned once.
__sr_is_sourced_file_plain() { # TEXT after the word `source` or `.`, FILE with it, DEPTH
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
  [[ -e $__sr_path || $__sr_path != /etc/* ]] || builtin return 0 # missing configuration
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

# Sets __sr_answer to the first word of a text, without quotes. Replaces the usual commands that
# print the directory of the script by the directory.
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

# Sets __sr_answer to the current value of a variable or, if it is empty, of its only assignment.
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

# Handles an unusual start of a stage. Sets __sr_answer to its name as JSON. Returns 1 if nothing
# can be recorded.
__sr_prepare_start() { # [NAME]
  [[ ! ${__sr_ulimit-} ]] || __sr_can_redirect || builtin return 1
  [[ ! ${__sr_open_stage-} ]] || __sr_end_open_stage "${1:-unnamed}"
  [[ ${1-} ]] || __sr_note 'record_service_stage_start has no stage name; recorded as "unnamed"'
  __sr_answer=${1:-unnamed}
  [[ $__sr_answer != *[!a-zA-Z0-9_\ ./:-]* && ${#__sr_answer} -lt 255 ]] ||
    __sr_shorten "$__sr_answer"
  builtin return 0
}

__sr_end_no_stage() { # RESULT [MEMBERS]
  builtin local __sr_members="${2-}"
  __sr_note 'no stage is open; recorded as the end of a stage without a name'
  [[ $__sr_members == *'"errorMessage":'* ]] ||
    __sr_members=',"errorMessage":"no stage was open"'$__sr_members
  __sr_append 'stage end' ",\"result\":\"$1\"$__sr_members"
}

__sr_note() { # TEXT; sets the message for __sr_tell, with the file and line of the service's call
  builtin local __sr_members=''
  __sr_describe call ''
  __sr_answer=${__sr_place:+"${__sr_place#* * }:${__sr_place%% *}"}
  __sr_notice="service-record: ${__sr_answer:-$0}: $1"
}

# Prints the message of __sr_note. A child process prints it, because SIGPIPE kills a process that
# writes to a closed pipe.
__sr_tell() {
  [[ ! ${__sr_notice-} ]] || ! __sr_has_room ||
    (builtin trap '' PIPE && builtin printf '%s\n' "${__sr_notice-}" >&2)
  __sr_notice=
}

__sr_end_open_stage() { # NAME of the next stage
  builtin local __sr_members=''
  __sr_describe call "not ended before stage \"$1\" started"
  __sr_answer=${__sr_place:+"${__sr_place#* * }:${__sr_place%% *}"}
  __sr_notice="service-record: ${__sr_answer:-$0}: stage ${__sr_open_stage#*:} was still open"
  __sr_notice+=" when stage \"$1\" started; recorded as failed"
  __sr_append 'stage end' ",\"result\":\"failure\"$__sr_members"
  __sr_sync
}

# Sets __sr_members to the JSON members of a failure, and __sr_place to its line. For `call`, that
# is the line of the service's call, and the message is MESSAGE or, without it, that of the journal.
__sr_describe() { # call [MESSAGE] | failure STATUS COMMAND
  __sr_place=
  __sr_evaluate failure __sr_print_members "$@"
}

__sr_print_members() { # as __sr_describe; sets __sr_answer to code with the assignments
  builtin local LC_ALL=C __sr_command='' __sr_facts='' __sr_members='' __sr_message="${2-}"
  builtin local __sr_needs_journal=''
  if [[ $1 == failure ]]; then
    # After `exit`, $3 is a command of our function `exit`.
    __sr_command=${__sr[exit_command]:-$3} __sr_facts=",\"exitCode\":$2" __sr_message=
  fi
  if [[ $1 == failure || $# == 1 ]]; then
    __sr_needs_journal=1
    [[ ! ${INVOCATION_ID-} || ${__sr_xfsz-} != child ]] ||
      ! builtin type -P journalctl >/dev/null || __sr_start_sync
  fi
  __sr_locate "$@"
  if [[ $1 == failure ]]; then
    [[ $__sr_command != *__sr_* ]] || __sr_command='' # a handler failed during our code
    __sr_escape_part "$__sr_command" 200 400
    __sr_facts+=${__sr_answer:+",\"command\":\"$__sr_answer\""}
  fi
  __sr_facts+=$__sr_stack
  if [[ $__sr_needs_journal ]]; then
    __sr_read_journal
    __sr_message=$__sr_answer
  fi
  __sr_explain "$__sr_place" "$__sr_message" "$__sr_facts"
  builtin printf -v __sr_answer '__sr_members=%q __sr_place=%q __sr[hung]=%q' \
    "$__sr_members" "$__sr_place" "${__sr[hung]-}"
}

# Runs a function in a child or, if there is no room for a process, in this shell with the options
# of a child. Then evaluates its __sr_answer, which is code.
__sr_evaluate() { # JOB FUNCTION [ARGUMENT...]
  builtin local __sr_ignores=''
  # Under `ulimit -f` even a long here-string may send SIGXFSZ. A child cannot set a trap (see
  # __sr_begin_child).
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

# Sets __sr_place to the value of errorLine: the line of the service's call, or of the failure. Sets
# __sr_stack to the members that follow it. service-record-failure.sh contains the code. Without a
# file of this version, a failure has the approximate line that ERR or `exit` noted, and a call has
# none. A call needs only the first 127 lines of the file: parsing them takes a quarter of the time.
__sr_locate() { # call | failure STATUS COMMAND; a failure may set __sr_command
  builtin local -a __sr_printed
  builtin local __sr_needed=__sr_find # a function of the lines that are needed
  [[ $1 == call ]] || __sr_needed=__sr_find_exit
  __sr_printed=() __sr_place='' __sr_stack=''
  __sr_answer=${__sr[home]-}service-record-failure.sh
  [[ -f $__sr_answer ]] ||
    __sr_answer=${__sr[home]-}../share/service-record/service-record-failure.sh
  if ! builtin declare -F "$__sr_needed" >/dev/null && [[ -f $__sr_answer ]]; then
    builtin mapfile -n 1000 __sr_printed <"$__sr_answer"
    if [[ ${__sr_printed[0]-} != *': service-record 0.2.0'$'\n' ||
      ${__sr_printed[*]: -1} != '# End.'$'\n' ]]; then
      builtin true # not a complete file of this version
    elif [[ $1 == call ]]; then
      __sr_parse __sr_printed 0 127
    else
      __sr_parse __sr_printed 0
    fi
  fi
  if builtin declare -F "$__sr_needed" >/dev/null; then
    __sr_find "$@"
  elif [[ $1 == failure && ${__sr[exit_line]-}${__sr[err_ends]-} ]]; then
    __sr_place="${__sr[err_line]-} ${__sr_err_functions[0]-main} ${__sr_err_files[0]-}"
    [[ ! ${__sr[exit_line]-} ]] ||
      __sr_place="${__sr[exit_line]-} ${__sr_exit_functions[0]-main} ${__sr_exit_files[0]-}"
    __sr_stack=',"errorLineApproximate":true'
  fi
}

# Does the same as __sr_capture, with a process. Only a child may start one here.
__sr_capture_in_child() { # COMMAND [ARGUMENT...]
  __sr_answer=$("$@" && builtin printf read) && [[ $__sr_answer == *read ]] || builtin return 1
  __sr_answer=${__sr_answer%read}
  builtin mapfile -t __sr_printed <<<"${__sr_answer%$'\n'}"
}

# Sets __sr_answer to the last three lines of the invocation. Most users may not read them.
# Each call of journalctl has a limit of two seconds, because systemd waits for the service to end.
__sr_read_journal() {
  __sr_answer=
  [[ ${INVOCATION_ID-} ]] && builtin type -P journalctl >/dev/null || builtin return 0
  if [[ ${__sr_xfsz-} == child ]]; then
    __sr_read_lines
  else
    __sr_apart journal __sr_read_lines
  fi
}

# Starts `journalctl --sync`, which writes lines to the journal's files that are not there yet. It
# runs while this child searches the failed line. The eval parses `<(` only after POSIX mode was
# switched off: bash before 5.1 has no process substitution in POSIX mode.
__sr_start_sync() { # in a child
  builtin set +o posix
  [[ ${__sr[hung]-} == *' journal-sync '* ]] ||
    builtin eval '\exec {__sr_synced}< <(\exec journalctl --sync)' && __sr_sync_pid=$!
}

# Bash does not wait for the process of a process substitution. Therefore __sr_run and the child
# that it needs are not necessary here, and each failure saves two forks. __sr_apart explains
# __sr[hung].
__sr_read_lines() { # in a child
  [[ $__sr_synced ]] || __sr_start_sync
  [[ ! $__sr_synced ]] || builtin read -r -t 2 -N 4096 -u "$__sr_synced" || (($? <= 128)) ||
    { builtin kill -KILL "$__sr_sync_pid" && __sr[hung]+=' journal-sync '; }
  __sr_answer=
  [[ ${__sr[hung]-} != *' journal '* ]] || builtin return 0
  builtin eval '\builtin read -r -t 2 -N 262144 __sr_answer < <(\exec journalctl --quiet \
    --no-pager --output=cat --lines=3 "_SYSTEMD_INVOCATION_ID=$INVOCATION_ID")' ||
    (($? <= 128)) || { builtin kill -KILL "$!" && __sr[hung]+=' journal '; }
  while [[ $__sr_answer == *$'\n' ]]; do __sr_answer=${__sr_answer%?}; done
}

# --- Rare endings --------------------------------------------------------------------------------
# Restores descriptors 1 and 2 if a signal arrived while a builtin was redirected. Bash's own copies
# have the flag close-on-exec. A descriptor that a handler opened under such a number has not.
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

# Sets __sr_ended to the status of a failed `exec`: 126 if the file cannot be run, otherwise 127.
# Before bash 5.2, a shell with an EXIT trap ends with 0 after a failed `exec`. If the service has
# no trap, ours must not change the status.
__sr_read_exec() { # COMMAND
  builtin local __sr_word="${1#exec }" __sr_path="${PATH-}:"
  ! builtin shopt -q execfail || builtin return 0
  while [[ $__sr_word == -* ]]; do
    [[ $__sr_word != -*a\ * ]] || __sr_word="- ${__sr_word#* * }"
    __sr_word=${__sr_word#* }
  done
  # With only redirections, `exec` does not end the shell.
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
__sr_escape() { # TEXT; sets __sr_answer to the content of a JSON string
  __sr_answer=$1
  # Ranges depend on the locale, and changing the locale takes as long as a write.
  [[ $1 != *[!abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789\ .,:/_=+@-]* ]] ||
    __sr_escape_bytes
}

__sr_escape_bytes() { # reads and sets __sr_answer
  builtin local LC_ALL=C __sr_code=0 __sr_hex='' __sr_byte=''
  # The replacements are quoted: unquoted & and \ have a meaning in bash 5.2 (patsub_replacement).
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

# Escapes a name or a command and cuts it to 255 bytes. It runs in a child, because it changes the
# locale.
__sr_shorten() { # TEXT
  __sr_apart text __sr_escape_part "$1" 255 510 || __sr_run_here __sr_escape_part "$1" 255 510
}

__sr_clean_name() { # replaces characters of __sr_answer that a file name must not contain
  builtin local __sr_name="$__sr_answer"
  __sr_apart name __sr_replace_characters "$__sr_name" ||
    __sr_run_here __sr_replace_characters "$__sr_name"
}

__sr_replace_characters() { # NAME
  builtin local LC_ALL=C
  __sr_answer=${1//[.\/[:cntrl:]]/_} __sr_answer=${__sr_answer:0:200}
  __sr_answer=${__sr_answer:-unknown} __sr_answer=${__sr_answer/#-/_}
}

# Escapes a text and cuts its end if it is too long. With `end`, cuts its beginning, adds an
# ellipsis in front, and sets __sr_truncated. Each turn of the loop cuts in proportion to the
# excess, so a few turns are enough.
__sr_escape_part() { # TEXT BYTES ESCAPED_BYTES [end]
  builtin local LC_ALL=C __sr_piece="$1" __sr_length="$2"
  __sr_answer=
  while ((__sr_length > 0)); do
    if [[ ${4-} ]] && ((__sr_length < ${#__sr_piece})); then
      __sr_piece=${__sr_piece: -__sr_length}
      while [[ $__sr_piece == [$'\200'-$'\277']* ]]; do __sr_piece=${__sr_piece:1}; done
    else # cut between two characters
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

# Sets __sr_members to the JSON members of a failure: errorLine, errorMessage, FACTS and, if the
# message was cut, `truncated`.
__sr_explain() { # ERROR_LINE MESSAGE FACTS
  builtin local LC_ALL=C __sr_truncated='' __sr_room=0 __sr_entry=''
  __sr_escape "$1"
  # A very long path would leave no room for the message. It is omitted, since a cut path is wrong.
  __sr_members=
  ((${#__sr_answer} == 0 || ${#__sr_answer} > 700)) ||
    __sr_members=",\"errorLine\":\"$__sr_answer\""
  if [[ $2 ]]; then
    __sr_entry=$__sr_run_command$__sr_open_stage$__sr_members$3$__sr_identity$__sr_more
    # 119 bytes for timestamp, phase and result; 99 for uptime, newlines, the words around the
    # message, and the mark
    __sr_room=$((4096 - 119 - ${#__sr_entry} - 99))
    __sr_escape_part "$2" "$__sr_room" "$__sr_room" end
    __sr_members+=",\"errorMessage\":\"$__sr_answer\""
  fi
  __sr_members+=$3
  [[ $3 == *',"truncated":true' ]] || __sr_members+=$__sr_truncated
}

# --- The array layout ----------------------------------------------------------------------------
# Runs in a child. Every user may read arrays, because OpenShift's gather packs them as a normal
# user.
__sr_make_file() {
  builtin trap '' XFSZ
  builtin local __sr_mode=0750 __sr_mask=0137 __sr_content=''
  [[ ${__sr[layout]-} != array ]] || __sr_mode=0755 __sr_mask=0133 __sr_content=$'[\n]\n'
  [[ -d ${__sr_record%/*} ]] || {
    __sr_run 5 mkdir -p -m "$__sr_mode" -- "${__sr_record%/*}" || builtin return "$?"
  }
  builtin umask "$__sr_mask"
  builtin set -C # two processes may create it at once
  builtin printf '%s' "$__sr_content" >"$__sr_record"
}

# Returns 0 if the record contains the entry although its write failed, for example because only the
# text after the entry is missing.
__sr_is_written() {
  [[ -f ${__sr_record-} && ! -L ${__sr_record-} ]] &&
    __sr_apart tail __sr_run 2 tail -c 8192 -- "${__sr_record-}" &&
    [[ $__sr_answer$'\n' == *"$__sr_entry"[$' \n']* ]]
}

# Appends the entry to the array. The file is valid JSON at any time: under a lock on descriptor 3,
# one write replaces the closing bracket by the entry and a new bracket. The lock ends with the
# process that holds it. Space for the entry and 1024 blanks is allocated before that write. So a
# full disk cannot damage an entry, and a reader sees at most additional blanks. Prints the offset
# of the end of the entry. The next call searches for the bracket from there or, if that fails, in
# the last 8 KiB.
__sr_put_in_array() {
  builtin trap '' XFSZ
  __sr_put_in_file 3<>"${__sr_record-}"
}

__sr_put_in_file() { # the file is open on descriptor 3
  builtin local LC_ALL=C __sr_from="${__sr[array_end]-}"
  __sr_replace_bracket 4</proc/self/fd/3 5<>/proc/self/fd/3
  { __sr_run 2 tail -c 1 <&4 && __sr_read_position 4; } 4</proc/self/fd/3 || builtin return "$?"
  __sr_from=$((__sr_answer > 8192 ? __sr_answer - 8192 : 0))
  __sr_replace_bracket 4</proc/self/fd/3 5<>/proc/self/fd/3
}

# Ends the subshell after the write. Returns only if it finds no bracket to replace.
__sr_replace_bracket() {
  builtin local __sr_text='' __sr_size=0 __sr_until=0 __sr_bracket=0 __sr_joint='[' __sr_new=''
  __sr_run 3 flock -w 2 3 || builtin exit
  __sr_find_bracket || builtin return "$?"
  # This overwrites everything up to the old bracket. Bash writes up to 4096 bytes at once.
  builtin printf -v __sr_new "%-$((__sr_bracket - __sr_until))s\n" \
    "$__sr_joint"$'\n'"$__sr_entry"$'\n]'
  ((${#__sr_new} <= 4096)) && __sr_make_room || builtin return 1
  ((__sr_until == __sr_from)) || builtin read -r -N "$((__sr_until - __sr_from))" __sr_text <&5
  __sr_read_position 5
  ((__sr_answer == __sr_until)) || builtin return 1 # elsewhere the write would damage an entry
  # Print nothing after the entry: if bash cannot undo the redirection, it would go into the file.
  [[ -p /proc/self/fd/1 ]] &&
    builtin printf '%s.' "$((__sr_until + ${#__sr_joint} + ${#__sr_entry}))" &&
    builtin printf '%s' "$__sr_new" >&5
  builtin exit "$?"
}

# Moves descriptor 4 (for reading) and descriptor 5 (for writing) to the end of the last entry. Bash
# can move them only by reading, which is faster than dd for short distances. The callers check the
# positions afterwards.
__sr_seek() {
  builtin local __sr_to=5
  if ((__sr_from > 32768)) || [[ -o posix ]]; then
    __sr_run 5 dd bs=1 count=0 skip="$__sr_from" seek="$__sr_from" status=none <&4
  elif ((__sr_from)); then
    builtin read -r -N "$__sr_from" __sr_text <&4 && builtin read -r -N "$__sr_from" __sr_text <&5
  fi
}

# Sets __sr_until to the end of the last entry, __sr_joint to the text between it and the next
# entry, and __sr_bracket to the end of the closing bracket. The bracket must be alone on its line:
# otherwise it may be part of an incomplete entry.
__sr_find_bracket() {
  builtin local __sr_before='' __sr_indent=''
  ! builtin read -r -N 32768 __sr_text <&4 || builtin return 1
  __sr_read_position 4
  __sr_size=$__sr_answer
  ((__sr_size)) || builtin return 0
  ((__sr_from + ${#__sr_text} == __sr_size)) || builtin return 1 # bash drops NULs of a power loss
  # Usually the text has only one bracket. Search it from the front: from the end, bash would first
  # go through all blanks.
  __sr_before=${__sr_text%%]*}
  [[ ${__sr_text:${#__sr_before}+1} != *[!$' \t\r\n']* ]] || {
    __sr_before=${__sr_text%]*}
    [[ ${__sr_text:${#__sr_before}+1} != *[!$' \t\r\n']* ]] || builtin return 1
  }
  [[ $__sr_before != "$__sr_text" ]] || builtin return 1
  __sr_bracket=$((__sr_from + ${#__sr_before} + 1))
  __sr_indent=${__sr_before##*$'\n'}
  while [[ $__sr_before == *[$' \t\r\n'] ]]; do __sr_before=${__sr_before%?}; done
  __sr_until=$((__sr_from + ${#__sr_before})) __sr_joint=,
  [[ $__sr_before == '[' && $__sr_until == 1 ]] && __sr_joint='' && builtin return 0
  [[ $__sr_before == *\} && $__sr_indent != *[!$' \t\r']* ]]
}

# Appends white space up to a multiple of 1024 bytes. Each disk sector ends with a newline. If a
# power loss leaves such a sector between parts of two entries, the parts do not join to a third
# entry.
__sr_make_room() {
  builtin local __sr_blanks='' __sr_sectors=''
  builtin local __sr_more="$(((__sr_until + ${#__sr_new} + 2048) / 1024 * 1024 - __sr_size))"
  ((__sr_more > 0)) || builtin return 0
  builtin printf -v __sr_sectors '%511.0s\n' {1..12} # 4096 + 2048 bytes
  builtin printf -v __sr_blanks '%*s\n%s' "$((511 - __sr_size % 512))" '' "$__sr_sectors"
  { builtin printf '%s' "${__sr_blanks:0:__sr_more}" >&6 && __sr_read_position 6; } \
    6>>/proc/self/fd/3
  ((__sr_answer == __sr_size + __sr_more)) # larger if another process has appended a line
}

# --- Programs with a time limit ------------------------------------------------------------------
# Runs a program in the subshell of __sr_apart, and sets __sr_answer to its output. After SECONDS
# the program is killed, and the subshell ends with 124. It does not wait for the killed program,
# since even SIGKILL does not end a program that hangs in NFS. The program keeps the pipe open on
# descriptor 7, so `read` returns when it ends.
__sr_run() { # SECONDS PROGRAM [ARGUMENT...]
  # Programs need no other directories and no locale.
  builtin local -x PATH=/usr/bin:/bin LC_ALL=C
  __sr_answer=
  builtin shopt -s lastpipe # only here, because __sr_find reads the service's setting
  builtin exec "${@:2}" 7>&1 >&"${__sr_to:-1}" |
    {
      [[ $2 != flock ]] || __sr_seek # while flock waits
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
