# The orchestrator's side of one connection, as in the document of beads-workers: sends two tasks, the
# second of which a sensible worker refuses, then WAIT, then SHUTDOWN.
# It logs what it receives to the file WITNESS.
tasks=(beads-workers-abc --force)

while read -r line; do
    echo "$line" >>"$WITNESS"
    message_type=$(echo "$line" | jq -r '.type')
    worker_id=$(echo "$line" | jq -r '.worker_id')
    [ "$message_type" = READY ] || continue
    base='"worker_id":"'"$worker_id"'","timestamp":'"$(date +%s.%N)"
    if [ ${#tasks[@]} -gt 0 ]; then
        echo '{"type":"TASK",'"$base"',"issue_id":"'"${tasks[0]}"'","priority":2,"title":"Implement feature X"}'
        tasks=("${tasks[@]:1}")
    elif [ -z "$waited" ]; then
        waited=1
        echo '{"type":"WAIT",'"$base"',"wait_seconds":1}'
    else
        echo '{"type":"SHUTDOWN",'"$base"',"reason":"idle_timeout"}'
    fi
done
