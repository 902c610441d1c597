#!/usr/bin/env bash
# Runs the programs of runtime/api/README.md, as the build made them, with the models that ship.
#   tutorial_test.sh PROGRAMS CHECKOUT
set -euo pipefail
programs=$(realpath "$1") root=$(realpath "$2")
fail() { echo "FAILED: $*" >&2; exit 1; }

stories=$root/models/pretrained/stories-2m.gguf
chats=$root/models/pretrained/chat-2m.gguf
lines=$'Hello, my name is Anna.\nWhat is my name?'
answers=$("$programs/chat" "$chats" <<<"$lines")
echo "$answers"
[ "$(grep -c '^> ' <<<"$answers")" -ge 2 ] && [[ $answers == *"Your name is Anna."* ]] || fail "chat.c printed: $answers"
[ "$("$programs/chat_classes" "$chats" <<<"$lines")" = "$answers" ] || fail "chat.cpp answered something else than chat.c did"
if "$programs/chat" "$stories" </dev/null 2>"$programs/error"; then fail "chat.c talked to a model without a template"; fi
grep -q "no chat template" "$programs/error" || fail "chat.c said: $(cat "$programs/error")"
told=$("$programs/frames" "$stories")
echo "$told"
[[ $told == *"which fits"* ]] && [ ${#told} -gt 100 ] || fail "frames.c printed: $told"
date=$("$programs/dates" "$root/models/pretrained/dates" "3. März 2021")
[ "$date" = 2021-03-03 ] || fail "dates.cpp printed: $date"
