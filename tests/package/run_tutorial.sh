#!/usr/bin/env bash
# Runs the tutorial's program as a parameter server, two workers and an
# evaluator, each a process: run_tutorial.sh PROGRAM FOLDER. Prints what the
# workers print; fails if one of the processes does.
set -u
program=$1 folder=$2
mkdir -p "$folder"

"$program" --role ps --port 0 --train-dir "$folder/run" --mode remote-forward \
  --network tutorial_net --policy async --workers 2 --batch-size 16 --lr 0.03 \
  --max-steps 240 --eval-freq 240 --threads 1 > "$folder/ps.out" 2>&1 &
server=$!
for _ in $(seq 300); do
  port=$(sed -n 's/^listening .*:\([0-9]*\).*/\1/p' "$folder/ps.out" | head -n 1)
  [ -n "$port" ] && break
  kill -0 "$server" 2> /dev/null || { cat "$folder/ps.out"; exit 1; }
  sleep 0.1
done

members=()
for role in worker worker evaluator; do
  "$program" --role "$role" --port "$port" --threads 1 \
    > "$folder/$role.${#members[@]}.out" 2>&1 &
  members+=($!)
done

failed=0
for one in "$server" "${members[@]}"; do
  wait "$one" || failed=1
done
cat "$folder"/worker.*.out
[ $failed = 0 ] || cat "$folder/ps.out"
exit $failed
