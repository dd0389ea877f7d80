//! Code that `#[handler]` and `export_handlers!` expand to. Do not call it directly.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ctx::Ctx;
use crate::error::{Category, Error};

/// Describes one handler of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The name under which jobs call the handler.
    pub name: &'static str,
    /// What the handler does.
    pub description: Option<&'static str>,
    /// The JSON Schema of the params.
    pub params_schema: Option<String>,
    /// The JSON Schema of the result.
    pub result_schema: Option<String>,
}

/// Describes a handler without JSON Schemas.
pub fn describe<P, R>(
    name: &'static str,
    description: Option<&'static str>,
    _handler: fn(&Ctx, P) -> Result<R, Error>,
) -> Description {
    Description {
        name,
        description,
        params_schema: None,
        result_schema: None,
    }
}

/// Describes a handler with the JSON Schemas of its types.
#[cfg(feature = "schema")]
pub fn describe_with_schemas<P: schemars::JsonSchema, R: schemars::JsonSchema>(
    name: &'static str,
    description: Option<&'static str>,
    _handler: fn(&Ctx, P) -> Result<R, Error>,
) -> Description {
    Description {
        name,
        description,
        params_schema: serde_json::to_string(&schemars::schema_for!(P)).ok(),
        result_schema: serde_json::to_string(&schemars::schema_for!(R)).ok(),
    }
}

/// Calls a handler: deserializes its params from JSON and serializes its result to JSON.
pub fn call<P: DeserializeOwned, R: Serialize>(
    ctx: &Ctx,
    params: &str,
    handler: fn(&Ctx, P) -> Result<R, Error>,
) -> Result<String, Error> {
    let params = serde_json::from_str(params).map_err(|error| {
        let message = format!("the params do not match the handler's type: {error}");
        Error::new(Category::DataQuality, "invalid_params", message)
    })?;
    let result = handler(ctx, params)?;
    serde_json::to_string(&result).map_err(|error| {
        let message = format!("cannot serialize the result as JSON: {error}");
        Error::fatal("invalid_result", message)
    })
}

/// Makes the error for a name that is not a handler of the component.
pub fn not_found(name: &str) -> Error {
    let message = format!("this component has no handler named {name}");
    Error::new(Category::Configuration, "handler_not_found", message)
}

/// Exports handlers from the component: `export_handlers!(one, another);`. Call it once per crate.
#[macro_export]
macro_rules! export_handlers {
    ($($handler:ident),+ $(,)?) => {
        #[doc(hidden)]
        #[allow(dead_code, reason = "called only in a component")]
        mod host_exports {
            pub fn describe() -> ::std::vec::Vec<$crate::export::Description> {
                ::std::vec![$(super::$handler::describe()),+]
            }

            pub fn call(
                ctx: &$crate::Ctx,
                params: &str,
            ) -> ::core::result::Result<::std::string::String, $crate::Error> {
                let name = ctx.job().handler.as_str();
                $(
                    if name == super::$handler::NAME {
                        return super::$handler::call(ctx, params);
                    }
                )+
                ::core::result::Result::Err($crate::export::not_found(name))
            }
        }

        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Component;

            impl $crate::export::wasm::Handlers for Component {
                fn describe() -> ::std::vec::Vec<$crate::export::Description> {
                    host_exports::describe()
                }

                fn call(
                    ctx: &$crate::Ctx,
                    params: &str,
                ) -> ::core::result::Result<::std::string::String, $crate::Error> {
                    host_exports::call(ctx, params)
                }
            }

            type Exported = $crate::export::wasm::Exported<Component>;
            $crate::bindings::export_job!(Exported with_types_in $crate::bindings);
        };
    };
}

/// Connects the generated bindings to the handlers.
#[cfg(target_family = "wasm")]
pub mod wasm {
    use std::marker::PhantomData;

    use super::Description;
    use crate::bindings::exports::host::jobs::handler::Guest;
    use crate::bindings::host::jobs::types as wit;
    use crate::ctx::{Ctx, Job};
    use crate::error::{Category, Error};
    use crate::limits::{DETAILS_BYTES_MAX, LINE_BYTES_MAX, cut};
    use crate::services::Imports;

    /// The handlers of a component. `export_handlers!` implements it.
    pub trait Handlers {
        /// Describes all handlers.
        fn describe() -> Vec<Description>;
        /// Calls the handler that the job names.
        fn call(ctx: &Ctx, params: &str) -> Result<String, Error>;
    }

    /// The component's exports.
    pub struct Exported<H>(PhantomData<H>);

    impl<H: Handlers> Guest for Exported<H> {
        fn describe() -> Vec<wit::HandlerInfo> {
            let describe = |handler: Description| wit::HandlerInfo {
                name: handler.name.to_owned(),
                description: handler.description.map(str::to_owned),
                params_schema: handler.params_schema,
                result_schema: handler.result_schema,
            };
            H::describe().into_iter().map(describe).collect()
        }

        fn handle(context: wit::Context, params: String) -> Result<Option<String>, wit::Failure> {
            let ctx = Ctx::new(job(context), Imports);
            H::call(&ctx, &params).map(Some).map_err(failure)
        }
    }

    fn job(context: wit::Context) -> Job {
        Job {
            id: context.job_id,
            request_id: context.request_id,
            handler: context.function,
            queue: context.queue,
            protocol: context.protocol,
            attempt: context.attempt,
            max_attempts: context.max_attempts,
            enqueued_at: context.enqueued_at,
            deadline: context.deadline,
            worker_id: context.worker_id,
            trace: context.trace,
            attributes: context.attributes,
        }
    }

    /// Returns details as JSON. If they are too long, they become a text without its end.
    fn details(value: serde_json::Value) -> String {
        let json = value.to_string();
        if json.len() <= DETAILS_BYTES_MAX {
            return json;
        }
        serde_json::Value::String(cut(json, DETAILS_BYTES_MAX)).to_string()
    }

    fn failure(error: Error) -> wit::Failure {
        match error {
            Error::Failed(failed) => wit::Failure::Error(wit::JobError {
                category: match failed.category {
                    Category::UserCode => wit::Category::UserCode,
                    Category::DataQuality => wit::Category::DataQuality,
                    Category::Infrastructure => wit::Category::Infrastructure,
                    Category::Configuration => wit::Category::Configuration,
                    Category::Timeout => wit::Category::Timeout,
                },
                kind: cut(failed.kind, LINE_BYTES_MAX),
                message: cut(failed.message, LINE_BYTES_MAX),
                code: failed.code.map(|code| cut(code, LINE_BYTES_MAX)),
                details: failed.details.map(details),
                stack: None,
                retryable: failed.retryable,
            }),
            Error::Retry { reason, after_ms } => wit::Failure::Retry(wit::RetryRequest {
                reason: cut(reason, LINE_BYTES_MAX),
                after_ms,
            }),
            Error::Cancelled { partial } => {
                wit::Failure::Cancelled(partial.map(|partial| partial.to_string()))
            }
        }
    }
}
