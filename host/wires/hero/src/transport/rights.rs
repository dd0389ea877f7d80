//! Checks that our user may run all commands of a worker, before any work is taken: without them,
//! jobs would be left half written. `rights.lua` lists the commands.

#[cfg(test)]
mod tests;

use redis::Cmd;

use crate::messages;

const SOURCE: &str = include_str!("../lua/rights.lua");

/// Makes the command that returns which of a worker's commands the user may not run.
pub(crate) fn ask(worker_id: &str) -> Cmd {
    let keys = [
        messages::work_queue(worker_id),
        messages::processing(worker_id),
        messages::stop_queue(worker_id),
        messages::dead_letters(worker_id),
        messages::job_key("rights"),
        messages::claim_key("rights"),
        messages::reply_queue("rights"),
        messages::resting(worker_id),
    ];
    let mut cmd = redis::cmd("EVAL");
    cmd.arg(SOURCE).arg(keys.len()).arg(&keys);
    cmd
}

/// Describes which rights are missing and how to grant them; `None` if none is missing.
pub(crate) fn explain(address: &str, missing: &[String]) -> Option<String> {
    if missing.is_empty() {
        return None;
    }
    let rights: Vec<String> = missing
        .iter()
        .map(|name| format!("+{}", name.to_ascii_lowercase()))
        .collect();
    Some(format!(
        "{address}: its user may not run {} on the keys of this worker; there, \
         `ACL SETUSER USER ~hero:* {}` allows it",
        missing.join(", "),
        rights.join(" ")
    ))
}
