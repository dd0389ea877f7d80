//! Capabilities: tags that a runner offers and a job asks for. The jobs of one pool that ask for the
//! same tags are a lane, an executor named after the pool and the tags: `ci/arch:arm64/gpu`.

use std::collections::{BTreeMap, BTreeSet};

use host_core::name::Name;
use host_wire_kit::section::{Fallback, List};
use serde::de::{Deserialize, Deserializer, Error as _, Unexpected};

/// The job's attribute with the tags that its runner must offer, separated by commas.
pub(super) const REQUIRES: &str = "delta.requires";

/// Separates the pool and the tags in the name of a lane.
pub(super) const SEPARATOR: char = '/';

/// The longest tag, in bytes.
pub(super) const TAG_BYTES_MAX: usize = 64;

/// The most tags of a runner.
pub(super) const TAGS_MAX: usize = 64;

/// The most lanes of all pools together, without those that ask for nothing.
pub(super) const LANES_MAX: usize = 256;

/// Of these kinds of tag a runner has one.
const SINGLE: [&str; 2] = ["os", "arch"];

/// The tags of a runner, as the configuration lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tags(pub(super) BTreeSet<String>);

impl<'de> Deserialize<'de> for Tags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let List(tags) = List::<String, TAGS_MAX>::deserialize(deserializer)?;
        if let Some(other) = tags.iter().find(|tag| !is_tag(tag)) {
            let wanted = &*format!("tags of 1 to {TAG_BYTES_MAX} characters A-Z a-z 0-9 _ . : -");
            return Err(D::Error::invalid_value(Unexpected::Str(other), &wanted));
        }
        let tags = tags.into_iter().collect();
        match conflict(&tags) {
            Some(kind) => Err(D::Error::custom(format_args!(
                "expected one tag that begins with {kind}:"
            ))),
            None => Ok(Self(tags)),
        }
    }
}

impl Fallback for Tags {
    fn text() -> String {
        List::<String>::text()
    }
}

/// Returns whether a job or a pool may ask for this tag.
pub(super) fn is_tag(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    (1..=TAG_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed)
}

/// Finds two tags that one runner cannot both have. Returns what they are about.
pub(super) fn conflict(tags: &BTreeSet<String>) -> Option<&'static str> {
    SINGLE.into_iter().find(|kind| {
        let of_kind = tags.iter().filter(|tag| {
            let rest = tag.strip_prefix(kind);
            rest.is_some_and(|rest| rest.starts_with(':'))
        });
        of_kind.count() > 1
    })
}

/// Returns the lane of a pool's jobs that ask for these tags. The error is for people.
pub(super) fn lane(pool: &Name, requires: &str) -> Result<Name, String> {
    let mut tags = BTreeSet::new();
    for tag in requires
        .split(',')
        .map(str::trim)
        .filter(|tag| !tag.is_empty())
    {
        if !is_tag(tag) {
            return Err(format!(
                "{REQUIRES}: invalid tag: expected 1–{TAG_BYTES_MAX} characters A-Z a-z 0-9 _ . : -"
            ));
        }
        tags.insert(tag);
    }
    let mut name = pool.to_string();
    for tag in tags {
        name.push(SEPARATOR);
        name.push_str(tag);
    }
    name.parse()
        .map_err(|error| format!("{REQUIRES}: too many tags: {error}"))
}

/// Returns the pool and the tags of a lane, if the name is written as [`lane`] writes it.
pub(super) fn parts(lane: &Name) -> Option<(Name, BTreeSet<String>)> {
    let mut parts = lane.as_str().split(SEPARATOR);
    let pool: Name = parts.next()?.parse().ok()?;
    let tags: BTreeSet<String> = parts.map(str::to_owned).collect();
    let joined = tags
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(",");
    (crate::tags::lane(&pool, &joined).ok()? == *lane).then_some((pool, tags))
}

/// The lanes that jobs have named, beside the pools themselves.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes(BTreeMap<Name, BTreeSet<String>>);

impl Lanes {
    /// Adds a lane. Returns `None` if there are too many, else whether it is new.
    pub(super) fn add(&mut self, lane: &Name, tags: BTreeSet<String>) -> Option<bool> {
        if self.0.contains_key(lane) {
            return Some(false);
        }
        if self.0.len() >= LANES_MAX {
            return None;
        }
        self.0.insert(lane.clone(), tags);
        Some(true)
    }

