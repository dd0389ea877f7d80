//! Looks up the handlers that a chain runs next and checks their params, which may take long. Starts
//! nothing.

use std::collections::VecDeque;
use std::fmt;

use host_core::failure::{Failure, FailureKind};
use host_core::json::JsonText;
use host_core::name::Name;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Chain, STEPS_MAX, Step};
use crate::compile::schema::Budget;
use crate::run::programs::Programs;

/// The work of planning the next steps of a chain.
pub struct Planning {
    programs: Programs,
    env: Vec<(String, String)>,
    planner: String,
    wanted: Wanted,
    /// How many steps the checks of params may take.
    checks_max: u64,
}

/// The chain to run.
pub(super) enum Wanted {
    /// The list that the first handler returned.
    Steps(JsonText),
    /// One call of a script.
    Call(Listed),
}

/// The steps of a chain, or why there are none.
pub struct Planned {
    pub(super) steps: Result<VecDeque<Step>, Failure>,
    /// How many steps later checks of the same attempt may take.
    pub(super) checks_left: u64,
}

#[derive(Deserialize)]
pub(super) struct Listed {
    pub(super) handler: Name,
    pub(super) params: Box<RawValue>,
}

impl Chain {
    pub(super) fn plan_steps(&self, result: JsonText) -> Planning {
        self.plan(Wanted::Steps(result), crate::compile::schema::STEPS_MAX)
    }

    pub(super) fn plan(&self, wanted: Wanted, checks_max: u64) -> Planning {
        Planning {
            programs: self.programs.clone(),
            env: self.env.clone(),
            planner: self.context.handler.clone(),
            wanted,
            checks_max,
        }
    }
}

impl Planning {
    /// Looks up every handler and checks all params within one budget, before the first step runs. So a
    /// list with an unknown handler runs no step at all.
    pub fn run(self) -> Planned {
        let mut budget = Budget::new(self.checks_max);
        let steps = self.steps(&mut budget);
        Planned {
            steps,
            checks_left: budget.left(),
        }
    }

    fn steps(self, budget: &mut Budget) -> Result<VecDeque<Step>, Failure> {
        let Self {
            programs,
            env,
            planner,
            wanted,
            ..
        } = self;
        let result = match wanted {
            Wanted::Call(listed) => return Ok([look_up(&programs, &env, listed, budget)?].into()),
            Wanted::Steps(result) => result,
        };
        let listed: Vec<Listed> = serde_json::from_str(result.as_str()).map_err(|error| {
            let message = format!("the result of {planner} is not a list of steps: {error}");
            Failure::new(FailureKind::Trapped, message)
        })?;
        if listed.len() > STEPS_MAX {
            let count = listed.len();
            let message =
                format!("the script has {count} actions, more than {STEPS_MAX}; split it");
            return Err(Failure::new(FailureKind::InvalidParams, message));
        }
        let total = listed.len();
        listed
            .into_iter()
            .enumerate()
            .map(|(index, step)| {
                let name = step.handler.clone();
                look_up(&programs, &env, step, budget)
                    .map_err(|failure| super::blamed(failure, index + 1, total, &name))
            })
            .collect()
    }
}

fn look_up(
    programs: &Programs,
    env: &[(String, String)],
    listed: Listed,
    budget: &mut Budget,
) -> Result<Step, Failure> {
    let name = &listed.handler;
    if programs.chain_kind(name).is_some() {
        let message = "a script cannot be an action of a script";
        return Err(Failure::new(FailureKind::InvalidParams, message));
    }
    let (handler, program) = programs.executable(name)?;
    let params = JsonText(String::from(Box::<str>::from(listed.params)));
    handler.check_params(&params, budget)?;
    let env = programs.granted(&handler, env)?;
    Ok(Step {
        handler,
        program,
        params,
        env,
    })
}

impl fmt::Debug for Planning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Planning({})", self.planner)
    }
}

// The steps have the variables that their handlers are granted.
impl fmt::Debug for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.steps {
            Ok(steps) => write!(f, "Planned({} steps)", steps.len()),
            Err(failure) => write!(f, "Planned({failure:?})"),
        }
    }
}
