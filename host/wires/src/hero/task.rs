//! What a worker executes: a script, or a handler with its params. Knows neither role.

use host_core::json::JsonText;
use serde_json::Value;

/// The handler that executes a script from its params.
pub const SCRIPT: &str = "script";

/// What a foreign worker executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// A script.
    Script(String),
    /// A handler that the worker has, with its params.
    Handler {
        name: String,
        /// A JSON object.
        params: JsonText,
    },
}

impl Task {
    /// Returns the fields of the task in a job's hash.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Script(script) => vec![("script", script.clone())],
            Self::Handler { name, params } => vec![
                ("handler", name.clone()),
                ("script", params.as_str().to_owned()),
            ],
        }
    }

    /// Makes the task from a handler's name and params. For [`SCRIPT`], the script is the text
    /// `script` of the params. The error describes what is wrong with the params.
    pub fn of(handler: String, params: JsonText) -> Result<Self, String> {
        if handler != SCRIPT {
            let name = handler;
            return Ok(Self::Handler { name, params });
        }
        let found = match serde_json::from_str(params.as_str()) {
            Ok(Value::Object(mut params)) => params.remove(SCRIPT).unwrap_or_default(),
            _ => Value::Null,
        };
        match found {
            Value::String(script) if !script.is_empty() => Ok(Self::Script(script)),
            Value::String(_) => Err("params.script: expected a script, found no text".to_owned()),
            Value::Null => Err("params.script: expected a text, found nothing".to_owned()),
            _ => Err("params.script: expected a text, found something else".to_owned()),
        }
    }
}
