//! The tables of a store: one description for each cold thing.

use crate::artifact::tables::{ARTIFACT_CONTENTS, ARTIFACTS, INPUT_FILES, UPLOAD_USAGE, UPLOADS};
use crate::audit::tables::AUDIT;
use crate::batch::tables::BATCHES;
use crate::component::tables::{BLOBS, COMPONENTS, REVISIONS};
use crate::limit::tables::{LIMIT_KEYS, LIMITS};
use crate::schedule::tables::{FIRINGS, SCHEDULES};
use crate::state::tables::{SPACES, STATE};
use crate::step::tables::STEPS;
use crate::table::Table;
use crate::token::tables::TOKENS;

/// The tables. Tests compare the rows of all stores.
pub static TABLES: [&Table; 18] = [
    &COMPONENTS,
    &REVISIONS,
    &BLOBS,
    &STATE,
    &SPACES,
    &TOKENS,
    &AUDIT,
    &SCHEDULES,
    &FIRINGS,
    &LIMITS,
    &LIMIT_KEYS,
    &BATCHES,
    &ARTIFACTS,
    &ARTIFACT_CONTENTS,
    &INPUT_FILES,
    &UPLOADS,
    &UPLOAD_USAGE,
    &STEPS,
];
