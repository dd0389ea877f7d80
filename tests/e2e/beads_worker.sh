# A worker as in the document of beads-workers: reads from its orchestrator, writes to it, and
# parses messages with jq. Its first argument is its name; it logs what it does to the file WITNESS.
# A task whose title begins with "fail" fails.
worker_id=$1

ready() {
    echo '{"type":"READY","worker_id":"'"$worker_id"'","timestamp":'"$(date +%s.%N)"'}'
}

ready
while read -r line; do
    message_type=$(echo "$line" | jq -r '.type')
    issue_id=$(echo "$line" | jq -r '.issue_id // empty')
    case $message_type in
    TASK)
        title=$(echo "$line" | jq -r '.title')
        echo "$worker_id works on $issue_id: $title" >>"$WITNESS"
        case $title in
        fail*) end='"type":"FAILED","error":"command not found"' ;;
        *) end='"type":"DONE"' ;;
        esac
        echo '{'"$end"',"worker_id":"'"$worker_id"'","timestamp":'"$(date +%s.%N)"',"issue_id":"'"$issue_id"'","duration_ms":1}'
        ready
        ;;
    WAIT)
        sleep "$(echo "$line" | jq -r '.wait_seconds')"
        ready
        ;;
    SHUTDOWN)
        echo "$worker_id ends" >>"$WITNESS"
        exit 0
        ;;
    esac
done
