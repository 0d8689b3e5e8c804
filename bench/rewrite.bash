#!/usr/bin/env bash
# Print the microseconds of COUNT entries recorded by having jq rewrite FILE, one array: the approach this project replaces.
# usage: rewrite.bash FILE COUNT
LC_ALL=C
file=$1

append() { # <phase> <stage>
  mkdir -p "$(dirname "$file")"
  jq --arg timestamp "$(date --utc +%Y-%m-%dT%H:%M:%SZ)" --arg phase "$1" --arg stage "$2" \
    '. + [{$timestamp, $stage, $phase}]' "$file" >"$file.new" &&
    mv "$file.new" "$file"
}

begun=$EPOCHREALTIME
for ((i = 0; i < $2; i++)); do
  append 'stage start' wait-for-api
done
done=$EPOCHREALTIME

printf '%d\n' $((${done/./} - ${begun/./}))
