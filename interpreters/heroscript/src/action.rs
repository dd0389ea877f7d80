//! One parsed action of a script.

use serde::Serialize;

/// The level of an action: how many `!` precede it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// `!`: data access.
    Dal,
    /// `!!`: services, the usual level.
    Sal,
    /// `!!!`: a macro.
    Macro,
    /// `!!!!`: the journal.
    Wal,
}

/// One action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Action {
    #[serde(rename = "type")]
    pub level: Level,
    /// The part of the name before the dot.
    pub actor: String,
    /// The part of the name after the dot.
    pub name: String,
    /// The value of the pair `id`, which is removed from `params`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The comment directly before the action, with its line breaks.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub comments: String,
    /// The `key:value` pairs, in the order of the script.
    pub params: Vec<(String, String)>,
    /// The words without a key, in the order of the script.
    pub args: Vec<String>,
    /// The line where the action begins, counted from 1.
    #[serde(skip)]
    pub line: usize,
}
