#!/usr/bin/env bash
# apicurio.sh install     fetches the server; prints its folder
# apicurio.sh DIR PORT PORT2
#                         runs it in the foreground on 127.0.0.1:PORT, what manages it on PORT2
#
# A schema registry of others: Apicurio Registry 3.0.9, the last line that runs on Java 17, over plain HTTP, without a sign-in. The
# API of Confluent's registry is below /apis/ccompat/v7. All is in memory: each start is empty, and the global level is NONE.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
version=3.0.9
name=apicurio-$version
fetch() {
  mvn -q -B -Dstyle.color=never dependency:copy "-Dartifact=io.apicurio:apicurio-registry-app:$version:tar.gz:all" "-DoutputDirectory=$1" >&2
  tar xzf "$1/apicurio-registry-app-$version-all.tar.gz" -C "$1"
  rm "$1/apicurio-registry-app-$version-all.tar.gz"
}
java_packages
assembled "$name" fetch
if [[ ${1:-} == install ]]; then
  echo "$CACHE/$name"
  exit
fi
cd "$1"
exec "$(java_home javac)/bin/java" -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.net.preferIPv4Stack=true -Dquarkus.http.host=127.0.0.1 \
  "-Dquarkus.http.port=$2" -Dquarkus.management.host=127.0.0.1 "-Dquarkus.management.port=$3" \
  -Dquarkus.http.access-log.enabled=false '-Dquarkus.log.category."io.apicurio".level=WARN' -jar "$CACHE/$name/apicurio-registry-app-$version-runner.jar"
