//! Kinds of problems, which say the same to every client.

/// One kind of problem. Codes are stable: the same cause always has the same code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The stable code.
    pub code: &'static str,
    /// The HTTP status, 400 to 599.
    pub status: u16,
    /// A short title, the same for every occurrence.
    pub title: &'static str,
    /// What the problem means.
    pub meaning: &'static str,
    /// What the client should do next.
    pub next: &'static str,
    /// The time after which the request may be repeated, in seconds.
    pub retry_after_seconds: Option<u32>,
}

/// A document with a wrong field.
pub static INVALID_REQUEST: Kind = Kind {
    code: "invalid_request",
    status: 422,
    title: "Invalid request",
    meaning: "The document is JSON, but a field is unknown, missing, out of range or of the wrong type.",
    next: "Correct the field that the detail names; /api/v1/openapi.json lists all fields.",
    retry_after_seconds: None,
};
