//! Mailboxes between threads: senders never wait, the receiver takes all messages at once. Each user
//! of a mailbox says what bounds it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use host_core::port::lease::Respond;
use tokio::sync::{Notify, oneshot};

/// Where messages wait for their one receiver.
#[derive(Debug)]
pub struct Mailbox<T> {
    messages: Mutex<Messages<T>>,
    arrived: Notify,
}

#[derive(Debug)]
struct Messages<T> {
    waiting: Vec<T>,
    closed: bool,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Self {
            messages: Mutex::new(Messages {
                waiting: Vec::new(),
                closed: false,
            }),
            arrived: Notify::new(),
        }
    }
}

impl<T> Mailbox<T> {
    /// Puts a message in; gives it back if the mailbox is closed.
    pub fn put(&self, message: T) -> Result<(), T> {
        self.put_below(usize::MAX, message)
    }

    /// Puts a message in; gives it back if `waiting_max` messages wait or the mailbox is closed.
    pub fn put_below(&self, waiting_max: usize, message: T) -> Result<(), T> {
        let mut messages = self.lock();
        if messages.closed || messages.waiting.len() >= waiting_max {
            return Err(message);
        }
        messages.waiting.push(message);
        let first = messages.waiting.len() == 1;
        drop(messages);
        if first {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Takes all messages, oldest first.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.lock().waiting)
    }

    /// Takes nothing more in and returns what waits.
    pub fn close(&self) -> Vec<T> {
        let mut messages = self.lock();
        messages.closed = true;
        std::mem::take(&mut messages.waiting)
    }

    /// Waits until a message has arrived since the last wait. Cancel safe.
    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Messages<T>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes both ends of one answer.
pub fn respond<T: Send + 'static>() -> (Box<dyn Respond<T>>, oneshot::Receiver<T>) {
    let (sender, receiver) = oneshot::channel();
    (Box::new(Sender(sender)), receiver)
}

struct Sender<T>(oneshot::Sender<T>);

impl<T: Send> Respond<T> for Sender<T> {
    fn is_gone(&self) -> bool {
        self.0.is_closed()
    }

    fn respond(self: Box<Self>, answer: T) -> Result<(), T> {
        self.0.send(answer)
    }
}
