#!/usr/bin/env bash
# postgres.sh install [18]       installs PostgreSQL with PostGIS (Debian's packages) if there is none; 18: unpacks that version with pgvector
# postgres.sh bin [18]           prints the folder of its programs
# The server itself is started by postgres.go, which knows how to lay down root's rights: PostgreSQL refuses to run as root.
#
# Debian 12 has PostgreSQL 15 and PostGIS, but no pgvector; unstable has PostgreSQL 18 and both. What comes from there needs a newer C library, so
# it is unpacked beside the system, and its programs are scripts that start the real ones with the loader and the libraries that came with them.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

bin() { find /usr/lib/postgresql -path '*/bin/postgres' 2>/dev/null | sort -V | tail -n 1 | xargs -r dirname; }
version() { basename "$(dirname "$(bin)")"; }
server() { [[ -n $(bin) ]]; }
postgis() { [[ -e /usr/share/postgresql/$(version)/extension/postgis.control ]]; }
install() {
  if ! server; then
    # Debian's package starts a server of its own on port 5432; nobody asked for that one.
    local quiet=/etc/postgresql-common/createcluster.d/millrace-peers.conf as=()
    (($(id -u) == 0)) || as=(sudo -n)
    "${as[@]}" mkdir -p "$(dirname "$quiet")"
    echo 'create_main_cluster = false' | "${as[@]}" tee "$quiet" >/dev/null
    apt_install server postgresql postgresql-client
    "${as[@]}" rm -f "$quiet"
    server || die "the package postgresql is installed, but there is no /usr/lib/postgresql/*/bin/postgres"
  fi
  apt_install postgis "postgresql-$(version)-postgis-3"
}

# Run as root, the server becomes the user postgres, who must be able to read its programs.
where() {
  local at=$CACHE
  if (($(id -u) == 0)); then
    while [[ $at != / ]]; do
      if [[ -e $at ]] && ! setpriv --reuid=postgres --regid=postgres --clear-groups test -x "$at"; then
        echo /var/cache/millrace-peers
        return
      fi
      at=$(dirname "$at")
    done
  fi
  echo "$CACHE"
}
unpack() { # DIR
  local root=$1 deb loader libs program
  unstable "$root" postgresql-18 postgresql-18-pgvector
  for deb in "$root"/debs/{postgresql-18,postgresql-client-18,lib}*.deb; do dpkg -x "$deb" "$root"; done
  rm -rf "$root/debs"
  loader=$(cd "$root" && find . -name 'ld-linux*.so.*' | head -n 1)
  [[ -n $loader ]] || die "the C library of Debian's unstable came without its loader"
  libs=$(cd "$root" && find . -maxdepth 3 -type d -path '*/lib/*-linux-gnu*' | sed 's,^\.,$root,' | paste -sd :)
  mkdir "$root/usr/lib/postgresql/18/elf"
  cd "$root/usr/lib/postgresql/18/bin"
  for program in *; do
    [[ $(head -c 4 "$program") == $'\x7fELF' ]] || continue
    mv "$program" ../elf/
    # The folder gets its name only when it is whole: the script finds everything from its own place.
    cat >"$program" <<SCRIPT
#!/bin/sh
root=\$(cd "\$(dirname "\$0")/../../../../.." && pwd)
exec "\$root${loader#.}" --library-path "$libs" --argv0 "\$0" "\$root/usr/lib/postgresql/18/elf/$program" "\$@"
SCRIPT
    chmod 755 "$program"
  done
  chmod -R go+rX "$root"
  "$root/usr/lib/postgresql/18/bin/postgres" --version >&2
}

case ${1:-} in
  install)
    server && postgis || locked apt install
    if [[ ${2:-} == 18 ]]; then
      CACHE=$(where)
      mkdir -p "$CACHE"
      assembled postgres-18-vector unpack
    fi
    ;;
  bin)
    if [[ ${2:-} == 18 ]]; then
      echo "$(where)/postgres-18-vector/usr/lib/postgresql/18/bin"
    else
      bin
    fi
    ;;
  *) die "usage: postgres.sh install|bin [18]" ;;
esac
