#!/usr/bin/env bats
# Any text is recorded so that a reader gets it back; bytes that are no UTF-8 become U+FFFD.

load helpers

# Records each name of the file `names` (separated by NUL) as a stage, and compares what Python reads with what it was.
come_back() {
  script stages.sh <<'END'
. "$SHIM"
while IFS= LC_ALL=C read -r -d '' name; do
  record_service_stage_start "$name"
  record_service_stage_success
done <names
END
  service stages.sh
  "$PYTHON" -IS - <<'END'
import json, re
names = open("names", "rb").read().split(b"\0")[:-1]
lines = [line for line in open("records/service.json", "rb").read().split(b"\n") if line]
stages = [entry["stage"] for entry in map(json.loads, lines) if entry["phase"] == "stage start"]
assert len(stages) == len(names), (len(stages), len(names))
for name, stage in zip(names, stages):
    expected = re.sub("\ufffd+", "\ufffd", name.decode(errors="replace"))
    assert re.sub("\ufffd+", "\ufffd", stage) == expected, (name, stage)
assert not any(byte < 32 or byte == 127 for line in lines for byte in line)
END
}

@test "every byte, alone and between others" {
  "$PYTHON" -IS -c '
import sys
for byte in range(1, 256):
    sys.stdout.buffer.write(bytes([byte]) + b"\0" + b"a" + bytes([byte]) + b"z\0" + bytes([byte]) * 3 + b"\0")
' >names
  for locale in C C.UTF-8; do
    empty_records
    surroundings+=("LC_ALL=$locale")
    come_back
  done
}

@test "UTF-8 of every length, and what only looks like it" {
  "$PYTHON" -IS -c '
import sys
texts = "ä", "é", "ß…", "\u0800\uffff", "\ud7ff\ue000", "\U00010000\U0010ffff", "日本語", "👩‍🚀", "a\u0301"
broken = (b"\xc0\x80", b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf0\x8f\xbf\xbf",
          b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xc3\xc3\xa4", b"\xe2\x82\xe2\x82\xac")
for text in [*(text.encode() for text in texts), *broken]:
    sys.stdout.buffer.write(text + b"\0" + b"a" + text + b"\"\\z\0")
' >names
  for locale in C C.UTF-8; do
    empty_records
    surroundings+=("LC_ALL=$locale")
    come_back
  done
}

@test "what means something to bash, printf or JSON" {
  printf '%s\0' "\\" "\\\\" '\n' '\u0041' '"' '\"' '"}' '%s' '%' '%%n' '$HOME' '$(id)' '`id`' '*' '?' '[a-z]' '~' '&' '\&' \
    '{a,b}' '!!' '#' '-n' '-e' '--' ' ' '  two  blanks ' $'\n' $'a\nb\n' $'\t' $'\r\n' $'\e[31mred\e[0m' $'\x7f' "'" "a'b" >names
  for options in '' nocasematch patsub_replacement extglob failglob; do
    empty_records
    surroundings+=("BASHOPTS=$options")
    come_back
  done
}

@test "a message of the journal with anything in it" {
  mkdir bin
  printf '#!/bin/sh\nprintf "one \\\\ \\"two\\"\\n\\033[31mred\\033[0m \\303\\244\\n\\377\\tthree\\n"\n' >bin/journalctl
  chmod +x bin/journalctl
  surroundings+=("PATH=$PWD/bin:$PATH" "INVOCATION_ID=0123456789abcdef0123456789abcdef")
  script failing.sh <<'END'
. "$SHIM"
exit 3
END
  run -3 service failing.sh
  [ "$(entries errorMessage | tail -n +2)" = $'one \\ "two"\n\e[31mred\e[0m ä\n\xef\xbf\xbd\tthree' ]
}

@test "a file's and a function's name with anything in it" {
  script $'odd "na\\me" \xe4.sh' <<'END'
. "$SHIM"
größe() {
  exit 3
}
größe
END
  run -3 service $'odd "na\\me" \xe4.sh'
  [ "$(entries errorLine | tail -n 1)" = $'3 größe odd "na\\me" \xef\xbf\xbd.sh' ]
}
