//! The steps of a run: how far its handler has come in the journal of the job.

use std::collections::BTreeMap;

use host_cells::pool::masking::reveals;
use host_core::desk::{DeskAnswer, DeskError, DeskErrorKind, DeskPass};
use host_core::failure::{Failure, FailureKind};
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::outcome::Outcome;
use host_core::state::StateWrites;
use host_core::step::{STEP_BYTES_MAX, StepState, StepsGrant};
use host_core::writes::Writes;
use host_engine::step::{CommitStep, Step};
use serde_json::json;

use super::{Shared, desk_error};

/// The steps that a run has met.
#[derive(Debug, Default)]
pub(super) struct Journal {
    met: u32,
    /// How often each name.
    names: BTreeMap<Name, u32>,
    /// The step that runs.
    open: Option<Place>,
    /// The step before, which has failed. It is kept if another one follows.
    failed: Option<(Place, JsonText)>,
}

/// A step's place in the journal.
#[derive(Clone, Debug)]
struct Place {
    number: u32,
    name: String,
}

fn invalid(message: impl Into<String>) -> DeskError {
    DeskError::new(DeskErrorKind::InvalidRequest, message)
}

fn find_grant(pass: &DeskPass) -> Result<StepsGrant, DeskError> {
    pass.steps.ok_or_else(|| {
        let handler = &pass.handler;
        let message = format!(
            "the manifest gives {handler} no steps, or a script calls it; add steps = 100 to [handlers.{handler}]"
        );
        DeskError::new(DeskErrorKind::NotGranted, message)
    })
}

impl Journal {
    /// Begins the next step. Returns what the journal has of it.
    pub(super) async fn begin(
        &mut self,
        shared: &Shared,
        pass: &DeskPass,
        name: &str,
    ) -> Result<DeskAnswer, DeskError> {
        let grant = find_grant(pass)?;
        let name: Name = name
            .parse()
            .map_err(|error| invalid(format!("the name of a step: {error}")))?;
        if let Some(open) = &self.open {
            let message = format!(
                "the step {} has not ended: a step cannot begin within another one or beside it",
                open.name
            );
            return Err(invalid(message));
        }
        if self.met >= grant.steps_max {
            let (handler, most) = (&pass.handler, grant.steps_max);
            let message = format!(
                "a job of {handler} may have at most {most} steps; raise steps in [handlers.{handler}]"
            );
            return Err(DeskError::new(DeskErrorKind::LimitReached, message));
        }
        if let Some((place, error)) = self.failed.take() {
            let state = StepState::Failed(error);
            commit(shared, pass, &place, state, None).await?;
        }
        let place = self.meet(&name);
        let (job, number) = (pass.job, place.number);
        let kept = shared.read(move |reader| reader.step(job, number)).await;
        match kept.map_err(|error| desk_error(&error.into()))? {
            Some(kept) if kept.name != place.name => {
                pass.writes.decide(describe_divergence(&kept, &place.name));
                Ok(DeskAnswer::Ended)
            }
            Some(kept) if kept.state.is_final() => Ok(DeskAnswer::Step(Some(kept.state))),
            kept => {
                pass.writes.begin_step();
                self.open = Some(place);
                Ok(DeskAnswer::Step(kept.map(|it| it.state)))
            }
        }
    }

    /// Counts a step.
    fn meet(&mut self, name: &Name) -> Place {
        let number = self.met;
        self.met += 1;
        let count = self.names.entry(name.clone()).or_default();
        *count += 1;
        let name = match *count {
            1 => name.to_string(),
            count => format!("{name}#{count}"),
        };
        Place { number, name }
    }

    fn take(&mut self) -> Result<Place, DeskError> {
        self.open.take().ok_or_else(|| invalid("no step has begun"))
    }

