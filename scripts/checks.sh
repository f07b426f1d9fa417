# What scripts/check and scripts/test share; to be sourced from the project's root.

say() { printf '%s: %3ds  %s\n' "$(basename "$0")" "$SECONDS" "$*"; }

failed=()
# Run one check; its output is shown when it fails.
check() {
  local name=$1 out
  shift
  if out=$("$@" 2>&1 </dev/null); then
    say "$name: ok"
  else
    printf '%s\n' "$out"
    say "$name: FAILED"
    failed+=("$name")
  fi
}

# What is cheap enough to look at the whole tree every time.
check_tree() {
  check "ruff check" ruff check .
  check "ruff format" ruff format --check .
  check "lint-imports" lint-imports --no-logo
  check "sizes" scripts/sizes
  check "rules" scripts/rules
}
