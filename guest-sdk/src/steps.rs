//! Steps: parts of a job that are done once.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ctx::Ctx;
use crate::error::{Category, Error, Failed};
use crate::limits::{check_name, check_step};
use crate::services::{Progress, Services};

impl Ctx {
    /// Does a part of the job once, if the manifest has `steps`. Its result, and what it enqueues, sets and closes, are on disk
    /// in one commit before this returns. An attempt that follows gets the result that is kept, and does not call `work`.
    ///
    /// Handlers begin their steps in the same order in each attempt. If `work` fails and the handler returns the error, the next
    /// attempt does the step again; if the handler continues with another step, the failure is kept too.
    ///
    /// ```
    /// # use guest_sdk::{Ctx, Error, NewJob};
    /// fn order(ctx: &Ctx, cents: u64) -> Result<String, Error> {
    ///     let charge: String = ctx.step("charge", || {
    ///         let answer = ctx.http().post("https://api.example.com/charges").json(&cents)?.send()?;
    ///         answer.ok()?.json()
    ///     })?;
    ///     ctx.step("confirm", || {
    ///         ctx.enqueue(&NewJob::new("send-mail").params(&charge)?)?;
    ///         Ok(())
    ///     })?;
    ///     Ok(charge)
    /// }
    /// ```
    pub fn step<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.resume(name, |_: &Cursor<'_, ()>| work())
    }

    /// Does a part of the job once, as [`Ctx::step`] does, and continues it behind its last checkpoint.
    ///
    /// ```
    /// # use guest_sdk::{Ctx, Error, NewJob};
    /// fn ship(ctx: &Ctx, rows: &[u32]) -> Result<(), Error> {
    ///     ctx.resume("ship", |cursor| {
    ///         let shipped = cursor.position().copied().unwrap_or(0);
    ///         for (at, row) in rows.iter().enumerate().skip(shipped) {
    ///             ctx.enqueue(&NewJob::new("ship-row").params(row)?)?;
    ///             cursor.checkpoint(&(at + 1))?;
    ///         }
    ///         Ok(())
    ///     })
    /// }
    /// ```
    pub fn resume<C: Serialize + DeserializeOwned, T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        work: impl FnOnce(&Cursor<'_, C>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        check_name("the name of a step", name)?;
        let services = self.services();
        let position = match services.step_begin(name)? {
            Progress::New => None,
            Progress::Begun(checkpoint) => Some(read(name, &checkpoint)?),
            Progress::Done(result) => return read(name, &result),
            Progress::Failed(failure) => {
                let failed: Failed = read(name, &failure)?;
                return Err(Error::Failed(Box::new(failed)));
            }
        };
        let cursor = Cursor { services, position };
        let done = work(&cursor).and_then(|result| {
            services.step_complete(&write(&result)?)?;
            Ok(result)
        });
        if let Err(error) = &done {
            // It may have ended already: the host has refused its result or a checkpoint.
            let failure = write(&error.to_failed()).unwrap_or_else(|_| "{}".to_owned());
            drop(services.step_fail(&failure));
        }
        done
    }
}

/// How far a step is. See [`Ctx::resume`].
pub struct Cursor<'a, C> {
    services: &'a dyn Services,
    position: Option<C>,
}

impl<C: Serialize> Cursor<'_, C> {
    /// Returns the last checkpoint of the attempts before this one.
    pub const fn position(&self) -> Option<&C> {
        self.position.as_ref()
    }

    /// Commits how far the step is, together with what was enqueued, set and closed since it began or since its last checkpoint.
    /// It is on disk when this returns.
    pub fn checkpoint(&self, position: &C) -> Result<(), Error> {
        Ok(self.services.step_checkpoint(&write(position)?)?)
    }
}

fn read<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| {
        let message =
            format!("what the journal has of the step {name:?} is not the expected JSON: {error}");
        Error::new(Category::UserCode, "step_invalid_json", message)
    })
}

fn write(value: &impl Serialize) -> Result<String, Error> {
    let text = serde_json::to_string(value)?;
    check_step(&text)?;
    Ok(text)
}

