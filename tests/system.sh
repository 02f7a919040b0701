#!/usr/bin/env bash
# What tests need besides Python: hosts of their own (iproute2), Debian's chromium with its driver, and axe-core from npm.
# What cannot be installed from here is named; the tests that need it then fail and say the same.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

missing=()
command -v ip >/dev/null || missing+=(iproute2)
command -v chromium >/dev/null || missing+=(chromium)
command -v chromedriver >/dev/null || missing+=(chromium-driver)
command -v npm >/dev/null || missing+=(nodejs npm)
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "${missing[@]}"
  else
    echo "some tests need: ${missing[*]}. Install them: sudo apt-get install ${missing[*]}" >&2
  fi
fi
if command -v npm >/dev/null; then
  (cd report/browser && npm ci --silent --no-audit --no-fund)
fi
