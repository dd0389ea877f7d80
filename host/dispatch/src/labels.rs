//! Names as labels of metrics: the first ones to appear, to bound the number of metrics.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// The most names that become labels of their own.
pub(crate) const LABELS_MAX: usize = 100;

/// The label that all further names share. No name starts with it.
pub const OTHER: &str = "_other";

/// The names that are labels. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    known: Arc<Mutex<BTreeSet<String>>>,
}

impl Labels {
    /// Returns the label for a name.
    pub fn of(&self, name: &str) -> String {
        let mut known = self.known.lock();
        if known.contains(name) {
            return name.to_owned();
        }
        if known.len() < LABELS_MAX {
            known.insert(name.to_owned());
            return name.to_owned();
        }
        OTHER.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_limit_share_a_label() {
        let labels = Labels::default();
        for n in 0..LABELS_MAX {
            assert_eq!(labels.of(&format!("q{n}")), format!("q{n}"));
        }
        assert_eq!(labels.of("late"), OTHER);
        assert_eq!(labels.of("q7"), "q7");
    }
}
