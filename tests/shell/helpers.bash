# shellcheck shell=bash
# What the .bats files share. The scripts under test run under $TEST_BASH with what a unit would give them and nothing
# of the test run's own; bats itself may run under another bash.

bats_require_minimum_version 1.5.0

# As pytest sets them; these are for a .bats file that is run by hand.
: "${SHIM:=${BATS_TEST_DIRNAME%/*/*}/shell/bootstrap-service-record.sh}" "${TEST_BASH:=$BASH}" "${PYTHON:=python3}"

setup() {
  cd "$BATS_TEST_TMPDIR" || return
  ln -s "$SHIM" shim.sh
  ln -s "${SHIM%/*}/service-record-failure.sh" .
  # A statically linked bash looks for SHELL in the user database when it has none, and may crash over it.
  surroundings=("PATH=$PATH" "HOME=$PWD" SHELL=/bin/sh)
  surroundings+=("SHIM=$PWD/shim.sh" SERVICE_NAME=service "SERVICE_RECORDS_DIR=$PWD/records")
}

# Makes the directory of the records anew: a disk that is busy cannot then hold up the script under test.
empty_records() {
  rm -rf records
  mkdir -m 750 records
}

# Writes a script from standard input.
script() { # <name>
  cat >"$1"
}

# Runs a script as a service. A test adds to the array `surroundings` what else the script finds in its environment.
service() { # <script> [argument...]
  timeout -k 1 60 env -i "${surroundings[@]}" "$TEST_BASH" "$@"
}

# Runs a script with the shim and without it, and fails unless both end and print the same. What it printed is in
# with/out and with/err.
unchanged() { # <script> [argument...]
  ln -sf "${BATS_TEST_FILENAME%/*}/absent.bash" shim.sh
  run_into without "$@"
  ln -sf "$SHIM" shim.sh
  run_into with "$@"
  diff -r without with
}

run_into() { # <directory> <script> [argument...]
  local status=0
  mkdir -p "$1"
  service "${@:2}" >"$1/out" 2>"$1/err" </dev/null || status=$?
  echo "ended $status" >"$1/status"
}

# Prints fields of each entry of a record: by default what identifies it. An absent field prints as "-".
entries() { # [field...]
  "$PYTHON" -IS "${BATS_TEST_FILENAME%/*}/entries.py" "$PWD/records/service.json" "$@"
}

# Fails unless `entries` prints what stands on standard input.
entries_are() { # [field...]
  diff --label expected --label recorded -u - <(entries "$@")
}

# Fails unless the record is that of one run without a stage.
one_run() {
  diff -u - <(entries) <<<$'service start\nservice end success'
}

# Fails unless it is that of one run with the stage `one`, both of which ended so.
one_stage_is() { # <result>
  diff -u - <(entries) <<<$'service start\nstage start one\nstage end one '"$1"$'\nservice end '"$1"
}

# Waits until a file exists, at most a minute.
await() { # <file>
  local tries
  for ((tries = 0; tries < 3000; tries++)); do
    [[ -e $1 ]] && return
    sleep 0.02
  done
  return 1
}

# Fails while a process runs; one that is only waited for does not.
is_gone() { # <pid>
  local stat=''
  read -r stat 2>/dev/null <"/proc/$1/stat" || return 0
  [[ $stat == *') Z '* ]]
}
