#!/usr/bin/env bash
# Stands for the program that it is called as: says its arguments and succeeds. It fails when $FAIL_AT is one of them; where
# $FAIL_TIMES is set, only so often. When $HANG_AT is one of them, it does not end.
set -euo pipefail

name=${0##*/}
printf '%s %s\n' "$name" "$*"
[[ ! ${HANG_AT-} || " $* " != *" $HANG_AT "* ]] || exec sleep infinity
[[ ${FAIL_AT-} && " $* " == *" $FAIL_AT "* ]] || exit 0
if [[ ${FAIL_TIMES-} ]]; then
  printf 'x' >>"failures-of-$name"
  (($(stat --format=%s "failures-of-$name") <= FAIL_TIMES)) || exit 0
fi
printf '%s: error: %s failed\n' "$name" "$FAIL_AT" >&2
exit 125
