#!/usr/bin/env bash
# tools/setup.sh [GROUP...]: installs the missing packages of these groups of tools/packages.txt
# (default: build test). The script needs root and the network only if a package is missing. Without
# root it prints the missing packages and the command that installs them, and exits with 1.
set -euo pipefail
list=$(dirname "$0")/packages.txt
[ $# -gt 0 ] || set -- build test

wanted=()
for group in "$@"; do
  mapfile -t packages < <(awk -v group="$group" '$1 == group { print $2 }' "$list")
  if [ ${#packages[@]} -eq 0 ]; then
    groups=$(awk '/^[a-z]/ { print $1 }' "$list" | sort -u | xargs)
    echo "setup: no group '$group'; groups: $groups" >&2
    exit 2
  fi
  wanted+=("${packages[@]}")
done

# shellcheck disable=SC1091
system=$(. /etc/os-release 2>/dev/null && echo "${ID:-unknown} ${VERSION_ID:-}" || echo unknown)
if [ "$system" != "debian 12" ]; then
  echo "setup: this is '$system', not Debian 12; nothing is installed." \
    "The build needs the equivalents of these Debian 12 packages:" >&2
  echo "  ${wanted[*]}" >&2
  exit 0
fi

mapfile -t missing < <(comm -13 \
  <(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null |
    sed -n 's/^installed //p' | sort -u) \
  <(printf '%s\n' "${wanted[@]}" | sort -u))
[ ${#missing[@]} -gt 0 ] || exit 0

export DEBIAN_FRONTEND=noninteractive
install=(apt-get install -y --no-install-recommends)
if [ "$(id -u)" -ne 0 ]; then
  echo "setup: missing packages: ${missing[*]}" >&2
  echo "setup: install them as root:" >&2
  echo "  apt-get update && ${install[*]} ${missing[*]}" >&2
  exit 1
fi

echo "setup: installing ${missing[*]}"
install+=(-q -o DPkg::Lock::Timeout=300)
# A fresh image has no package lists, and the lists of an old image name versions that are gone.
if ! compgen -G '/var/lib/apt/lists/*Packages*' >/dev/null ||
  ! "${install[@]}" "${missing[@]}"; then
  apt-get update -q -o DPkg::Lock::Timeout=300
  "${install[@]}" "${missing[@]}"
fi
