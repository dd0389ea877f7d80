//! How long jobs are kept after they have ended. The job's own value takes precedence, then its queue's in
//! the configuration, then the manifest of its handler.

use std::collections::BTreeMap;
use std::sync::Arc;

use host_cells::run::handlers::Handler;
use host_core::name::Name;
use host_core::policy::{Retention, RetentionChoice};
use host_engine::webhook::executor;

/// The configured retention of queues. Cloning shares it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retentions(Arc<BTreeMap<Name, RetentionChoice>>);

impl Retentions {
    pub fn new(queues: BTreeMap<Name, RetentionChoice>) -> Self {
        Self(Arc::new(queues))
    }

    /// Returns the retention of a job without its own.
    pub fn choose(&self, queue: &Name, handler: Option<&Handler>) -> RetentionChoice {
        let of_queue = self.0.get(queue).copied().unwrap_or_default();
        let of_handler = handler.map(Handler::retention);
        of_queue.or(of_handler.unwrap_or_default())
    }

    /// Returns how long deliveries of webhooks are kept.
    pub(crate) fn of_deliveries(&self) -> Retention {
        self.choose(&executor(), None).over(Retention::default())
    }

    /// Returns a digest that practically differs if the retention of any queue differs.
    pub fn digest(&self) -> String {
        let of_queues = self.0.iter();
        let stated = of_queues.filter(|(_, choice)| **choice != RetentionChoice::default());
        let lines = stated.map(|(queue, choice)| {
            let ms = |ms: Option<u64>| ms.map_or_else(String::new, |ms| ms.to_string());
            format!("{queue} {} {}\n", ms(choice.ms), ms(choice.discarded_ms))
        });
        // FNV-1a with 64 bits: the same in every build.
        let hash = lines
            .flat_map(String::into_bytes)
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            });
        format!("{hash:016x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_tells_what_holds_for_queues() {
        let of = |queues: &[(&str, Option<u64>, Option<u64>)]| {
            let queues = queues.iter().map(|(queue, ms, discarded_ms)| {
                let (ms, discarded_ms) = (*ms, *discarded_ms);
                (queue.parse().unwrap(), RetentionChoice { ms, discarded_ms })
            });
            Retentions::new(queues.collect()).digest()
        };
        let all = [
            of(&[]),
            of(&[("a", Some(1), None)]),
            of(&[("a", None, Some(1))]),
            of(&[("b", Some(1), None)]),
            of(&[("a", Some(1), None), ("b", Some(1), None)]),
        ];
        for (n, one) in all.iter().enumerate() {
            assert_eq!(all.iter().position(|it| it == one), Some(n), "{all:?}");
        }
        assert_eq!(of(&[]), "cbf29ce484222325", "all versions say the same");
        assert_eq!(of(&[]), of(&[("a", None, None)]), "nothing is said of it");
    }
}
