//! The command that changes state from outside of an attempt.

use host_core::state::StateWrites;

use crate::commands;

/// Change state that handlers keep, all or none.
#[derive(Clone, Debug, PartialEq)]
pub struct SetState(pub Box<StateWrites>);

commands! {
    State {
        SetState(SetState) "set_state" -> (), change_state, |_| 0, "the keys of a request, which are limited";
    }
}
