//! State: values that a handler keeps from one attempt to another.

use std::rc::Rc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Category, Error};
use crate::limits::{check_key, check_name, check_value};
use crate::services::{Expected, Services, Write};
use crate::store::StoreError;

/// A space of state: that of the handler, or one that it shares. See [`Ctx::state`](crate::Ctx::state).
#[derive(Clone, Copy)]
pub struct State<'a> {
    services: &'a Rc<dyn Services>,
    space: Option<&'a str>,
    now: bool,
}

impl<'a> State<'a> {
    pub(crate) const fn new(services: &'a Rc<dyn Services>) -> Self {
        let (space, now) = (None, false);
        Self {
            services,
            space,
            now,
        }
    }

    /// Returns the space `name`, which the manifest lets handlers share.
    #[must_use]
    pub const fn shared(self, name: &'a str) -> Self {
        let space = Some(name);
        Self { space, ..self }
    }

    /// Returns the same space, whose keys change immediately: also if the attempt does not complete.
    #[must_use]
    pub const fn now(self) -> Self {
        Self { now: true, ..self }
    }

    /// Returns the value of a key, from JSON.
    pub fn get<T: DeserializeOwned>(self, key: &str) -> Result<Option<T>, Error> {
        let Some(bytes) = self.get_bytes(key)? else {
            return Ok(None);
        };
        let read = serde_json::from_slice(&bytes);
        read.map(Some).map_err(|error| {
            let message = format!("the state {key:?} is not the expected JSON: {error}");
            Error::new(Category::UserCode, "state_invalid_json", message)
        })
    }

    /// Returns the bytes of a key.
    pub fn get_bytes(self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.check(key)?;
        self.services.state_get(self.space, key)
    }

    /// Sets a key, as JSON.
    pub fn set(self, key: &str, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        Ok(self.set_bytes(key, &json(key, value)?)?)
    }

    /// Sets the bytes of a key.
    pub fn set_bytes(self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.write(key, Expected::Anything, Some(value)).map(drop)
    }

    /// Removes a key.
    pub fn delete(self, key: &str) -> Result<(), StoreError> {
        self.write(key, Expected::Anything, None).map(drop)
    }

    /// Sets a key, as JSON, if it has the `expected` value, or none. Returns whether it has. If another attempt has
    /// changed it by the time this one completes, this one fails and is retried.
    pub fn compare_and_set<T: Serialize>(
        self,
        key: &str,
        expected: Option<&T>,
        value: &T,
    ) -> Result<bool, Error> {
        let expected = expected.map(|expected| json(key, expected)).transpose()?;
        let value = json(key, value)?;
        Ok(self.compare_and_set_bytes(key, expected.as_deref(), Some(&value))?)
    }

    /// Sets the bytes of a key, or removes it without a `value`, as [`State::compare_and_set`] does.
    pub fn compare_and_set_bytes(
        self,
        key: &str,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        self.write(key, Expected::Exactly(expected), value)
    }

    /// Returns all keys that start with `prefix`, in the order of their bytes.
    pub fn list(self, prefix: &str) -> Result<Vec<String>, StoreError> {
        check_name("a prefix of keys", prefix)?;
        self.check_space()?;
        let mut keys: Vec<String> = Vec::new();
        loop {
            let after = keys.last().map(String::as_str);
            let page = self.services.state_list(self.space, prefix, after)?;
            if page.is_empty() {
                return Ok(keys);
            }
            keys.extend(page);
        }
    }

    fn write(
        self,
        key: &str,
        expected: Expected<'_>,
        value: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        self.check(key)?;
        check_value(value)?;
        if let Expected::Exactly(expected) = expected {
            check_value(expected)?;
        }
        let now = self.now;
        let write = Write {
            key,
            value,
            expected,
            now,
        };
        self.services.state_set(self.space, &write)
    }

    fn check(self, key: &str) -> Result<(), StoreError> {
        self.check_space()?;
        check_key(key)
    }

    fn check_space(self) -> Result<(), StoreError> {
        check_name("a shared space", self.space.unwrap_or_default())
    }
}

fn json(key: &str, value: &(impl Serialize + ?Sized)) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|error| {
        let message = format!("cannot serialize the state {key:?} as JSON: {error}");
        Error::fatal("invalid_state", message)
    })
}

#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use super::*;
    use crate::{Ctx, MockHost};

    fn count(ctx: &Ctx, fails: bool) -> Result<u32, Error> {
        let state = ctx.state();
        let runs = state.get::<u32>("runs")?.unwrap_or_default() + 1;
        state.set("runs", &runs)?;
        assert_eq!(state.get("runs")?, Some(runs), "it sees what it has set");
        if fails {
            return Err(Error::retry("asked to fail"));
        }
        Ok(runs)
    }

    #[test]
    fn only_attempts_that_complete_leave_state() {
        let host = MockHost::new().with_state("runs", &41);
        assert!(host.run(|ctx| count(ctx, true)).is_err());
        assert_eq!(host.run(|ctx| count(ctx, false)).unwrap(), 42);
        assert_eq!(host.state("runs"), Some(42));
    }

    #[test]
    fn now_is_at_once_and_spaces_are_apart() {
        let host = MockHost::new();
        let failed: Result<(), Error> = host.run(|ctx| {
            let shared = ctx.state().shared("rates");
            shared.now().set("eur", "1.1")?;
            shared.set("usd", "1.2")?;
            assert_eq!(shared.list("")?, ["eur", "usd"]);
            assert_eq!(ctx.state().list("")?, Vec::<String>::new());
            Err(Error::retry("asked to fail"))
        });
        assert!(failed.is_err());
        let ctx = host.ctx();
        assert_eq!(ctx.state().shared("rates").list("").unwrap(), ["eur"]);
    }

    #[test]
    fn a_key_is_compared_before_it_is_set() {
        let host = MockHost::new();
        let ctx = host.ctx();
        let state = ctx.state();
        assert!(state.compare_and_set("a", None, &1).unwrap());
        assert!(!state.compare_and_set("a", None, &2).unwrap());
        assert!(state.compare_and_set("a", Some(&1), &3).unwrap());
        assert_eq!(state.get("a").unwrap(), Some(3));
        state.delete("a").unwrap();
        assert_eq!(state.get::<u32>("a").unwrap(), None);
        let ctx = MockHost::new().without_store().ctx();
        assert!(ctx.state().list("").is_err());
    }
}
