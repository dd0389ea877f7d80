//! Mailboxes between threads. Senders never wait; the receiver takes all messages together. Each user of a
//! mailbox documents its bound.

use host_core::port::lease::Respond;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

/// A mailbox with one receiver.
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
    /// Adds a message. Returns it as the error if the mailbox is closed.
    pub fn put(&self, message: T) -> Result<(), T> {
        self.put_below(usize::MAX, message)
    }

    /// Adds a message. Returns it as the error if `waiting_max` messages wait or the mailbox is
    /// closed.
    pub fn put_below(&self, waiting_max: usize, message: T) -> Result<(), T> {
        let mut messages = self.messages.lock();
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

    /// Wakes the receiver without a message.
    pub fn wake(&self) {
        self.arrived.notify_one();
    }

    /// Takes all messages, oldest first.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.messages.lock().waiting)
    }

    /// Takes the oldest messages, at most `count`, up to one with which they weigh `weight_max` or more. If others wait,
    /// [`Self::arrived`] returns immediately.
    pub fn take_some(
        &self,
        count: usize,
        weight_max: usize,
        weight: impl Fn(&T) -> usize,
    ) -> Vec<T> {
        let mut messages = self.messages.lock();
        let mut taken = 0;
        let has_room = messages.waiting.iter().take(count).take_while(|message| {
            let has_room = taken < weight_max;
            taken += weight(message);
            has_room
        });
        let count = has_room.count();
        if messages.waiting.len() == count {
            return std::mem::take(&mut messages.waiting);
        }
        let later = messages.waiting.split_off(count);
        let taken = std::mem::replace(&mut messages.waiting, later);
        drop(messages);
        self.arrived.notify_one();
        taken
    }

    /// Closes the mailbox and returns the messages that wait.
    pub fn close(&self) -> Vec<T> {
        let mut messages = self.messages.lock();
        messages.closed = true;
        std::mem::take(&mut messages.waiting)
    }

    /// Returns whether the mailbox is closed.
    pub fn is_closed(&self) -> bool {
        self.messages.lock().closed
    }

    /// Waits until a message has arrived since the last wait. Cancel safe.
    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }
}

/// Makes both ends of a channel for one answer.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_left_is_announced_again() {
        let mailbox = Mailbox::default();
        for n in 0..5 {
            mailbox.put(n).unwrap();
        }
        let mut taken = Vec::new();
        while taken.iter().map(Vec::len).sum::<usize>() < 5 {
            mailbox.arrived().await;
            taken.push(mailbox.take_some(2, 5, |n| *n));
        }
        assert_eq!(taken, [vec![0, 1], vec![2, 3], vec![4]]);
    }

    #[tokio::test]
    async fn messages_are_taken_up_to_the_one_that_weighs_too_much() {
        let mailbox = Mailbox::default();
        for weight in [1, 9, 4, 7, 1] {
            mailbox.put(weight).unwrap();
        }
        let taken: Vec<_> = (0..3)
            .map(|_| mailbox.take_some(9, 10, |weight| *weight))
            .collect();
        assert_eq!(taken, [vec![1, 9], vec![4, 7], vec![1]]);
    }
}
