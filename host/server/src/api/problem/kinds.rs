//! The kinds of problem of this API, beside those that every JSON API has.

pub use host_http::problem::kinds::*;

host_http::kinds! {
    INVALID_PARAMS 422 "invalid_params", "Params do not fit the handler",
        "The params violate the JSON Schema that the handler declares.",
        "Correct the params at the places the detail names; `host handler show NAME` prints the schema.";
    HANDLER_NOT_FOUND 422 "handler_not_found", "No such handler",
        "No deployed component has a handler of this name, and no runner is configured for it. The status is 404 where the path names the handler.",
        "Deploy the component that has it, or correct the name; `host handler ls` lists the handlers, `host runner ls` the runners.";
    OUT_OF_SCOPE 403 "out_of_scope", "Out of the token's scope",
        "The token may not use this queue, or this handler in this queue. This does not reveal whether they exist.",
        "Use a queue and a handler of the token's scope, which `GET /api/v1/tokens/self` shows.";
    SECOND_PERSON_NEEDED 409 "second_person_needed", "A second principal must accept",
        "With auth.two_people_for_grants, the principal that accepts new grants must differ from the one that tried to deploy the same file within the last day.",
        "Have one principal deploy without --accept-grants, which is refused, and another deploy the same file with it.";
    UNSIGNED_COMPONENT 422 "unsigned_component", "No trusted signature",
        "deploy.trusted_keys is set, so this host runs only components with a signature by one of these keys. It also holds for earlier revisions and for those that other nodes have deployed.",
        "Sign the file (`minisign -Sm FILE`) with a trusted key and deploy it with the signature beside it; `host component verify FILE` checks it.";
    RUNNER_NOT_FOUND 404 "runner_not_found", "No such runner",
        "No pool of foreign runners has this name.",
        "`host runner ls` lists them; docs/config.md says how to configure one.";
    DEPENDENCY_CYCLE 422 "dependency_cycle", "Jobs wait for each other",
        "The jobs depend on each other in a circle, so none of them could ever start.",
        "Remove one of the references along the path in the detail from depends_on or dependencies.";
    UNKNOWN_PREREQUISITE 422 "unknown_prerequisite", "Unknown prerequisite",
        "This host does not know, or no longer keeps, a job named in depends_on.",
        "Name a job that exists; one that has ended is kept for its retention, by default 7 days.";
    UNIQUE_KEY_TAKEN 409 "unique_key_taken", "Another job has the unique key",
        "Another job of the queue has the same unique key and has not ended, so this one cannot run again now.",
        "Wait for the job that the detail names, or cancel it.";
    PREREQUISITE_GONE 409 "prerequisite_gone", "A prerequisite is gone",
        "A job that the job waits for was removed after its retention, and its outcome is unknown.",
        "`host job retry ID --force` runs the job without it; over HTTP, retry with {\"force\": true}.";
    PREREQUISITE_COMPLETED 409 "prerequisite_completed", "A prerequisite has completed",
        "The job waits for another one to fail, and that one has completed, which is final.",
        "`host job retry ID --force` runs the job all the same; over HTTP, retry with {\"force\": true}.";
    INPUT_HIDDEN 403 "input_hidden", "Result of another job",
        "An input is the result of a job that was there before. That needs the verb read_payload, and handlers cannot ask for it.",
        "Enqueue both jobs in one request, and name the other one as \"#n\".";
    INPUT_FAILED 409 "input_failed", "Input cannot be given",
        "The result of a job that the job depends on is too large for its params, too deep, or no longer kept.",
        "`host job retry ID --force` runs the job without the inputs that it lacks.";
    TOO_MANY_INPUTS 413 "too_many_inputs", "Too many inputs in one request",
        "The jobs of a request may get the results of at most 100 jobs that have ended, with at most 8 MiB of params.",
        "Split the array, or enqueue the jobs before those that they depend on end.";
    CASCADE_UNFINISHED 409 "cascade_unfinished", "Dependents not settled yet",
        "The job, or one that it waits for, has ended with many dependents, which are still being settled.",
        "Retry it in a moment; over HTTP, {\"force\": true} runs a dependent at once."
        retry 1;
    TOO_MANY_DEPENDENCIES 413 "too_many_dependencies", "Too many dependencies in one request",
        "The jobs of a request may name at most 10000 jobs in depends_on, all together.",
        "Split the array, or put a job between those that wait for the same jobs and these.";
    TOO_MANY_JOBS 413 "too_many_jobs", "Too many jobs in one request",
        "An array may have at most 1000 jobs.",
        "Split the array.";
    SCHEDULE_NOT_FOUND 404 "schedule_not_found", "No such schedule",
        "No schedule has this name.",
        "`host schedule ls` lists the schedules.";
    SCHEDULE_OWNED 409 "schedule_owned", "Schedule is managed elsewhere",
        "The schedule comes from the configuration or from a component's manifest, and changes with it.",
        "Change it there, or choose another name.";
    SCHEDULE_CHANGED 409 "schedule_changed", "Schedule has changed",
        "The schedule has fired or was changed meanwhile.",
        "Send the request again.";
    TOO_MANY_SCHEDULES 409 "too_many_schedules", "Too many schedules",
        "The host keeps at most 10000 schedules.",
        "Remove some with `host schedule rm`; `host schedule ls` lists them.";
    LIMIT_NOT_FOUND 404 "limit_not_found", "No such limit",
        "No limit has this name.",
        "`host limit ls` lists the limits.";
    LIMIT_OWNED 409 "limit_owned", "Limit is managed elsewhere",
        "The limit comes from the configuration, and changes with it.",
        "Change it there, or choose another name.";
    TOO_MANY_LIMITS 409 "too_many_limits", "Too many limits",
        "The host keeps at most 1000 limits.",
        "Remove some with `host limit rm`; `host limit ls` lists them.";
    LIMIT_FULL 422 "limit_full", "Limit is full",
        "The job's key has reached a limit that refuses further jobs.",
        "Send it again later. `host limit show NAME` shows how full the limit is; with `when_full` set to `wait`, jobs wait.";
    TOO_MANY_LIMITS_OF_JOB 422 "too_many_limits_of_job", "Too many limits for one job",
        "More than 4 limits match the job.",
        "Narrow `match` of some; `host limit ls` lists the limits.";
    LIMIT_KEY_TOO_LONG 422 "limit_key_too_long", "Limit key too long",
        "The value that a limit takes from the job as its key is longer than 256 bytes.",
        "Send a shorter value, or let the key of the limit name another one.";
    INVALID_LIMIT_UNITS 422 "invalid_limit_units", "Invalid units of a limit",
        "What a limit takes from the job as its units is not a whole number, or is more than its burst, so that the job could never start.",
        "Send a whole number that is not above the burst, or raise the burst; `host limit show NAME` shows the limit.";
    BATCH_NOT_FOUND 404 "batch_not_found", "No such batch",
        "No batch has this id. One that has ended is forgotten after its retention, usually 7 days.",
        "`host batch ls` lists the batches.";
    BATCH_CLOSED 409 "batch_closed", "Batch is closed",
        "The batch is closed, cancelled or has ended: it takes no more jobs, except from handlers of its own jobs.",
        "Make another batch with `host batch new`; `--open` lets you add to it.";
    BATCH_FULL 422 "batch_full", "Batch is full",
        "A batch may have at most 1000000 jobs.",
        "Make another batch with `host batch new`.";
    TOO_MANY_BATCHES 409 "too_many_batches", "Too many batches",
        "There are 10000 batches that have not ended.",
        "Close or cancel some; `host batch ls` lists them.";
    STATE_NOT_FOUND 404 "state_not_found", "No such state",
        "The space of state does not have this key.",
        "`host state ls SPACE` lists the keys, `host state ls` the spaces.";
    STATE_CHANGED 409 "state_changed", "State has changed",
        "A key of state does not have the value that the change expects.",
        "Read the key again and retry with its new value.";
    STATE_FULL 409 "state_full", "State is full",
        "The change would make the space of state larger than the handler's manifest allows.",
        "Remove keys with `host state rm`, or raise `state.quota_kib` in the manifest.";
    TOO_MANY_QUEUES 409 "too_many_queues", "Too many queues",
        "The host has reached limits.queues. A queue stays known when its last job is gone.",
        "Use a queue that exists; `host queue ls` lists them. Or raise limits.queues.";
    TOO_MANY_WAITING 429 "too_many_waiting", "Too many jobs wait",
        "The waiting and running jobs have reached limits.waiting_jobs. Nothing of this request was kept.",
        "Wait until jobs have ended, cancel some, or raise limits.waiting_jobs.";
    TOO_MANY_OWNED 429 "too_many_of_token", "Too many jobs of the token wait",
        "The token has reached its limit of waiting and running jobs. Nothing of this request was kept.",
        "Wait until some have ended; `GET /api/v1/tokens/self` shows how many there are.";
    TOO_MANY_COMPONENTS 409 "too_many_components", "Too many components",
        "The host has reached limits.components.",
        "Remove one with `host component rm`, or raise limits.components.";
    CACHE_FULL 507 "cache_full", "Cache of compiled components full",
        "Compiled components have reached limits.cache_mib, so no other component is compiled.",
        "Remove files from the cache folder: they are recompiled when needed. Or raise limits.cache_mib.";
    INVALID_MULTIPART 400 "invalid_multipart", "Not a multipart body",
        "The body is not a multipart document with a part `component` and perhaps a part `manifest`.",
        "Send the two parts by these names, each at most once.";
    JOB_NOT_FOUND 404 "job_not_found", "No such job",
        "No job has this id, in full or as a prefix.",
        "`host job ls` lists the jobs; one that has ended is kept for its retention, by default 7 days.";
    TOKEN_NOT_FOUND 404 "token_not_found", "No such token",
        "No token has this id, or it allows more than the requester's token.",
        "`host token ls` lists the tokens.";
    TOKEN_TOO_BROAD 403 "token_too_broad", "More than the token allows",
        "A token makes only tokens that allow no more than itself. The detail names what exceeds it.",
        "Ask for less, or use a token that allows it.";
    TOO_MANY_TOKENS 409 "too_many_tokens", "Too many tokens",
        "The host keeps at most 10000 tokens.",
        "Revoke some with `host token revoke`; `host token ls` lists them.";
    AMBIGUOUS_ID 409 "ambiguous_id", "Ambiguous id",
        "Several jobs or nodes have ids that start with it, or several nodes have the name.",
        "Give more characters of the id.";
    JOB_TERMINAL 409 "job_terminal", "The job has ended",
        "The job has ended already in a way that does not allow this.",
        "Look at the job's state; enqueue a new job to run it again.";
    JOB_NOT_TERMINAL 409 "job_not_terminal", "The job has not ended",
        "Only jobs that are discarded or cancelled can be run again.",
        "It runs by itself: wait for its end, or cancel it first. If it is pending, `host job retry ID \
         --force` starts it without the jobs that it waits for; over HTTP, retry with {\"force\": true}.";
    JOB_FOREIGN 409 "job_foreign", "A job of another orchestrator",
        "The job was executed for another orchestrator; what is kept here is its history.",
        "Ask the orchestrator that the job's wire and external_id name to run it again.";
    STALE_LEASE 409 "stale_lease", "Not the current lease",
        "The message is about a lease that is not the current one, is not acknowledged or is over.",
        "Stop the work: another worker does it or has done it.";
    NODE_NOT_FOUND 404 "node_not_found", "No such node",
        "No node of the store has this name or id, in full or as a prefix.",
        "`host node ls` lists the nodes; one that has gone is listed for a day.";
    NODE_GONE 409 "node_gone", "The node is gone",
        "The node has exited, or has sent no heartbeat for so long that other nodes take over its jobs.",
        "There is nothing to drain. `host node ls` shows when it was last seen.";
    QUEUE_NOT_FOUND 404 "queue_not_found", "No such queue",
        "No queue of this name has or had jobs or is paused.",
        "`host queue ls` lists the queues; a queue exists from its first job on.";
    COMPONENT_NOT_FOUND 404 "component_not_found", "No such component",
        "No component of this name is deployed.",
        "`host component ls` lists the components.";
    REVISION_NOT_FOUND 404 "revision_not_found", "No such revision",
        "The component has no revision of this number.",
        "`host component show NAME` lists its revisions.";
    HANDLER_OWNED 409 "handler_owned", "Handler of another component",
        "A handler of the component has the name of one that another component has.",
        "Rename the handler, or remove the other component.";
    COMPONENT_IN_USE 409 "component_in_use", "Component in use",
        "Jobs that have not ended need handlers of the component.",
        "Wait for these jobs or cancel them, then remove the component.";
    COMPONENT_INVALID 422 "component_invalid", "Not a component",
        "The bytes are not a WebAssembly component, or not a valid one.",
        "Build for wasm32-wasip2; a core module or a compiled file is not accepted.";
    COMPONENT_TOO_LARGE 413 "component_too_large", "Component too large",
        "The component's file is larger than 32 MiB.",
        "Build with optimization and strip names.";
    COMPONENT_WRONG_WORLD 422 "component_wrong_world", "Not a job component",
        "The component does not export what the world host:jobs/job requires.",
        "Build it with the guest SDK or against the WIT package host:jobs@1.1.0.";
    COMPONENT_FORBIDDEN_IMPORT 422 "component_forbidden_import", "Forbidden import",
        "The component imports something that this host gives to no component.",
        "Build it without the import that the detail names.";
    COMPILE_FAILED 422 "compile_failed", "Cannot compile",
        "The component could not be compiled within the limits of the compiling process.",
        "Make it smaller or less deeply nested; the detail says which limit it met.";
    DESCRIBE_FAILED 422 "describe_failed", "Cannot describe",
        "The component did not give a valid answer when asked for its handlers.",
        "Correct its `describe`; the detail says how it ended.";
    SCHEMA_INVALID 422 "schema_invalid", "Schema not usable",
        "A handler's schema is not a valid JSON Schema, is larger than 64 KiB, is nested deeper than 32 levels, or refers to files or addresses.",
        "Correct the schema of the handler that the detail names.";
    MANIFEST_INVALID 422 "manifest_invalid", "Manifest not usable",
        "The manifest is not TOML, has an unknown key, a value out of range, a handler that the component does not have or another component's name.",
        "Correct the key the detail names.";
    GRANT_MISSING 422 "grant_missing", "Grant not possible",
        "The manifest grants something that this host does not grant or does not have.",
        "Allow it in the section `grants` of the configuration (read_roots, env, http or secrets), or take the grant out of the manifest.";
    GRANTS_NOT_ACCEPTED 409 "grants_not_accepted", "New grants",
        "With this revision handlers would get grants that they do not have now.",
        "Review what the detail lists; then repeat the request with --accept-grants; over HTTP a deploy with ?accept_grants=true, a rollback with \"accept_grants\": true.";
    WAITING_JOBS_UNFIT 409 "waiting_jobs_unfit", "Waiting jobs do not match the schema",
        "The revision has a schema that the params of waiting jobs do not match. They would be discarded with invalid_params when they start. The detail says how many of the oldest 1,000 of each handler.",
        "Accept the old params in the schema, or wait until the jobs have ended; --force deploys or rolls back anyway, over HTTP ?force=true or, in a rollback, \"force\": true.";
    STOPPING 503 "stopping", "Stopping",
        "The host is stopping. Whether the request was carried out is unknown.",
        "Check once it is back before you repeat it; an enqueue with `unique` of scope `retained` may be repeated."
        retry 1;
    DRAINING 503 "draining", "Draining",
        "An operator has asked this host to start no more jobs. It still answers. What it accepts waits, or runs at the other nodes of its store.",
        "`host node resume ID` lets it start jobs again."
        retry 1;
    STORE_FULL 507 "store_full", "Disk full",
        "There is no room on the disk; nothing of this request was kept. The last 64 MiB are kept so that accepted jobs can end, and new ones need 128 MiB, or less if jobs were removed.",
        "Free space where the data directory is and repeat the request.";
    STORE_MOVED 503 "store_moved", "Store moved",
        "The data directory was moved, removed or replaced while the host was running. Nothing of this request was kept; accepted jobs continue.",
        "Put the data directory back, and the host takes jobs again; or stop the host.";
    STORE_AWAY 503 "store_away", "Database unreachable",
        "The database that keeps the jobs does not answer. Nothing of this request was done. The host keeps trying to reconnect.",
        "Check that the server of `store.url` runs and is reachable; then repeat the request."
        retry 1;
    OUTCOME_UNKNOWN 504 "outcome_unknown", "Outcome unknown",
        "The connection to the database was lost during the commit, so it is unknown whether the request took effect.",
        "Check once the database is back before you repeat the request; an enqueue with `unique` of scope `retained` may be repeated at once.";
    STORE_FAILED 500 "store_failed", "Not stored",
        "The store failed to carry out this request three times, even alone. Nothing of it was kept, and other requests go on.",
        "The detail has the store's reason. Ask for less at once, or repeat the request later.";
    STORE_BROKEN 500 "store_broken", "Store broken",
        "The store cannot read or write.",
        "Read the host's log; check the disk and restart the host.";
    STORE_DAMAGED 500 "store_damaged", "Store damaged",
        "What is on disk is not what was written.",
        "Restore the data directory from a copy.";
}