    /// Commits how far the step is.
    pub(super) async fn checkpoint(
        &mut self,
        shared: &Shared,
        pass: &DeskPass,
        checkpoint: String,
    ) -> Result<(), DeskError> {
        let place = self.take()?;
        self.write(shared, pass, &place, checkpoint, StepState::Open)
            .await?;
        pass.writes.begin_step();
        self.open = Some(place);
        Ok(())
    }

    /// Ends the step with its result.
    pub(super) async fn complete(
        &mut self,
        shared: &Shared,
        pass: &DeskPass,
        result: String,
    ) -> Result<(), DeskError> {
        let place = self.take()?;
        self.write(shared, pass, &place, result, StepState::Done)
            .await?;
        pass.writes.end_step();
        Ok(())
    }

    /// Ends the step without a result.
    pub(super) fn fail(&mut self, pass: &DeskPass, error: String) -> Result<(), DeskError> {
        let place = self.take()?;
        pass.writes.end_step();
        let (error, flaw) = match check_value(pass, error) {
            Ok(error) => (error, Ok(())),
            Err(flaw) => (describe_refusal(&flaw), Err(flaw)),
        };
        self.failed = Some((place, error));
        flaw
    }

    /// Commits a value of a step with what was written since. If that is refused, the step has failed.
    async fn write(
        &mut self,
        shared: &Shared,
        pass: &DeskPass,
        place: &Place,
        value: String,
        state: fn(JsonText) -> StepState,
    ) -> Result<(), DeskError> {
        let written = match check_value(pass, value) {
            Ok(value) => {
                let writes = pass.writes.take_step();
                commit(shared, pass, place, state(value), writes).await
            }
            Err(flaw) => Err(flaw),
        };
        if let Err(error) = &written {
            pass.writes.end_step();
            self.failed = Some((place.clone(), describe_refusal(error)));
        }
        written
    }
}

/// Commits a step.
async fn commit(
    shared: &Shared,
    pass: &DeskPass,
    place: &Place,
    state: StepState,
    writes: Option<Box<Writes>>,
) -> Result<(), DeskError> {
    let stored: Vec<StateWrites> = writes.iter().flat_map(|it| it.state.clone()).collect();
    let step = CommitStep {
        job: pass.job,
        lease: find_grant(pass)?.lease,
        number: place.number,
        name: place.name.clone(),
        state,
        writes,
    };
    let committed = shared.api.dispatch.submit(step).await;
    committed.map_err(|error| desk_error(&error.into()))?;
    pass.writes.supersede(&stored);
    Ok(())
}

/// Returns a value for the journal, or what is wrong with it.
fn check_value(pass: &DeskPass, text: String) -> Result<JsonText, DeskError> {
    let bytes = text.len();
    if bytes > STEP_BYTES_MAX {
        let message = format!(
            "the journal keeps at most {STEP_BYTES_MAX} bytes of a step, got {bytes}; keep it as an artifact"
        );
        return Err(DeskError::new(DeskErrorKind::LimitReached, message));
    }
    let value = JsonText(text);
    if let Some(flaw) = value.flaw() {
        return Err(invalid(format!("what the journal gets of the step {flaw}")));
    }
    let revealed = pass.writes.revealed();
    if revealed.is_some_and(|revealed| reveals(&revealed, &value)) {
        return Err(invalid(
            "the journal keeps no secrets, and the step gives it one; return something else",
        ));
    }
    Ok(value)
}

/// Returns the failure of a step that the host has refused.
fn describe_refusal(error: &DeskError) -> JsonText {
    JsonText(json!({"kind": "step_refused", "message": error.message}).to_string())
}

/// Returns how an attempt ends that begins another step than those before it.
fn describe_divergence(kept: &Step, name: &str) -> Outcome {
    let message = format!(
        "the handler begins the step {name:?} where an earlier attempt has begun {:?}, as step {} of the job; deploy a handler \
         that begins its steps in the order of the journal",
        kept.name,
        kept.number + 1
    );
    Outcome::Failed(Failure::new(FailureKind::StepsDiverged, message))
}
