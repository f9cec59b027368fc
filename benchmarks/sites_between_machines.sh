#!/usr/bin/env bash
# The story of docs/sites.md between four machines, which are network namespaces of this one: nothing is shared but
# disks. The coordinator's firewall lets port 8443 in and drops all else; sites let nothing in, and reach nobody but it.
#
#     sudo UNSKEW="$PWD/.venv/bin/python -m unskew" bash benchmarks/sites_between_machines.sh
#
# Needs root, iproute2 and nftables. Whatever it makes it takes away again.
set -eu
unskew=${UNSKEW:-unskew} python=${PYTHON:-${unskew%% *}}
machines=(coordinator north south east)
work=$(mktemp -d) pids=()

clean_up() {
    [ -d "$work/coordinator/ops" ] && on coordinator federation stop ops >/dev/null || true
    for name in "${machines[@]}"; do # whoever still lives in these namespaces was started here
        for pid in $(ip netns pids "un-$name" 2>/dev/null); do kill "$pid" 2>/dev/null || true; done
    done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    for name in "${machines[@]}"; do
        ip netns del "un-$name" 2>/dev/null || true
        rm -rf "/etc/netns/un-$name"
    done
    rm -rf "$work"
}
trap clean_up EXIT

in_space() { # in_space MACHINE COMMAND...
    local name=$1
    shift
    (cd "$work/$name" && exec ip netns exec "un-$name" env HOME="$work/$name" COLUMNS=100 "$@")
}
on() { local name=$1; shift; in_space "$name" $unskew "$@"; }
show() { # show MACHINE WORDS...: a command and what it says, as the documentation has it
    local name=$1 words=() word
    shift
    for word in "$@"; do case $word in *" "*) words+=("\"$word\"") ;; *) words+=("$word") ;; esac; done
    echo "$name\$ unskew ${words[*]}"
    on "$name" "$@" 2>&1 || true
}

for name in "${machines[@]}"; do
    mkdir -p "$work/$name" "/etc/netns/un-$name"
    ip netns add "un-$name"
    ip -n "un-$name" link set lo up
done
for k in 1 2 3; do
    name=${machines[$k]}
    ip link add "un-c$k" netns un-coordinator type veth peer name eth0 netns "un-$name"
    ip -n un-coordinator addr add "10.99.$k.1/24" dev "un-c$k"
    ip -n un-coordinator link set "un-c$k" up
    ip -n "un-$name" addr add "10.99.$k.2/24" dev eth0
    ip -n "un-$name" link set eth0 up
    ip -n "un-$name" route add default via "10.99.$k.1"
    printf '127.0.0.1 localhost\n10.99.%s.1 fl.example.org\n' "$k" >"/etc/netns/un-$name/hosts"
done
printf '127.0.0.1 localhost fl.example.org\n' >/etc/netns/un-coordinator/hosts
wall() { # wall MACHINE RULE: drop what comes in but answers, its own, and what the rule lets in
    ip netns exec "un-$1" nft -f - <<RULES
table inet wall {
    chain input {
        type filter hook input priority 0; policy drop;
        iif lo accept
        ct state established,related accept
        $2
    }
    chain forward { type filter hook forward priority 0; policy drop; }
}
RULES
}
wall coordinator "tcp dport 8443 accept"
for name in north south east; do wall "$name" ""; done

(cd "$work/coordinator" && $python - <<'DATA'
import pathlib
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

digits = load_digits()
table = pd.DataFrame(digits.data.astype(int), columns=[f"p{k}" for k in range(64)])
table["digit"] = digits.target
table = table.sample(frac=1, random_state=0)
table[:300].to_csv("coordinator.csv", index=False)
rest, rng = table[300:], np.random.default_rng(0)
home = np.repeat([0, 1, 2], [4, 3, 3])[rest["digit"]]
place = np.where(rng.random(len(rest)) < 0.7, home, rng.integers(0, 3, len(rest)))
for k, site in enumerate(["north", "south", "east"]):
    held = rest[place == k]
    if site == "north":
        held = held.assign(ward=np.where(np.arange(len(held)) % 3, "A", "B"))
    held.to_csv(f"../{site}/visits.csv", index=False)
pathlib.Path("experiment.toml").write_text(
    'dataset = "coordinator.csv"\nlabel = "digit"\nmethod = "fedprox(mu=0.01)"\n'
    'model = "mlp"\nrounds = 10\nepochs = 2\nlr = 0.1\n'
)
DATA
)

show coordinator federation init ops --sites north,south,east --host fl.example.org
for name in north south east; do
    cp -rp "$work/coordinator/ops/hand-out/$name" "$work/$name/$name"
    rm -r "$work/coordinator/ops/hand-out/$name"
done
show coordinator federation start ops
for name in north south east; do
    more=(--allow "label counts")
    [ "$name" = north ] && more=(--client-column ward "${more[@]}")
    [ "$name" = south ] && more=("${more[@]}" --max-rounds 50)
    on "$name" site start "$name" --data visits.csv --label digit "${more[@]}" >"$work/$name/said" 2>&1 &
    pids+=($!)
done
for _ in $(seq 120); do
    there=$(on coordinator federation status ops --json | $python -c \
        'import json, sys; print(sum(s["online"] and "problem" not in s for s in json.load(sys.stdin)["sites"]))')
    [ "$there" = 3 ] && break
    sleep 1
done
echo "--- what north said"
head -n 3 "$work/north/said"
echo "--- who reaches what"
probe='import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 2).close(); print("answers")
except OSError as problem: print(f"nobody ({problem})")'
for where in "fl.example.org 8443" "fl.example.org 22" "10.99.2.2 8443"; do
    echo "from north to $where: $(in_space north $python -c "$probe" $where)"
done
echo "from the coordinator to north 8443: $(in_space coordinator $python -c "$probe" 10.99.1.2 8443)"
asks='import ssl, sys, urllib.request, urllib.error
trust = ssl.create_default_context(cafile=sys.argv[1])
try: urllib.request.urlopen("https://fl.example.org:8443/v1/control/list-runs", data=b"", context=trust)
except urllib.error.HTTPError as problem: print(problem.code)'
echo "Flower's control interface, asked by north: $(in_space north $python -c "$asks" north/ca.crt)"
echo "---"
time show coordinator federation status ops
show coordinator diagnose --sites ops
show coordinator run experiment.toml --sites ops --out runs/first
show coordinator report runs/first
show coordinator run experiment.toml --sites ops --out runs/second --method ccvr
show coordinator run experiment.toml --sites ops --out runs/second --rounds 100
show coordinator run experiment.toml --sites ops --out runs/second --method centralized
echo "--- what north's officer reads"
cat "$work/north/north/sent.log"