    /// Returns the lanes of a pool whose jobs a runner with `offered` can execute: those that ask for
    /// most first, the pool itself last.
    pub(super) fn of(&self, pool: &Name, offered: &BTreeSet<String>) -> Vec<Name> {
        let fits = |(lane, tags): &(&Name, &BTreeSet<String>)| {
            let rest = lane.as_str().strip_prefix(pool.as_str());
            rest.is_some_and(|rest| rest.starts_with(SEPARATOR)) && tags.is_subset(offered)
        };
        let mut lanes: Vec<_> = self.0.iter().filter(fits).collect();
        lanes.sort_by_key(|(_, tags)| std::cmp::Reverse(tags.len()));
        let lanes = lanes.into_iter().map(|(lane, _)| lane.clone());
        lanes.chain([pool.clone()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn set(tags: &[&str]) -> BTreeSet<String> {
        tags.iter().map(|tag| (*tag).to_owned()).collect()
    }

    #[test]
    fn a_lane_is_named_after_its_tags_in_order() {
        for (requires, expected) in [
            ("", Ok("ci")),
            (" , ", Ok("ci")),
            ("gpu", Ok("ci/gpu")),
            ("gpu, arch:arm64 ,gpu", Ok("ci/arch:arm64/gpu")),
            ("a b", Err(())),
            ("a/b", Err(())),
            ("é", Err(())),
        ] {
            let lane = lane(&name("ci"), requires);
            let lane = lane.as_ref().map(Name::as_str).map_err(|_| ());
            assert_eq!(lane, expected, "{requires:?}");
        }
        let long = ["a", "b", "c"]
            .map(|tag| tag.repeat(TAG_BYTES_MAX))
            .join(",");
        assert!(lane(&name("ci"), &long).unwrap_err().contains("too many"));
    }

    #[test]
    fn only_a_lane_as_it_is_written_is_found() {
        for (lane, tags) in [
            ("ci", Some(&[][..])),
            ("ci/gpu", Some(&["gpu"])),
            ("ci/arch:arm64/gpu", Some(&["arch:arm64", "gpu"])),
            ("ci/gpu/arch:arm64", None),
            ("ci/gpu/gpu", None),
            ("ci/", None),
            ("/gpu", None),
        ] {
            let expected = tags.map(|tags| (name("ci"), set(tags)));
            assert_eq!(parts(&name(lane)), expected, "{lane}");
        }
    }

    #[test]
    fn a_runner_gets_the_lanes_that_it_can_serve_and_the_pool_last() {
        let mut lanes = Lanes::default();
        for lane in [
            "ci/arch:arm64",
            "ci/arch:arm64/gpu",
            "ci/gpu",
            "cix/gpu",
            "ci/tpu",
        ] {
            let (_, tags) = parts(&name(lane)).unwrap();
            assert_eq!(lanes.add(&name(lane), tags.clone()), Some(true));
            assert_eq!(lanes.add(&name(lane), tags), Some(false));
        }
        let of = |offered: &[&str]| {
            let lanes = lanes.of(&name("ci"), &set(offered));
            lanes
                .iter()
                .map(Name::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(of(&[]), "ci");
        assert_eq!(of(&["gpu", "os:linux"]), "ci/gpu ci");
        assert_eq!(
            of(&["gpu", "arch:arm64"]),
            "ci/arch:arm64/gpu ci/arch:arm64 ci/gpu ci"
        );
    }

    #[test]
    fn lanes_are_limited() {
        let mut lanes = Lanes::default();
        for n in 0..LANES_MAX {
            assert_eq!(lanes.add(&name(&format!("ci/{n}")), set(&[])), Some(true));
        }
        assert_eq!(lanes.add(&name("ci/more"), set(&[])), None);
        assert_eq!(lanes.add(&name("ci/0"), set(&[])), Some(false));
    }

    #[test]
    fn a_runner_has_one_system_and_one_architecture() {
        for (tags, expected) in [
            (
                &["os:linux", "arch:arm64", "toolchain:go", "toolchain:rust"][..],
                None,
            ),
            (&["os:linux", "os:mac"], Some("os")),
            (&["arch:arm64", "arch:amd64"], Some("arch")),
            (&["oslo:a", "oslo:b", "os", "osx"], None),
        ] {
            assert_eq!(conflict(&set(tags)), expected, "{tags:?}");
        }
    }
}
