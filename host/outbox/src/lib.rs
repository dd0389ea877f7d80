//! Jobs that an application enqueues in a transaction of its own `PostgreSQL`: it calls the function `host.enqueue`, which
//! writes a row of the table `host.outbox`. [`drain`] hands the rows over to the host, any number of which may share an
//! outbox, and deletes what was accepted.

mod drain;
mod numbers;
mod sql;

pub use self::drain::{Outbox, drain};
pub use self::numbers::Numbers;
pub use self::sql::{RefusedJob, Roles, Status, install, retry, script, status};
