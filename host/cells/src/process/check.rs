//! Checks the sizes, numbers and JSON in messages from a cell before they are used. A value that is
//! too large is cut, or the run it belongs to fails. The pool checks whether the cell has that run.

use host_core::cell::{FromCell, LINE_FIELDS_MAX, LogLine, Offer};
use host_core::failure::{Failure, FailureKind};
use host_core::handler::HandlerInfo;
use host_core::json::JsonText;
use host_core::outcome::{Meter, Outcome, Progress};
use host_core::seconds::SECONDS_MAX;

/// The largest result that any limit allows, in bytes.
pub const RESULT_BYTES_MAX: usize = 16 << 20;

/// The longest message, stack or other text, in bytes. Longer texts are cut.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// The longest progress message, in bytes. Longer messages are cut.
pub const PROGRESS_BYTES_MAX: usize = 1 << 10;

/// Returns the message with every value within its limit.
pub fn checked(mut message: FromCell) -> FromCell {
    match &mut message {
        FromCell::Ready { .. } => {}
        FromCell::LoadFailed { message, .. } => cut(message, TEXT_BYTES_MAX),
        FromCell::Log { lines, .. } => lines.iter_mut().for_each(line),
        FromCell::Progress { progress, .. } => sanitize(progress),
        FromCell::Used { meter, .. } => bound(meter),
        FromCell::Ended { outcome, meter, .. } => {
            ending(outcome);
            bound(meter);
        }
        FromCell::Described { result, .. } => {
            if let Ok(Offer(handlers)) = result {
                match handlers.iter_mut().try_for_each(described) {
                    Ok(()) => {}
                    Err(failure) => *result = Err(failure),
                }
            }
            if let Err(failure) = result {
                explained(failure);
            }
        }
    }
    message
}

fn described(handler: &mut HandlerInfo) -> Result<(), Failure> {
    for schema in [&handler.params_schema, &handler.result_schema] {
        schema.as_ref().map_or(Ok(()), json)?;
    }
    if let Some(text) = &mut handler.description {
        cut(text, TEXT_BYTES_MAX);
    }
    Ok(())
}

fn ending(outcome: &mut Outcome) {
    match outcome {
        Outcome::Completed { result: text } | Outcome::Cancelled { partial: text } => {
            if let Some(Err(failure)) = text.as_ref().map(json) {
                *outcome = Outcome::Failed(failure);
            }
        }
        Outcome::Failed(failure) => explained(failure),
        Outcome::Retry { reason, after_ms } => {
            cut(reason, TEXT_BYTES_MAX);
            if let Some(after_ms) = after_ms {
                *after_ms = (*after_ms).min(after_ms_max());
            }
        }
    }
}

/// The longest delay that a handler may request, in milliseconds.
fn after_ms_max() -> u64 {
    host_core::seconds::Seconds::try_from(SECONDS_MAX).map_or(u64::MAX, |longest| longest.ms)
}

fn explained(failure: &mut Failure) {
    cut(&mut failure.message, TEXT_BYTES_MAX);
    for text in [
        &mut failure.user_kind,
        &mut failure.code,
        &mut failure.stack,
    ]
    .into_iter()
    .flatten()
    {
        cut(text, TEXT_BYTES_MAX);
    }
    if failure
        .details
        .as_ref()
        .is_some_and(|details| json(details).is_err())
    {
        failure.details = None;
    }
}

/// Checks that a text is one JSON document within the size limit.
fn json(text: &JsonText) -> Result<(), Failure> {
    let bytes = text.as_str().len();
    if bytes > RESULT_BYTES_MAX {
        let message = format!("JSON of {bytes} bytes, more than {RESULT_BYTES_MAX}");
        return Err(Failure::new(FailureKind::ResultTooLarge, message));
    }
    match text.flaw() {
        Some(flaw) => {
            let message = format!("the handler's result {flaw}");
            Err(Failure::new(FailureKind::Trapped, message))
        }
        None => Ok(()),
    }
}

/// Clamps numbers to what a store can hold.
fn bound(meter: &mut Meter) {
    for value in [
        &mut meter.fuel,
        &mut meter.cpu_us,
        &mut meter.peak_memory_bytes,
    ] {
        *value = (*value).min(i64::MAX.unsigned_abs());
    }
}

fn sanitize(progress: &mut Progress) {
    progress.percent = progress
        .percent
        .filter(|percent| percent.is_finite())
        .map(|percent| percent.clamp(0.0, 100.0));
    cut(&mut progress.message, PROGRESS_BYTES_MAX);
}

fn line(line: &mut LogLine) {
    cut(&mut line.message, TEXT_BYTES_MAX);
    line.fields.truncate(LINE_FIELDS_MAX);
    for (name, value) in &mut line.fields {
        cut(name, PROGRESS_BYTES_MAX);
        if value.0.len() > TEXT_BYTES_MAX || value.flaw().is_some() {
            let mut text = value.plain().into_owned();
            cut(&mut text, TEXT_BYTES_MAX);
            *value = JsonText::string(&text);
        }
    }
}

/// Cuts a text to at most `bytes_max` bytes at a character boundary.
fn cut(text: &mut String, bytes_max: usize) {
    text.truncate(text.floor_char_boundary(bytes_max));
}

#[cfg(test)]
mod tests;
