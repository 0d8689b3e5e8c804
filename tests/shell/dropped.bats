#!/usr/bin/env bats
# What could not be written is counted in the next entry that is, which stands on a line of its own.

load helpers

@test "entries that a full place swallowed are counted in the next that is written" {
  script swallowed.sh <<'END'
. "$SHIM"
mv records kept; : >records
record_service_stage_start one
record_service_stage_success
rm records; mv kept records
record_service_stage_start two
record_service_stage_success
END
  run -0 service swallowed.sh
  [ "$output" = "" ]
  entries_are phase stage dropped <<'END'
service start - -
stage start two 2
stage end two -
service end - -
END
}

@test "a record that could not be begun counts its start" {
  script late.sh <<'END'
. "$SHIM"
rm records
record_service_stage_start one
record_service_stage_success
END
  : >records
  run -0 service late.sh
  [ "$output" = "" ]
  entries_are phase dropped <<'END'
stage start 1
stage end -
service end -
END
}

@test "a record whose file is taken away is begun again" {
  script taken.sh <<'END'
. "$SHIM"
rm -r records
record_service_stage_start one
END
  run -0 service taken.sh
  [ "$(entries | tail -n 1)" = "service end success" ]
}

@test "the entry after a failed write begins on a line of its own" {
  script torn.sh <<'END'
. "$SHIM"
mv records/service.json kept; mkdir records/service.json
record_service_stage_start lost
rmdir records/service.json; mv kept records/service.json
printf '{"timestamp":"torn' >>records/service.json
record_service_stage_success
END
  run -0 service torn.sh
  [ "$(grep -c '"timestamp":.*}$' records/service.json)" -eq 3 ]
  [ "$(grep -v '^{"timestamp":"torn$' records/service.json | grep -c '"dropped":1')" -eq 1 ]
}
