//! The handler `hero.rhai`: runs one Rhai script. It sets no limits of its own; those of the sandbox
//! apply.

mod calls;
mod ending;
mod http;
mod store;
mod value;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use guest_sdk::schemars::{self, JsonSchema};
use guest_sdk::{Category, Ctx, Error, Level, export_handlers, handler};
use rhai::module_resolvers::DummyModuleResolver;
use rhai::{Dynamic, Engine, Map, Module, OptimizationLevel};
use serde::Deserialize;
use serde_json::{Value, json};

use self::calls::{Answer, Calls};

export_handlers!(run);

/// How many operations pass between checks for cancellation.
const OPERATIONS_PER_CHECK: u64 = 1 << 12;

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// The Rhai script.
    script: String,
    /// The caller; the script sees it as the constant `CALLER_ID`.
    #[serde(default)]
    caller_id: String,
    /// The context; the script sees it as the constant `CONTEXT_ID`.
    #[serde(default)]
    context_id: String,
    /// Environment variables for this script, in addition to those that the manifest grants. The
    /// script sees each as a constant, and all of them as the map `ENV`.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The answers to the script's calls so far. The host sets them.
    #[serde(default)]
    calls: Vec<Answer>,
}

/// Runs a Rhai script and returns the value of its last expression. `print` and `debug` write to the
/// job's log, `run(handler, params)` returns the result of another handler. `CALLER_ID`, `CONTEXT_ID`,
/// `ENV` and each environment variable are constants.
#[handler("hero.rhai", schema)]
fn run(ctx: &Ctx, params: Params) -> Result<Value, Error> {
    let mut env = granted();
    env.extend(params.env);
    let calls = Calls::new(params.calls);
    let mut engine = engine(ctx, &calls);
    engine.register_global_module(constants(params.caller_id, params.context_id, env).into());
    let ast = engine
        .compile(&params.script)
        .map_err(|error| ending::of_parsing(&error))?;
    let result: Dynamic = engine
        .eval_ast(&ast)
        .map_err(|error| ending::of_running(&error, &calls))?;
    value::to_json(&result).map_err(|error| {
        let message = format!("the script's result {error}");
        Error::new(Category::UserCode, "script_result", message).retryable(false)
    })
}

/// Makes the module of constants. It is global, because functions of a script see no other variables.
fn constants(caller_id: String, context_id: String, env: BTreeMap<String, String>) -> Module {
    let mut module = Module::new();
    for (name, value) in &env {
        module.set_var(name.as_str(), value.clone());
    }
    let env: Map = env
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    module
        .set_var("ENV", env)
        .set_var("CALLER_ID", caller_id)
        .set_var("CONTEXT_ID", context_id);
    module
}

/// Returns the environment variables that the handler's manifest grants.
#[expect(
    clippy::disallowed_methods,
    reason = "a guest sees only the variables that its manifest grants"
)]
fn granted() -> BTreeMap<String, String> {
    std::env::vars().collect()
}

/// Makes an engine without limits, file access or modules.
fn engine(ctx: &Ctx, calls: &Calls) -> Engine {
    let mut engine = Engine::new();
    engine
        .set_module_resolver(DummyModuleResolver::new())
        .set_optimization_level(OptimizationLevel::None)
        .set_max_call_levels(usize::MAX)
        .set_max_expr_depths(0, 0)
        .set_max_operations(0)
        .set_max_string_size(0)
        .set_max_array_size(0)
        .set_max_map_size(0);
    calls.register(&mut engine);
    store::register(&mut engine, ctx, calls);
    http::register(&mut engine, ctx, calls);
    // Skip output that an earlier run of the script has logged.
    let (log, repeats) = (ctx.clone(), calls.clone());
    engine.on_print(move |text| {
        if !repeats.is_repeating() {
            log.info(text);
        }
    });
    let (log, repeats) = (ctx.clone(), calls.clone());
    engine.on_debug(move |text, _source, position| {
        if repeats.is_repeating() {
            return;
        }
        let line = position.line().unwrap_or_default();
        log.log(Level::Debug, text, json!({ "line": line }));
    });
    let cancellation = ctx.clone();
    engine.on_progress(move |operations| {
        let checks_now = operations % OPERATIONS_PER_CHECK == 0;
        (checks_now && cancellation.cancelled().is_some()).then_some(Dynamic::UNIT)
    });
    engine
}
