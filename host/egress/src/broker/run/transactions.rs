//! The open transactions of one run.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tokio::sync::Mutex;

use crate::sql::SqlSession;
use crate::tcp::GrantPlace;

/// The most transactions that one run may have open.
pub(super) const TRANSACTIONS_MAX: usize = 16;

/// The open transactions of a run, by the numbers of its cell.
pub(super) type Transactions = RefCell<HashMap<u32, Rc<Mutex<Transaction>>>>;

/// A transaction of a run. When this is dropped, it is rolled back.
pub(super) struct Transaction {
    pub(super) session: SqlSession,
    pub(super) place: GrantPlace,
}
