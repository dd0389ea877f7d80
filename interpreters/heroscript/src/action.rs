//! One action of a script, as it was written.

use serde::Serialize;

/// How many `!` stand before an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// `!`: data access.
    Dal,
    /// `!!`: the usual one.
    Sal,
    /// `!!!`: a macro.
    Macro,
    /// `!!!!`: the journal.
    Wal,
}

/// One action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Action {
    /// How many `!` it has.
    #[serde(rename = "type")]
    pub level: Level,
    /// Who acts.
    pub actor: String,
    /// What it does.
    pub name: String,
    /// What it is called, taken out of its pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The comment right before it, a line for each of its lines.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub comments: String,
    /// Its pairs, in the script's order.
    pub params: Vec<(String, String)>,
    /// Its words without a key, in the script's order.
    pub args: Vec<String>,
    /// Where it begins, counted from 1.
    #[serde(skip)]
    pub line: usize,
}
