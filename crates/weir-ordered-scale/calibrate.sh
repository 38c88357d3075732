#!/bin/sh
# Measures the costs of testdata/ordered-costs.jsonl on this machine, which should do nothing else:
#   crates/weir-ordered-scale/calibrate.sh target/release/weir-ordered-bench > testdata/ordered-costs.jsonl
# Processor times are of threads, so other programs add to them by caches, not by waiting. The least time of all runs of a load counts.
set -eu
bench=$1
repeat=${2:-3}
seconds=${3:-2}
note=$(printf '%s, %s cores, load %s at the begin; commit %s; weir-ordered-bench --shards 3 --replicas 3 --clients 256 --unpacked --no-answers --seconds %s, %s times each' \
    "$(date -u +%Y-%m-%d)" "$(nproc)" "$(cut -d' ' -f1 /proc/loadavg)" "$(git rev-parse --short HEAD)" "$seconds" "$repeat")
printf '{"note":"%s"}\n' "$note"
# Cost of an entry of a log that a message carries: see docs/internals/ordered-baselines.md.
printf '{"entry_ns":%s}\n' "${ENTRY_NS:-500}"
for round in $(seq "$repeat"); do
    for protocol in nt-ur ordered ordered-global granola tapir lock-store; do
        for load in "srw 0" "mrmw 20" "mrmw 100" "crmw 20"; do
            set -- $load
            "$bench" --protocol "$protocol" --workload "$1" --distributed "$2" --shards 3 --replicas 3 --clients 256 \
                --unpacked --no-answers --seconds "$seconds" --seed "$round" ||
                printf 'calibrate: %s %s %s failed\n' "$protocol" "$1" "$2" >&2
        done
    done
done
