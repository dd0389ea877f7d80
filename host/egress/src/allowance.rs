//! What an attempt may still do by its grants: so many requests, with so many bytes in all of their bodies. The runs of
//! an attempt share it: a script that is started again continues where it was.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use host_core::egress::{HttpError, HttpErrorKind, Pass};
use host_core::http_grant::{REQUESTS_DEFAULT, TOTAL_MIB_DEFAULT};
use host_core::tcp_grant::{GrantKind, TcpGrant};

use crate::policy::Order;
use crate::tcp::GrantPlace;

/// The allowances of the attempts that have not ended.
#[derive(Default)]
pub(crate) struct Attempts {
    by_number: RefCell<HashMap<u64, HashMap<User, Rc<Allowance>>>>,
}

/// The component, its revision and the handler that requests are made for.
type User = (String, u32, String);

impl Attempts {
    /// Returns what a run may do: what earlier runs of its attempt have left.
    pub(crate) fn get(&self, pass: &Pass) -> Rc<Allowance> {
        let new = || Rc::new(Allowance::new(pass));
        let Some(report_as) = pass.report_as else {
            return new();
        };
        let user = (pass.component.clone(), pass.revision, pass.handler.clone());
        let mut by_number = self.by_number.borrow_mut();
        let of_attempt = by_number.entry(report_as.run).or_default();
        Rc::clone(of_attempt.entry(user).or_insert_with(new))
    }

    /// Forgets attempts that have ended.
    pub(crate) fn end(&self, numbers: &[u64]) {
        let mut by_number = self.by_number.borrow_mut();
        for number in numbers {
            by_number.remove(number);
        }
    }
}

/// The rest of each grant.
pub(crate) struct Allowance {
    requests: RefCell<Vec<GrantBalance>>,
    /// The bytes of grants of connections.
    tcp: Vec<Cell<u64>>,
    sql: Vec<Cell<u64>>,
}

struct GrantBalance {
    requests: u32,
    bytes: u64,
}

impl Allowance {
    fn new(pass: &Pass) -> Self {
        let whole = pass.grants.iter().map(|grant| GrantBalance {
            requests: grant.max_requests.unwrap_or(REQUESTS_DEFAULT),
            bytes: u64::from(grant.max_total_mib.unwrap_or(TOTAL_MIB_DEFAULT)) << 20,
        });
        let bytes = |grants: &[TcpGrant]| {
            let each = grants.iter().map(|grant| {
                let mib = grant.max_total_mib.unwrap_or(TOTAL_MIB_DEFAULT);
                Cell::new(u64::from(mib) << 20)
            });
            each.collect()
        };
        Self {
            requests: RefCell::new(whole.collect()),
            tcp: bytes(&pass.tcp),
            sql: bytes(&pass.sql),
        }
    }

    /// Takes bytes of a connection. Returns false if there are not as many.
    pub(crate) fn take_bytes(&self, place: GrantPlace, bytes: usize) -> bool {
        let grants = match place.kind {
            GrantKind::Tcp => &self.tcp,
            GrantKind::Sql => &self.sql,
        };
        let left = grants.get(place.index);
        let rest = left.and_then(|left| left.get().checked_sub(bytes as u64));
        if let (Some(left), Some(rest)) = (left, rest) {
            left.set(rest);
        }
        rest.is_some()
    }

    /// Takes a request, the bytes of its body, and those that its response may have.
    pub(crate) fn take(self: &Rc<Self>, order: &Order) -> Result<RequestCharge, HttpError> {
        let mut all = self.requests.borrow_mut();
        let left = all.get_mut(order.grant).ok_or_else(no_more_requests)?;
        let requests = left.requests.checked_sub(1).ok_or_else(no_more_requests)?;
        let bytes = left
            .bytes
            .checked_sub(order.body.len() as u64)
            .filter(|it| *it > 0)
            .ok_or_else(no_more_bytes)?;
        let response_bytes_max = bytes.min(order.response_bytes_max as u64);
        *left = GrantBalance {
            requests,
            bytes: bytes - response_bytes_max,
        };
        Ok(RequestCharge {
            allowance: Rc::clone(self),
            grant: order.grant,
            response_bytes_max: usize::try_from(response_bytes_max).unwrap_or(usize::MAX),
            unused: Cell::new(response_bytes_max),
        })
    }
}

/// What a request has taken. What its response did not need is given back when this is dropped.
pub(crate) struct RequestCharge {
    allowance: Rc<Allowance>,
    grant: usize,
    response_bytes_max: usize,
    unused: Cell<u64>,
}

impl RequestCharge {
    /// Returns the charge of a request that the broker makes itself, which counts for no attempt.
    pub(crate) fn uncounted(response_bytes_max: usize) -> Self {
        let no_grants = Allowance {
            requests: RefCell::default(),
            tcp: Vec::new(),
            sql: Vec::new(),
        };
        Self {
            allowance: Rc::new(no_grants),
            grant: 0,
            response_bytes_max,
            unused: Cell::new(0),
        }
    }

    /// Returns how many bytes the body of the response may have.
    pub(crate) const fn response_bytes_max(&self) -> usize {
        self.response_bytes_max
    }

    /// Notes that so much of the body of the response has come.
    pub(crate) fn received(&self, bytes: usize) {
        let unused = self.unused.get().saturating_sub(bytes as u64);
        self.unused.set(unused);
    }
}

impl Drop for RequestCharge {
    fn drop(&mut self) {
        if let Some(left) = self.allowance.requests.borrow_mut().get_mut(self.grant) {
            left.bytes = left.bytes.saturating_add(self.unused.get());
        }
    }
}

fn no_more_requests() -> HttpError {
    let message = "the attempt has used up the requests that its manifest grants (max_requests)";
    HttpError::new(HttpErrorKind::LimitReached, message)
}

/// Describes that nothing is left of the bytes of an attempt.
pub(crate) fn no_more_bytes() -> HttpError {
    let message = "the bodies of the attempt's requests and responses have used up the bytes that its manifest grants \
                   (max_total_mib)";
    HttpError::new(HttpErrorKind::LimitReached, message)
}
