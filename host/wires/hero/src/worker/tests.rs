//! The worker against a Redis in memory: its rules, bad input, and crashes in any order.

mod bad_input;
mod fixture;
mod lasting;
mod rules;
mod storms;
mod turns;
mod written;
