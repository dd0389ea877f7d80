//! One file per noun. This one only knows their names.

pub(crate) mod completion;
pub(crate) mod docs;
pub(crate) mod doctor;
pub(crate) mod job;
pub(crate) mod queue;

use crate::args::Noun;
use crate::error::CliError;

/// Runs a command to its end.
pub(crate) fn run(noun: Noun) -> Result<(), CliError> {
    match noun {
        Noun::Job(job) => job.run(),
        Noun::Queue(queue) => queue.run(),
        Noun::Doctor(doctor) => doctor.run(),
        Noun::Completion(completion) => completion.run(),
        Noun::CliDocs => docs::run(),
    }
}
