//! Which runs are blamed when a cell dies.

use super::*;

#[test]
fn only_who_may_be_to_blame_is_blamed() {
    use Overrun::{ExceededTimeLimit, IgnoredStop};
    let killed = [(RunId(1), IgnoredStop), (RunId(2), ExceededTimeLimit)];
    let lost = Verdict::Lost;
    #[rustfmt::skip]
    let table = [
        (Death::Crashed,         RunId(1), 1,  lost(Loss::CellDied { jobs: 1 })),
        (Death::Crashed,         RunId(1), 2,  lost(Loss::CellDied { jobs: 2 })),
        (Death::Crashed,         RunId(1), 64, lost(Loss::CellDied { jobs: 64 })),
        (Death::Unborn,          RunId(1), 1,  lost(Loss::Innocent)),
        (Death::HostStops,       RunId(1), 3,  lost(Loss::HostRestarted)),
        (Death::Killed(&killed), RunId(1), 3,  Verdict::Overran(IgnoredStop)),
        (Death::Killed(&killed), RunId(2), 3,  Verdict::Overran(ExceededTimeLimit)),
        (Death::Killed(&killed), RunId(3), 3,  lost(Loss::Innocent)),
    ];
    for (death, run, runs, expected) in table {
        assert_eq!(verdict(death, run, runs), expected, "{death:?} {run:?}");
    }
}
