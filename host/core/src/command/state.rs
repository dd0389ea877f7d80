//! The command that changes state from outside of an attempt.

use super::commands;
use crate::state::StateWrites;

/// Change state that handlers keep, all or none.
#[derive(Clone, Debug, PartialEq)]
pub struct SetState(pub Box<StateWrites>);

commands! {
    State {
        SetState(SetState) "set_state" -> (),
    }
}
