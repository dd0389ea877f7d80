//! Says what becomes of jobs when Ctrl-C ends the command that waits for them, enqueues or changes them.

use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::output::Output;

/// Until it is dropped, Ctrl-C says something before it ends this process.
#[derive(Debug)]
#[must_use]
pub struct Farewell(());

/// What Ctrl-C says now; unset until it is first asked for.
static WORDS: OnceLock<Mutex<Option<(Output, String)>>> = OnceLock::new();

impl Farewell {
    /// Says `words`, unless the output is quiet.
    pub fn say(output: Output, words: String) -> Self {
        let said = WORDS.get_or_init(|| {
            // Without it, Ctrl-C ends the process as it always does.
            let _ = listen();
            Mutex::default()
        });
        *lock(said) = Some((output, words));
        Self(())
    }
}

impl Drop for Farewell {
    fn drop(&mut self) {
        if let Some(said) = WORDS.get() {
            *lock(said) = None;
        }
    }
}

fn lock<T>(words: &Mutex<T>) -> MutexGuard<'_, T> {
    words.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread that receives the signal, until the process ends.
fn listen() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT])?;
    thread::Builder::new()
        .name("interrupt".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                if let Some(said) = WORDS.get()
                    && let Some((output, words)) = lock(said).take()
                {
                    output.interrupted(&words);
                }
                let _ = emulate_default_handler(signal);
            }
        })?;
    Ok(())
}
