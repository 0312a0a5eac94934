# Included by the scripts of this folder: a temporary folder that is removed at the end, and fail().
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

fail() {
  echo "consumer: $1" >&2
  exit 1
}
