//! The worker against a Redis in memory: its rules, bad input, and any order of crashes.

mod bad_input;
mod fixture;
mod rules;
mod storms;
mod written;
