//! Which discarded jobs the host's log names: of those with the same cause, one a minute.

use std::collections::BTreeMap;

use host_core::failure::FailureKind;
use host_core::time::Time;
use host_engine::Discard;

/// How long other jobs with the same cause are only counted, in milliseconds.
const QUIET_MS: u64 = 60_000;

/// How many causes are kept apart.
const CAUSES_MAX: usize = 1_000;

/// A handler, and how its attempt failed.
type Cause = (String, Option<FailureKind>);

/// What was logged of each cause.
#[derive(Debug, Default)]
pub(crate) struct DiscardLog {
    causes: BTreeMap<Cause, Silence>,
}

/// The time in which jobs with a cause are only counted.
#[derive(Debug)]
struct Silence {
    until: Time,
    jobs: u64,
}

impl DiscardLog {
    /// Logs that a job was discarded, unless another with its cause was logged within the last minute.
    pub(crate) fn report(&mut self, now: Time, discard: &Discard) {
        let Some(others) = self.record(now, discard) else {
            return;
        };
        let Discard {
            job,
            queue,
            handler,
            failure,
        } = discard;
        let failure = failure.map_or("none", FailureKind::as_str);
        tracing::info!(%job, %queue, handler, failure, others, "a job was discarded");
    }

    /// Counts a job. If it is to be logged, returns how many jobs with its cause were not, since the last one that was.
    fn record(&mut self, now: Time, discard: &Discard) -> Option<u64> {
        let cause = (discard.handler.clone(), discard.failure);
        if let Some(silence) = self.causes.get_mut(&cause)
            && now < silence.until
        {
            silence.jobs += 1;
            return None;
        }
        if self.causes.len() >= CAUSES_MAX {
            self.causes.retain(|_, silence| now < silence.until);
        }
        let others = self.causes.remove(&cause).map_or(0, |silence| silence.jobs);
        if self.causes.len() < CAUSES_MAX {
            let until = now.plus_ms(QUIET_MS);
            self.causes.insert(cause, Silence { until, jobs: 0 });
        }
        Some(others)
    }
}

#[cfg(test)]
mod tests {
    use host_core::id::JobId;

    use super::*;

    fn discard(handler: &str) -> Discard {
        Discard {
            job: JobId(uuid::Uuid::from_u128(1)),
            queue: "default".parse().unwrap(),
            handler: handler.to_owned(),
            failure: Some(FailureKind::TimedOut),
        }
    }

    #[test]
    fn a_cause_is_logged_once_a_minute_with_the_number_of_the_others() {
        let mut log = DiscardLog::default();
        let start = Time(1_000);
        assert_eq!(log.record(start, &discard("mail")), Some(0));
        assert_eq!(log.record(start, &discard("report")), Some(0));
        for _ in 0..3 {
            assert_eq!(log.record(start.plus_ms(59_999), &discard("mail")), None);
        }
        assert_eq!(log.record(start.plus_ms(60_000), &discard("mail")), Some(3));
        assert_eq!(log.record(start.plus_ms(60_001), &discard("mail")), None);
    }

    #[test]
    fn the_causes_are_bounded() {
        let mut log = DiscardLog::default();
        for n in 0..2_000 {
            log.record(Time(i64::from(n)), &discard(&format!("h{n}")));
        }
        assert!(log.causes.len() <= CAUSES_MAX);
        let later = Time(i64::MAX / 2);
        log.record(later, &discard("mail"));
        assert_eq!(log.record(later, &discard("mail")), None);
    }
}
