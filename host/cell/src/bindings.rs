//! The generated bindings of the world `job` of `host:jobs@1.1.0`.

wasmtime::component::bindgen!({
    path: "../../wit/host-jobs-1.1.0",
    world: "job",
    imports: {
        "host:jobs/control.sleep-ms": async,
        "host:jobs/http.send": async,
        "host:jobs/jobs.enqueue": async,
        "host:jobs/jobs.enqueue-now": async,
        default: trappable,
    },
    exports: { default: async },
});
