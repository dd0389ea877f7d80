//! The world `job` of `host:jobs@1.0.0`, generated.

wasmtime::component::bindgen!({
    path: "../../wit/host-jobs-1.0.0",
    world: "job",
    imports: {
        "host:jobs/control.sleep-ms": async,
        default: trappable,
    },
    exports: { default: async },
});
