#!/usr/bin/env bash
# mariadb.sh install            installs MariaDB's server (Debian's package, 10.11 in Debian 12) if there is none
# mariadb.sh data DIR           makes a data directory
# The package is the core alone: it brings the programs and starts no server of its own.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
PATH=$PATH:/usr/sbin
case ${1:-} in
  install) packages mariadbd mariadb-server-core mariadb-client-core ;;
  data) mariadb-install-db --no-defaults "--datadir=$2" "--user=$(id -un)" --auth-root-authentication-method=normal --skip-test-db >&2 ;;
  *) die "usage: mariadb.sh install | mariadb.sh data DIR" ;;
esac
