#!/usr/bin/env bash
# Print the microseconds of COUNT bare appends of TEXT to FILE: what bash cannot go below.
# With a fourth argument each is preceded by one run of journalctl, as a failure needs it.
# usage: floor.bash FILE TEXT COUNT [journal]
LC_ALL=C
file=$1 text=$2

begun=$EPOCHREALTIME
for ((i = 0; i < $3; i++)); do
  [[ -z ${4-} ]] || : "$(journalctl)"
  printf '%s\n' "$text" >>"$file"
done
done=$EPOCHREALTIME

printf '%d\n' $((${done/./} - ${begun/./}))
