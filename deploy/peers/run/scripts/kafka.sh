#!/usr/bin/env bash
# kafka.sh install               fetches Apache Kafka 4.4.0 with its clients and tools; prints the folder of the jars
# kafka.sh DIR PORT CONTROLLER   runs one node (broker and controller, KRaft) in the foreground on 127.0.0.1:PORT, data in DIR, empty at the start
# KAFKA_HEAP_OPTS sets the heap (-Xmx512m); SETTINGS holds further lines of the server's properties, LISTENERS further listeners (",NAME://HOST:PORT…")
# and PROTOCOLS theirs (",NAME:PROTOCOL…").
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
version=4.4.0
name=kafka-$version
fetch() { jars "$1/lib" org.apache.kafka:kafka_2.13:$version org.apache.kafka:kafka-tools:$version org.apache.logging.log4j:log4j-slf4j-impl:2.25.5; }
java_packages
assembled "$name" fetch
lib=$CACHE/$name/lib
if [[ ${1:-} == install ]]; then
  echo "$lib"
  exit
fi
dir=$1 port=$2 controller=$3
mkdir -p "$dir"
console_log "$dir/log4j2.properties" INFO
console_log "$dir/quiet.properties" WARN
cat >"$dir/server.properties" <<CONF
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller${LISTENERS:-}
advertised.listeners=PLAINTEXT://127.0.0.1:$port${LISTENERS:-}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT${PROTOCOLS:-}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:$controller
log.dirs=$dir/data
num.partitions=1
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=5
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
${SETTINGS:-}
CONF
java=$(java_home)/bin/java
if [[ ! -e $dir/data/meta.properties ]]; then
  id=$(head -c 16 /dev/urandom | base64 | tr '+/' 'ab' | tr -d '=')
  "$java" -XX:TieredStopAtLevel=1 "-Dlog4j2.configurationFile=$dir/quiet.properties" -cp "$lib/*" kafka.tools.StorageTool format -t "$id" -c "$dir/server.properties" >&2
fi
# Kafka takes keys that verify tokens only from where a system property allows.
keys=$(sed -n 's/.*\.jwks\.endpoint\.url=//p' "$dir/server.properties" | paste -sd,)
# shellcheck disable=SC2086
exec "$java" ${KAFKA_HEAP_OPTS:--Xms128m -Xmx512m} -XX:+UseG1GC "-Dlog4j2.configurationFile=$dir/log4j2.properties" -Djava.awt.headless=true \
  "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=$keys" -cp "$lib/*" kafka.Kafka "$dir/server.properties"
