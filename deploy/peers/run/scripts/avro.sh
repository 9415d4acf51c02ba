#!/usr/bin/env bash
# avro.sh install                fetches Avro's Java library, compiles AvroPeer.java against it and prints the folder of jars and classes
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
[[ ${1:-} == install ]] || die "usage: avro.sh install"
java_packages
avro=1.12.1
here=$(dirname "$0")
fetch() {
  jars "$1" "org.apache.avro:avro:$avro" org.slf4j:slf4j-nop:2.0.17
  "$(java_home javac)/bin/javac" -nowarn -cp "$1/*" -d "$1" "$here/AvroPeer.java" >&2
}
# What was compiled belongs to its source.
name=avro-$avro-$(sha256sum "$here/AvroPeer.java" | cut -c1-8)
assembled "$name" fetch
echo "$CACHE/$name"
