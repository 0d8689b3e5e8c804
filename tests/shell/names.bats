#!/usr/bin/env bats
# Which service a record is of, and that no name leads out of the directory.

load helpers

# Fails unless a service of that name, and nothing else, is recorded in that file.
is_recorded_in() { # <file> <service name>
  empty_records
  surroundings+=("SERVICE_NAME=$2")
  service named.sh
  [ "$(ls -A records)" = "$1" ]
  [ "$(grep -c '"service ' "records/$1")" -eq 2 ]
}

setup_named() {
  script named.sh <<'END'
. "$SHIM"
END
}

@test "a name given by SERVICE_NAME" {
  setup_named
  is_recorded_in bootkube.json bootkube
  is_recorded_in bootkube.json bootkube.service
  is_recorded_in getty@tty1.json getty@tty1.service
  is_recorded_in 'with blank.json' 'with blank'
  is_recorded_in 'dienst-ä.json' 'dienst-ä'
  is_recorded_in "*'\"\$x.json" "*'\"\$x"
}

@test "a name with dots, slashes or control characters" {
  setup_named
  is_recorded_in a_b.json a.b
  is_recorded_in passwd.json ../../etc/passwd
  is_recorded_in b.json a/b.service
  is_recorded_in __.json ..
  is_recorded_in _hidden.json .hidden
  is_recorded_in _rf.json -rf
  is_recorded_in a_b.json $'a\nb'
  is_recorded_in a_b_c.json $'a\tb\x7fc'
}

@test "a name of which nothing is left" {
  setup_named
  is_recorded_in unknown.json /
  is_recorded_in unknown.json .service
}

@test "a name that is too long for a file" {
  setup_named
  long=$(printf '%0300d' 0)
  is_recorded_in "${long:0:200}.json" "$long"
}

@test "no path escapes the directory" {
  setup_named
  mkdir -p outside
  for name in ../outside/x "$PWD/outside/x" ../outside/ ..; do
    surroundings+=("SERVICE_NAME=$name")
    service named.sh
  done
  [ -z "$(ls -A outside)" ]
  [ -z "$(find . -maxdepth 1 -name '*.json')" ]
}

@test "outside systemd, the name is the script's own" {
  ! grep -Eq '^(0:|[0-9]+:name=systemd):.*\.service' /proc/self/cgroup || skip "these tests run in a unit"
  surroundings+=("SERVICE_NAME=")
  mkdir -p some
  for file in some/my-tool.sh some/my-tool.bash some/my-tool "some/my tool.sh" some/my.tool.sh; do
    script "$file" <<'END'
. "$SHIM"
END
    empty_records
    service "$file"
    name=${file#some/} name=${name%.sh} name=${name%.bash}
    [ "$(ls -A records)" = "${name//./_}.json" ]
  done
}

@test "in a script that is sourced, the name is the main script's" {
  ! grep -Eq '^(0:|[0-9]+:name=systemd):.*\.service' /proc/self/cgroup || skip "these tests run in a unit"
  surroundings+=("SERVICE_NAME=")
  script library.sh <<<'. "$SHIM"'
  script outer.sh <<<'. ./library.sh'
  service outer.sh
  [ "$(ls -A records)" = outer.json ]
}

@test "a script without a file has a name too" {
  ! grep -Eq '^(0:|[0-9]+:name=systemd):.*\.service' /proc/self/cgroup || skip "these tests run in a unit"
  surroundings+=("SERVICE_NAME=")
  service -c '. "$SHIM"'
  service -c '. "$SHIM"' ''
  service -c '. "$SHIM"' -
  [ "$(cat records/* | grep -c 'service start')" -eq 3 ]
  [ -z "$(find records -name '.*.json' -o -name '-*')" ]
}

@test "the name is settled when the service starts" {
  script renamed.sh <<'END'
. "$SHIM"
SERVICE_NAME=other
SERVICE_RECORDS_DIR=$HOME/elsewhere
record_service_stage_start one
record_service_stage_success
END
  service renamed.sh
  [ "$(entries | wc -l)" -eq 4 ]
  [ ! -e elsewhere ]
}
