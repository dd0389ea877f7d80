//! One file per noun. This one only knows their names.

pub(crate) mod cell;
pub(crate) mod completion;
pub(crate) mod component;
pub(crate) mod deploy;
pub(crate) mod docs;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod handler;
pub(crate) mod hero;
pub(crate) mod job;
pub(crate) mod queue;
pub(crate) mod run;
pub(crate) mod runner;
pub(crate) mod serve;
pub(crate) mod store;
mod waiting;
pub(crate) mod worker;

use crate::args::Noun;
use crate::error::CliError;

/// Runs a command to its end.
pub(crate) fn run(noun: Noun) -> Result<(), CliError> {
    match noun {
        Noun::Serve(serve) => serve.run(),
        Noun::Run(run) => run.run(),
        Noun::Deploy(deploy) => deploy.run(),
        Noun::Component(component) => component.run(),
        Noun::Handler(handler) => handler.run(),
        Noun::Job(job) => job.run(),
        Noun::Hero(hero) => hero.run(),
        Noun::Queue(queue) => queue.run(),
        Noun::Runner(runner) => runner.run(),
        Noun::Doctor(doctor) => doctor.run(),
        Noun::Store(store) => store.run(),
        Noun::Worker(worker) => worker.run(),
        Noun::Explain(explain) => explain.run(),
        Noun::Completion(completion) => completion.run(),
        Noun::Cell(cell) => cell.run(),
        Noun::CliDocs => docs::run(),
    }
}
