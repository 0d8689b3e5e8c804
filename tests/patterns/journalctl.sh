#!/usr/bin/env bash
# Stands for journalctl: what the service has said so far is in the file journal.

[[ $1 == --sync ]] || tail --lines=3 journal
