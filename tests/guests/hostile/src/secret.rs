//! A handler that sees a secret, and shows it wherever it can.

use std::io::Write as _;

use guest_sdk::{Ctx, Error, Level, handler};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
pub(crate) struct RevealParams {
    /// The name of the secret.
    name: String,
    end: End,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    Completed,
    Failed,
    Retry,
    Cancelled,
    Panic,
    /// Shows the value only in two lines, in a way that nothing can be hidden.
    InParts,
}

#[handler]
pub(crate) fn reveal(ctx: &Ctx, params: RevealParams) -> Result<Value, Error> {
    let value = match ctx.secret(&params.name) {
        Ok(value) => value,
        Err(error) => {
            return Ok(json!({"kind": format!("{:?}", error.kind), "message": error.message}));
        }
    };
    if let End::InParts = params.end {
        let (start, rest) = value.split_at(5);
        ctx.info(start);
        ctx.info(rest);
        return Ok(json!(value.len()));
    }
    ctx.info(format!("a line with {value} in it"));
    ctx.log(
        Level::Warn,
        "with fields",
        json!({"key": [&value], (value.clone()): "key", "number": 7}),
    );
    ctx.progress(50.0, format!("at {value}"));
    println!("a line of stdout with {value}");
    // Without a line break, it is logged when the run ends.
    eprint!("the last words are {value}");
    let flushed = std::io::stderr().flush();
    flushed.map_err(|error| Error::fatal("stderr", error))?;
    let failed = || {
        Error::fatal(value.clone(), format!("failed with {value}"))
            .code(value.clone())
            .details(&json!({"is": value, (value.clone()): 1}))
    };
    match params.end {
        End::Failed => Err(failed()),
        End::Retry => Err(Error::retry_after_ms(format!("again: {value}"), 0)),
        End::Cancelled => Err(Error::cancelled(&json!([value]))),
        End::Panic => panic!("panics with {value}"),
        End::Completed | End::InParts => Ok(json!({"is": value, (value.clone()): [1, value]})),
    }
}
