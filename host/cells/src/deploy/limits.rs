//! Which limits of handlers a new revision changes. They are shown to the user who deploys: a deploy without
//! a manifest resets what an earlier one set.

use host_core::handler::HandlerInfo;
use host_core::name::Name;
use host_engine::component::{Manifest, Revision};

/// A changed limit of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitChange {
    /// The handler.
    pub handler: Name,
    /// Which limit, with its unit.
    pub limit: &'static str,
    /// The value before; `None` if it was not set.
    pub before: Option<u64>,
    /// The value now; `None` if it is not set.
    pub after: Option<u64>,
}

/// Returns what changes for handlers that the current revision also has.
pub fn changed(
    current: Option<&Revision>,
    manifest: &Manifest,
    handlers: &[HandlerInfo],
) -> Vec<LimitChange> {
    let Some(current) = current else {
        return Vec::new();
    };
    let is_known = |name: &Name| current.handlers.iter().any(|old| old.name == *name);
    let known = handlers.iter().filter(|handler| is_known(&handler.name));
    let changes = known.flat_map(|handler| {
        let name = &handler.name;
        let both = named_limits(&current.manifest, name).into_iter();
        both.zip(named_limits(manifest, name))
            .map(|((limit, before), (_, after))| LimitChange {
                handler: name.clone(),
                limit,
                before,
                after,
            })
    });
    changes.filter(|it| it.before != it.after).collect()
}

/// Returns all limits of a handler.
fn named_limits(manifest: &Manifest, name: &Name) -> [(&'static str, Option<u64>); 14] {
    let (limits, kept) = (manifest.limits(name), manifest.retention(name));
    let policy = manifest.policy(name);
    [
        ("memory_bytes", Some(limits.memory_bytes)),
        ("fuel", limits.fuel),
        ("timeout_ms", Some(limits.timeout_ms)),
        ("grace_ms", Some(limits.grace_ms)),
        ("result_bytes_max", Some(limits.result_bytes_max)),
        ("log_bytes_max", Some(limits.log_bytes_max)),
        ("scratch_bytes", Some(limits.scratch_bytes)),
        ("artifact_bytes", Some(limits.artifact_bytes)),
        ("steps_max", Some(limits.steps_max)),
        ("max_attempts", Some(policy.max_attempts.into())),
        ("backoff_base_ms", Some(policy.backoff.base_ms)),
        ("backoff_max_ms", Some(policy.backoff.max_ms)),
        ("retention_ms", kept.ms),
        ("retention_discarded_ms", kept.discarded_ms),
    ]
}

#[cfg(test)]
mod tests {
    use host_core::time::Time;
    use host_engine::component::Digest;

    use super::*;
    use crate::deploy::grants::tests::handlers;
    use crate::deploy::manifest::parse;

    #[test]
    fn a_manifest_that_is_left_out_takes_limits_back() {
        let before = "[defaults]\nmemory_mib = 256\n[handlers.x]\nfuel = 7\nretention_seconds = 60\n\
                      max_attempts = 3\nbackoff = { base_seconds = 5 }";
        let current = Revision {
            component: "c".parse().unwrap(),
            revision: 1,
            digest: Digest([0; 32]),
            manifest: parse(before).unwrap(),
            handlers: handlers(&["x", "y", "gone"]),
            deployed_at: Time(0),
            signature: None,
            schedules: Vec::new(),
            release: host_engine::component::Release::default(),
        };
        let names = handlers(&["x", "y", "new"]);
        let changes = |manifest: &str| {
            let changes = changed(Some(&current), &parse(manifest).unwrap(), &names);
            let line = |it: &LimitChange| {
                let (before, after) = (it.before.unwrap_or(0), it.after.unwrap_or(0));
                format!("{} {} {before} {after}", it.handler, it.limit)
            };
            changes.iter().map(line).collect::<Vec<_>>()
        };
        assert_eq!(
            changes(""),
            [
                "x memory_bytes 268435456 67108864",
                "x fuel 7 0",
                "x max_attempts 3 20",
                "x backoff_base_ms 5000 1000",
                "x retention_ms 60000 0",
                "y memory_bytes 268435456 67108864",
            ]
        );
        assert!(changes(before).is_empty());
        let one = before.replace("fuel = 7", "fuel = 8");
        assert_eq!(changes(&one), ["x fuel 7 8"]);
        assert!(changed(None, &parse(before).unwrap(), &names).is_empty());
    }
}
