//! `host:jobs/log`: the job's log.

use host_core::cell::Level;
use host_core::json::JsonText;
use wasmtime::Result;

use crate::bindings::host::jobs::log::{Host, Level as GuestLevel};
use crate::context::Guest;

impl Host for Guest {
    fn write(
        &mut self,
        level: GuestLevel,
        message: String,
        fields: Vec<(String, String)>,
    ) -> Result<()> {
        let pairs = fields.into_iter();
        let texts = pairs.map(|(name, text)| (name, JsonText::string(&text)));
        self.output.write(level.into(), message, texts.collect());
        Ok(())
    }

    fn write_json(
        &mut self,
        level: GuestLevel,
        message: String,
        fields: Vec<(String, String)>,
    ) -> Result<()> {
        let pairs = fields.into_iter();
        let values = pairs.map(|(name, text)| (name, value(text)));
        self.output.write(level.into(), message, values.collect());
        Ok(())
    }
}

impl From<GuestLevel> for Level {
    fn from(level: GuestLevel) -> Self {
        match level {
            GuestLevel::Trace => Self::Trace,
            GuestLevel::Debug => Self::Debug,
            GuestLevel::Info => Self::Info,
            GuestLevel::Warn => Self::Warn,
            GuestLevel::Error => Self::Error,
        }
    }
}

/// Returns a value of a field: the JSON that the guest wrote, or its text if readers could not read it or would round it.
fn value(text: String) -> JsonText {
    let json = JsonText(text);
    if json.flaw().is_none() && json.rounded_number().is_none() {
        json
    } else {
        JsonText::string(json.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_readers_could_not_have_becomes_a_string() {
        for (written, kept) in [
            ("7", "7"),
            (r#"{"a":[1.5,null]}"#, r#"{"a":[1.5,null]}"#),
            (r#""7""#, r#""7""#),
            ("seven", r#""seven""#),
            ("", r#""""#),
            ("1 2", r#""1 2""#),
            ("18446744073709551616", r#""18446744073709551616""#),
            (r#""\ud800""#, r#""\"\\ud800\"""#),
        ] {
            assert_eq!(value(written.to_owned()).as_str(), kept, "{written}");
        }
        let deep = "[".repeat(500) + &"]".repeat(500);
        assert_eq!(value(deep.clone()).plain(), deep);
    }
}
