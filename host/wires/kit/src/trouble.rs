//! Reports of an unreachable peer: once, and again only if the reason changes. Pure.

use parking_lot::Mutex;

/// The last reported reason why a peer cannot be reached.
#[derive(Debug, Default)]
pub struct Trouble(Mutex<Option<String>>);

impl Trouble {
    /// Records a failure. Returns whether to report it.
    pub fn is_news(&self, why: &str) -> bool {
        let mut last = self.0.lock();
        let is_news = last.as_deref() != Some(why);
        if is_news {
            *last = Some(why.to_owned());
        }
        is_news
    }

    /// Records that the peer can be reached. Returns whether it could not before.
    pub fn is_over(&self) -> bool {
        self.0.lock().take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_once_until_it_is_another_one_or_over() {
        let trouble = Trouble::default();
        assert!(!trouble.is_over(), "there was none");
        let news = ["refused", "refused", "no answer", "refused", "refused"]
            .map(|why| trouble.is_news(why));
        assert_eq!(news, [true, false, true, true, false]);
        assert!(trouble.is_over() && !trouble.is_over());
        assert!(trouble.is_news("refused"));
    }
}
