//! The generated bindings of the world `job` of `host:jobs@1.2.0`.

wasmtime::component::bindgen!({
    path: "../../wit/host-jobs-1.2.0",
    world: "job",
    imports: {
        "host:jobs/control.sleep-ms": async,
        "host:jobs/http.send": async,
        "host:jobs/jobs.enqueue": async,
        "host:jobs/jobs.enqueue-now": async,
        "host:jobs/limits.hold": async,
        "host:jobs/secrets.reveal": async,
        "host:jobs/sql.query": async,
        "host:jobs/sql.query-in": async,
        "host:jobs/sql.begin": async,
        "host:jobs/sql.commit": async,
        "host:jobs/sql.rollback": async,
        "host:jobs/state.get": async,
        "host:jobs/state.set": async,
        "host:jobs/state.delete": async,
        "host:jobs/state.compare-and-set": async,
        "host:jobs/state.list": async,
        "host:jobs/state.set-now": async,
        "host:jobs/state.delete-now": async,
        "host:jobs/state.compare-and-set-now": async,
        default: trappable,
    },
    exports: { default: async },
});
