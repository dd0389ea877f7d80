//! The only maker of ids: chance has its home here.

use std::cell::RefCell;

use host_core::id::{JobId, LeaseId};
use host_core::time::Time;
use rustix::rand::{GetRandomFlags, getrandom};
use uuid::{Builder, Uuid};

/// How much chance is fetched at once, in bytes: asking the system costs more than an id.
const FETCHED_BYTES: usize = 1 << 10;

/// Makes the id of a job accepted at `now`: ids sort by that instant.
pub fn job(now: Time) -> JobId {
    let ms = u64::try_from(now.0).unwrap_or_default();
    JobId(Builder::from_unix_timestamp_millis(ms, &chance()).into_uuid())
}

/// Makes the id of a lease: 122 random bits.
pub fn lease() -> LeaseId {
    LeaseId(Builder::from_random_bytes(chance()).into_uuid())
}

/// Makes an id of 122 random bits, in full.
#[expect(clippy::disallowed_methods, reason = "the home of chance")]
pub fn uuid() -> String {
    Uuid::new_v4().to_string()
}

/// Makes a word that nobody else makes, for the names of files.
#[expect(clippy::disallowed_methods, reason = "the home of chance")]
pub fn unique() -> String {
    Uuid::new_v4().simple().to_string()
}

/// Random bytes of one thread, each of them given out once.
struct Store {
    bytes: [u8; FETCHED_BYTES],
    left: usize,
}

/// Returns random bytes that nobody else gets.
///
/// # Panics
///
/// If the system has none, as ids by anything else would not be ids.
fn chance<const N: usize>() -> [u8; N] {
    thread_local! {
        static STORE: RefCell<Store> = const {
            RefCell::new(Store { bytes: [0; FETCHED_BYTES], left: 0 })
        };
    }
    STORE.with_borrow_mut(|store| {
        if store.left < N {
            store.left = 0;
            while store.left < FETCHED_BYTES {
                match getrandom(&mut store.bytes[store.left..], GetRandomFlags::empty()) {
                    Ok(bytes) => store.left += bytes,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => panic!("the system has no random bytes: {error}"),
                }
            }
        }
        store.left -= N;
        let mut given = [0; N];
        given.copy_from_slice(&store.bytes[store.left..store.left + N]);
        given
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_id_comes_twice() {
        let ids = 10 * FETCHED_BYTES / 16;
        let leases: BTreeSet<Uuid> = (0..ids).map(|_| lease().0).collect();
        assert_eq!(leases.len(), ids);
        let jobs: BTreeSet<Uuid> = (0..ids).map(|_| job(Time(1_000)).0).collect();
        assert_eq!(jobs.len(), ids);
    }

    #[test]
    fn ids_say_what_they_are() {
        assert_eq!(lease().0.get_version_num(), 4);
        let id = job(Time(1_795_261_559_288)).0;
        assert_eq!(id.get_version_num(), 7);
        let ms = id.get_timestamp().unwrap().to_unix();
        assert_eq!(ms, (1_795_261_559, 288_000_000));
        assert!(job(Time(1_000)).0 < job(Time(1_001)).0);
    }
}
