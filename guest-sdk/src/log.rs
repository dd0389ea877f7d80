//! Fields of a line of the job's log.

use serde_json::Value;

/// The fields of a line: pairs of texts, or a JSON object, whose values keep their types.
pub trait LogFields {
    /// Returns the names and values.
    fn into_pairs(self) -> Vec<(String, Value)>;
}

impl LogFields for &[(&str, &str)] {
    fn into_pairs(self) -> Vec<(String, Value)> {
        let pairs = self.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), Value::from(*value)))
            .collect()
    }
}

impl<const N: usize> LogFields for &[(&str, &str); N] {
    fn into_pairs(self) -> Vec<(String, Value)> {
        self[..].into_pairs()
    }
}

impl LogFields for &Vec<(&str, &str)> {
    fn into_pairs(self) -> Vec<(String, Value)> {
        self[..].into_pairs()
    }
}

/// A value that is not an object becomes the field `value`.
impl LogFields for Value {
    fn into_pairs(self) -> Vec<(String, Value)> {
        match self {
            Self::Object(fields) => fields.into_iter().collect(),
            other => vec![("value".to_owned(), other)],
        }
    }
}