#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use super::*;
    use crate::{MockHost, NewJob};

    /// Enqueues a job before each of its steps and in each of them, and fails in the one of this name.
    fn order(ctx: &Ctx, fails: &str) -> Result<Vec<u32>, Error> {
        let mut results = Vec::new();
        for (name, result) in [("a", 1), ("b", 2), ("a", 3)] {
            ctx.enqueue(&NewJob::new("outside"))?;
            results.push(ctx.step(name, || {
                ctx.enqueue(&NewJob::new(name))?;
                ctx.state().set("last", &result)?;
                if name == fails {
                    return Err(Error::fatal("wanted", name));
                }
                Ok(result)
            })?);
        }
        Ok(results)
    }

    fn handlers(host: &MockHost) -> Vec<String> {
        let enqueued = host.enqueued().into_iter();
        enqueued.map(|job| job.handler).collect()
    }

    #[test]
    fn steps_are_done_once_and_what_they_write_stays() {
        let host = MockHost::new();
        assert!(host.run(|ctx| order(ctx, "b")).is_err());
        assert_eq!(host.steps(), ["a"]);
        assert_eq!(handlers(&host), ["a"]);
        assert_eq!(host.state("last"), Some(1));
        assert_eq!(host.run(|ctx| order(ctx, "")), Ok(vec![1, 2, 3]));
        assert_eq!(host.steps(), ["a", "b", "a#2"]);
        let mut all = handlers(&host);
        all.sort();
        assert_eq!(all, ["a", "a", "b", "outside", "outside", "outside"]);
        assert_eq!(host.state("last"), Some(3));
    }

    #[test]
    fn a_failure_that_a_handler_has_caught_is_kept() {
        let host = MockHost::new();
        let attempt = |charges: bool| {
            host.run(|ctx| {
                let charge = ctx.step("charge", || {
                    if charges {
                        Ok(1)
                    } else {
                        Err(Error::fatal("declined", "no money").code("51"))
                    }
                });
                let Err(error) = charge else {
                    return Ok("charged".to_owned());
                };
                ctx.step("apologize", || Ok(()))?;
                let Error::Failed(failed) = error else {
                    return Err(error);
                };
                if failed.retryable == Some(false) && !charges {
                    return Err(Error::retry("later"));
                }
                Ok(format!("{} {:?}", failed.kind, failed.code))
            })
        };
        assert!(attempt(false).is_err());
        assert_eq!(attempt(true).unwrap(), "declined Some(\"51\")");
    }

    #[test]
    fn a_step_continues_behind_its_last_checkpoint() {
        let host = MockHost::new();
        let attempt = |fails_at: u32| {
            host.run(|ctx| {
                ctx.resume("rows", |cursor| {
                    let first = cursor.position().copied().unwrap_or(0);
                    for row in first..4 {
                        ctx.enqueue(&NewJob::new(format!("row-{row}")))?;
                        if row == fails_at {
                            return Err(Error::retry("stop"));
                        }
                        cursor.checkpoint(&(row + 1))?;
                    }
                    Ok(first)
                })
            })
        };
        assert!(attempt(2).is_err());
        assert_eq!(handlers(&host), ["row-0", "row-1"]);
        assert_eq!(attempt(9), Ok(2));
        assert_eq!(handlers(&host), ["row-0", "row-1", "row-2", "row-3"]);
    }

    #[test]
    fn steps_within_steps_and_in_another_order_are_refused() {
        let host = MockHost::new();
        let nested = host.run(|ctx| ctx.step("a", || ctx.step("b", || Ok(()))));
        let Err(Error::Failed(nested)) = nested else {
            panic!("it is refused");
        };
        assert!(
            nested.message.contains("the step a has not ended"),
            "{nested:?}"
        );
        let large = host.run(|ctx| ctx.step("a", || Ok("x".repeat(64 << 10))));
        let Err(Error::Failed(large)) = large else {
            panic!("it is refused");
        };
        assert_eq!(large.kind, "store_limit_reached");
        let one = |name: &str| {
            host.run(|ctx| {
                ctx.step(name, || Ok(()))?;
                Err::<(), _>(Error::retry("again"))
            })
        };
        assert_eq!(one("a"), Err(Error::retry("again")));
        let Err(Error::Failed(diverged)) = one("b") else {
            panic!("it is refused");
        };
        assert!(diverged.message.contains("\"a\""), "{diverged:?}");
    }
}
