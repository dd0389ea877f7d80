//! The kinds of problem of this API, beside those that every JSON API has and those of what the rules refuse.

pub use host_engine::kinds::*;
pub use host_http::problem::kinds::*;

host_http::kinds! {
    INVALID_PARAMS 422 "invalid_params", "Params do not fit the handler",
        "The params violate the JSON Schema that the handler declares.",
        "Correct the params at the places the detail names; `host handler show NAME` prints the schema.";
    SECOND_PERSON_NEEDED 409 "second_person_needed", "A second principal must accept",
        "With auth.two_people_for_grants, the principal that accepts new grants must differ from the one that tried to deploy the same file within the last day.",
        "Have one principal deploy without --accept-grants, which is refused, and another deploy the same file with it.";
    UNSIGNED_COMPONENT 422 "unsigned_component", "No trusted signature",
        "deploy.trusted_keys is set, so this host runs only components with a signature by one of these keys. It also holds for earlier revisions and for those that other nodes have deployed.",
        "Sign the file (`minisign -Sm FILE`) with a trusted key and deploy it with the signature beside it; `host component verify FILE` checks it.";
    RUNNER_NOT_FOUND 404 "runner_not_found", "No such runner",
        "No pool of foreign runners has this name.",
        "`host runner ls` lists them; docs/config.md says how to configure one.";
    TOO_MANY_DEPENDENCIES 413 "too_many_dependencies", "Too many dependencies in one request",
        "The jobs of a request may name at most 10000 jobs in depends_on, all together.",
        "Split the array, or put a job between those that wait for the same jobs and these.";
    TOO_MANY_JOBS 413 "too_many_jobs", "Too many jobs in one request",
        "An array may have at most 1000 jobs.",
        "Split the array.";
    STATE_NOT_FOUND 404 "state_not_found", "No such state",
        "The space of state does not have this key.",
        "`host state ls SPACE` lists the keys, `host state ls` the spaces.";
    ARTIFACT_NOT_FOUND 404 "artifact_not_found", "No such artifact",
        "The job has no artifact of this name, or its file is missing.",
        "`host job show ID` lists the artifacts of a job.";
    CACHE_FULL 507 "cache_full", "Cache of compiled components full",
        "Compiled components have reached limits.cache_mib, so no other component is compiled.",
        "Remove files from the cache folder: they are recompiled when needed. Or raise limits.cache_mib.";
    INVALID_MULTIPART 400 "invalid_multipart", "Not a multipart body",
        "The body is not a multipart document with a part `component` and perhaps a part `manifest`.",
        "Send the two parts by these names, each at most once.";
    TOKEN_TOO_BROAD 403 "token_too_broad", "More than the token allows",
        "A token makes only tokens that allow no more than itself. The detail names what exceeds it.",
        "Ask for less, or use a token that allows it.";
    TOKEN_NAME_SHARED 409 "token_name_shared", "Several tokens have this name",
        "Names of tokens need not differ; this one belongs to several.",
        "Use the id of the token; `host token ls` lists them.";
    AMBIGUOUS_ID 409 "ambiguous_id", "Ambiguous id",
        "Several jobs or nodes have ids that start with it, or several nodes have the name.",
        "Give more characters of the id.";
    NODE_NOT_FOUND 404 "node_not_found", "No such node",
        "No node of the store has this name or id, in full or as a prefix.",
        "`host node ls` lists the nodes; one that has gone is listed for a day.";
    NODE_GONE 409 "node_gone", "The node is gone",
        "The node has exited, or has sent no heartbeat for so long that other nodes take over its jobs.",
        "There is nothing to drain. `host node ls` shows when it was last seen.";
    COMPONENT_INVALID 422 "component_invalid", "Not a component",
        "The bytes are not a WebAssembly component, or not a valid one.",
        "Build for wasm32-wasip2; a core module or a compiled file is not accepted.";
    COMPONENT_TOO_LARGE 413 "component_too_large", "Component too large",
        "The component's file is larger than 32 MiB.",
        "Build with optimization and strip names.";
    COMPONENT_WRONG_WORLD 422 "component_wrong_world", "Not a job component",
        "The component does not export what the world host:jobs/job requires.",
        "Build it with the guest SDK or against the WIT package host:jobs@1.2.0.";
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
        "Allow it in the section `grants` of the configuration (read_roots, env, http, tcp or secrets), or take the grant out of the manifest.";
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
        "Check once the database is back before you repeat the request; an enqueue with `unique` of scope `retained` may be repeated immediately.";
    STORE_FAILED 500 "store_failed", "Not stored",
        "The store failed to carry out this request three times, even alone. Nothing of it was kept, and other requests continue.",
        "The detail has the store's reason. Ask for less in one request, or repeat the request later.";
    STORE_BROKEN 500 "store_broken", "Store broken",
        "The store cannot read or write.",
        "Read the host's log; check the disk and restart the host.";
    STORE_DAMAGED 500 "store_damaged", "Store damaged",
        "What is on disk is not what was written.",
        "Read the detail: `host serve --set-aside-unreadable` gets past a record; otherwise restore the data directory from a copy.";
}
