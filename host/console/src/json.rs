//! JSON of answers and of arguments.

mod argument;

pub use argument::argument;

/// Returns the JSON object `object` with one more member at its end.
pub fn with_member(object: &str, key: &str, value: &str) -> String {
    let Some(open) = object.trim_end().strip_suffix('}') else {
        return object.to_owned();
    };
    let comma = if open.trim_end().ends_with('{') {
        ""
    } else {
        ","
    };
    format!("{open}{comma}\"{key}\":{value}}}")
}

#[cfg(test)]
mod tests;
