#!/usr/bin/env bash
# Installs the programs of the system that tests need, where it may; the tests that lack one fail and name it.
set -euo pipefail

packages=()
command -v ip >/dev/null || packages+=(iproute2) # tests/reference/hosts.py
[ ${#packages[@]} -eq 0 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "${packages[@]}"
else
  echo "some tests need: ${packages[*]}. Install them: sudo apt-get install ${packages[*]}" >&2
fi
