#!/usr/bin/env bash
# hdfs.sh install               fetches Apache Hadoop 3.5.0's HDFS and compiles HdfsPeer.java against it; prints its folder
# hdfs.sh DIR CONTROL RPC [RPC] runs it in the foreground on 127.0.0.1, data in DIR: a NameNode on each port RPC, of two the first active,
#                               and one DataNode, in one JVM. HTTP on the port CONTROL says when it is ready and does what HdfsPeer.java lists.
# No security: who you are is what the client says; permissions are enforced, and /tmp and /user are open to everyone.
# KERBEROS=authentication|integrity|privacy: with Kerberos, what is sent protected so, and a KDC of its own: krb5.conf and the keytab of alice@PEER.TEST are in DIR/secure, and hdfs/localhost@PEER.TEST is HDFS.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
java_packages
version=3.5.0
here=$(dirname "$0")
fetch() {
  jars "$1/lib" org.apache.hadoop:hadoop-client-minicluster:$version org.apache.hadoop:hadoop-minikdc:$version org.slf4j:slf4j-simple:1.7.36
  rm -f "$1"/lib/slf4j-reload4j-*.jar
  mkdir "$1/classes"
  (cd "$1/classes" && "$(java_home javac)/bin/jar" xf "../lib/hadoop-client-minicluster-$version.jar" webapps) # beside the jar they start seconds faster
  "$(java_home javac)/bin/javac" -nowarn -cp "$1/lib/*" -d "$1/classes" "$here/HdfsPeer.java" >&2
}
# What was compiled belongs to its source.
name=hdfs-$version-$(sha256sum "$here/HdfsPeer.java" | cut -c1-8)
assembled "$name" fetch
home=$CACHE/$name
if [[ ${1:-} == install ]]; then
  echo "$home"
  exit
fi
mkdir -p "$1/tmp"
exec "$(java_home)/bin/java" -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.net.preferIPv4Stack=true "-Djava.io.tmpdir=$1/tmp" \
  "-Duser.home=$1" -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp "$home/classes:$home/lib/*" HdfsPeer "$@"
