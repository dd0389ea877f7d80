//! How this system confines cells, as reported by a child that is confined like one.

use std::path::Path;

use host_cells::sandbox::cgroup::{self, NotDelegated};
use host_cells::sandbox::spawn::Confinement;
use host_core::cell::Protection;
use host_server::probe;

use super::Check;
use crate::commands::serve;

/// The name of the check.
const NAME: &str = "cells";

/// The advice for too little protection.
const NEXT: &str = "use Linux 5.13 or later with Landlock, or allow user namespaces, or set cells.allow_weak = true";

/// Starts a child and judges what it has.
pub(super) fn confined(confinement: Confinement, folder: &Path, slots: u32) -> Check {
    let is_allowed = confinement.allow_weak;
    match ask(confinement, folder, slots) {
        Ok(protection) => judge(&protection, is_allowed),
        Err(error) => Check::fail(
            NAME,
            error,
            "follow the advice above; no job can run until then",
        ),
    }
}

fn ask(mut confinement: Confinement, folder: &Path, slots: u32) -> Result<Protection, String> {
    confinement.allow_weak = true;
    let program = serve::program("check cells", confinement).map_err(|error| error.to_string())?;
    probe::run(&program, folder, slots).map_err(|error| error.to_string())
}

fn judge(protection: &Protection, is_allowed: bool) -> Check {
    let Protection { missing, reduced } = protection;
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return if is_allowed {
            let found = format!("weak, as cells.allow_weak says: {missing}");
            Check::warn(NAME, found, "unset cells.allow_weak unless you need it")
        } else {
            Check::fail(NAME, format!("not fully sandboxed: {missing}"), NEXT)
        };
    }
    if reduced.is_empty() {
        return Check::ok(NAME, "seccomp, Landlock, and namespaces of their own");
    }
    let next =
        "optional: cells get more protection if the kernel allows user namespaces and Landlock";
    Check::warn(NAME, format!("confined, but: {}", reduced.join(", ")), next)
}

/// Says what the kernel limits, if cells of a host that is started here have control groups.
pub(super) fn grouped() -> Check {
    groups(cgroup::find().map(|found| found.controllers))
}

fn groups(controllers: Result<Vec<&'static str>, NotDelegated>) -> Check {
    let found = match controllers {
        Ok(none) if none.is_empty() => {
            "one for each cell, which is killed with it; limits are not delegated".to_owned()
        }
        Ok(some) => format!("one for each cell, with limits: {}", some.join(", ")),
        Err(reason) => format!("not available to a host that is started here: {reason}"),
    };
    Check::ok("control groups", found)
}

#[cfg(test)]
mod tests {
    use host_wire_kit::check::Status;

    use super::*;

    #[test]
    fn it_says_which_limits_the_kernel_keeps() {
        let table = [
            (Ok(vec!["memory", "cpu"]), "with limits: memory, cpu"),
            (Ok(Vec::new()), "not delegated"),
            (
                Err(NotDelegated("it is full".to_owned())),
                "not available to a host that is started here: it is full",
            ),
        ];
        for (controllers, words) in table {
            let check = groups(controllers);
            assert_eq!(check.status, Status::Ok, "a host does without");
            assert!(check.found.contains(words), "{check:?}");
        }
    }

    #[test]
    fn what_is_missing_fails_unless_it_is_allowed() {
        let none = Vec::new;
        let some = || vec!["no lock".to_owned()];
        #[rustfmt::skip]
        let table = [
            (none(), none(), false, Status::Ok),
            (none(), some(), false, Status::Warn),
            (some(), none(), false, Status::Fail),
            (some(), some(), false, Status::Fail),
            (some(), none(), true, Status::Warn),
        ];
        for (missing, reduced, is_allowed, status) in table {
            let check = judge(&Protection { missing, reduced }, is_allowed);
            assert_eq!(check.status, status, "{check:?}");
        }
    }
}
