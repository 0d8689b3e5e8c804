#!/usr/bin/env bats
# A failure asks the journal once, for this invocation, for a bounded time; a success never asks.

load helpers

INVOCATION=0123456789abcdef0123456789abcdef

# Puts a program named journalctl first on PATH; it notes its arguments and then does what the test says.
journalctl_that() { # <shell code>
  mkdir -p bin
  printf '#!/bin/sh\necho "$@" >>"%s/asked"\n%s\n' "$PWD" "$1" >bin/journalctl
  chmod +x bin/journalctl
  surroundings+=("PATH=$PWD/bin:$PATH" "INVOCATION_ID=$INVOCATION")
}

failing() {
  script failing.sh <<'END'
set -e
. "$SHIM"
record_service_stage_start pull
(exit 4)
END
}

@test "a failure carries the last lines of the journal, oldest first" {
  journalctl_that 'printf "pulling\nretrying\nno such image\n"'
  failing
  run -4 service failing.sh
  entries_are errorMessage <<'END'
-
-
pulling
retrying
no such image
pulling
retrying
no such image
END
}

@test "a failure asks for this invocation's lines, once" {
  journalctl_that 'echo line'
  failing
  run -4 service failing.sh
  [ "$(grep -vc -e --sync asked)" -eq 1 ]
  grep -q "_SYSTEMD_INVOCATION_ID=$INVOCATION" asked
}

@test "a success asks nothing" {
  journalctl_that 'echo line'
  script fine.sh <<'END'
. "$SHIM"
record_service_stage_start pull
record_service_stage_success
END
  service fine.sh
  [ ! -e asked ]
}

@test "at most three lines are taken from a journal that says more" {
  journalctl_that 'printf "%s\n" 1 2 3 4 5'
  failing
  run -4 service failing.sh
  [ "$(entries errorMessage | tail -n 3)" = $'3\n4\n5' ]
}

@test "a failure is recorded when there is no journalctl" {
  failing
  surroundings+=("INVOCATION_ID=$INVOCATION" "PATH=/nowhere")
  run -4 service failing.sh
  entries_are phase result errorMessage <<'END'
service start - -
stage start - -
stage end failure -
service end failure -
END
}

@test "a failure is recorded when journalctl fails, and what it complains of is not printed" {
  journalctl_that 'echo "no journal files were found" >&2; exit 1'
  failing
  run -4 service failing.sh
  [ "$output" = "" ]
  [ "$(entries errorMessage | sort -u)" = - ]
}

@test "a journalctl that hangs after its answer delays the end by no more than some seconds, and loses no answer" {
  journalctl_that 'trap "" TERM; echo line; exec sleep 30'
  failing
  SECONDS=0
  run -4 service failing.sh
  ((SECONDS <= 20))
  entries | grep -qx 'service end failure'
  [ "$(entries errorMessage | sort -u)" = $'-\nline' ]
}

@test "a journal with megabytes in a line delays the end of the service by no more than some seconds" {
  journalctl_that 'head -c 8000000 /dev/zero | tr "\0" "\""'
  failing
  SECONDS=0
  run -4 service failing.sh
  ((SECONDS <= 20))
  [ "$(entries phase result | tail -n 1)" = "service end failure" ]
}

@test "a journalctl that reads its input takes nothing of the service's" {
  journalctl_that 'cat >/dev/null'
  script reads.sh <<'END'
. "$SHIM"
record_service_stage_start one
record_service_stage_failure
cat
END
  run -0 service reads.sh <<<'for the service'
  [ "$output" = 'for the service' ]
}

@test "a journal that hangs is asked once in a run, and leaves no process behind" {
  journalctl_that 'echo "$$" >>"'"$PWD"'/pids"; exec sleep 60'
  script handled.sh <<'END'
. "$SHIM"
for stage in one two three; do
  record_service_stage_start "$stage"
  record_service_stage_failure
done
END
  SECONDS=0
  run -0 service handled.sh
  [ "$(wc -l <asked)" -eq 2 ]
  while read -r pid; do is_gone "$pid"; done <pids
  [ "$(entries | grep -c 'failure')" -eq 3 ]
}

@test "a journald that hangs is synced once, and its lines are read all the same" {
  journalctl_that '[ "$1" != --sync ] || exec sleep 60; echo line'
  script handled.sh <<'END'
. "$SHIM"
for stage in one two three; do
  record_service_stage_start "$stage"
  record_service_stage_failure
done
END
  run -0 service handled.sh
  [ "$(grep -c -e --sync asked)" -eq 1 ]
  [ "$(entries errorMessage | grep -c line)" -eq 3 ]
}
