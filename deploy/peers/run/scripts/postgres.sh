#!/usr/bin/env bash
# postgres.sh install            installs PostgreSQL (Debian's package) if there is none
# postgres.sh bin                prints the folder of its programs
# The server itself is started by postgres.go, which knows how to lay down root's rights: PostgreSQL refuses to run as root.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
bin() { find /usr/lib/postgresql -path '*/bin/postgres' 2>/dev/null | sort -V | tail -n 1 | xargs -r dirname; }
install() {
  [[ -z $(bin) ]] || return 0
  # Debian's package starts a server of its own on port 5432; nobody asked for that one.
  local quiet=/etc/postgresql-common/createcluster.d/millrace-peers.conf as=()
  (($(id -u) == 0)) || as=(sudo -n)
  "${as[@]}" mkdir -p "$(dirname "$quiet")"
  echo 'create_main_cluster = false' | "${as[@]}" tee "$quiet" >/dev/null
  apt_install "$(dirname "$0")/no-such-program" postgresql postgresql-client
  "${as[@]}" rm -f "$quiet"
  [[ -n $(bin) ]] || die "the package postgresql is installed, but there is no /usr/lib/postgresql/*/bin/postgres"
}
case ${1:-} in
  install) [[ -n $(bin) ]] || locked apt install ;;
  bin) bin ;;
  *) die "usage: postgres.sh install|bin" ;;
esac
