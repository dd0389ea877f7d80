//! Dead letters: ids that cannot be executed, with the reason. Each is sent until Redis has confirmed
//! it; only then its id leaves the processing list.

use super::{
    Code, Due, Purpose, REFUSED_PAUSE_MS, Refusal, Todo, Value, Worker, WorkerAct, messages,
};
use crate::hero::job;
use crate::kit::session::Moment;

/// The most letters that wait for Redis. Later ones are not kept; what is taken stays in the
/// processing list and is found there again.
const WAITING_MAX: usize = 1_000;

/// One dead letter.
#[derive(Debug)]
pub(super) struct Letter {
    id: Vec<u8>,
    text: String,
    /// Whether the id is to leave the processing list.
    taken: bool,
}

impl Worker {
    /// Adds a dead letter for an id that cannot be executed, and removes it from the processing list.
    pub(super) fn reject_id(&mut self, id: &[u8], refusal: &Refusal, todo: &mut Todo) {
        self.bury(id, refusal, true, todo);
    }

    /// Counts a refusal and adds a dead letter.
    pub(super) fn bury(&mut self, id: &[u8], refusal: &Refusal, taken: bool, todo: &mut Todo) {
        todo.push(WorkerAct::Count(refusal.code()));
        if self.letters.len() >= WAITING_MAX {
            return;
        }
        let shown = String::from_utf8_lossy(&id[..id.len().min(256)]);
        let shown: String = shown.chars().take(64).collect();
        let text = serde_json::json!({
            "id": shown.escape_debug().to_string(),
            "code": refusal.code(),
            "reason": refusal.message,
        });
        let letter = Letter {
            id: id.to_vec(),
            text: text.to_string(),
            taken,
        };
        let number = self.letters_made;
        self.letters_made += 1;
        self.letters.insert(number, letter);
        self.send_letter(number, todo);
    }

    fn send_letter(&mut self, number: u64, todo: &mut Todo) {
        let Some(letter) = self.letters.get(&number) else {
            return;
        };
        let worker = &self.config.worker_id;
        let job = std::str::from_utf8(&letter.id).ok();
        let job = job.filter(|id| letter.taken && job::is_id(id));
        let bury = messages::bury(worker, &letter.id, &letter.text, letter.taken, job);
        self.call(Purpose::Letter(number), vec![bury], todo);
    }

    /// Sends the letters that are not on their way.
    pub(super) fn send_letters(&mut self, todo: &mut Todo) {
        let sent = |number: &u64| {
            self.calls
                .values()
                .any(|it| *it == Purpose::Letter(*number))
        };
        let unsent: Vec<u64> = self
            .letters
            .keys()
            .copied()
            .filter(|it| !sent(it))
            .collect();
        for number in unsent {
            self.send_letter(number, todo);
        }
    }

    /// Handles the answer to a letter.
    pub(super) fn buried(
        &mut self,
        at: Moment,
        number: u64,
        value: Option<&Value>,
        todo: &mut Todo,
    ) {
        if value.is_some_and(|value| value.text().is_some()) {
            self.letters.remove(&number);
            return;
        }
        self.refused(at.now, value, todo);
        self.arm_once(at.now.plus_ms(REFUSED_PAUSE_MS), Due::Letters);
    }

    /// Makes the refusal of an id that was queued again while this host has the job.
    pub(super) fn twice() -> Refusal {
        let message = "the id was queued again while this host has the job";
        Refusal::new(Code::JobTwice, message)
    }
}
