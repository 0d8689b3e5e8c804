#!/usr/bin/env bats
# Nothing but bash is needed: no program is run and no process made on the way to a success.

load helpers

stages() {
  script stages.sh <<'END'
. "$SHIM"
for ((n = 0; n < ${1:-1}; n++)); do
  record_service_stage_start one
  record_service_stage_success
done
END
}

# Prints how often a run of the script makes these system calls; with "on the record", only those that name its file.
traced() { # <system calls> [on the record] <script> [argument...]
  local filters=(-e "trace=$1")
  command -v strace >/dev/null || skip "strace is not installed"
  shift
  if [[ $1 == "on the record" ]]; then
    filters+=(-P "$PWD/records/service.json")
    shift
  fi
  env -i "${surroundings[@]}" strace -f -qq -o trace "${filters[@]}" "$TEST_BASH" "$@"
  grep -Ec '^[0-9]+ +[a-z0-9]+\(' trace || :
}

@test "any PATH will do" {
  mkdir records
  stages
  for path in PATH= PATH=/nowhere PATH=records; do
    surroundings+=("$path")
    rm -f records/*
    run -0 "$TEST_BASH" -c 'env=$1; shift; exec /usr/bin/env -i "$@"' - - "${surroundings[@]}" "$TEST_BASH" stages.sh
    [ "$output" = "" ]
    one_stage_is success
  done
}

@test "a success runs no program" {
  mkdir records
  stages
  [ "$(traced execve stages.sh)" -eq 1 ]
  [ "$(entries | wc -l)" -eq 4 ]
}

@test "a stage makes no process" {
  mkdir records
  stages
  service stages.sh
  [ "$(traced fork,vfork,clone stages.sh 1)" -eq "$(traced fork,vfork,clone stages.sh 20)" ]
}

@test "a failure runs at most one program, journalctl" {
  mkdir records
  script failing.sh <<'END'
. "$SHIM"
record_service_stage_start one
exit 3
END
  surroundings+=("INVOCATION_ID=0123456789abcdef0123456789abcdef")
  traced execve failing.sh || :
  run ! grep -Ev 'execve\("([^"]*/journalctl|[^"]*bash[^"]*|[^"]*/(timeout|env))"|exited|killed|SIG|resumed' trace
}

@test "an entry is one write" {
  mkdir records
  stages
  [ "$(traced write,writev,pwrite64 "on the record" stages.sh)" -eq 4 ]
}

@test "of the entries already there, only the beginning is read, and once" {
  mkdir records
  stages
  service stages.sh
  [ "$(traced read,pread64,readv,mmap,sendfile "on the record" stages.sh)" -eq 1 ]
}
