//! When a cell is killed, for a run of 1 s that is sent at 0 and stopped at different times.

use super::*;

const TIMEOUT_MS: u64 = 1_000;
const LIMIT: i64 = 3_000;

#[test]
fn patience_ends_when_it_should() {
    use Overrun::{ExceededTimeLimit, IgnoredStop};
    #[rustfmt::skip]
    let table: &[(&[(i64, u64)], i64, Option<Overrun>)] = &[
        // stops (at, grace)          looked at    killed
        (&[],                         0,           None),
        (&[],                         LIMIT - 1,   None),
        (&[],                         LIMIT,       Some(ExceededTimeLimit)),
        (&[(100, 0)],                 349,         None),
        (&[(100, 0)],                 350,         Some(IgnoredStop)),
        (&[(100, 500)],               849,         None),
        (&[(100, 500)],               850,         Some(IgnoredStop)),
        (&[(100, 500), (200, 0)],     450,         Some(IgnoredStop)),
        (&[(100, 0), (200, 5_000)],   350,         Some(IgnoredStop)),
        (&[(100, 60_000)],            LIMIT - 1,   None),
        (&[(100, 60_000)],            LIMIT,       Some(ExceededTimeLimit)),
        (&[(100, u64::MAX)],          LIMIT,       Some(ExceededTimeLimit)),
    ];
    for (stops, at, killed) in table {
        let mut kill_deadline = KillDeadline::begin(Time(0), TIMEOUT_MS);
        for (when, grace_ms) in *stops {
            kill_deadline.stop(Time(*when), *grace_ms);
        }
        assert_eq!(
            kill_deadline.overrun(Time(*at)),
            *killed,
            "{stops:?} at {at}"
        );
        assert_eq!(
            Time(*at) >= kill_deadline.kill_at(),
            killed.is_some(),
            "{stops:?} at {at}"
        );
    }
}
