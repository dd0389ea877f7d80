//! `host:jobs/state`: values that handlers keep.

use host_core::desk::{DeskAnswer, DeskRequest};

use super::jobs::{guest_error, unexpected};
use crate::bindings::host::jobs::jobs::Error;
use crate::bindings::host::jobs::state::Host;
use crate::context::Guest;

type Value = Option<Vec<u8>>;
type Space = Option<String>;

impl Host for Guest {
    async fn get(&mut self, space: Space, key: String) -> Result<Value, Error> {
        match self.desk.ask(&DeskRequest::Get { space, key }).await {
            Ok(DeskAnswer::Value(value)) => Ok(value),
            Ok(_) => Err(unexpected()),
            Err(error) => Err(guest_error(error)),
        }
    }

    async fn set(&mut self, space: Space, key: String, value: Vec<u8>) -> Result<(), Error> {
        self.change(space, key, None, Some(value), false)
            .await
            .map(drop)
    }

    async fn delete(&mut self, space: Space, key: String) -> Result<(), Error> {
        self.change(space, key, None, None, false).await.map(drop)
    }

    async fn compare_and_set(
        &mut self,
        space: Space,
        key: String,
        expected: Value,
        value: Value,
    ) -> Result<bool, Error> {
        self.change(space, key, Some(expected), value, false).await
    }

    async fn list(
        &mut self,
        space: Space,
        prefix: String,
        after: Option<String>,
    ) -> Result<Vec<String>, Error> {
        let after = after.unwrap_or_default();
        let request = DeskRequest::List {
            space,
            prefix,
            after,
        };
        match self.desk.ask(&request).await {
            Ok(DeskAnswer::Keys(keys)) => Ok(keys),
            Ok(_) => Err(unexpected()),
            Err(error) => Err(guest_error(error)),
        }
    }

    async fn set_now(&mut self, space: Space, key: String, value: Vec<u8>) -> Result<(), Error> {
        self.change(space, key, None, Some(value), true)
            .await
            .map(drop)
    }

    async fn delete_now(&mut self, space: Space, key: String) -> Result<(), Error> {
        self.change(space, key, None, None, true).await.map(drop)
    }

    async fn compare_and_set_now(
        &mut self,
        space: Space,
        key: String,
        expected: Value,
        value: Value,
    ) -> Result<bool, Error> {
        self.change(space, key, Some(expected), value, true).await
    }
}

impl Guest {
    async fn change(
        &mut self,
        space: Space,
        key: String,
        expected: Option<Value>,
        value: Value,
        now: bool,
    ) -> Result<bool, Error> {
        let request = DeskRequest::Set {
            space,
            key,
            value,
            expected,
            now,
        };
        match self.desk.ask(&request).await {
            Ok(DeskAnswer::Set(had)) => Ok(had),
            Ok(_) => Err(unexpected()),
            Err(error) => Err(guest_error(error)),
        }
    }
}
