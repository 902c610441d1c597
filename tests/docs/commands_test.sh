#!/usr/bin/env bash
# Checks what people read: the README's size, that links lead somewhere, and that commands do what the pages say.
#   commands_test.sh PUMICE CHECKOUT
# Commands are the lines and the quoted parts that begin with build/pumice. Those that name a model that ships are run; of all
# others, the subcommand and its options have to exist. A line that begins with "$ " is run, and what it prints has to hold
# the lines below it, in which "..." stands for anything.
set -uo pipefail
pumice=$(realpath "$1") root=$(realpath "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

# Pages are read from the checkout and commands run beside it: nothing is written into it.
mkdir "$folder/build"
ln -s "$pumice" "$folder/build/pumice"
ln -s "$root/models" "$root/README.md" "$folder"
cd "$folder" || exit 1
mapfile -t pages < <(cd "$root" && find . -path ./build\* -prune -o -name .deps -prune -o -name .git -prune -o \
  -name '*.md' -print | sort)
[ ${#pages[@]} -ge 8 ] || fail "only ${#pages[@]} pages were found"

# ---- the README's size ----

lines=$(wc -l <"$root/README.md")
[ "$lines" -le 120 ] || fail "README.md has $lines lines: at most 120"
awk 'length > 120 { printf "FAILED: README.md:%d has %d characters: at most 120\n", NR, length; long = 1 }
  END { exit long }' "$root/README.md" || failures=$((failures + 1))

# ---- links ----

# As GitHub makes them of a heading: lower case, no punctuation, spaces become hyphens.
anchors() { sed -n 's/^#\{1,6\} //p' "$1" | tr 'A-Z' 'a-z' | tr -cd 'a-z0-9_ \n-' | tr ' ' '-'; }

links=0
for page in "${pages[@]}"; do
  here=$root/${page%/*}
  while IFS= read -r link; do
    links=$((links + 1))
    file=${link%%#*} anchor=
    case $link in *"#"*) anchor=${link#*#} ;; esac
    target=$here/$file
    [ -n "$file" ] || target=$root/$page
    if [ ! -e "$target" ]; then
      fail "$page: the link to $link leads nowhere"
    elif [ -n "$anchor" ] && [ -f "$target" ] && ! anchors "$target" | grep -qxF -- "$anchor"; then
      fail "$page: $link: there is no such heading"
    fi
  done < <(sed '/^```/,/^```/d; s/`[^`]*`//g' "$root/$page" | grep -oE '\]\([^) ]+\)' | sed 's/^](//; s/)$//' |
    grep -vE '^[a-z]+:')
done
echo "$links links in ${#pages[@]} pages"
[ $links -gt 20 ] || fail "only $links links were found"

# ---- commands ----

# What Mesa compiled stays where it is, for all tests: else this one would compile each kernel again.
export MESA_SHADER_CACHE_DIR=${MESA_SHADER_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}}
mkdir -p "$MESA_SHADER_CACHE_DIR"
export XDG_CACHE_HOME=$folder/cache  # compiled kernels are shared by the commands, and nothing is left behind
export HOME=$folder
seen=$folder/seen
touch "$seen"
ran=0 checked=0

# The options of a command, as its help lists them.
declare -A help
options_exist() {  # PAGE COMMAND
  local words name=
  read -ra words <<<"${2#*build/pumice }"
  name=${words[0]}
  if [ "$name" = bench ] && [[ ${words[1]:-} == compare || ${words[1]:-} == ab ]]; then name="bench ${words[1]}"; fi
  case $name in COMMAND | --*) return ;; esac
  if [ -z "${help[$name]:-}" ]; then
    help[$name]=$(build/pumice $name --help-all 2>&1) || { fail "$1: there is no command 'pumice $name'"; return; }
    # It hands the others on.
    if [ "$name" = "bench ab" ]; then help[$name]+=$(build/pumice bench --help-all 2>&1); fi
  fi
  local word
  for word in "${words[@]}"; do
    [[ $word =~ ^(--?[a-z][a-z0-9-]*)$ ]] || continue
    checked=$((checked + 1))
    grep -qE -- "(^|[ ,])$word([ ,=]|$)" <<<"${help[$name]}" || fail "$1: 'pumice $name' has no option $word"
  done
}

run_command() {  # PAGE COMMAND
  grep -qxF -- "$2" "$seen" && return
  printf '%s\n' "$2" >>"$seen"
  ran=$((ran + 1))
  bash -c "$2" </dev/null >"$folder/output" 2>&1 || fail "$1: $2: $(tail -n 3 "$folder/output")"
}

commands_of() {  # PAGE: those on lines of their own, and those in quotes
  sed -nE 's/^    (([a-z]+ [^|$]*\| )?build\/pumice [^#]*).*/\1/p' "$1"
  sed '/^```/,/^```/d' "$1" | grep -oE '`[^`]*build/pumice [^`]*`' | tr -d '`'
}

for page in "${pages[@]}"; do
  while IFS= read -r command; do
    command=${command%"${command##*[! ]}"}
    options_exist "$page" "$command"
    case $command in
    *"<"*) ;;  # of a file that the reader has
    *models/pretrained/*) run_command "$page" "$command" ;;
    *"build/pumice bench compare before.json after.json"*)
      if [ -e before.json ]; then run_command "$page" "$command"; fi ;;
    esac
  done < <(commands_of "$root/$page")
done

# ---- JSON fields ----

for field in $(grep -oE '"[a-z0-9_]+":' before.json | tr -d '":' | sort -u); do
  grep -q "\`$field\`" "$root/tools/README.md" || fail "tools/README.md does not say what '$field' of 'bench -o json' is"
done

# ---- messages ----

messages=0
expect() {  # PAGE COMMAND PATTERNS...
  local page=$1 command=$2 output pattern line found
  shift 2
  output=$(bash -c "$command" </dev/null 2>&1)
  for pattern in "$@"; do
    messages=$((messages + 1)) found=
    while IFS= read -r line; do
      [[ $line == $pattern ]] && found=yes
    done <<<"$output"
    [ -n "$found" ] || fail "$page: '$command' does not print '$pattern', but: $output"
  done
}

# What a pattern of [[ ]] means by itself is quoted; only "..." is special.
pattern_of() { sed -e 's/[][\\*?]/\\&/g' -e 's/\.\.\./*/g' <<<"$1"; }

for page in "${pages[@]}"; do
  command= patterns=()
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in
    "    \$ "*) command=${line#"    \$ "} ;;
    "    "*) if [ -n "$command" ]; then patterns+=("$(pattern_of "${line#    }")"); fi ;;
    *)
      if [ -n "$command" ]; then expect "$page" "$command" "${patterns[@]}"; fi
      command= patterns=() ;;
    esac
  done <"$root/$page"
done

echo "$ran commands were run, $checked options and $messages messages were compared, $failures failures"
[ $ran -ge 10 ] && [ $checked -ge 20 ] && [ $messages -ge 10 ] || fail "fewer than there were: the pages are not read rightly"
[ $failures = 0 ]
