//! Dead letters: ids that cannot be executed, with the reason. Each is sent until Redis has confirmed
//! it; only then its id leaves the processing list.

use std::collections::BTreeMap;

use host_wire_kit::session::Moment;

use super::{Acts, Command, Due, Purpose, Refusal, Value, Worker, WorkerAct, messages};
use crate::job;

/// The most letters that wait for Redis. Later ones are not kept; what is taken stays in the
/// processing list and is found there again.
const WAITING_MAX: usize = 1_000;

/// The dead letters that Redis has not confirmed: the command that adds each, by the order in which
/// they came.
#[derive(Debug, Default)]
pub(super) struct Letters {
    unconfirmed: BTreeMap<u64, Command>,
    made: u64,
}

impl Worker {
    /// Counts the refusal of an id that cannot be executed, and adds a dead letter. With `taken`,
    /// the id leaves the processing list.
    pub(super) fn bury(&mut self, id: &[u8], refusal: &Refusal, taken: bool, todo: &mut Acts) {
        todo.push(WorkerAct::Count(refusal.code()));
        if self.letters.unconfirmed.len() >= WAITING_MAX {
            return;
        }
        let shown: String = String::from_utf8_lossy(&id[..id.len().min(256)])
            .chars()
            .take(64)
            .collect();
        let text = serde_json::json!({
            "id": shown.escape_debug().to_string(),
            "code": refusal.code(),
            "reason": refusal.message,
        });
        let job = std::str::from_utf8(id)
            .ok()
            .filter(|id| taken && job::is_id(id));
        let bury = messages::bury(&self.config.worker_id, id, &text.to_string(), taken, job);
        let number = self.letters.made;
        self.letters.made += 1;
        self.letters.unconfirmed.insert(number, bury.clone());
        self.call(Purpose::Letter(number), vec![bury], todo);
    }

    /// Sends the letters that are not on their way.
    pub(super) fn send_letters(&mut self, todo: &mut Acts) {
        let mut unsent = self.letters.unconfirmed.clone();
        for purpose in self.calls.purposes() {
            if let Purpose::Letter(number) = purpose {
                unsent.remove(number);
            }
        }
        for (number, bury) in unsent {
            self.call(Purpose::Letter(number), vec![bury], todo);
        }
    }

    /// Handles the answer to a letter.
    pub(super) fn buried(
        &mut self,
        at: Moment,
        number: u64,
        value: Option<&Value>,
        todo: &mut Acts,
    ) {
        if value.is_some_and(|value| value.text().is_some()) {
            self.letters.unconfirmed.remove(&number);
            return;
        }
        self.try_again(at.now, value, Due::Letters, todo);
    }
}
