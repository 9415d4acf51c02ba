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
  local dir=$1 deb
  unstable "$dir" mysql-server-core
  for deb in "$dir"/debs/*.deb; do dpkg -x "$deb" "$dir/root"; done
  rm -rf "$dir/debs"
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
