#!/usr/bin/env bash
# python.sh install              makes a virtual environment with confluent-kafka (librdkafka for Python, with its serializers for Avro) and with what reads files
#                                of warehouses (pyarrow, fastavro, DuckDB), and prints its interpreter
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
[[ ${1:-} == install ]] || die "usage: python.sh install"
wheels=("confluent-kafka[avro]==2.16.1" pyarrow==26.0.1 fastavro==1.13.1 cramjam==2.14.0 backports.zstd==1.8.0 duckdb==2.0.1)
# Debian's python3 comes without ensurepip, and then cannot make an environment.
python_with_venv() { python3 -c 'import ensurepip, venv' 2>/dev/null; }
packages python_with_venv python3 python3-venv
python_with_venv || die "python3 at $(command -v python3) cannot make a virtual environment: it has no ensurepip"
make_venv() {
  python3 -m venv "$1" >&2
  fetch_wheels "$1" || fetch_wheels "$1"
  "$1/bin/python" -c 'import confluent_kafka.schema_registry.avro, pyarrow.dataset, fastavro, duckdb' >&2
}
fetch_wheels() { "$1/bin/python" -m pip install -q --no-input --only-binary :all: "${wheels[@]}" >&2; }
# The environment belongs to the interpreter that made it, and to these wheels.
name=python-$(python3 -c 'import sys, hashlib; print("%d.%d-%s" % (*sys.version_info[:2], hashlib.sha256(" ".join([sys._base_executable, *sys.argv[1:]]).encode()).hexdigest()[:8]))' "${wheels[@]}")
assembled "$name" make_venv
echo "$CACHE/$name/bin/python"
