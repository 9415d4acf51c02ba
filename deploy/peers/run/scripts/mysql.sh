#!/usr/bin/env bash
# mysql.sh install     puts a MySQL server (Debian sid's, 9.x) together in the cache; prints its folder
#
# Debian 12 packages MariaDB alone, and sid's MySQL needs a newer libc: so the packages are unpacked beside the system, and mysqld is
# started by the loader and with the libraries that came with it (mysql.go). The folder also holds an initialised data directory, without the
# server's identity, that each server's own is a copy of: initialising takes seconds.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

unpack() {
  local dir=$1 mirror key=/usr/share/keyrings/debian-archive-keyring.gpg
  mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null |
    grep -E '^(URIs:|deb )' | grep -v security | grep -oE 'https?://[^ ]+' | head -n 1) || true
  [[ -n $mirror ]] || mirror=http://deb.debian.org/debian
  [[ -r $key ]] || die "there is no $key; install Debian's package debian-archive-keyring"
  mkdir -p "$dir"/{lists/partial,debs/partial,root}
  : >"$dir/status"
  echo "deb [signed-by=$key] $mirror sid main" >"$dir/sources.list"
  local apt=(apt-get -q -y --no-install-recommends -o "Dir::Etc::sourcelist=$dir/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::Lists=$dir/lists" -o "Dir::State::status=$dir/status" -o "Dir::Cache=$dir" -o "Dir::Cache::archives=$dir/debs" -o APT::Sandbox::User=root)
  "${apt[@]}" update >&2 || "${apt[@]}" update >&2
  "${apt[@]}" --download-only install mysql-server-core >&2
  for deb in "$dir"/debs/*.deb; do dpkg -x "$deb" "$dir/root"; done
  rm -rf "$dir/debs" "$dir/lists" "$dir/status" "$dir/sources.list" "$dir"/*.bin
  initialise "$dir"
}

initialise() {
  local usr=$1/root/usr
  "$usr/lib64/ld-linux-x86-64.so.2" --library-path "$usr/lib/x86_64-linux-gnu:$usr/lib/mysql/private" "$usr/sbin/mysqld" --no-defaults \
    "--basedir=$usr" "--datadir=$1/data" "--lc-messages-dir=$usr/share/mysql" "--character-sets-dir=$usr/share/mysql/charsets" \
    "--user=$(id -un)" --innodb-redo-log-capacity=8M --skip-log-bin --initialize-insecure >&2
  rm -f "$1/data/auto.cnf"
}

case ${1:-} in
  install)
    assembled mysql-sid unpack
    echo "$CACHE/mysql-sid"
    ;;
  *) die "usage: mysql.sh install" ;;
esac
